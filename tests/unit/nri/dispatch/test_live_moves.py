"""Live moves: what a container leaves is nobody's until its runtime has moved it."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping

import pytest
from msgspec.structs import replace

from pinfold.nri.dispatch.actuator import Actuator
from pinfold.nri.dispatch.events import Events
from pinfold.nri.dispatch.live_moves import LEFT
from pinfold.nri.dispatch.newcomer import Listing, Mention, Newcomer
from pinfold.nri.dispatch.owner import Owner
from pinfold.nri.dispatch.report import Adjusted, Decided, Happening, Report
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.replacing.asked_move import AskedMove
from pinfold.policy.engine.replacing.joint_replacement import JointStep
from pinfold.policy.model.container import Container, ContainerId, ContainerState
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.policy.model.kubelet_resources import LinuxResources
from pinfold.policy.model.move_purpose import MovePurpose
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.sets.cpuset import NO_CPUS, CpuSet
from tests.unit.policy.engine.ruled_pods import apart, container_of, engine_of, near, term
from tests.unit.policy.engine.test_penning import container as inside
from tests.unit.policy.engine.test_penning import pod as pod_of
from tests.unit.policy.engine.test_penning import whole
from tests.unit.policy.engine.test_replacement import lasting

SECONDS = 10.0


def _fail(what: str, error: Exception) -> None:
    raise AssertionError(what) from error


def ignored(what: str, error: Exception) -> None:
    """Whoever asked is told as well of a fault that a test makes."""
    if not isinstance(error, ZeroDivisionError | KeyError):
        _fail(what, error)


def in_node(number: int) -> dict[str, str]:
    return {"pool-name.pinfold.dev/pod": f"NUMA node #{number}"}


def mention_of(container: Container) -> Mention:
    runs = replace(container, state=ContainerState.RUNNING)
    known = Newcomer(container=runs, linux=LinuxResources())
    return Mention(container_id=container.id, read=lambda: known, pid=7)


class LiveNode:
    """Four NUMA nodes of four cpus, 0 reserved, and a runtime that may be late, or refuse."""

    raises_events = False

    def __init__(self) -> None:
        self.kernel: dict[ContainerId, Pinning] = {}
        self.happenings: list[Happening] = []
        self.listeners: list[Report] = []
        self.answers = threading.Event()
        self.answers.set()
        self.refused: set[ContainerId] = set()
        self.crashed: Callable[[str, Exception], None] = _fail
        """Told of what raises, perhaps after whoever asked for it."""
        self.owner = Owner(lambda what, error: self.crashed(what, error))
        self.actuator = Actuator(
            self.report,
            time.monotonic,
            read_back=lambda container_id, _pid, _likely: self.kernel.get(container_id),
            check_seconds=0.01,
        )
        engine = engine_of("socket:1 numa:4 core:4 mem:4G")
        self.events = Events(engine, self.actuator, self.owner, self.report)
        self.actuator.start()
        self.actuator.connect([self], "")

    def report(self, happening: Happening) -> None:
        self.happenings.append(happening)
        for one in self.listeners:
            one(happening)

    def send(self, updates: Mapping[ContainerId, Pinning]) -> Mapping[ContainerId, str]:
        assert self.answers.wait(SECONDS)
        self.kernel |= {one: new for one, new in updates.items() if one not in self.refused}
        return {one: "no" for one in updates if one in self.refused}

    def close(self) -> None:
        self.answers.set()

    def end(self) -> None:
        self.answers.set()
        self.actuator.close()
        self.owner.close()

    def refusal(self, container: Container) -> str:
        """Create a container, or why not."""

        def create() -> str:
            answer = self.events.create(Newcomer(container=container, linux=LinuxResources()))
            assert answer.refusal or answer.own is not None
            if answer.own is not None:
                self.kernel[container.id] = answer.own
                self.events.created(answer)
                self.events.start(mention_of(container))
            return answer.refusal

        return self.owner.ask("create", create)

    def start(self, container: Container) -> None:
        self.owner.ask("start", lambda: self.events.start(mention_of(container)))

    def run(self, *containers: Container) -> None:
        for one in containers:
            assert not self.refusal(one)

    def move(self, container: Container, number: int) -> None:
        (pool,) = (p.id for p in self.events.policy.tree.pools if p.name == f"NUMA node #{number}")
        asked = AskedMove(pool, MovePurpose.WISHES)
        moved = self.owner.ask("move", lambda: self.events.moves.move(container.id, asked))
        assert isinstance(moved.result, Grant), moved.result

    def listed(self, but: str = "") -> Listing:
        """What the runtime lists, as the kernel has it, without one that is gone."""
        policy = self.events.policy
        running = [
            replace(policy.containers[one], cpus=self.kernel[one].cpus)
            for one in policy.grants
            if one != but
        ]
        return Listing(
            containers=tuple(running),
            linux={one.id: LinuxResources() for one in running},
            problems={one.id: () for one in running},
            pids={one.id: 7 for one in running},
            unread={},
        )

    def synchronize(self, but: str = "") -> None:
        """The runtime tells that list."""
        self.events.answered(self.events.synchronize(self.listed(but)))

    def cpus(self, container: Container) -> str:
        return str(self.kernel[container.id].cpus)

    def wait(self, holds: Callable[[], object]) -> None:
        """Wait until it holds between two turns: within one the policy has said half of it."""
        until = time.monotonic() + SECONDS
        while not self.owner.ask("look", holds):
            assert time.monotonic() < until
            time.sleep(0.001)


@pytest.fixture(name="node")
def fixture_node() -> Iterator[LiveNode]:
    node = LiveNode()
    yield node
    node.end()


def full(node: LiveNode) -> tuple[Container, Container]:
    """The owner of node 1 and the neighbours in the others; node 3 is free."""
    plugs = [container_of(f"plug-{n}", 4 - (not n), annotations=in_node(n)) for n in (0, 2)]
    node.run(*plugs, owner := container_of("owner", 2))
    assert node.cpus(owner) in ("4-5", "12-13")
    where = 1 if node.cpus(owner) == "4-5" else 3
    neighbour = container_of("neighbour", 0.5, annotations=in_node(where))
    node.run(neighbour)
    return owner, neighbour


def elsewhere(node: LiveNode, owner: Container) -> int:
    return 3 if node.cpus(owner) == "4-5" else 1


def test_a_newcomer_waits_for_cpus_that_a_late_runtime_has_yet_to_take_from_another(
    node: LiveNode,
) -> None:
    owner, neighbour = full(node)
    home, shared = node.cpus(owner), node.cpus(neighbour)
    node.answers.clear()
    node.move(owner, elsewhere(node, owner))
    assert node.cpus(owner) == home
    newcomer = container_of("newcomer", 4)
    assert f"cpus {home} are free once default/owner/main has left them" in node.refusal(newcomer)
    assert node.cpus(neighbour) == shared
    assert [one for one in node.happenings if isinstance(one, Adjusted)] == []
    node.answers.set()
    node.wait(lambda: not node.events.policy.left)
    assert node.actuator.settle(SECONDS)
    assert node.cpus(owner) != home
    (told,) = [one for one in node.happenings if isinstance(one, Adjusted)]
    assert (told.cause, told.container.id) == (LEFT, neighbour.id)
    assert node.cpus(neighbour) in ("4-7", "12-15")
    node.run(newcomer)


def refused_owner(node: LiveNode) -> tuple[Container, CpuSet]:
    """An owner that the runtime refuses to move, and the cpus that it has yet to leave."""
    owner, _ = full(node)
    home = node.events.policy.grants[owner.id].exclusive
    node.refused.add(owner.id)
    node.move(owner, elsewhere(node, owner))
    node.wait(lambda: node.actuator.counts().failing)
    return owner, home


def test_cpus_are_kept_for_as_long_as_the_runtime_refuses_to_move_their_owner(
    node: LiveNode,
) -> None:
    owner, home = refused_owner(node)
    for number in range(8):
        node.refusal(container_of(f"new-{number}", 1))
    others = [grant for one, grant in node.events.policy.grants.items() if one != owner.id]
    assert all(one.exclusive.isdisjoint(home) for one in others)
    assert all(
        home.isdisjoint(pin.cpus or NO_CPUS) for one, pin in node.kernel.items() if one != owner.id
    )
    node.refused.clear()
    node.wait(lambda: not node.events.policy.left)
    node.run(container_of("last", 1))


def test_a_list_of_all_that_runs_frees_no_cpus_that_a_moved_container_has_yet_to_leave(
    node: LiveNode,
) -> None:
    owner, home = refused_owner(node)
    node.owner.ask("list", node.synchronize)
    for number in range(8):
        node.refusal(container_of(f"new-{number}", 1))
    others = [grant for one, grant in node.events.policy.grants.items() if one != owner.id]
    assert len(others) > 3
    assert all(one.exclusive.isdisjoint(home) for one in others)


def test_what_a_decision_says_of_others_is_what_they_are_told(node: LiveNode) -> None:
    """The neighbour where it was gets nothing yet; the one where it goes gives cpus up at once."""
    owner, neighbour = full(node)
    number = elsewhere(node, owner)
    node.run(there := container_of("there", 0.5, annotations=in_node(number)))
    node.answers.clear()
    node.move(owner, number)
    node.owner.ask("nothing", lambda: None)
    (told,) = [one for one in node.happenings if isinstance(one, Decided) and one.event == "move"]
    assert [one.container_id for one in told.decision.changes] == [there.id]
    assert told.decision.pinning == node.events.policy.pinning(owner.id)
    assert neighbour.id not in {one.container_id for one in told.decision.changes}


def test_one_that_ends_on_the_way_leaves_both_places(node: LiveNode) -> None:
    owner, _ = full(node)
    node.answers.clear()
    node.move(owner, elsewhere(node, owner))
    node.owner.ask("stop", lambda: node.events.stop(owner.id))
    assert not node.events.policy.left
    node.run(container_of("one", 3, fails=True))


def test_cpus_are_kept_of_one_that_may_begin_with_what_it_was_created_with(node: LiveNode) -> None:
    """An update of a container that is being started reaches its specification alone."""
    node.run(*(container_of(f"plug-{n}", 4 - (not n), annotations=in_node(n)) for n in (0, 2)))
    newcomer = Newcomer(container=container_of("owner", 2), linux=LinuxResources())
    owner = newcomer.container
    created = node.owner.ask("create", lambda: node.events.created(node.events.create(newcomer)))
    assert created.own is not None
    home = created.own.cpus or NO_CPUS
    node.move(owner, 3 if str(home) == "4-5" else 1)
    node.wait(lambda: owner.id in node.kernel)
    assert node.actuator.settle(SECONDS)
    node.kernel[owner.id] = created.own
    node.refused.add(owner.id)
    node.start(owner)
    for number in range(8):
        node.refusal(container_of(f"new-{number}", 1))
    others = [grant for one, grant in node.events.policy.grants.items() if one != owner.id]
    assert all(one.exclusive.isdisjoint(home) for one in others)
    node.refused.clear()
    node.wait(lambda: not node.events.policy.left)


def test_one_that_is_first_heard_of_by_an_update_runs_and_lands_like_others(node: LiveNode) -> None:
    node.run(*(container_of(f"plug-{n}", 4 - (not n), annotations=in_node(n)) for n in (0, 2)))
    owner = container_of("owner", 2)
    mention = mention_of(owner)
    node.owner.ask("update", lambda: node.events.update(mention, LinuxResources()))
    node.wait(lambda: owner.id in node.kernel)
    node.move(owner, elsewhere(node, owner))
    node.wait(lambda: not node.events.policy.left)


def test_cpus_are_let_go_at_once_where_the_last_one_of_a_pen_that_was_awaited_ends(
    node: LiveNode,
) -> None:
    """The others have landed, and perhaps nothing else wakes the thread that would see it."""
    rules = container_of("any", 1, lasting(apart(term("numa", "wolf")))).pod.annotations
    pod = replace(pod_of(whole(2)), annotations=rules)
    first, second = inside(pod, "a"), inside(pod, "b")
    node.run(first, second)
    policy, home = node.events.policy, node.kernel[first.id].cpus or NO_CPUS
    (pool,) = (one for one in policy.tree.pools if one.name.startswith("NUMA") and home <= one.cpus)
    wolf = {"pool-name.pinfold.dev/pod": pool.name}
    node.run(container_of("wolf", 0.2, fails=True, annotations=wolf))
    node.refused.add(second.id)
    go = [JointStep(first.id)]
    made, _ = node.owner.ask("go", lambda: node.events.moves.place_anew(go))
    assert list(made) == [first.id]
    node.wait(lambda: node.actuator.counts().failing)
    node.wait(lambda: node.actuator.acknowledged(first.id) == policy.pinning(first.id))
    node.actuator.connect([], "there is no way by now")
    # It waits for nothing any more.
    node.actuator.settle(SECONDS)
    assert policy.left
    node.owner.ask("stop", lambda: node.events.answered(node.events.stop(second.id)))
    node.wait(lambda: not policy.left)


def test_those_before_one_that_raises_are_sent(
    node: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, _ = full(node)
    (pool,) = (
        one.id
        for one in node.events.policy.tree.pools
        if one.name == f"NUMA node #{elsewhere(node, owner)}"
    )
    node.run(other := container_of("other", 0.2))
    home = node.cpus(owner)

    def raising(policy: Engine, one: ContainerId, *_: object, **_named: object) -> Decision:
        if one == other.id:
            raise ZeroDivisionError
        return policy.move(one, pool)

    monkeypatch.setattr(Engine, "place_anew", raising)
    node.crashed = ignored
    steps = [JointStep(owner.id), JointStep(other.id)]
    with pytest.raises(ZeroDivisionError):
        node.owner.ask("go", lambda: node.events.moves.place_anew(steps))
    node.wait(lambda: node.cpus(owner) != home)
    node.wait(lambda: not node.events.policy.left)


def test_those_who_go_together_may_have_what_the_first_has_left(node: LiveNode) -> None:
    """Nobody else may, until each of them is known to have left it."""
    main = container_of("main", 1, lasting(apart(term("numa", "wolf"))))
    side = container_of("side", 1, near(term("numa", "main")))
    node.run(main, side)
    policy = node.events.policy
    home = policy.grants[main.id].exclusive | policy.grants[side.id].exclusive
    (pool,) = (one for one in policy.tree.pools if one.name.startswith("NUMA") and home <= one.cpus)
    wolf = {"pool-name.pinfold.dev/pod": pool.name}
    node.run(container_of("wolf", 0.2, fails=True, annotations=wolf))
    node.answers.clear()
    steps = [JointStep(main.id, None, (side.id,)), JointStep(side.id, follows=True)]
    made, reason = node.owner.ask("go", lambda: node.events.moves.place_anew(steps))
    assert (list(made), reason) == ([main.id, side.id], "")
    left = [one.exclusive for one in policy.left.values()]
    assert left[0] | left[1] == home
    for number in range(16):
        node.refusal(container_of(f"new-{number}", 1))
    others = [one for one in policy.grants.values() if one.container_id not in (main.id, side.id)]
    assert all(one.exclusive.isdisjoint(home) for one in others)
    node.owner.ask("check", policy.check)
    node.answers.set()
    node.wait(lambda: not policy.left)
    node.owner.ask("check", policy.check)


def resize(node: LiveNode, container: Container, cpus: int) -> str:
    """Resize a container; its kernel has the answer only where it is applied. Why not, if so."""
    wanted = LinuxResources(cpu_shares=1024 * cpus, cpu_quota=100_000 * cpus, cpu_period=100_000)

    def update() -> str:
        answer = node.events.answered(node.events.update(mention_of(container), wanted))
        for one, pinning in answer.others.items():
            node.kernel[one] = pinning
        return answer.refusal

    return node.owner.ask("resize", update)


def test_cpus_that_a_resize_takes_are_for_others_once_the_kernel_has_taken_them(
    node: LiveNode,
) -> None:
    node.run(*(container_of(f"plug-{n}", 4 - (not n), annotations=in_node(n)) for n in (0, 2, 3)))
    owner = container_of("owner", 3, annotations=in_node(1))
    neighbour = container_of("neighbour", 0.5, annotations=in_node(1))
    node.run(owner, neighbour)
    shared = node.cpus(neighbour)
    node.refused.add(owner.id)
    assert not resize(node, owner, 1)
    assert node.cpus(neighbour) == shared
    left = node.events.policy.left[owner.id].exclusive
    assert len(left) == 2
    assert f"cpus {left} are free once" in node.refusal(container_of("newcomer", 1))
    node.wait(lambda: node.actuator.counts().failing)
    assert f"cpus {left} are free once" in node.refusal(container_of("newcomer", 1))
    node.refused.clear()
    node.wait(lambda: not node.events.policy.left)
    # In the rest of the same turn it is sent.
    node.owner.ask("look", lambda: None)
    assert node.actuator.settle(SECONDS)
    assert len(node.kernel[neighbour.id].cpus or NO_CPUS) == 3
    node.run(container_of("newcomer", 1))


def test_who_grows_again_meanwhile_has_them_back(node: LiveNode) -> None:
    node.run(*(container_of(f"plug-{n}", 4 - (not n), annotations=in_node(n)) for n in (0, 2, 3)))
    owner = container_of("owner", 4, annotations=in_node(1))
    node.run(owner)
    node.refused.add(owner.id)
    assert not resize(node, owner, 1)
    assert not resize(node, owner, 2)
    assert len(node.events.policy.left[owner.id].exclusive) == 2
    assert resize(node, owner, 5)
    assert len(node.events.policy.left[owner.id].exclusive) == 2
    assert not resize(node, owner, 4)
    assert not node.events.policy.left
    node.owner.ask("check", node.events.policy.check)


def test_who_is_on_its_way_may_be_sent_back_to_where_it_was(node: LiveNode) -> None:
    plugs = [container_of(f"plug-{n}", 4 - (not n), annotations=in_node(n)) for n in (0, 2)]
    node.run(*plugs, owner := container_of("owner", 4))
    home = node.events.policy.grants[owner.id].exclusive
    here = 1 if str(home) == "4-7" else 3
    node.answers.clear()
    node.move(owner, 4 - here)
    assert node.events.policy.left[owner.id].exclusive == home
    node.move(owner, here)
    assert node.events.policy.grants[owner.id].exclusive == home
    assert node.events.policy.left[owner.id].exclusive.isdisjoint(home)
    node.owner.ask("check", node.events.policy.check)
    node.answers.set()
    node.wait(lambda: not node.events.policy.left)
    assert node.actuator.settle(SECONDS)
    assert node.kernel[owner.id].cpus == home


def test_what_was_left_is_kept_on_where_a_further_move_is_refused(node: LiveNode) -> None:
    owner, _ = full(node)
    number = elsewhere(node, owner)
    node.answers.clear()
    node.move(owner, number)
    left = dict(node.events.policy.left)
    (pool,) = (p.id for p in node.events.policy.tree.pools if p.name == "NUMA node #2")
    asked = AskedMove(pool, MovePurpose.WISHES)
    moved = node.owner.ask("move", lambda: node.events.moves.move(owner.id, asked))
    assert isinstance(moved.result, Refusal)
    assert {one: grant.exclusive for one, grant in node.events.policy.left.items()} == {
        one: grant.exclusive for one, grant in left.items()
    }
    node.owner.ask("check", node.events.policy.check)


def test_cpus_that_a_reload_takes_are_for_others_once_the_kernel_has_taken_them(
    node: LiveNode,
) -> None:
    """Of a pen that does not fit any more some cpus go to nobody of it."""
    pod = pod_of(None, wish="pod-pool.pinfold.dev=true")
    first, second = inside(pod, "a", whole(1)), inside(pod, "b", whole(1))
    node.run(first, second, sharer := container_of("sharer", 0.5))
    own = node.kernel[first.id].cpus or NO_CPUS, node.kernel[second.id].cpus or NO_CPUS
    assert node.events.policy.grants[first.id].pen
    node.answers.clear()
    reserved = config_from_values({"reservedResources": {"cpu": f"cpuset:{own[0]}"}})
    assert node.owner.ask("reload", lambda: node.events.reconfigure(reserved))
    policy = node.events.policy
    (left,) = policy.left.values()
    assert left.exclusive == own[1]
    told = policy.pinning(sharer.id)
    assert told is not None
    assert own[1].isdisjoint(told.cpus or NO_CPUS)
    newcomers = [container_of(f"new-{number}", 4) for number in range(4)]
    refusals = [*filter(None, map(node.refusal, newcomers))]
    assert f"cpus {own[1]} are free once" in refusals[-1]
    others = [one for one in policy.grants.values() if one.container_id != second.id]
    assert all(one.exclusive.isdisjoint(own[1]) for one in others)
    node.owner.ask("check", policy.check)
    node.answers.set()
    node.wait(lambda: not policy.left)
    told = policy.pinning(sharer.id)
    assert told is not None
    assert own[1] <= (told.cpus or NO_CPUS)
