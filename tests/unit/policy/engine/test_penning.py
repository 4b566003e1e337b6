"""Pods with resources of their own: one pen for the pod, slices and a shared rest inside."""

import json
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.decision import Adopted, Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.gauges.kept_loads import pool_loads
from pinfold.policy.model.container import (
    Container,
    ContainerId,
    ContainerState,
    Pod,
    PodId,
    QosClass,
    Resources,
)
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

GIB = 2**30
MACHINE = machine_from_spec("socket:2 numa:2 core:4 mem:8G")
"""Four NUMA nodes of four cpus; cpu 0 is reserved."""


def whole(cpus: int, limit: int | None = None, memory: int = 4 * GIB) -> Resources:
    return Resources(
        cpu_request_milli=1000 * cpus,
        cpu_limit_milli=1000 * (limit or cpus),
        memory_request_bytes=memory,
        memory_limit_bytes=memory,
    )


def pod(
    size: Resources | None,
    qos: QosClass = QosClass.GUARANTEED,
    name: str = "p",
    wish: str = "",
) -> Pod:
    key, _, value = wish.partition("=")
    wishes = {key: value} if wish else {}
    return Pod(id=PodId(name), uid=name, name=name, qos=qos, resources=size, annotations=wishes)


def container(of: Pod, name: str, resources: Resources | None = None) -> Container:
    """A container; without resources of its own it shows those of its pod."""
    shown = resources or of.resources or Resources()
    if resources is None and of.qos is QosClass.BURSTABLE:
        shown = replace(shown, cpu_request_milli=shown.cpu_limit_milli or 0)
    return Container(id=ContainerId(f"{of.name}-{name}"), name=name, pod=of, resources=shown)


class Node:
    def __init__(self, spec: str = "") -> None:
        config = Config(reserved_resources=Amounts(cpu="cpuset:0"))
        self.engine = Engine(machine_from_spec(spec) if spec else MACHINE, config)

    def create(self, *containers: Container) -> Decision:
        decisions: list[Decision] = []
        for one in containers:
            decisions.append(self.engine.create(one))
            self.engine.check()
        return decisions[-1]

    def cpus(self, of: Pod, name: str) -> str:
        pinning = self.engine.pinning(ContainerId(f"{of.name}-{name}"))
        assert pinning is not None
        return str(pinning.cpus)

    def stop(self, of: Pod, name: str) -> None:
        self.engine.stop(ContainerId(f"{of.name}-{name}"))
        self.engine.check()

    @property
    def taken(self) -> int:
        free = self.engine.snapshot().free_sharable[-1]
        return len(self.engine.tree.root.sharable) - free.bit_count()


def test_three_plain_containers_of_a_pod_of_four_cpus_share_four_cpus() -> None:
    node, one = Node(), pod(whole(4))
    node.create(*(container(one, name) for name in "abc"))
    assert node.taken == 4
    assert {node.cpus(one, name) for name in "abc"} == {"4-7"}


def test_a_small_machine_has_room_for_all_containers_of_a_pod_it_was_given() -> None:
    node, one = Node("socket:1 core:6 mem:8G"), pod(whole(4))
    decision = node.create(*(container(one, name) for name in "abc"))
    assert isinstance(decision.result, Grant)
    assert node.taken == 4


def test_a_container_with_whole_cpus_of_its_own_has_them_alone() -> None:
    node, one = Node(), pod(whole(4))
    node.create(container(one, "a"), container(one, "own", whole(1, memory=GIB)))
    own = CpuSet.parse(node.cpus(one, "own"))
    assert len(own) == 1
    assert CpuSet.parse(node.cpus(one, "a")) == CpuSet.parse("4-7") - own


def test_the_container_with_own_cpus_comes_first_and_the_pen_is_put_round_it() -> None:
    node, one = Node(), pod(whole(4))
    node.create(container(one, "own", whole(1, memory=GIB)))
    before = node.cpus(one, "own")
    node.create(container(one, "a"), container(one, "b"))
    assert node.cpus(one, "own") == before
    assert node.cpus(one, "a") == node.cpus(one, "b") == "5-7"
    assert node.taken == 4


