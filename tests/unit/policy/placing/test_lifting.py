"""Room for exclusive cpus where thin shares in many pools left nothing to slice."""

import pytest

from pinfold.policy.books.books import Books
from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.policy.model.request import Request
from pinfold.policy.placing.lifting import make_room
from pinfold.topology.made.spec import machine_from_spec
from tests.unit.counted_calls import called_modules
from tests.unit.policy.books.test_cpu_ledger import share

MACHINE = machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:8G")


def engine() -> Engine:
    return Engine(MACHINE, Config(reserved_resources=Amounts(cpu="cpuset:0")))


def create(engine: Engine, name: str, milli: int, qos: QosClass) -> Decision:
    resources = Resources(cpu_request_milli=milli, cpu_limit_milli=milli or None)
    pod = Pod(id=PodId(name), name=name, uid=name, qos=qos)
    return engine.create(Container(id=ContainerId(name), name=name, pod=pod, resources=resources))


def spread(engine: Engine, milli: int, count: int = 4) -> None:
    qos = QosClass.BURSTABLE if milli else QosClass.BEST_EFFORT
    pools = {create(engine, f"shared{i}", milli, qos).pool for i in range(count)}
    assert len(pools) == min(count, 4), "they start in NUMA nodes of their own"


def cpus_of(engine: Engine, name: str) -> int:
    pinning = engine.pinning(ContainerId(name))
    assert pinning is not None
    assert pinning.cpus is not None
    return pinning.cpus.mask


CASES = [
    pytest.param(200, 12, 4, id="thin shares in four pools leave all but what they add up to"),
    pytest.param(200, 14, 4, id="the last but one cpu"),
    pytest.param(0, 14, 4, id="containers that asked for nothing share one cpu"),
    pytest.param(0, 15, 4, id="and at last run on the reserved cpu"),
    pytest.param(900, 11, 4, id="shares that fill whole cpus keep as many"),
]


@pytest.mark.parametrize(("milli", "exclusive", "count"), CASES)
def test_what_fits_the_machine_fits_here(milli: int, exclusive: int, count: int) -> None:
    node = engine()
    spread(node, milli, count)
    decision = create(node, "database", 1000 * exclusive, QosClass.GUARANTEED)
    assert isinstance(decision.result, Grant)
    assert len(decision.result.exclusive) == exclusive
    own = decision.result.exclusive.mask
    told = {change.container_id: change.after.cpus for change in decision.changes}
    for i in range(count):
        mask = cpus_of(node, f"shared{i}")
        assert mask, "nobody is left without cpus"
        assert not mask & own
        if ContainerId(f"shared{i}") in told:
            cpus = told[ContainerId(f"shared{i}")]
            assert cpus is not None
            assert cpus.mask == mask
    node.check()


def test_no_more_is_lifted_than_must_be() -> None:
    node = engine()
    spread(node, 200)
    decision = create(node, "database", 12000, QosClass.GUARANTEED)
    assert decision.decided_by == "room_made"
    wide = [one for one in node.grants.values() if one.pool_id == node.tree.root.id]
    assert len(wide) == 2, "the database and one of the four"


def test_a_share_nobody_can_give_is_refused() -> None:
    node = engine()
    spread(node, 900)
    before = {container_id: node.pinning(container_id) for container_id in node.grants}
    decision = create(node, "database", 12000, QosClass.GUARANTEED)
    assert isinstance(decision.result, Refusal)
    assert decision.changes == ()
    assert {container_id: node.pinning(container_id) for container_id in before} == before


def test_lifted_containers_keep_their_memory() -> None:
    node = engine()
    spread(node, 200)
    before = {key: grant.memory for key, grant in node.grants.items()}
    create(node, "database", 14000, QosClass.GUARANTEED)
    assert {key: node.grants[key].memory for key in before} == before


def test_of_those_who_keep_a_cpu_some_may_have_left() -> None:
    books = Books(MACHINE, Config(reserved_resources=Amounts(cpu="cpuset:0")))
    ledger, leaf = books.ledger, books.tree.pools[0]
    ledger.add(share("idle", leaf.id, 0))
    request = Request(container_id=ContainerId("it"), qos=QosClass.GUARANTEED, exclusive=3)
    kept = [ContainerId("idle")]
    assert make_room(request, ledger, (leaf.id,), None, kept) is None
    lift = make_room(request, ledger, (leaf.id,), None, [ContainerId("gone")])
    assert lift is not None
    assert lift.may_drive_out


def test_where_rules_hold_everybody_nothing_is_tried_on_a_copy() -> None:
    books = Books(MACHINE, Config(reserved_resources=Amounts(cpu="cpuset:0")))
    ids = tuple([pool.id for pool in books.tree.pools])
    for leaf in [pool.id for pool in books.tree.pools if not pool.children]:
        books.ledger.add(share(f"shared{leaf}", leaf, 200))
    request = Request(container_id=ContainerId("it"), qos=QosClass.GUARANTEED, exclusive=12)

    def modules(*, is_bound: bool) -> list[str]:
        return called_modules(lambda: make_room(request, books.ledger, ids, lambda _: is_bound))

    assert "copy" in modules(is_bound=False)
    assert "copy" not in modules(is_bound=True)
