"""Containers that go where their devices are: preferred, strict, and cpu by cpu."""

from msgspec.structs import replace

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.grant import Grant
from pinfold.policy.model.hint import Hint, HintOrigin
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.unit.policy.engine.ruled_pods import (
    apart,
    container_of,
    cpus,
    engine_of,
    placed,
    reason,
    term,
)

DOMAIN = "resource-policy.nri.io"
STRICT = {f"strict.topologyhints.{DOMAIN}/pod": "true"}
BY_HINTS = {f"pick-resources-by-hints.{DOMAIN}/pod": "true"}
MACHINE = machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:8G")


def engine() -> Engine:
    return Engine(MACHINE, Config(reserved_resources=Amounts(cpu="cpuset:0")))


def device(node: int, name: str = "nic") -> Hint:
    return Hint(
        provider=f"podresourceapi:{name}",
        origin=HintOrigin.POD_RESOURCES,
        numa_nodes=NodeSet.of(node),
    )


def create(
    engine: Engine,
    milli: int,
    *hints: Hint,
    memory: int = 0,
    annotations: dict[str, str] | None = None,
    qos: QosClass = QosClass.GUARANTEED,
    namespace: str = "default",
) -> Decision:
    number = len(engine.containers)
    pod = Pod(
        id=PodId(f"p{number}"),
        uid=f"p{number}",
        name=f"p{number}",
        namespace=namespace,
        qos=qos,
        annotations=annotations or {},
    )
    return engine.create(
        Container(
            id=ContainerId(f"c{number}"),
            name="c",
            pod=pod,
            resources=Resources(
                cpu_request_milli=milli,
                cpu_limit_milli=milli or None,
                memory_request_bytes=memory,
                memory_limit_bytes=memory or None,
            ),
            hints=hints,
        )
    )


def test_a_hint_wins_over_room() -> None:
    decision = create(engine(), 2000, device(0))
    assert decision.pool == "NUMA node #0"
    assert decision.decided_by == "hints_depth", "the socket is as near, but wider"


def test_two_devices_pull_to_the_pool_that_holds_both() -> None:
    assert create(engine(), 2000, device(2), device(3)).pool == "socket #1"


def test_a_hint_is_a_wish_where_there_is_no_room() -> None:
    node = engine()
    create(node, 3000, device(0))
    decision = create(node, 2000, device(0))
    assert isinstance(decision.result, Grant)
    assert decision.pool == "socket #0"


def test_a_strict_hint_refuses_what_is_far_and_says_why() -> None:
    node = engine()
    create(node, 3000, device(0))
    decision = create(node, 2000, device(0), annotations=STRICT)
    assert "exclusive CPUs fail strict hints: wanted 2, available none" in reason(decision)
    assert decision.changes == ()


def test_a_strict_container_takes_near_cpus_of_a_wide_pool_never_far_ones() -> None:
    node = engine()
    decision = create(node, 3000, device(0), annotations=STRICT)
    assert isinstance(decision.result, Grant)
    assert decision.result.exclusive == CpuSet.parse("1-3")
    assert decision.result.memory == NodeSet.of(0)


def test_a_strict_container_is_refused_growth_where_a_rule_leaves_it_no_near_cpu() -> None:
    """Cpus 2 and 3 are one core, of which another one has 2; in the wider pool all are far."""
    node = engine_of("socket:1 numa:2 core:2 thread:2 mem:8G")
    one = container_of("one", 1, apart(term("core", "noisy")), annotations=STRICT)
    one = replace(one, hints=(device(0),))
    there = {"pool-name.pinfold.dev/pod": "NUMA node #0"}
    assert placed(node, one) == "1"
    assert placed(node, container_of("noisy", 1, annotations=there)) == "2"
    decision = node.update(one.id, replace(one.resources, cpu_request_milli=2000))
    assert "socket #0: rules between containers leave 0 CPUs" in reason(decision)
    assert (cpus(node, one), decision.changes) == ("1", ())
    node.check()


def test_strict_hints_that_contradict_each_other_are_refused() -> None:
    decision = create(engine(), 1000, device(0), device(3), annotations=STRICT)
    assert "strict hints" in reason(decision)


def test_a_strict_shared_container_needs_a_pool_inside_the_hint() -> None:
    decision = create(engine(), 500, device(1), annotations=STRICT, qos=QosClass.BURSTABLE)
    assert decision.pool == "NUMA node #1"
    assert decision.pinning.cpus == CpuSet.parse("4-7")


