"""Rules required during execution: their owners are moved, after a while and not too many."""

import json
import logging
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from pinfold.cmd.daemon.daemon import Daemon
from pinfold.cmd.daemon.moves.rule_watch import RULES_SECONDS
from pinfold.cmd.report.decision_log import DecisionLog
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime
from pinfold.nri.embedded.embedded_updates import embedded_link
from pinfold.nri.embedded.kubelet import start_pods
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.model.container import ContainerId, QosClass, Resources
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.cmd.daemon.paper_node import PATIENT, config
from tests.unit.nri.plugin.session_node import eventually

LOG = logging.getLogger("test_rule_watch")
GIB = 2**30
NODES = machine_from_spec("socket:1 numa:4 core:4 mem:8G")
GRACE = 30.0


class Node:
    """A daemon with its embedded runtime, and a clock that is set by hand."""

    def __init__(self, **fields: object) -> None:
        self.now = 100.0
        self.runtime = EmbeddedRuntime(request_timeout_seconds=10.0)
        self.is_down = False
        """Whether the runtime takes no connection."""
        self.daemon = Daemon(
            NODES,
            config(**fields),
            replace(embedded_link(self.runtime), connect=self._connect),
            reports=(DecisionLog(LOG, "here"),),
            timing=PATIENT,
            clock=lambda: self.now,
        )

    def start(self) -> None:
        self.daemon.start()
        assert self.runtime.wait_until_synchronized(5)
        assert self.daemon.front.wait_until_ready(5)
        assert self.daemon.front.settle()

    def run(
        self,
        name: str,
        app: str,
        node: int | None = None,
        near: str = "",
        apart: str = "",
        when: str = "Required",
        milli: str = "1000",
        **said: str,
    ) -> str:
        annotations = {f"{key}.pinfold.dev/pod": value for key, value in said.items()}
        if node is not None:
            annotations["pool-name.pinfold.dev/pod"] = f"NUMA node #{node}"
        rules: dict[str, object] = {}
        for kind, other in (("podAffinity", near), ("podAntiAffinity", apart)):
            if other:
                term = {"labelSelector": {"matchLabels": {"app": other}}, "topologyKey": "numa"}
                rules[kind] = {f"requiredDuringScheduling{when}DuringExecution": [term]}
        if rules:
            annotations["affinity.pinfold.dev/pod"] = json.dumps(rules)
        resources = Resources(
            cpu_request_milli=int(milli),
            cpu_limit_milli=int(milli),
            memory_request_bytes=GIB,
            memory_limit_bytes=GIB,
        )
        spec = PodSpec(
            name=name,
            labels={"app": app},
            annotations=annotations,
            qos=QosClass.GUARANTEED,
            containers=(ContainerSpec(name=name, resources=resources),),
        )
        assert not start_pods(self.runtime, [spec], 8 * GIB)
        assert self.daemon.front.settle()
        return name

    def remove(self, name: str) -> None:
        (one,) = (each for each in self.runtime.containers.values() if each.name == name)
        self.runtime.remove_pod(one.pod_sandbox_id)
        assert self.daemon.front.settle()

    def pass_seconds(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + RULES_SECONDS)
            self.daemon.rules.look()
            # Once for the look itself, and once for the turns that it asked for.
            assert self.daemon.front.settle()
            assert self.daemon.front.settle()

    def node_of(self, name: str) -> int:
        """The NUMA node of a container as its kernel has it."""
        (one,) = (each.id for each in self.runtime.containers.values() if each.name == name)
        return int(self.runtime.kernel[one].cpus) // 4

    def _connect(self) -> socket.socket:
        if self.is_down:
            raise ConnectionRefusedError
        return self.runtime.connect()


@pytest.fixture(name="node_with")
def fixture_node_with(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[..., Node]]:
    caplog.set_level(logging.DEBUG)
    nodes: list[Node] = []

    def made(**fields: object) -> Node:
        nodes.append(Node(**fields))
        nodes[-1].start()
        return nodes[-1]

    yield made
    for one in nodes:
        one.daemon.stop()


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    found = [one.getMessage() for one in caplog.records if one.name == LOG.name]
    return [one for one in found if f"event={event} " in one]


