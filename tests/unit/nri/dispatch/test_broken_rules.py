"""Rules that stop holding because others drove their owner elsewhere are told like all others."""

from collections.abc import Generator

import pytest
from msgspec.structs import replace

from pinfold.nri.cri.proxy_events import ProxyEvents
from pinfold.nri.dispatch.actuator import Actuator
from pinfold.nri.dispatch.answer import Answer
from pinfold.nri.dispatch.broken_rules import BrokenRules
from pinfold.nri.dispatch.events import Events
from pinfold.nri.dispatch.newcomer import Mention, Newcomer
from pinfold.nri.dispatch.owner import Owner
from pinfold.nri.dispatch.pod_updates import resize_pod
from pinfold.nri.dispatch.report import Decided, Happening, Reconfigured, Synchronized
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.replacing.asked_move import AskedMove
from pinfold.policy.model.container import Container, ContainerId, QosClass
from pinfold.policy.model.grant import Grant
from pinfold.policy.model.kubelet_resources import LinuxResources, linux_resources
from pinfold.policy.model.move_purpose import MovePurpose
from tests.unit.policy.engine.ruled_pods import apart, container_of, engine_of, near, term


def _fail(what: str, error: Exception) -> None:
    raise AssertionError(what) from error


def _in_node(number: int) -> dict[str, str]:
    return {"pool-name.pinfold.dev/pod": f"NUMA node #{number}"}


class _Node:
    """Three NUMA nodes of two cpus: 0 (reserved) and 1, 2 and 3, 4 and 5."""

    def __init__(self) -> None:
        self.told: list[Decided] = []
        self.owner = Owner(_fail)
        actuator = Actuator(self._report, lambda: 0.0)
        engine = engine_of("socket:1 numa:3 core:2 mem:4G")
        self.events = Events(engine, actuator, self.owner, self._report)

        self.proxied = ProxyEvents(self.events, actuator, self.owner, None)

    def _report(self, happening: Happening) -> None:
        if isinstance(happening, Decided):
            self.told.append(happening)

    def create(self, *containers: Container) -> None:
        for one in containers:
            answer = self.events.create(Newcomer(container=one, linux=LinuxResources()))
            assert not answer.refusal
            self.tidy()

    def stop(self, container: Container) -> None:
        self.events.stop(container.id)
        self.tidy()

    def tidy(self) -> None:
        # What is left comes before, also where the owner's thread is at it already.
        self.owner.ask("nothing", lambda: None)

    def unmet(self) -> list[Decided]:
        return [one for one in self.told if one.event == "unmet"]


@pytest.fixture(name="node")
def fixture_node() -> Generator[_Node]:
    node = _Node()
    yield node
    node.owner.close()


def restarted(one: Container) -> Container:
    return replace(one, id=ContainerId(f"{one.id}-again"))


def plugs() -> list[Container]:
    """The owners of all cpus of their own but 0, 2 and 3."""
    numbers = enumerate((0, 2, 2))
    return [
        container_of(f"plug-{i}", 1, annotations=_in_node(n), app=f"app-{n}") for i, n in numbers
    ]


def driven_out(node: _Node) -> tuple[Container, Container]:
    """The owner of cpus 2 and 3, which is back, and one that had a share of these meanwhile.

    There is nowhere else that one could be where its rule holds, which gives way.
    """
    owner = container_of("owner", 2)
    noisy = container_of(
        "noisy", 0.1, annotations={"prefer-reserved-cpus.resource-policy.nri.io/pod": "true"}
    )
    node.create(owner, *plugs())
    node.create(noisy)
    node.stop(owner)
    share = container_of("share", 0.25, apart(term("numa", "noisy")), annotations=_in_node(1))
    node.create(share)
    assert node.unmet() == []
    node.create(back := restarted(owner))
    return back, share


def test_who_has_nowhere_to_go_is_told_with_its_rules_and_the_place_it_has(node: _Node) -> None:
    _, share = driven_out(node)
    (told,) = node.unmet()
    assert told.container.id == share.id
    assert [text.partition(" of ")[0] for text in told.decision.unmet] == [
        "anti-affinity at numa to app=noisy (affinity.pinfold.dev/pod:1)",
        "pool-name 'NUMA node #1'",
    ]
    assert str(told.decision.pinning.cpus) == "0"
    assert told.decision.changes == ()