def test_half_a_cpu_of_its_own_is_a_share_of_the_pod() -> None:
    node, one = Node(), pod(whole(4))
    half = replace(whole(1, memory=GIB), cpu_request_milli=500, cpu_limit_milli=500)
    node.create(container(one, "a"), container(one, "half", half))
    assert node.cpus(one, "half") == node.cpus(one, "a") == "4-7"


def test_the_last_cpu_of_a_pod_is_shared_where_somebody_shares() -> None:
    node, one = Node(), pod(whole(2))
    node.create(container(one, "a"))
    decision = node.create(container(one, "own", whole(2, limit=2, memory=GIB)))
    # It shows what the pod has, so nobody can tell: they share.
    assert node.cpus(one, "own") == node.cpus(one, "a")
    assert isinstance(decision.result, Grant)
    node.create(container(one, "other", whole(1, memory=GIB)))
    assert node.cpus(one, "a") != node.cpus(one, "other")
    decision = node.create(container(one, "third", whole(1, memory=GIB)))
    assert node.cpus(one, "third") == node.cpus(one, "a")
    assert "none would be left for the others" in str(decision.problems[-1])


def test_slices_that_take_all_make_way_for_a_container_that_shares() -> None:
    node, one = Node(), pod(whole(2))
    node.create(*(container(one, name, whole(1, memory=GIB)) for name in "xy"))
    assert node.cpus(one, "x") != node.cpus(one, "y")
    before = node.cpus(one, "y")
    node.create(container(one, "plain"))
    assert node.cpus(one, "plain") == node.cpus(one, "y") == before
    assert node.taken == 2


def test_an_ordinary_pod_has_no_pen() -> None:
    node, one = Node(), pod(whole(3))
    node.create(
        container(one, "a", whole(1, memory=GIB)), container(one, "b", whole(2, memory=GIB))
    )
    assert not node.engine.snapshot().pens
    assert node.taken == 3


def test_who_leaves_gives_its_slice_to_the_others_and_the_last_one_ends_the_pen() -> None:
    node, one = Node(), pod(whole(4))
    node.create(container(one, "a"), container(one, "own", whole(2, memory=GIB)))
    assert len(CpuSet.parse(node.cpus(one, "a"))) == 2
    node.stop(one, "own")
    assert len(CpuSet.parse(node.cpus(one, "a"))) == 4
    node.stop(one, "a")
    assert node.taken == 0
    assert not node.engine.snapshot().pens


def test_a_restarted_pod_finds_its_cpus_again() -> None:
    node, one, other = Node(), pod(whole(4)), pod(whole(4), name="q")
    node.create(container(one, "a"), container(one, "b"))
    node.create(container(other, "a"), container(other, "b"))
    before = node.cpus(other, "a")
    node.stop(one, "a")
    node.stop(one, "b")
    node.stop(other, "a")
    node.stop(other, "b")
    node.create(container(other, "a"), container(other, "b"))
    assert node.cpus(other, "a") == before


def test_who_begins_a_pen_that_is_back_did_not_run_there_itself() -> None:
    """As the first container of a pod of which the init containers have ended."""
    node, one = Node(), pod(whole(4))
    node.create(container(one, "init"))
    assert node.create(container(one, "step")).decided_by == "pen"
    before = node.cpus(one, "init")
    node.stop(one, "init")
    node.stop(one, "step")
    first = node.create(container(one, "a"))
    assert (first.decided_by, node.cpus(one, "a")) == ("pen returned", before)
    assert node.create(container(one, "b")).decided_by == "pen"
    node.stop(one, "a")
    node.stop(one, "b")
    assert node.create(container(one, "b")).decided_by == "restarted"


def test_a_burstable_pod_promises_its_own_request_once() -> None:
    node, one = Node(), pod(whole(1, limit=4), QosClass.BURSTABLE)
    node.create(*(container(one, name) for name in "abc"))
    snapshot = node.engine.snapshot()
    assert sum(pool_loads(snapshot).promised_milli) == 1000
    assert len({node.cpus(one, name) for name in "abc"}) == 1
    assert node.taken == 0