def test_the_owner_follows_once_its_grace_period_is_over(
    node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    node = node_with()
    node.run("first", "cache", 1)
    web = node.run("web", "web", near="cache")
    node.remove("first")
    node.run("second", "cache", 3)
    node.pass_seconds(GRACE)
    assert node.node_of(web) == 1
    (line,) = lines(caplog, "unmet")
    assert "affinity at numa" in line
    node.pass_seconds(RULES_SECONDS)
    assert node.node_of(web) == 3
    (line,) = lines(caplog, "replace")
    assert 'why="a rule required during its execution holds there"' in line
    node.pass_seconds(GRACE)
    assert len(lines(caplog, "replace")) == 1


def test_a_rule_that_holds_again_in_time_moves_nobody(
    node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    node = node_with()
    node.run("first", "cache", 1)
    web = node.run("web", "web", near="cache")
    node.remove("first")
    node.pass_seconds(GRACE)
    node.run("second", "cache", 1)
    node.pass_seconds(2 * GRACE)
    assert node.node_of(web) == 1
    assert lines(caplog, "replace") == []
    assert node.daemon.engine.decisions[next(iter(node.daemon.engine.grants))].unmet == ()


@pytest.mark.parametrize(("moves", "after"), [(0, 0), (1, 1), (6, 2)])
def test_no_more_are_moved_in_a_minute_than_the_budget_allows(
    moves: int, after: int, node_with: Callable[..., Node]
) -> None:
    node = node_with(duringExecution={"gracePeriod": "0s", "movesPerMinute": moves})
    node.run("first", "cache", 1)
    owners = [node.run(f"web{number}", "web", near="cache") for number in range(2)]
    node.remove("first")
    node.run("second", "cache", 3)
    node.pass_seconds(55)
    assert sum(node.node_of(one) == 3 for one in owners) == after
    node.pass_seconds(2 * 60)
    assert sum(node.node_of(one) == 3 for one in owners) == min(2, 2 * moves)


def test_who_cannot_be_elsewhere_stays_and_that_is_told_once(
    node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    node = node_with(duringExecution={"gracePeriod": "1s"})
    node.run("first", "cache", 1)
    web = node.run("web", "web", near="cache", move="never")
    node.remove("first")
    node.pass_seconds(300)
    assert node.node_of(web) == 1
    (line,) = lines(caplog, "degraded")
    assert "its annotation refuses to be moved" in line
    node.remove(web)
    node.pass_seconds(60)


def test_owners_that_stay_do_not_keep_one_waiting_that_can_go(
    node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    """As many as there are looks until the first of them is tried again."""
    node = node_with(duringExecution={"gracePeriod": "0s", "movesPerMinute": 1})
    for number, home in enumerate((1, 1, 1, 2, 3, 3)):
        node.run(f"stuck{number}", "stuck", home, apart="wolf", move="never")
    node.run("first", "cache", 0)
    web = node.run("web", "web", near="cache")
    for home in (1, 2, 3):
        node.run(f"wolf{home}", "wolf", home, **{"on-unsatisfiable": "fail"})
    node.remove("first")
    node.run("second", "cache", 2)
    node.pass_seconds(60)
    assert len(lines(caplog, "degraded")) == 6
    assert node.node_of(web) == 2


def test_a_group_follows_once_and_nobody_in_it_is_told_to_be_stuck(
    node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    node = node_with(duringExecution={"gracePeriod": "1s"})
    node.run("first", "cache", 1)
    for name in ("web0", "web1"):
        node.run(name, "web", near="cache", group="front")
    node.remove("first")
    node.run("second", "cache", 3)
    node.pass_seconds(120)
    told = {one.name: node.runtime.kernel[one.id].cpus for one in node.runtime.containers.values()}
    assert told["web0"] == told["web1"]
    assert {int(cpu) // 4 for cpu in told["web0"].split("-")} == {3}
    assert len(lines(caplog, "replace")) == 1
    assert lines(caplog, "degraded") == []


def run_pair(node: Node) -> tuple[str, str]:
    """A main container and its side container, each of which must be with the other.

    A wolf has come to them, of which the main container must be apart.
    """
    node.run("early", "side", 1)
    main = node.run("main", "main", near="side", apart="wolf")
    node.remove("early")
    side = node.run("side", "side", near="main")
    node.run("wolf", "wolf", 1, **{"on-unsatisfiable": "fail"})
    return main, side


@pytest.mark.parametrize("moves", [1, 2, 6])
def test_who_must_be_together_go_together_within_the_budget(
    moves: int, node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    node = node_with(duringExecution={"gracePeriod": "1s", "movesPerMinute": moves})
    main, side = run_pair(node)
    assert node.node_of(main) == node.node_of(side) == 1
    node.pass_seconds(4 * RULES_SECONDS)
    assert node.node_of(main) == node.node_of(side)
    assert (node.node_of(main) != 1) == (moves > 1)
    replaced = lines(caplog, "replace")
    assert len(replaced) == (2 if moves > 1 else 0)
    assert not any("unmet=" in one for one in replaced)
    assert (lines(caplog, "degraded") == []) == (moves > 1)


@pytest.mark.parametrize(
    ("move", "budget"), [("allowed", 6), ("allowed", 2), ("allowed", 1), ("", 6), ("never", 6)]
)
def test_others_that_may_be_moved_come_along_with_an_owner(
    move: str, budget: int, node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    """Their own rules are ignored during execution, and they have cpus of their own."""
    node = node_with(duringExecution={"gracePeriod": "1s", "movesPerMinute": budget})
    main = node.run("main", "main", apart="wolf")
    home = node.node_of(main)
    said = {"move": move} if move else {}
    side = node.run("side", "side", None, "main", "", "Ignored", **said)
    node.run("wolf", "wolf", home, **{"on-unsatisfiable": "fail"})
    node.pass_seconds(4 * RULES_SECONDS)
    are_moved = move == "allowed" and budget > 1
    assert node.node_of(main) == node.node_of(side)
    assert (node.node_of(main) != home) == are_moved
    assert len(lines(caplog, "replace")) == (2 if are_moved else 0)
    degraded = lines(caplog, "degraded")
    assert len(degraded) == (0 if are_moved else 1)
    assert are_moved or "default/side/side must be with it" in degraded[0]
    node.pass_seconds(60)
    assert lines(caplog, "degraded") == degraded, "it is told once"


def test_who_finds_no_room_together_stays_and_that_is_told(
    node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    node = node_with(duringExecution={"gracePeriod": "1s"})
    main, side = run_pair(node)
    for number in (0, 2, 3):
        for each in range(3):
            node.run(f"full{number}{each}", "full", number)
    node.pass_seconds(60)
    assert node.node_of(main) == node.node_of(side) == 1
    (line,) = lines(caplog, "degraded")
    assert "no place is better with room for default/side/side, which must be with it" in line
    for each in range(3):
        node.remove(f"full2{each}")
    node.pass_seconds(60)
    assert node.node_of(main) == node.node_of(side) == 2


def test_an_owner_that_ends_before_it_goes_together_with_others_is_forgotten(
    node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    node = node_with(duringExecution={"gracePeriod": "1s"})
    main, side = run_pair(node)
    node.pass_seconds(2 * RULES_SECONDS)
    assert node.node_of(main) == node.node_of(side) == 1, "it is planned at the next look"
    node.remove(main)
    node.pass_seconds(60)
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []


def test_an_owner_goes_by_itself_once_its_follower_has_ended(
    node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    node = node_with(duringExecution={"gracePeriod": "1s"})
    main = node.run("main", "main", apart="wolf")
    home = node.node_of(main)
    side = node.run("side", "side", near="main")
    node.run("wolf", "wolf", home, **{"on-unsatisfiable": "fail"})
    node.pass_seconds(2 * RULES_SECONDS)
    assert node.node_of(main) == node.node_of(side) == home, "it is planned at the next look"
    node.remove(side)
    node.pass_seconds(2 * RULES_SECONDS)
    assert node.node_of(main) != home
    assert lines(caplog, "degraded") == []


def test_an_owner_is_not_moved_before_its_runtime_is_back(
    node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    node = node_with()
    node.run("first", "cache", 1)
    web = node.run("web", "web", near="cache")
    node.remove("first")
    node.run("second", "cache", 3)
    node.is_down = True
    node.runtime.drop()
    assert eventually(lambda: not node.daemon.front.wait_until_ready(0))
    node.pass_seconds(2 * GRACE)
    assert len(lines(caplog, "unmet")) == 1
    assert lines(caplog, "replace") == []
    node.is_down = False
    assert node.daemon.front.wait_until_ready(20)
    node.pass_seconds(RULES_SECONDS)
    assert node.node_of(web) == 3
    assert len(lines(caplog, "replace")) == 1


def test_nor_is_a_missed_resize_made(
    node_with: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    node, looks = node_with(), list[float]()
    moves = node.daemon.front.events.moves
    monkeypatch.setattr(moves, "resize_missed", lambda: looks.append(node.now))
    node.is_down = True
    node.runtime.drop()
    assert eventually(lambda: not node.daemon.front.wait_until_ready(0))
    node.pass_seconds(2 * RULES_SECONDS)
    assert not looks
    node.is_down = False
    assert node.daemon.front.wait_until_ready(20)
    node.pass_seconds(RULES_SECONDS)
    assert looks == [node.now]


def test_an_owner_whose_rule_holds_since_another_went_is_not_told_to_stay(
    node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    """Both are due at one look, and either may go."""
    node = node_with()
    shards = [node.run(f"shard{number}", "shard", apart="shard") for number in range(5)]
    homes = [node.node_of(one) for one in shards]
    alone = next(one for one in shards if homes.count(node.node_of(one)) == 1)
    node.remove(alone)
    node.pass_seconds(2 * GRACE)
    left = [one for one in shards if one != alone]
    assert len({node.node_of(one) for one in left}) == 4
    assert len(lines(caplog, "replace")) == 1
    assert lines(caplog, "degraded") == []


def test_an_owner_to_which_the_other_has_come_is_not_told_to_stay(
    node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    """As after a restart half-way: the first of two that must be together is there already."""
    node = node_with()
    node.run("early", "side", 1)
    main = node.run("main", "main", near="side", apart="wolf")
    gone = ["early", *(node.run(f"full{number}", "full", 1) for number in range(2))]
    gone.append(node.run("other", "main", 3))
    node.run("wolf", "wolf", 3)
    side = node.run("side", "side", near="main")
    for one in gone:
        node.remove(one)
    assert (node.node_of(main), node.node_of(side)) == (1, 3)
    node.pass_seconds(3 * GRACE)
    assert node.node_of(main) == node.node_of(side)
    assert lines(caplog, "degraded") == []


def test_an_owner_that_the_runtime_refuses_to_move_keeps_its_cpus(
    node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    """They would be given to others while it runs on them."""
    node = node_with(duringExecution={"gracePeriod": "1s"})
    node.run("first", "cache", 1)
    web = node.run("web", "web", near="cache")
    (web_id,) = (one.id for one in node.runtime.containers.values() if one.name == web)
    home = node.runtime.kernel[web_id].cpus
    node.remove("first")
    node.run("second", "cache", 3)
    node.runtime.broken_ids.add(web_id)
    node.pass_seconds(2 * RULES_SECONDS)
    assert len(lines(caplog, "replace")) == 1
    assert eventually(lambda: bool(lines(caplog, "degraded")))
    assert node.daemon.front.settle()
    assert len(lines(caplog, "return")) == 1
    grant = node.daemon.engine.grants[ContainerId(web_id)]
    assert str(grant.exclusive) == home == node.runtime.kernel[web_id].cpus
    (line,) = lines(caplog, "degraded")
    assert 'reason="the runtime refuses to move it: UNKNOWN: failed to update resources"' in line
    assert node.daemon.engine.decisions[ContainerId(web_id)].unmet
    assert node.daemon.front.actuator.counts().failing == 0, "it has what it should have again"
    for number in range(3):
        node.run(f"new{number}", "new", 1)
    used = [one.cpus for one in node.runtime.kernel.values()]
    assert len({*used}) == len(used)
    node.daemon.front.owner.ask("check", node.daemon.engine.check)
    node.runtime.broken_ids.clear()
    node.pass_seconds(60)
    assert node.node_of(web) == 3


def test_cpus_of_its_own_are_no_others_though_the_move_of_their_owner_had_freed_them(
    node_with: Callable[..., Node],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Who shares cpus there was told them, too, until the runtime refused the move."""
    node = node_with(duringExecution={"gracePeriod": "1s"})
    node.run("first", "cache", 1)
    node.run("neighbour", "neighbour", 1, milli="500")
    web = node.run("web", "web", near="cache", milli="1500")
    web_id, neighbour_id = (
        one.id
        for name in (web, "neighbour")
        for one in node.runtime.containers.values()
        if one.name == name
    )
    own = node.daemon.engine.grants[ContainerId(web_id)].exclusive
    assert own
    node.remove("first")
    node.run("second", "cache", 3)
    node.runtime.broken_ids.add(web_id)
    node.pass_seconds(2 * RULES_SECONDS)
    assert eventually(lambda: bool(lines(caplog, "return")))
    node.daemon.front.owner.ask("it is over", lambda: None)
    assert node.daemon.front.settle()
    assert node.daemon.engine.grants[ContainerId(web_id)].exclusive == own
    assert own.isdisjoint(CpuSet.parse(node.runtime.kernel[neighbour_id].cpus))
    assert own <= CpuSet.parse(node.runtime.kernel[web_id].cpus)
    assert eventually(lambda: len(lines(caplog, "degraded")) == 1)
    node.daemon.front.owner.ask("check", node.daemon.engine.check)


def test_an_owner_that_the_runtime_refuses_to_move_is_tried_more_and_more_rarely(
    node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    node = node_with(duringExecution={"gracePeriod": "1s"})
    node.run("first", "cache", 1)
    web = node.run("web", "web", near="cache")
    (web_id,) = (one.id for one in node.runtime.containers.values() if one.name == web)
    node.remove("first")
    node.run("second", "cache", 3)
    node.runtime.broken_ids.add(web_id)
    for times, seconds in ((1, 2 * RULES_SECONDS), (2, 8 * RULES_SECONDS), (2, 8 * RULES_SECONDS)):
        node.pass_seconds(seconds)
        assert len(lines(caplog, "replace")) == times
        assert eventually(lambda: len(lines(caplog, "return")) == len(lines(caplog, "replace")))
        node.daemon.front.owner.ask("it is over", lambda: None)