def test_a_rule_that_is_told_as_broken_is_not_told_again_before_it_held(node: _Node) -> None:
    back, share = driven_out(node)
    node.create(other := container_of("other", 0))
    node.stop(other)
    assert len(node.unmet()) == 1
    node.stop(back)
    assert node.events.policy.decisions[share.id].unmet == ()
    node.create(restarted(back))
    assert len(node.unmet()) == 2


def test_what_is_told_later_has_the_pool_of_now(node: _Node) -> None:
    """It was placed in another one, before it had to leave that."""
    owner = container_of("owner", 2)
    node.create(owner, *plugs())
    node.stop(owner)
    rules = apart(term("numa", "app-2"))
    share = container_of("share", 0.25, rules, fails=True, annotations=_in_node(1))
    node.create(share, restarted(owner))
    (told,) = node.unmet()
    held = node.events.policy.grants[share.id]
    assert told.decision.pool == node.events.policy.tree.pools[held.pool_id].name == "socket #0"
    assert told.decision.result == held
    assert told.decision.pinning == node.events.policy.pinning(share.id)


def sized(cpus: float) -> LinuxResources:
    resources = container_of("any", cpus).resources
    return linux_resources(resources, QosClass.GUARANTEED, None)


def homesick(node: _Node) -> Container:
    """One that was on cpu 3, and takes that again when it restarts, whoever shares it by then."""
    earlier = [container_of(f"earlier-{n}", 1, annotations=_in_node(1)) for n in range(2)]
    node.create(*earlier)
    for one in earlier:
        node.stop(one)
    return restarted(earlier[1])


def test_a_rule_that_holds_as_a_proxy_takes_an_update_back_is_told_when_it_breaks(
    node: _Node,
) -> None:
    third = homesick(node)
    back, share = driven_out(node)
    node.proxied.take_back(back.id, sized(1), Answer())
    node.tidy()
    pinning = node.events.policy.pinning(share.id)
    assert pinning is not None
    assert str(pinning.cpus) == "3"
    assert node.events.policy.decisions[share.id].unmet == ()
    node.create(third)
    assert node.events.policy.decisions[share.id].unmet
    assert len(node.unmet()) == 2


def test_a_rule_that_holds_since_a_pod_asks_for_less_is_told_when_it_breaks(node: _Node) -> None:
    third = homesick(node)
    quiet = container_of("quiet", 0, annotations=_in_node(1))
    pen = {**_in_node(1), "pod-pool.pinfold.dev/pod": "true"}
    taker = container_of("taker", 1, annotations=pen)
    taker = replace(taker, pod=replace(taker.pod, resources=container_of("two", 2).resources))
    node.create(quiet, taker)
    assert len(node.unmet()) == 1
    assert not resize_pod(node.events, taker.pod, container_of("one", 1).resources).refusal
    node.tidy()
    assert node.events.policy.decisions[quiet.id].unmet == ()
    node.create(third)
    assert node.events.policy.decisions[quiet.id].unmet
    assert len(node.unmet()) == 2


def test_a_rule_that_a_reload_breaks_is_told_once(node: _Node) -> None:
    rules = apart(term("numa", "other", namespaceSelector={"matchLabels": {"tier": "gold"}}))
    one = container_of("one", 1, rules, annotations=_in_node(1))
    node.create(one, other := container_of("other", 1, annotations=_in_node(1)))
    assert node.unmet() == []
    values = {"reservedResources": {"cpu": "cpuset:0"}}
    for more in ({}, {"pinMemory": False}):
        gold = {"namespaceLabels": {"default": {"tier": "gold"}}}
        assert node.events.reconfigure(config_from_values({**values, **gold, **more}))
        node.tidy()
        assert [told.container.id for told in node.unmet()] == [one.id, other.id]
    for told in node.unmet():
        assert told.decision.unmet == node.events.policy.decisions[told.container.id].unmet
        assert told.decision.unmet[0].startswith("anti-affinity at numa to app=other")
    assert [str(told.decision.pinning.cpus) for told in node.unmet()] == ["2", "3"]


def test_a_rule_that_a_move_mends_is_told_of_nobody_any_more_however_many_there_were(
    node: _Node,
) -> None:
    owner = container_of("owner", 0, apart(term("core", "wide")))
    many = [container_of(f"wide-{n}", 0, app="wide") for n in range(40)]
    plug = container_of("plug", 1, annotations=_in_node(1))
    node.create(*(first := plugs()), owner, plug, *many)
    for one in (*first, plug):
        node.stop(one)
    policy = node.events.policy
    assert any(policy.decisions[one.id].unmet for one in many)
    (pool,) = (one.id for one in policy.tree.pools if one.name == "NUMA node #2")
    asked = AskedMove(pool, MovePurpose.RULES)
    node.owner.ask("move", lambda: node.events.moves.move(owner.id, asked))
    node.tidy()
    assert [one.path for one in (owner, *many) if policy.decisions[one.id].unmet] == []