def test_the_memory_of_a_pod_is_counted_once() -> None:
    node, one = Node(), pod(whole(2, memory=6 * GIB))
    node.create(*(container(one, name) for name in "abc"))
    held = node.engine.snapshot().memory.holders
    assert [one.request.size_bytes for one in held] == [6 * GIB]


def test_who_ran_beside_its_pod_comes_to_be_in_the_pen_that_is_back() -> None:
    """It was heard of as others had the cpus of its pod, which these have given back."""
    node = Node("socket:1 core:4 mem:8G")
    of = pod(whole(2, memory=GIB), wish="pod-pool.pinfold.dev/pod=true")
    first, other = container(of, "a"), container(of, "b", whole(1, memory=GIB // 2))
    node.create(first)
    node.stop(of, "a")
    thief = container(pod(None, name="thief"), "c", whole(2))
    node.create(thief)
    node.engine.adopt(replace(other, cpus=CpuSet.of(3)))
    node.engine.remove(thief.id)
    runs = container(pod(None, QosClass.BURSTABLE, name="runs"), "d", whole(3, memory=0))
    node.engine.adopt(replace(runs, cpus=CpuSet.of(3)))
    assert node.engine.grants[other.id].shared_milli == 1000
    decision = node.create(replace(first, id=ContainerId("p-a1")))
    assert "without room for it" in decision.problems[-1].what
    assert [one.container_id for one in decision.changes] == [other.id]
    assert node.cpus(of, "a1") == node.cpus(of, "b") == "1-2"
    (pen,) = node.engine.snapshot().pens.values()
    assert (len(pen.exclusive), pen.memory_bytes) == (2, GIB)
    assert node.engine.grants[other.id].shared_milli == 0
    assert not node.engine.decisions[other.id].degraded


def test_own_cpus_of_a_container_beside_its_pod_are_a_part_of_the_pen_that_is_back() -> None:
    """It was resized to a whole cpu while others had those of its pod."""
    node = Node("socket:1 core:4 mem:8G")
    of = pod(whole(2, memory=GIB), wish="pod-pool.pinfold.dev/pod=true")
    first, other = container(of, "a"), container(of, "b", whole(1, memory=GIB // 2))
    node.create(first)
    node.stop(of, "a")
    thief = container(pod(None, name="thief"), "c", whole(2))
    node.create(thief)
    node.engine.adopt(replace(other, cpus=CpuSet.of(3)))
    node.engine.update(other.id, whole(1, memory=GIB // 4))
    assert node.engine.grants[other.id].exclusive == CpuSet.of(3)
    node.engine.remove(thief.id)
    runs = container(pod(None, QosClass.BURSTABLE, name="runs"), "d", whole(3, memory=0))
    node.engine.adopt(replace(runs, cpus=CpuSet.of(1, 2)))
    decision = node.create(replace(first, id=ContainerId("p-a1")))
    assert "without room for it" in decision.problems[-1].what
    assert node.taken == 2, "as many cpus as the pod has"
    assert (node.cpus(of, "a1"), node.cpus(of, "b")) == ("1", "3")
    assert node.cpus(runs.pod, "d") == "2"


def test_a_debugging_container_runs_on_the_shared_cpus_of_the_node() -> None:
    node, one = Node(), pod(whole(4))
    node.create(container(one, "a"), container(one, "b"))
    node.create(container(one, "debugger-x7k2p", Resources()))
    assert not CpuSet.parse(node.cpus(one, "debugger-x7k2p")) & CpuSet.parse(node.cpus(one, "a"))


def test_a_slice_grows_into_what_its_pod_shares_and_no_further() -> None:
    node, one = Node(), pod(whole(4))
    node.create(container(one, "a"), container(one, "own", whole(1, memory=GIB)))
    before = CpuSet.parse(node.cpus(one, "own"))
    decision = node.engine.update(ContainerId("p-own"), whole(3, memory=GIB))
    node.engine.check()
    assert isinstance(decision.result, Grant)
    assert before < CpuSet.parse(node.cpus(one, "own"))
    assert len(CpuSet.parse(node.cpus(one, "a"))) == 1
    refused = node.engine.update(ContainerId("p-own"), replace(whole(4), memory_limit_bytes=GIB))
    assert isinstance(refused.result, Grant), "as much as the pod has is the pod's own number"
    node.engine.check()
    shrunk = node.engine.update(ContainerId("p-own"), whole(1, memory=GIB))
    node.engine.check()
    assert isinstance(shrunk.result, Grant)
    assert len(CpuSet.parse(node.cpus(one, "own"))) == 1
    assert len(CpuSet.parse(node.cpus(one, "a"))) == 3


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_the_wish_for_a_pool_of_its_own_gives_a_pod_one(names: str) -> None:
    size = whole(len(names))
    one = pod(size, wish="pod-pool.pinfold.dev/pod=true")
    node = Node()
    half = replace(whole(1, memory=GIB), cpu_request_milli=500, cpu_limit_milli=500)
    node.create(container(one, "a", whole(1, memory=GIB)))
    assert node.taken == len(names)
    node.create(*(container(one, name, half) for name in names[1:]))
    assert node.taken == len(names)
    assert len(CpuSet.parse(node.cpus(one, "a"))) == 1
    assert len(CpuSet.parse(node.cpus(one, "b"))) == len(names) - 1


def test_a_group_shares_one_set_as_large_as_its_containers() -> None:
    node = Node()
    first = pod(None, name="p", wish="group.pinfold.dev/pod=front")
    second = pod(None, name="q", wish="group.pinfold.dev/pod=front")
    half = replace(whole(1, memory=GIB), cpu_request_milli=1500, cpu_limit_milli=1500)
    node.create(container(first, "a", half))
    assert node.taken == 2
    node.create(container(second, "a", half))
    assert node.taken == 3
    assert node.cpus(first, "a") == node.cpus(second, "a")
    node.stop(first, "a")
    assert node.taken == 2


def test_a_group_keeps_its_size_as_one_that_asks_for_nothing_joins_it() -> None:
    node = Node()
    first = pod(None, name="p", wish="group.pinfold.dev/pod=front")
    idle = pod(None, QosClass.BEST_EFFORT, name="q", wish="group.pinfold.dev/pod=front")
    node.create(container(first, "a", whole(3, memory=GIB)))
    node.create(container(idle, "b"))
    assert node.taken == 3
    assert node.cpus(idle, "b") == node.cpus(first, "a")


def test_a_group_that_cannot_grow_refuses_the_newcomer_alone() -> None:
    node = Node("socket:1 core:4 mem:8G")
    first = pod(None, name="p", wish="group.pinfold.dev/pod=front")
    node.create(container(first, "a", whole(2, memory=GIB)))
    before = node.cpus(first, "a")
    decision = node.create(container(first, "b", whole(2, memory=GIB)))
    assert isinstance(decision.result, Refusal)
    assert node.cpus(first, "a") == before


def restarted(node: Node, containers: list[Container], *, is_remembered: bool) -> Adopted:
    """The daemon comes back, and the runtime lists what runs."""
    advice: Mapping[ContainerId, Advice] = node.engine.snapshot().advice() if is_remembered else {}
    listed = [
        replace(one, cpus=pinning.cpus, mems=pinning.mems, state=ContainerState.RUNNING)
        for one in containers
        if (pinning := node.engine.pinning(one.id)) is not None
    ]
    node.engine = Engine(node.engine.machine, node.engine.config)
    adopted = node.engine.synchronize(listed, advice)
    node.engine.check()
    return adopted


@pytest.mark.parametrize("is_remembered", [True, False])
def test_a_restart_keeps_a_pen_its_slices_and_what_is_shared(is_remembered: bool) -> None:
    node, one = Node(), pod(whole(4))
    own = container(one, "own", whole(1, memory=GIB))
    containers = [container(one, "a"), own, container(one, "b")]
    node.create(*containers)
    before = [node.cpus(one, name) for name in ("a", "own", "b")]
    adopted = restarted(node, containers, is_remembered=is_remembered)
    assert not adopted.changes
    assert [node.cpus(one, name) for name in ("a", "own", "b")] == before
    (pen,) = node.engine.snapshot().pens.values()
    assert len(pen.exclusive) == 4
    node.stop(one, "own")
    assert node.cpus(one, "a") == "4-7"


@pytest.mark.parametrize("mems", [("1", "0-3"), ("0-1", "2")])
def test_containers_that_run_on_different_memory_nodes_have_all_of_them_in_their_pen(
    mems: tuple[str, str],
) -> None:
    """Somebody else pinned them, or they had places of their own; none loses a node it uses."""
    node, one = Node(), pod(whole(4), wish="pod-pool.pinfold.dev/pod=true")
    running = [
        replace(
            container(one, name),
            cpus=CpuSet.parse("4-7"),
            mems=NodeSet.parse(nodes),
            state=ContainerState.RUNNING,
        )
        for name, nodes in zip("ab", mems, strict=True)
    ]
    node.engine.synchronize(running)
    node.engine.check()
    all_nodes = running[0].mems or NodeSet()
    all_nodes |= running[1].mems or NodeSet()
    told = [node.engine.pinning(each.id) for each in running]
    assert [each and each.mems for each in told] == [all_nodes, all_nodes]


def test_a_restart_finds_the_free_cpus_of_a_pen_with_the_state_file() -> None:
    node, one = Node(), pod(whole(4), wish="pod-pool.pinfold.dev/pod=true")
    own = container(one, "own", whole(1, memory=GIB))
    node.create(own)
    other = container(pod(whole(2), name="q"), "a")
    node.create(other)
    before = node.engine.snapshot().pens
    restarted(node, [own, other], is_remembered=True)
    assert node.engine.snapshot().pens == before


@pytest.mark.parametrize("is_pinned", [True, False], ids=["on the slice", "anywhere"])
@pytest.mark.parametrize("cpus", [2, 3], ids=["some are shared", "all have an owner"])
def test_a_pen_keeps_the_slice_of_who_restarted_while_the_daemon_was_away(
    cpus: int, is_pinned: bool
) -> None:
    """It would be as small as what the others have, who would share that with the newcomer."""
    node, one = Node(), pod(whole(5), wish="pod-pool.pinfold.dev/pod=true")
    own, old = container(one, "own", whole(2)), container(one, "old", whole(cpus))
    node.create(own, old)
    before, snapshot = node.engine.snapshot().pens, node.engine.snapshot()
    kept = node.cpus(one, "own")
    slice_of_old = snapshot.pinnings[old.id].cpus
    new = replace(old, id=ContainerId("p-new"), name="old")
    new = replace(new, cpus=slice_of_old if is_pinned else MACHINE.online)
    node.engine = Engine(MACHINE, node.engine.config)
    running = [each for each in snapshot.running() if each.id == own.id]
    node.engine.synchronize([*running, new], snapshot.advice())
    node.engine.check()
    assert node.engine.snapshot().pens == before
    assert node.cpus(one, "own") == kept
    assert node.engine.grants[own.id].exclusive == CpuSet.parse(kept)
    assert node.engine.grants[new.id].exclusive == slice_of_old


def test_a_pen_as_large_as_its_containers_shrinks_as_one_ends_while_the_daemon_is_away() -> None:
    node, one = Node(), pod(None, wish="pod-pool.pinfold.dev/pod=true")
    own, old = container(one, "own", whole(2)), container(one, "old", whole(2))
    node.create(own, old)
    snapshot = node.engine.snapshot()
    node.engine = Engine(MACHINE, node.engine.config)
    running = [each for each in snapshot.running() if each.id == own.id]
    node.engine.synchronize(running, snapshot.advice())
    node.engine.check()
    (pen,) = node.engine.snapshot().pens.values()
    assert pen.exclusive == snapshot.grants[own.id].exclusive


def test_a_restart_takes_containers_that_were_resized_for_what_they_are() -> None:
    node, one = Node(), pod(whole(2, memory=2 * GIB))
    containers = [container(one, name, whole(1, memory=GIB)) for name in "ab"]
    node.create(*containers)
    larger = whole(2, memory=GIB)
    node.engine.update(containers[0].id, larger)
    containers[0] = replace(containers[0], resources=larger)
    for is_remembered in (True, False):
        adopted = restarted(node, containers, is_remembered=is_remembered)
        assert not adopted.changes
        assert not node.engine.snapshot().pens
        again = replace(containers[1], id=ContainerId("p-b-again"))
        node.create(again)
        assert not node.engine.snapshot().pens, is_remembered
        containers[1] = again


def test_a_restart_knows_the_last_size_of_a_pod() -> None:
    node, one = Node(), pod(whole(2))
    containers = [container(one, name) for name in "ab"]
    node.create(*containers)
    changes = node.engine.resize_pod(one, whole(3))
    assert not isinstance(changes, Refusal)
    assert {change.container_id for change in changes} == {"p-a", "p-b"}
    restarted(node, containers, is_remembered=True)
    assert len(CpuSet.parse(node.cpus(one, "a"))) == 3
    (pen,) = node.engine.snapshot().pens.values()
    assert len(pen.exclusive) == 3


def test_a_pod_does_not_shrink_below_what_its_containers_have_for_themselves() -> None:
    node, one = Node(), pod(whole(4))
    node.create(container(one, "a"), container(one, "own", whole(2, memory=GIB)))
    before = node.cpus(one, "a")
    refused = node.engine.resize_pod(one, whole(2, memory=2 * GIB))
    node.engine.check()
    assert isinstance(refused, Refusal), refused
    assert "no room in 2 CPUs for its containers" in refused.reason
    assert node.cpus(one, "a") == before
    assert not isinstance(node.engine.resize_pod(one, whole(3)), Refusal)
    assert len(CpuSet.parse(node.cpus(one, "a"))) == 1


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_whole_cores_for_one_container_are_no_more_cpus_for_its_pod(order: str) -> None:
    node = Node("socket:1 core:8 thread:2 mem:8G")
    one = pod(whole(3), wish="hide-hyperthreads.resource-policy.nri.io/container.a=whole-cores")
    one = replace(one, annotations={**one.annotations, "pod-pool.pinfold.dev": "true"})
    node.create(*(container(one, name) for name in order))
    assert node.taken == 3
    assert not isinstance(node.engine.resize_pod(one, whole(2)), Refusal)
    assert node.taken == 2
    assert node.engine.resize_pod(one, whole(2)) == ()


def test_shared_containers_make_room_for_the_rest_of_a_pod() -> None:
    """Four NUMA nodes of two cpus: shares keep whole cpus there, and only two can be had."""
    node, one = Node("socket:1 numa:4 core:2 mem:4G"), pod(whole(4))
    node.create(container(one, "own", whole(1, memory=GIB)))
    shared = Resources(cpu_request_milli=700, cpu_limit_milli=800, memory_request_bytes=GIB // 4)
    for name in "wxyz":
        neighbour = pod(None, QosClass.BURSTABLE, name=name)
        node.create(container(neighbour, "a", shared))
    before = CpuSet.parse(node.cpus(one, "own"))
    decision = node.create(container(one, "plain"))
    assert isinstance(decision.result, Grant), decision.result
    assert node.taken == 4
    assert CpuSet.parse(node.cpus(one, "own")) == before


SMALL_NODES = "socket:1 numa:4 core:2 mem:4G"
"""Four NUMA nodes of two cpus: shares keep a whole cpu in each."""
APART = json.dumps(
    {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "numa", "labelSelector": {"matchLabels": {"app": "foe"}}}
            ]
        }
    }
)


def small_pods(of_whom: str, ruled: str = "") -> list[Pod]:
    """Burstable pods with a set of cpus each; one has a required rule, and is about `foe`."""
    found: list[Pod] = []
    for name in of_whom:
        small = pod(None, QosClass.BURSTABLE, name=name, wish="pod-pool.pinfold.dev/pod=true")
        if name == ruled:
            told = {**small.annotations, "affinity.pinfold.dev/pod": APART}
            small = replace(small, annotations=told)
        found.append(small)
    return found


SHARE = Resources(cpu_request_milli=700, cpu_limit_milli=800, memory_request_bytes=GIB // 4)


def test_pens_make_room_where_rules_about_others_stand() -> None:
    node, pods = Node(SMALL_NODES), small_pods("wxyz")
    ruled = replace(
        pod(None, QosClass.BURSTABLE, name="r"), annotations={"affinity.pinfold.dev/pod": APART}
    )
    node.create(container(ruled, "a", Resources()))
    for one in pods:
        node.create(container(one, "a", SHARE), container(one, "b", Resources()))
    decision = node.create(container(pod(None, name="big"), "a", whole(4, memory=GIB)))
    assert isinstance(decision.result, Grant), decision.result
    assert node.taken == 4
    own = CpuSet.parse(node.cpus(pod(None, name="big"), "a"))
    for one in pods:
        assert node.cpus(one, "a") == node.cpus(one, "b")
        assert not CpuSet.parse(node.cpus(one, "a")) & own
    assert not any(one.unmet for one in node.engine.decisions.values())


def test_other_pens_than_those_with_required_rules_make_room() -> None:
    node, pods = Node(SMALL_NODES), small_pods("wxyz", ruled="w")
    for one in pods:
        node.create(container(one, "a", SHARE), container(one, "b", Resources()))
    before = {one.name: node.engine.grants[ContainerId(f"{one.name}-b")].pool_id for one in pods}
    decision = node.create(container(pod(None, name="big"), "a", whole(4, memory=GIB)))
    assert isinstance(decision.result, Grant), decision.result
    after = {one.name: node.engine.grants[ContainerId(f"{one.name}-b")].pool_id for one in pods}
    assert after["w"] == before["w"]
    assert after != before
    assert node.engine.decisions[ContainerId("w-a")].unmet == ()


def test_a_pen_grows_where_rules_about_others_stand() -> None:
    node, one = Node(SMALL_NODES), pod(whole(4))
    ruled = replace(
        pod(None, QosClass.BURSTABLE, name="r"), annotations={"affinity.pinfold.dev/pod": APART}
    )
    node.create(container(ruled, "a", Resources()))
    node.create(container(one, "own", whole(1, memory=GIB)))
    for other in small_pods("wxyz"):
        node.create(container(other, "a", SHARE))
    decision = node.create(container(one, "plain"))
    assert isinstance(decision.result, Grant), decision.result
    assert node.taken == 4


PAGE = 2 << 20
PAGED = "socket:1 numa:2 core:4 mem:8G hugepages:2M=64"
"""Two memory nodes, with 64 huge pages each."""


def paged(pages: int, cpus: int = 1) -> Resources:
    return replace(whole(cpus, memory=GIB), hugepage_bytes={PAGE: pages * PAGE})


def promised(node: Node, pen: str = "p") -> Mapping[int, int]:
    """The huge pages of the only pen, by the memory nodes they come from."""
    memory = node.engine.snapshot().memory
    return {mask: holding.pages()[PAGE] for holding, mask in memory.holdings if holding.pages()}


def test_huge_pages_of_a_pods_containers_are_promised_to_its_pen() -> None:
    node, of = Node(PAGED), pod(whole(3))
    node.create(container(of, "a"), container(of, "b", paged(40)))
    (mask,) = promised(node)
    assert promised(node) == {mask: 40}
    assert node.engine.grants[ContainerId("p-a")].memory.mask == mask
    node.create(container(of, "c", paged(20)))
    assert promised(node) == {mask: 60}
    node.stop(of, "b")
    assert promised(node) == {mask: 20}
    node.stop(of, "c")
    assert promised(node) == {}


def test_a_pen_has_the_memory_nodes_that_its_huge_pages_need() -> None:
    node, of = Node(PAGED), pod(whole(3))
    node.create(container(of, "a"), container(of, "b", paged(40)), container(of, "c", paged(40)))
    assert promised(node) == {0b11: 80}
    assert str(node.engine.grants[ContainerId("p-a")].memory) == "0-1"


def test_a_container_whose_huge_pages_are_nowhere_left_is_refused() -> None:
    node, of = Node(PAGED), pod(whole(3))
    node.create(container(of, "a"), container(of, "b", paged(40)))
    decision = node.engine.create(container(of, "c", paged(100)))
    assert isinstance(decision.result, Refusal)
    assert "huge pages" in decision.result.reason
    assert sum(promised(node).values()) == 40
    node.engine.check()


def test_huge_pages_that_are_told_of_the_pod_count_once() -> None:
    node = Node(PAGED)
    of = pod(replace(whole(3), hugepage_bytes={PAGE: 50 * PAGE}))
    # What a container without limits shows of its pod is cpus and memory.
    node.create(container(of, "a", whole(3)), container(of, "b", paged(40)))
    assert list(promised(node).values()) == [50]


@pytest.mark.parametrize(
    ("containers", "pages"),
    [
        pytest.param([whole(3), whole(3)], 100, id="what two show of it"),
        pytest.param([whole(1), whole(3)], 100, id="one has pages of its own, and comes first"),
        pytest.param([whole(3), whole(1)], 100, id="or comes later"),
        pytest.param([whole(1), whole(3), whole(1)], 100, id="or before and after"),
        pytest.param([whole(1), whole(1)], 80, id="all have pages of their own"),
    ],
)
def test_a_pods_huge_pages_count_once_on_reserved_cpus_too(
    containers: list[Resources], pages: int
) -> None:
    node = Node(PAGED)
    of = replace(pod(whole(3)), namespace="kube-system")
    for name, shown in zip("abc", containers, strict=False):
        count = 100 if shown == of.resources else 40
        one = container(of, name, replace(shown, hugepage_bytes={PAGE: count * PAGE}))
        assert isinstance(node.create(one).result, Grant)
    memory = node.engine.snapshot().memory
    assert sum(holding.pages().get(PAGE, 0) for holding, _ in memory.holdings) == pages


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_a_pods_memory_has_room_for_all_its_containers_on_reserved_cpus(order: str) -> None:
    node = Node(PAGED)
    of = replace(pod(whole(3, memory=12 * GIB)), namespace="kube-system")
    containers = {"a": container(of, "a"), "b": container(of, "b", whole(1, memory=9 * GIB))}
    for name in order:
        assert isinstance(node.create(containers[name]).result, Grant)
    grants = node.engine.grants.values()
    assert sum(one.memory_bytes for one in grants) == 12 * GIB
    assert sum(one.shared_milli for one in grants) == 3000


@pytest.mark.parametrize("is_remembered", [True, False])
def test_a_restart_promises_the_huge_pages_of_a_pen(is_remembered: bool) -> None:
    node, of = Node(PAGED), pod(whole(3))
    containers = [container(of, "a"), container(of, "b", paged(40)), container(of, "c", paged(20))]
    node.create(*containers)
    before = promised(node)
    answer = restarted(node, containers, is_remembered=is_remembered)
    assert not answer.changes
    assert promised(node) == before


def test_a_pen_that_cannot_begin_leaves_memory_as_it_was() -> None:
    """Nobody is younger by it, and what was seen of free memory and granted since counts on."""
    node, one, small = Node("socket:1 core:6 mem:8G"), pod(whole(4)), whole(1, memory=GIB)
    node.create(container(one, "own", small), container(pod(small, name="q"), "a"))
    node.engine.observe_memory({0: 8 * GIB})
    node.create(container(pod(small, name="r"), "a"), container(pod(small, name="s"), "a"))
    before = node.engine.snapshot()
    decision = node.create(container(one, "a"))
    assert isinstance(decision.result, Refusal)
    after = node.engine.snapshot()
    assert (after.memory, after.memory_look) == (before.memory, before.memory_look)
    assert dict(after.grants) == dict(before.grants)