def test_several_move_for_a_strict_container_that_would_else_be_refused() -> None:
    node, gib = engine(), 2**30
    both = Hint(provider="disk", origin=HintOrigin.MOUNT, numa_nodes=NodeSet.parse("0-1"))
    create(node, 1000, device(0), memory=7 * gib)
    create(node, 1000, device(2), memory=7 * gib)
    for _ in range(2):
        assert create(node, 1000, both, memory=9 * gib // 2).pinning.mems == NodeSet.parse("0-1")
    decision = create(node, 1000, device(1), memory=5 * gib, annotations=STRICT)
    assert decision.pinning.mems == NodeSet.of(1)
    assert [str(one.after.mems) for one in decision.changes] == ["0-3", "0-3"]


def test_strict_hints_hold_for_reserved_cpus_too() -> None:
    near = create(engine(), 100, device(0), annotations=STRICT, namespace="kube-system")
    assert isinstance(near.result, Grant)
    far = create(engine(), 100, device(3), annotations=STRICT, namespace="kube-system")
    assert "reserved CPUs fail strict hints" in reason(far)


def test_cpus_are_picked_evenly_near_each_device() -> None:
    decision = create(engine(), 4000, device(2, "a"), device(3, "b"), annotations=BY_HINTS)
    assert isinstance(decision.result, Grant)
    assert len(decision.result.exclusive & CpuSet.parse("8-11")) == 2
    assert len(decision.result.exclusive & CpuSet.parse("12-15")) == 2
    assert decision.result.memory == NodeSet.of(2, 3)


def test_cpus_that_cannot_be_divided_are_one_near_each_device_at_least() -> None:
    decision = create(engine(), 3000, device(2, "a"), device(3, "b"), annotations=BY_HINTS)
    assert isinstance(decision.result, Grant)
    assert decision.result.exclusive & CpuSet.parse("8-11")
    assert decision.result.exclusive & CpuSet.parse("12-15")
    assert len(decision.result.exclusive) == 3


def test_more_devices_than_cpus_are_picked_as_usual() -> None:
    hints = [device(2, "a"), device(2, "b"), device(3, "c")]
    decision = create(engine(), 2000, *hints, annotations=BY_HINTS)
    assert isinstance(decision.result, Grant)
    assert len(decision.result.exclusive) == 2


def test_a_hint_that_names_nothing_is_a_warning() -> None:
    decision = create(engine(), 1000, device(9), annotations=STRICT)
    assert isinstance(decision.result, Grant)
    assert any("there is no NUMA node 9" in str(problem) for problem in decision.problems)


def test_a_strict_container_is_not_lifted_off_its_hint() -> None:
    small = machine_from_spec("socket:1 numa:2 core:2 mem:8G")
    node = Engine(small, Config(reserved_resources=Amounts(cpu="cpuset:0")))
    strict = create(node, 100, device(1), annotations=STRICT)
    create(node, 200)
    newcomer = create(node, 2000)
    assert newcomer.decided_by == "room_made"
    pinning = node.pinning(strict.container_id)
    assert pinning is not None
    assert str(pinning.cpus) == "3"
    assert node.grants[strict.container_id].pool_id == 1


def test_a_strict_container_grows_near_its_hint_or_not_at_all() -> None:
    node = engine()
    strict = create(node, 2000, device(2), annotations=STRICT)
    grown = node.update(
        strict.container_id, Resources(cpu_request_milli=4000, cpu_limit_milli=4000)
    )
    assert str(grown.pinning.cpus) == "8-11"
    refused = node.update(
        strict.container_id, Resources(cpu_request_milli=5000, cpu_limit_milli=5000)
    )
    assert "exclusive CPUs fail strict hints: wanted 1 more, available 0" in reason(refused)
    assert refused.pinning == grown.pinning
    shared = create(node, 500, device(3), annotations=STRICT)
    more = node.update(shared.container_id, Resources(cpu_request_milli=6500, cpu_limit_milli=6500))
    assert "fail strict hints" in reason(more)


def replica(number: int, *hints: Hint, cpu: float = 1) -> Container:
    """One of some replicas that keep apart from each other at NUMA nodes."""
    one = container_of(f"es-{number}", cpu, apart(term("numa", "es")), app="es")
    return replace(one, hints=hints)


def test_replicas_of_one_device_that_keep_apart_are_near_it_as_far_as_their_rules_let_them() -> (
    None
):
    node = engine_of("socket:2 numa:3 core:4 mem:8G")
    found = [placed(node, replica(number, device(5))) for number in range(5)]
    # The device's own NUMA node, the two beside it in its socket, then some of the other socket.
    assert found == ["20", "12", "16", "1", "4"]
    assert [node.decisions[one].pool for one in node.grants] == [
        *(f"NUMA node #{number}" for number in (5, 3, 4, 0, 1)),
    ]


def test_shares_that_keep_apart_are_near_their_device_as_far_as_their_rules_let_them() -> None:
    node = engine_of("socket:2 numa:3 core:4 mem:8G")
    found = [placed(node, replica(number, device(5), cpu=0.5)) for number in range(4)]
    assert found == ["20-23", "12-15", "16-19", "1-3"]


def test_isolated_cpus_that_rules_keep_from_a_container_draw_it_to_no_wide_pool() -> None:
    node = engine_of("socket:2 numa:2 core:4 isolated:4-7 mem:8G")
    assert [placed(node, replica(number)) for number in range(3)] == ["4", "8", "12"]
    assert [node.decisions[one].pool for one in node.grants] == [
        *(f"NUMA node #{number}" for number in (1, 2, 3)),
    ]