@pytest.mark.parametrize("happening", [Reconfigured(0), Synchronized(0, 0)])
def test_a_rule_that_holds_since_all_were_adopted_anew_is_told_when_it_breaks(
    node: _Node, happening: Happening
) -> None:
    driven_out(node)
    (told,) = node.unmet()
    driver = [one for one in node.told if one.decision.changes][-1]
    policies, reported = [node.events.policy], list[Happening]()
    rules = BrokenRules(reported.append, lambda: policies[-1])
    rules(driver)
    assert reported == [driver, told]
    policies.append(engine_of("socket:1 numa:3 core:2 mem:4G"))
    rules(happening)
    policies.pop()
    rules(driver)
    assert reported == [driver, told, happening, driver, told]


def test_an_owner_whose_partner_a_resize_takes_elsewhere_is_told_of(node: _Node) -> None:
    partner = container_of("partner", 0.5, is_guaranteed=True, annotations=_in_node(1))
    owner = container_of("owner", 1, near(term("numa", "partner")))
    node.create(partner, owner)
    known = Newcomer(container=partner, linux=sized(0.5))
    node.events.update(Mention(container_id=partner.id, read=lambda: known), sized(2))
    node.tidy()
    (told,) = node.unmet()
    assert told.container.id == owner.id
    (text,) = told.decision.unmet
    assert text.startswith("affinity at numa to app=partner")
    assert told.decision.pinning.cpus == node.events.policy.grants[owner.id].exclusive


def move_to(node: _Node, container: Container, number: int, *awaited: Container) -> None:
    (pool,) = (p.id for p in node.events.policy.tree.pools if p.name == f"NUMA node #{number}")
    asked = AskedMove(pool, MovePurpose.RULES, tuple(one.id for one in awaited))
    decision = node.owner.ask("move", lambda: node.events.moves.move(container.id, asked))
    assert decision is not None
    assert isinstance(decision.result, Grant), decision.result
    node.tidy()


def look(node: _Node) -> None:
    node.owner.ask("look", node.events.look_at_rules)
    node.tidy()


def with_side(node: _Node) -> tuple[Container, Container]:
    """Two that must be with each other, to one of which somebody came that it must not be with."""
    early = container_of("early", 0.2, app="side", annotations=_in_node(1))
    main = container_of("main", 0.2, near(term("numa", "side")) | apart(term("numa", "wolf")))
    side = container_of("side", 0.2, near(term("numa", "main")))
    node.create(early, main)
    node.stop(early)
    node.create(side, container_of("wolf", 0.2, fails=True, annotations=_in_node(1)))
    node.told.clear()
    return main, side


def test_nothing_is_told_of_those_who_go_together_until_all_are_there(node: _Node) -> None:
    main, side = with_side(node)
    move_to(node, main, 2, side)
    assert node.events.policy.decisions[main.id].unmet, "so it is meanwhile"
    assert node.events.policy.decisions[side.id].unmet
    look(node)
    move_to(node, side, 2)
    for _ in range(4):
        look(node)
    assert [one.event for one in node.told] == ["move", "move"]
    assert [one.decision.unmet for one in node.told] == [(), ()]
    assert not any(one.unmet for one in node.events.policy.decisions.values())


@pytest.mark.parametrize("is_gone", [False, True])
def test_what_does_not_hold_is_told_for_sure_where_a_plan_is_given_up(
    node: _Node, *, is_gone: bool
) -> None:
    """Also of the one that went first, whose rules want the other one with it."""
    main, side = with_side(node)
    move_to(node, main, 2, side)
    if is_gone:
        node.stop(side)
    for _ in range(3):
        look(node)
    told = {one.container.id for one in node.unmet()}
    assert told == ({main.id} if is_gone else {main.id, side.id})
    number = len(node.told)
    look(node)
    assert len(node.told) == number, "once"


def test_a_reload_tells_at_once_of_those_who_have_not_come(node: _Node) -> None:
    main, side = with_side(node)
    move_to(node, main, 2, side)
    node.events.report(Reconfigured(0))
    assert {one.container.id for one in node.unmet()} == {main.id, side.id}
