import pytest
from msgspec import structs

from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.reason import reason_of, request_text, runner_up
from pinfold.policy.engine.roster import PACKED_TOGETHER
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.criterion_words import CRITERIA, words_of
from pinfold.policy.model.grant import Grant, GrantKind, PoolId, Refusal
from pinfold.policy.model.request import CpuType
from pinfold.policy.placing.rank import Rank
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet

SPEC = "socket:2 numa:2 core:2 thread:2 mem:2G"
ID = ContainerId("c1")
GRANT = Grant(container_id=ID, pool_id=PoolId(0))


def container(name: str, milli: int, **annotations: str) -> Container:
    pod = Pod(id=PodId(name), name=name, qos=QosClass.GUARANTEED, annotations=annotations)
    resources = Resources(
        cpu_request_milli=milli,
        cpu_limit_milli=milli,
        memory_request_bytes=64 << 20,
        memory_limit_bytes=64 << 20,
    )
    return Container(id=ContainerId(name), name=name, pod=pod, resources=resources)


def test_every_criterion_has_its_words() -> None:
    assert set(CRITERIA) == set(Rank._fields)


def test_all_ties_are_said_alike() -> None:
    ties = {name for name in Rank._fields if name.endswith("_pool") or name == "pool_id"}
    assert ties == {"hints_pool", "burst_pool", "isolated_pool", "exclusive_pool", "pool_id"}
    assert {CRITERIA[name] for name in ties} == {"a tie: the first of equal pools"}
    others = [CRITERIA[name] for name in Rank._fields if name not in ties]
    assert len(set(others)) == len(others)


@pytest.mark.parametrize(
    ("decided_by", "words"),
    [
        ("kept", "it ran there already"),
        ("only_candidate", "no other pool holds it"),
        ("pen returned", "its pod or its group ran there before"),
        ("normal cpus", "the reserved cpus, which are for it, have no room for it"),
        (
            "preserve cpus",
            "its cpus are left alone: its annotation asks for that, or others set them",
        ),
        ("some_thing", "some thing"),
    ],
)
def test_a_decision_without_a_choice_has_no_runner_up(decided_by: str, words: str) -> None:
    decision = Decision(container_id=ID, result=GRANT, decided_by=decided_by)
    assert (reason_of(decision), runner_up(decision)) == (words, "")
    assert words_of(decided_by) == words


def test_a_refusal_is_its_own_reason() -> None:
    assert reason_of(Decision(container_id=ID, result=Refusal(reason="no room"))) == (
        "refused: no room"
    )


def pack(engine: Engine, container_id: ContainerId) -> None:
    """Have a decision packed: it waits for others."""
    before = engine.decisions[container_id].lineup
    for number in range(1, PACKED_TOGETHER):
        engine.compact(ContainerId(f"nobody-{number}"))
    engine.compact(container_id)
    assert engine.decisions[container_id].lineup is not before


@pytest.mark.parametrize("milli", [100, 1000, 2000, 5000])
def test_the_runner_up_is_the_second_smallest_rank(milli: int) -> None:
    engine = Engine(machine_from_spec(SPEC), Config())
    for name in ("a", "b", "c"):
        decision = engine.create(container(name, milli))
        if isinstance(decision.result, Refusal):
            break
        ranks = sorted(one for one in decision.candidates if isinstance(one, Rank))
        second = engine.tree.pools[ranks[1].pool_id].name if len(ranks) > 1 else ""
        assert runner_up(decision) == second
        pack(engine, decision.container_id)
        assert runner_up(engine.decisions[decision.container_id]) == second
        assert not second or reason_of(decision).endswith(f"(next best: {second})")


def test_the_runner_up_does_not_change_with_what_happens_later() -> None:
    engine = Engine(machine_from_spec(SPEC), Config())
    decision = engine.create(container("a", 2000))
    before = reason_of(decision)
    for name in ("b", "c", "d"):
        engine.create(container(name, 3000))
    assert reason_of(decision) == before


def test_the_runner_up_stays_though_the_container_is_lifted_to_another_pool() -> None:
    engine = Engine(machine_from_spec(SPEC), Config())
    decision = engine.create(container("a", 2000))
    second = runner_up(decision)
    pack(engine, decision.container_id)
    lifted = structs.replace(engine.decisions[decision.container_id], pool="root")
    assert runner_up(lifted) == second


def test_the_request_is_told_as_it_was_held_against_the_pools() -> None:
    engine = Engine(machine_from_spec(SPEC), Config())
    asking = container("a", 2000)
    assert request_text(asking, engine.create(asking)) == "2 exclusive CPUs, 64 MiB of memory"
    large = container("b", 90_000)
    assert request_text(large, engine.create(large)) == "90 exclusive CPUs, 64 MiB of memory"


def test_the_request_of_who_chose_no_pool_is_the_containers_own() -> None:
    engine = Engine(machine_from_spec(SPEC), Config())
    asking = container("a", 500, **{"prefer-reserved-cpus.resource-policy.nri.io/pod": "true"})
    assert request_text(asking, engine.create(asking)) == "500m of CPU, 64 MiB of memory"


@pytest.mark.parametrize(
    ("grant", "kind"),
    [
        pytest.param(GRANT, GrantKind.SHARED, id="who asks for nothing shares"),
        pytest.param(structs.replace(GRANT, shared_milli=5), GrantKind.SHARED, id="a share"),
        pytest.param(
            structs.replace(GRANT, exclusive=CpuSet.of(1)), GrantKind.EXCLUSIVE, id="whole"
        ),
        pytest.param(
            structs.replace(GRANT, exclusive=CpuSet.of(1), shared_milli=5),
            GrantKind.MIXED,
            id="both",
        ),
        pytest.param(
            structs.replace(GRANT, exclusive=CpuSet.of(1), isolated=CpuSet.of(1)),
            GrantKind.ISOLATED,
            id="isolated by the kernel",
        ),
        pytest.param(
            structs.replace(GRANT, exclusive=CpuSet.of(1), isolated=CpuSet.of(1), shared_milli=5),
            GrantKind.MIXED,
            id="isolated ones and a share",
        ),
        pytest.param(
            structs.replace(GRANT, cpu_type=CpuType.RESERVED), GrantKind.RESERVED, id="reserved"
        ),
        pytest.param(
            structs.replace(GRANT, cpu_type=CpuType.PRESERVE), GrantKind.PRESERVED, id="left alone"
        ),
    ],
)
def test_a_grant_is_of_one_kind(grant: Grant, kind: GrantKind) -> None:
    assert grant.kind is kind
