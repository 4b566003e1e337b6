"""Containers that restart in place: what is remembered of where they were, and for how long."""

import pytest
from msgspec.structs import replace

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import (
    Container,
    ContainerId,
    Pod,
    PodId,
    QosClass,
    Resources,
)
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.policy.model.hint import Hint, HintOrigin
from pinfold.policy.model.request import CpuType
from pinfold.policy.placing.restart import RESTARTED
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.unit.policy.engine.ruled_pods import (
    apart,
    container_of,
    cpus,
    engine_of,
    near,
    placed,
    term,
)
from tests.unit.topology.model.offline import without

MACHINE = machine_from_spec("socket:2 core:4 mem:4G")
SMALL = machine_from_spec("socket:1 core:4 mem:2G")
GIB = 2**30


def container(name: str, milli: int, serial: int = 0) -> Container:
    pod = Pod(id=PodId(f"{name}-{serial}"), uid=name, name=name, qos=QosClass.GUARANTEED)
    resources = Resources(
        cpu_request_milli=milli,
        cpu_limit_milli=milli,
        memory_request_bytes=1 << 20,
        memory_limit_bytes=1 << 20,
    )
    return Container(id=ContainerId(f"{name}-{serial}"), name=name, pod=pod, resources=resources)


@pytest.fixture(name="engine")
def fixture_engine() -> Engine:
    """An engine in which a container of two cpus was, where another would be better by now."""
    engine = Engine(MACHINE, Config())
    engine.create(container("other", 3000))
    engine.create(container("it", 2000))
    engine.stop(ContainerId("it-0"))
    engine.remove(ContainerId("it-0"))
    engine.remove(ContainerId("other-0"))
    return engine


def test_a_restart_finds_its_place_again(engine: Engine) -> None:
    assert engine.create(container("it", 2000, 1)).decided_by == "restarted"
    engine.check()


def test_who_has_less_than_it_wants_finds_its_place_again() -> None:
    engine = Engine(MACHINE, Config())
    first = annotated(container("it", 2000), "exclusive", "8")
    engine.create(container("other", 3000))
    engine.create(first)
    held = engine.grants[first.id].exclusive
    engine.remove(ContainerId("other-0"))
    engine.stop(first.id)
    again = replace(first, id=ContainerId("it-1"))
    assert engine.create(again).decided_by == RESTARTED
    assert engine.grants[again.id].exclusive == held
    assert len(held) == 2
    engine.check()


def test_nobody_else_has_it(engine: Engine) -> None:
    assert engine.create(container("another", 2000)).decided_by != "restarted"


def test_a_place_that_is_taken_is_not_waited_for(engine: Engine) -> None:
    for serial in range(3):
        engine.create(container(f"big{serial}", 2000))
    decision = engine.create(container("it", 1000, 1))
    assert decision.decided_by != "restarted"
    engine.check()


def test_other_amounts_are_placed_anew(engine: Engine) -> None:
    assert engine.create(container("it", 3000, 1)).decided_by != "restarted"


def test_hints_that_were_not_known_before_count(engine: Engine) -> None:
    hint = Hint(provider="gpu", origin=HintOrigin.DEVICE, numa_nodes=NodeSet.of(0))
    again = replace(container("it", 2000, 1), hints=(hint,))
    assert engine.create(again).decided_by != "restarted"


@pytest.mark.parametrize(("uid", "is_forgotten"), [("it", True), ("other", False), (None, True)])
def test_a_pod_that_is_gone_has_no_place(
    engine: Engine, uid: str | None, is_forgotten: bool
) -> None:
    engine.forget_places(uid)
    decision = engine.create(container("it", 2000, 1))
    assert (decision.decided_by != "restarted") == is_forgotten


def sized(name: str, cpu: float, memory: int, serial: int = 0, uid: str = "") -> Container:
    """A Guaranteed container; with whole cpus of its own."""
    milli = round(1000 * cpu)
    resources = Resources(
        cpu_request_milli=milli,
        cpu_limit_milli=milli,
        memory_request_bytes=memory,
        memory_limit_bytes=memory,
    )
    pod = Pod(id=PodId(uid or name), uid=uid or name, name=uid or name, qos=QosClass.GUARANTEED)
    return Container(id=ContainerId(f"{name}-{serial}"), name=name, pod=pod, resources=resources)


def with_memory(container: Container, size: int) -> Container:
    resources = container.resources
    resources = replace(resources, memory_request_bytes=size, memory_limit_bytes=size)
    return replace(container, resources=resources)


def overbooked(memory: int) -> Engine:
    """An engine of 2 GiB in which a database holds all of it, and another runs already."""
    engine = Engine(SMALL, Config(reserved_resources=Amounts(cpu="cpuset:0")))
    assert isinstance(engine.create(sized("db", 2, 2 * GIB)).result, Grant)
    runs = replace(sized("runs", 0.5, memory), cpus=CpuSet.of(3), mems=NodeSet.of(0))
    engine.adopt(runs)
    return engine


def ended(engine: Engine, container_id: str) -> Grant:
    """What a container held that ends."""
    held = engine.grants[ContainerId(container_id)]
    engine.stop(ContainerId(container_id))
    engine.remove(ContainerId(container_id))
    return held


def test_memory_that_others_took_as_they_run_keeps_nobody_from_its_place() -> None:
    engine = overbooked(GIB)
    held = ended(engine, "db-0")
    decision = engine.create(sized("db", 2, 2 * GIB, 1))
    assert isinstance(decision.result, Grant)
    assert (decision.result.exclusive, decision.result.memory) == (held.exclusive, held.memory)
    assert decision.decided_by == "restarted"
    (problem,) = decision.problems
    assert "before its restart, without room for it: memory: wanted 2 GiB" in problem.what
    engine.check()


def test_less_than_it_had_finds_its_place_again_as_well() -> None:
    engine = overbooked(GIB + GIB // 2)
    ended(engine, "db-0")
    assert isinstance(engine.create(sized("db", 2, GIB, 1)).result, Grant)


def test_who_comes_back_without_a_limit_is_not_bound_to_the_nodes_that_it_had() -> None:
    engine = engine_of("socket:2 core:4 mem:2G")
    db = sized("db", 0.5, GIB)
    db = replace(db, pod=replace(db.pod, qos=QosClass.BURSTABLE))
    assert isinstance(engine.create(db).result, Grant)
    assert len(ended(engine, db.id).memory) == 1
    engine.adopt(replace(sized("runs", 0.5, 4 * GIB), cpus=CpuSet.of(3), mems=NodeSet.of(0, 1)))
    unlimited = replace(db.resources, cpu_limit_milli=None, memory_limit_bytes=None)
    decision = engine.create(replace(db, id=ContainerId("db-1"), resources=unlimited))
    assert isinstance(decision.result, Grant)
    assert "without room for it: memory" in decision.problems[-1].what
    assert str(decision.pinning.mems) == "0-1"
    engine.check()


@pytest.mark.parametrize(
    ("name", "cpu", "memory"), [("db", 2, 3 * GIB), ("db", 3, 2 * GIB), ("other", 2, 2 * GIB)]
)
def test_more_than_it_had_or_somebody_else_is_refused(name: str, cpu: float, memory: int) -> None:
    engine = overbooked(GIB)
    ended(engine, "db-0")
    assert isinstance(engine.create(sized(name, cpu, memory, 1)).result, Refusal)
    engine.check()


def test_cpus_that_are_anothers_by_now_refuse_it_by_name() -> None:
    engine = overbooked(0)
    ended(engine, "db-0")
    assert isinstance(engine.create(sized("thief", 2, 0)).result, Grant)
    result = engine.create(sized("db", 2, 2 * GIB, 1)).result
    assert isinstance(result, Refusal)
    assert "the CPUs 1-2 that it had before its restart are default/thief/thief's" in result.reason


@pytest.mark.parametrize(
    ("claimed", "expected"),
    [pytest.param(1, "1", id="the same"), pytest.param(2, "", id="another")],
)
def test_a_claim_that_is_back_where_memory_is_short_books_no_cpu_beside_it(
    claimed: int, expected: str
) -> None:
    engine = Engine(SMALL, Config(reserved_resources=Amounts(cpu="cpuset:0")))
    it = replace(sized("it", 1, 2 * GIB), claimed=CpuSet.of(1))
    assert isinstance(engine.create(it).result, Grant)
    crowd(engine, GIB)
    assert str(ended(engine, it.id).exclusive) == "1"
    decision = engine.create(replace(it, id=ContainerId("it-1"), claimed=CpuSet.of(claimed)))
    assert isinstance(decision.result, Grant)
    assert str(decision.result.exclusive) == expected
    assert any("without room for it" in one.what for one in decision.problems)
    engine.check()


@pytest.mark.parametrize("cpu", range(1, 8))
def test_a_claim_takes_any_cpu_that_a_pool_can_spare(cpu: int) -> None:
    """Also one that the pool would keep for its shared containers, had it the choice."""
    engine = engine_of("socket:2 core:4 mem:4G")
    for name, share in (("one", 0.5), ("other", 0.5), ("wide", 4.5)):
        placed(engine, container_of(name, share))
    claimer = replace(sized("it", 1, GIB), claimed=CpuSet.of(cpu))
    decision = engine.create(claimer)
    assert isinstance(decision.result, Grant)
    assert (str(decision.result.exclusive), decision.degraded) == (str(cpu), "")
    engine.check()


def test_its_share_of_overbooked_cpus_is_kept_for_nobody_else() -> None:
    """Two that run already ask for more than there is; each of them comes back."""
    engine = Engine(SMALL, Config(reserved_resources=Amounts(cpu="cpuset:0")))
    for name in ("one", "other"):
        runs = replace(sized(name, 2.5, 0), cpus=CpuSet.parse("1-3"), mems=NodeSet.of(0))
        engine.adopt(runs)
    for name in ("one", "other"):
        held = ended(engine, f"{name}-0")
        result = engine.create(sized(name, 2.5, 0, 1)).result
        assert isinstance(result, Grant)
        assert (result.exclusive, result.shared_milli) == (held.exclusive, held.shared_milli)
        engine.check()


def test_a_reserved_container_without_reserved_cpus_comes_back_to_those_it_was_lent() -> None:
    machine = machine_from_spec("socket:1 core:2 mem:2G")
    config = Config(reserved_resources=Amounts(cpu="cpuset:1"))
    one = sized("dns", 1.5, 0)
    one = replace(one, pod=replace(one.pod, namespace="kube-system"))
    engine = Engine(machine, config)
    engine.create(one)
    engine, _ = engine.reconfigured(config, without(machine, CpuSet.of(1)))
    ended(engine, one.id)
    again = replace(one, id=ContainerId("dns-1"))
    assert isinstance(engine.create(again).result, Grant)
    assert engine.grants[again.id].cpu_type is CpuType.RESERVED
    engine.check()


def test_a_pod_whose_pen_has_no_room_keeps_what_its_containers_had() -> None:
    """They seem to ask for more memory than it has, and one of them runs already."""
    pod = replace(sized("it", 0.5, 0).pod, resources=sized("it", 2, GIB).resources)
    one, other = (replace(sized(name, 0.5, GIB), pod=pod) for name in ("one", "other"))
    engine = Engine(machine_from_spec("socket:1 core:2 mem:4G"), Config())
    assert isinstance(engine.create(one).result, Grant)
    engine.adopt(other)
    assert ended(engine, one.id).pen is None
    decision = engine.create(replace(one, id=ContainerId("one-1")))
    assert isinstance(decision.result, Grant)
    assert (decision.result.pen, decision.result.shared_milli) == (None, 500)
    assert "without room for it: no room to grow" in decision.problems[0].what


@pytest.mark.parametrize("was_there", [True, False], ids=["was there", "is new"])
def test_a_rule_that_did_not_hold_beside_it_does_not_refuse_it(was_there: bool) -> None:
    """One whose cpus are left alone is wherever it likes, and insists on being alone there."""
    engine = engine_of("socket:1 core:4 mem:4G")
    it = container_of("it", 0.5, app="noisy")
    alone = container_of(
        "alone",
        0.5,
        apart(term("core", "noisy")),
        fails=True,
        annotations={"cpu.preserve.resource-policy.nri.io/pod": "true"},
    )
    if was_there:
        assert placed(engine, it) == "1-3"
    engine.create(alone)
    assert bool(engine.decisions[alone.id].unmet) == was_there
    if was_there:
        ended(engine, it.id)
    decision = engine.create(replace(it, id=ContainerId("it-1")))
    assert isinstance(decision.result, Grant) == was_there
    assert bool(engine.decisions[alone.id].unmet) == was_there


def annotated(container: Container, key: str, value: str) -> Container:
    annotations = {f"{key}.pinfold.dev/pod": value}
    return replace(container, pod=replace(container.pod, annotations=annotations))


def crowd(engine: Engine, memory: int = 0) -> None:
    """One that runs already, and asks for more than is left."""
    runs = replace(sized("runs", 2.5, memory), cpus=CpuSet.of(3), mems=NodeSet.of(0))
    engine.adopt(replace(runs, pod=replace(runs.pod, qos=QosClass.BURSTABLE)))


@pytest.mark.parametrize(("key", "value"), [("pod-pool", "true"), ("group", "red")])
def test_a_pen_that_ended_is_back_where_it_was(key: str, value: str) -> None:
    engine = Engine(SMALL, Config(reserved_resources=Amounts(cpu="cpuset:0")))
    one = annotated(sized("db", 2, 2 * GIB), key, value)
    assert isinstance(engine.create(one).result, Grant)
    crowd(engine, GIB)
    held = ended(engine, one.id)
    decision = engine.create(replace(one, id=ContainerId("db-1")))
    assert isinstance(decision.result, Grant)
    assert (decision.result.pen, decision.result.rest) == (held.pen, held.rest)
    assert "without room for it" in decision.problems[-1].what
    engine.check()


@pytest.mark.parametrize(
    "qos", [QosClass.GUARANTEED, QosClass.BURSTABLE], ids=["of their own", "shared"]
)
def test_a_pen_is_as_large_again_for_who_comes_back_to_it(qos: QosClass) -> None:
    """A group shrinks by each that leaves it; its cpus are promised to others by then."""
    engine = Engine(SMALL, Config(reserved_resources=Amounts(cpu="cpuset:0")))
    one, other = (annotated(sized(name, 1, GIB), "group", "red") for name in ("one", "other"))
    one, other = (replace(each, pod=replace(each.pod, qos=qos)) for each in (one, other))
    for each in (one, other):
        assert isinstance(engine.create(each).result, Grant)
    (before,) = engine.snapshot().pens.values()
    assert bool(before.exclusive) == (qos is QosClass.GUARANTEED)
    crowd(engine, GIB)
    ended(engine, other.id)
    decision = engine.create(replace(other, id=ContainerId("other-1")))
    assert isinstance(decision.result, Grant)
    (after,) = engine.snapshot().pens.values()
    assert (after.exclusive, after.shared_milli) == (before.exclusive, before.shared_milli)
    assert after.memory_bytes == before.memory_bytes == 2 * GIB
    assert "without room for it" in decision.problems[-1].what
    engine.check()
    for container_id in (one.id, "other-1", "runs-0"):
        ended(engine, container_id)
    fresh = Engine(SMALL, engine.config).snapshot()
    assert engine.snapshot().free_sharable == fresh.free_sharable
    assert engine.snapshot().memory.holdings == fresh.memory.holdings


def test_a_pen_has_the_same_cpus_again_when_who_left_it_is_back() -> None:
    """Its other cpu is in another core, of which it would have both today."""
    engine = engine_of("socket:1 core:4 thread:2 mem:8G")
    wish = {"pod-pool.pinfold.dev/pod": "true"}
    one, other = (container_of("web", 1, main=name, annotations=wish) for name in ("one", "other"))
    taker = container_of("taker", 2)
    assert [placed(engine, each) for each in (one, taker, other)] == ["1", "2-3", "4"]
    ended(engine, taker.id)
    ended(engine, one.id)
    assert placed(engine, replace(one, id=ContainerId("one-1"))) == "1"
    assert cpus(engine, other) == "4"
    engine.check()


def test_the_cpus_that_it_had_are_as_good_as_any_that_a_pool_can_spare() -> None:
    """The other socket has promised 2500m of four cpus: any one of them may be taken."""
    engine = engine_of("socket:2 core:4 mem:8G")
    early, it = container_of("early", 1), container_of("it", 4)
    assert [placed(engine, one) for one in (early, it)] == ["4", "1-3,5"]
    placed(engine, container_of("one", 1.5))
    ended(engine, early.id)
    placed(engine, container_of("other", 0.9))
    ended(engine, it.id)
    assert placed(engine, replace(it, id=ContainerId("it-1"))) == "1-3,5"
    engine.check()


def test_who_was_not_in_a_pen_does_not_enlarge_it_beyond_what_is_there() -> None:
    engine = Engine(SMALL, Config(reserved_resources=Amounts(cpu="cpuset:0")))
    one, other = (annotated(sized(name, 1, 0), "group", "red") for name in ("one", "other"))
    assert isinstance(engine.create(one).result, Grant)
    crowd(engine)
    assert isinstance(engine.create(other).result, Refusal)
    engine.check()


def test_who_grew_onto_its_cpus_while_it_was_gone_makes_way() -> None:
    """One that must be apart from it shares what it gave back, of cpus that are overbooked."""
    engine = engine_of("socket:1 core:4 mem:4G")
    alone = container_of("alone", 0.5, apart(term("core", "noisy")), fails=True)
    noisy = container_of("noisy", 1)
    assert (placed(engine, alone), placed(engine, noisy)) == ("1-3", "1")
    crowd(engine)
    ended(engine, noisy.id)
    assert cpus(engine, alone) == "1-3"
    assert placed(engine, replace(noisy, id=ContainerId("noisy-1"))) == "1"
    assert cpus(engine, alone) == "2-3"
    assert not engine.decisions[alone.id].unmet


def test_who_missed_a_cpu_of_its_own_misses_it_still() -> None:
    engine = Engine(SMALL, Config(reserved_resources=Amounts(cpu="cpuset:0")))
    for name, cpu, mask in (("other", 1, "3"), ("it", 3, "1-2")):
        runs = replace(sized(name, cpu, 0), cpus=CpuSet.parse(mask), mems=NodeSet.of(0))
        engine.adopt(runs)
    held = ended(engine, "it-0")
    decision = engine.create(sized("it", 3, 0, 1))
    assert isinstance(decision.result, Grant)
    assert str(decision.result.exclusive) == str(held.exclusive) == "1-2"
    assert decision.degraded == "1 of 3 exclusive CPUs are missing"
    engine.check()


def test_who_asks_for_less_beside_its_own_cpus_holds_no_share_below_none() -> None:
    """A reload has it ask for shared cpus, of which it holds none: it keeps those of its own."""
    reserved = Amounts(cpu="cpuset:0")
    engine = Engine(SMALL, Config(reserved_resources=reserved))
    assert isinstance(engine.create(sized("it", 2, 0)).result, Grant)
    engine, _ = engine.reconfigured(Config(reserved_resources=reserved, prefer_shared_cpus=True))
    crowd(engine)
    ended(engine, "it-0")
    decision = engine.create(sized("it", 1, 0, 1))
    assert isinstance(decision.result, Grant)
    assert (str(decision.result.exclusive), decision.result.shared_milli) == ("1-2", 0)
    engine.check()


def noisy_and_alone(namespace: str) -> tuple[Container, Container]:
    """One with cpus of its own, and one on all cpus that insists on being apart from it."""
    own = {"prefer-reserved-cpus.resource-policy.nri.io/pod": "false"}
    noisy = sized("db", 2, 2 * GIB)
    pod = replace(noisy.pod, namespace=namespace, labels={"app": "noisy"}, annotations=own)
    alone = container_of(
        "alone",
        0.5,
        apart(term("core", "noisy")),
        fails=True,
        namespace=namespace,
        annotations={"cpu.preserve.resource-policy.nri.io/pod": "true"},
    )
    return replace(noisy, pod=pod), alone


@pytest.mark.parametrize(
    ("namespace", "is_refused"),
    [("default", True), ("kube-system", False)],
    ids=["keeps it out", "does not bind the system"],
)
def test_a_rule_of_one_who_is_on_its_own_cpus_too_that_came_meanwhile(
    namespace: str, is_refused: bool
) -> None:
    """One whose cpus are left alone runs on them all the same, and insists on being alone there."""
    engine = engine_of(SMALL)
    it, alone = noisy_and_alone(namespace)
    assert isinstance(engine.create(it).result, Grant)
    crowd(engine, GIB)
    ended(engine, it.id)
    assert isinstance(engine.create(alone).result, Grant)
    decision = engine.create(replace(it, id=ContainerId("db-1")))
    assert isinstance(decision.result, Refusal) == is_refused
    assert bool(engine.decisions[alone.id].unmet) != is_refused
    engine.check()


def test_a_rule_that_does_not_bind_who_restarts_is_told_as_it_was() -> None:
    engine = engine_of(SMALL)
    it, alone = noisy_and_alone("kube-system")
    engine.create(alone)
    engine.create(it)
    told = engine.decisions[alone.id].unmet
    assert told
    ended(engine, it.id)
    assert not engine.decisions[alone.id].unmet
    assert engine.create(replace(it, id=ContainerId("db-1"))).decided_by == "restarted"
    assert engine.decisions[alone.id].unmet == told


CORES = "socket:1 core:4 thread:2 mem:8G"
"""Cpu 0 is reserved."""
SHY = container_of("shy", 0.5)
ALONE = container_of("alone", 1, apart(term("core", "shy")), fails=True)
FILLER, TAKER = container_of("filler", 1), container_of("taker", 1)


def test_who_is_back_grows_to_nobody_who_came_meanwhile_and_must_be_apart_from_it() -> None:
    """What `taker` gives back is in the core of `alone`."""
    engine = engine_of(CORES)
    assert placed(engine, SHY) == "1-7"
    ended(engine, SHY.id)
    assert [placed(engine, one) for one in (FILLER, ALONE, TAKER)] == ["1", "2", "3"]
    again = replace(SHY, id=ContainerId("shy-1"))
    assert placed(engine, again) == "4-7"
    assert engine.decisions[again.id].decided_by == RESTARTED
    ended(engine, TAKER.id)
    assert cpus(engine, again) == "4-7"
    ended(engine, ALONE.id)
    assert cpus(engine, again) == "2-7"


@pytest.mark.parametrize("leaves_meanwhile", [True, False])
def test_who_made_way_and_restarts_gets_its_cpus_back_all_the_same(leaves_meanwhile: bool) -> None:
    engine = engine_of(CORES)
    assert [placed(engine, one) for one in (FILLER, ALONE, SHY)] == ["1", "2", "4-7"]
    ended(engine, SHY.id)
    if leaves_meanwhile:
        ended(engine, ALONE.id)
    again = replace(SHY, id=ContainerId("shy-1"))
    placed(engine, again)
    if not leaves_meanwhile:
        ended(engine, ALONE.id)
    assert cpus(engine, again) == "2-7"
    assert engine.decisions[again.id].decided_by == RESTARTED


def test_who_is_back_where_too_much_is_promised_gets_its_cpus_back_as_well() -> None:
    engine = engine_of(CORES)
    shy = replace(SHY, resources=sized("shy", 3.5, 0).resources)
    assert [placed(engine, one) for one in (FILLER, ALONE, shy)] == ["1", "2", "4-7"]
    crowd(engine, GIB)
    ended(engine, shy.id)
    again = replace(shy, id=ContainerId("shy-1"))
    placed(engine, again)
    assert "without room for it" in engine.decisions[again.id].problems[-1].what
    ended(engine, ALONE.id)
    assert cpus(engine, again) == "2-7"


def test_whom_a_container_that_is_back_leaves_alone_is_told_and_looked_after() -> None:
    """Nobody else would have been given the last cpu on which somebody shares beside `guest`."""
    engine = engine_of(CORES)
    early, it, late = (container_of(name, 1) for name in ("early", "it", "late"))
    owners = early, container_of("first", 1), it, container_of("large", 4)
    assert [placed(engine, one) for one in owners] == ["1", "2", "3", "4-7"]
    ended(engine, "first-main")
    ended(engine, it.id)
    host = container_of("host", 0.5)
    guest = container_of("guest", 1, near(term("core", "host")), fails=True)
    assert [placed(engine, one) for one in (host, guest)] == ["2-3", "2"]
    assert isinstance(engine.create(late).result, Refusal)
    again = replace(it, id=ContainerId("it-1"))
    assert placed(engine, again) == "3"
    (told,) = engine.decisions[guest.id].unmet
    assert "affinity at core to app=host" in told
    ended(engine, again.id)
    assert not engine.decisions[guest.id].unmet


@pytest.mark.parametrize("is_own", [True, False], ids=["its own rule", "a rule about it"])
def test_a_rule_refuses_who_would_drive_others_to_reserved_cpus_beside_it(is_own: bool) -> None:
    """All that is left to `meanwhile` is the reserved cpu of the same socket."""
    engine = engine_of(SMALL)
    rules = apart(term("socket", "meanwhile" if is_own else "it"))
    it = container_of("it", 3, rules if is_own else None, fails=True)
    meanwhile = container_of("meanwhile", 1, None if is_own else rules, fails=True, shares=True)
    assert placed(engine, it) == "1-3"
    ended(engine, it.id)
    assert placed(engine, meanwhile) == "1-3"
    again = replace(it, id=ContainerId("it-1"))
    assert isinstance(engine.create(again).result, Refusal)
    assert not engine.decisions[meanwhile.id].unmet
    engine.remove(again.id)
    ended(engine, meanwhile.id)
    assert placed(engine, again) == "1-3"


def test_who_has_cpus_elsewhere_makes_way_for_who_is_back_and_must_be_apart_from_it() -> None:
    engine = engine_of(MACHINE)
    it = container_of("it", 4, apart(term("numa", "meanwhile")), fails=True)
    taker = container_of("taker", 3)
    meanwhile = container_of("meanwhile", 1, shares=True)
    assert [placed(engine, one) for one in (it, taker)] == ["4-7", "1-3"]
    ended(engine, it.id)
    assert placed(engine, meanwhile) == "4-7"
    ended(engine, taker.id)
    again = replace(it, id=ContainerId("it-1"))
    assert placed(engine, again) == "4-7"
    assert cpus(engine, meanwhile) == "1-3"
    assert not engine.decisions[again.id].unmet


def test_whom_a_container_that_is_back_drives_out_breaks_no_rule_that_insists() -> None:
    """The reserved cpu is the only one besides in no core of `firm`."""
    engine = engine_of(SMALL)
    it = container_of("it", 1)
    firm = container_of("firm", 1.5, apart(term("core", "late")), fails=True)
    assert [placed(engine, one) for one in (it, firm)] == ["1", "2-3"]
    ended(engine, it.id)
    late = container_of("late", 0.5)
    assert placed(engine, late) == "1"
    again = replace(it, id=ContainerId("it-1"))
    assert placed(engine, again) == "1"
    assert (cpus(engine, late), cpus(engine, firm)) == ("0", "2-3")
    assert not engine.decisions[firm.id].unmet
    ended(engine, again.id)
    assert cpus(engine, late) == "1"
    ended(engine, firm.id)
    assert cpus(engine, late) == "1-3"
    engine.check()


def test_who_is_driven_from_a_companion_keeps_apart_from_others_all_the_same() -> None:
    """Beside whom it was to come holds for who arrives; from whom it must be apart holds on."""
    engine = engine_of("socket:1 numa:2 l3:2 core:4 mem:4G")
    first = {"pool-selector.pinfold.dev/pod": "l3=0"}
    it = container_of("it", 2, annotations=first, fails=True)
    mate = container_of("mate", 1, annotations=first)
    assert [placed(engine, one) for one in (it, mate)] == ["1-2", "3"]
    ended(engine, it.id)
    rules = {**apart(term("numa", "it")), **near(term("l3", "mate"))}
    late = container_of("late", 0.2, rules, fails=True)
    assert placed(engine, late) == "1-2"
    assert placed(engine, replace(it, id=ContainerId("it-1"))) == "1-2"
    assert cpus(engine, late) == "8-15"
    engine.check()


@pytest.mark.parametrize("is_resized", [True, False], ids=["its pod is resized", "its pod ends"])
def test_what_counts_of_its_pods_numbers_by_now_does_not_refuse_it(is_resized: bool) -> None:
    """Of a pod on reserved cpus its numbers count once, in whichever container comes first."""
    whole = sized("it", 2, GIB).resources
    system = sized("it", 2, GIB).pod
    system = replace(system, namespace="kube-system", resources=whole)
    one, other = (
        replace(sized(name, 2, GIB), pod=replace(system, qos=QosClass.BURSTABLE))
        for name in ("one", "other")
    )
    engine = Engine(SMALL, Config(reserved_resources=Amounts(cpu="cpuset:0")))
    for each in (one, other):
        assert isinstance(engine.create(each).result, Grant)
    assert engine.grants[other.id].memory_bytes == 0
    crowd(engine, 2 * GIB)
    if is_resized:
        larger = replace(whole, memory_request_bytes=2 * GIB, memory_limit_bytes=2 * GIB)
        assert engine.resize_pod(other.pod, larger) == ()
    else:
        ended(engine, one.id)
    ended(engine, other.id)
    again = engine.create(replace(other, id=ContainerId("other-1"))).result
    assert isinstance(again, Grant), again
    assert again.memory_bytes == GIB
    engine.check()


def test_who_could_not_make_way_once_more_waits_until_who_restarts_is_gone_for_good() -> None:
    """Another one must be with it by now, and that may not hold on fewer cpus."""
    engine = engine_of("socket:2 numa:2 core:4 mem:4G", "cpuset:0")
    wide = container_of("wide", 9.5, apart(term("numa", "web")), fails=True)
    web = container_of("web", 1)
    for one in (wide, web, container_of("friend", 0.1, near(term("socket", "wide")))):
        placed(engine, one)
    before = cpus(engine, wide)
    assert before == "1-3,8-15"
    engine.stop(web.id)
    again = replace(web, id=ContainerId("again"))
    assert placed(engine, again) == "4"
    assert cpus(engine, wide) == before
    ended(engine, again.id)
    assert cpus(engine, wide) == "1-15"
    engine.check()


@pytest.mark.parametrize(
    ("cpu", "memory", "lack"),
    [(0.1, 11 * GIB // 2, "memory: wanted 1 GiB"), (7.5, 0, "shared CPU: wanted 1500m")],
    ids=["memory", "cpus"],
)
def test_who_made_way_makes_way_once_more_where_too_much_is_promised(
    cpu: float, memory: int, lack: str
) -> None:
    """Where it does not fit on fewer cpus any more it waits until who restarts is removed."""
    engine = engine_of("socket:3 core:4 mem:2G")
    wide = container_of("wide", 5.5, apart(term("socket", "it")), fails=True)
    it = with_memory(container_of("it", 1.5), GIB)
    runs = with_memory(container_of("runs", cpu), memory)
    assert [placed(engine, one) for one in (wide, it)] == ["1-11", "4-7"]
    before = cpus(engine, wide)
    assert before == "1-3,8-11"
    engine.adopt(replace(runs, cpus=CpuSet.parse("1-11"), mems=NodeSet.parse("0-2")))
    engine.stop(it.id)
    again = replace(it, id=ContainerId("it-1"))
    assert placed(engine, again) == "4-7"
    assert engine.decisions[again.id].decided_by == RESTARTED
    assert lack in engine.decisions[again.id].problems[-1].what
    assert cpus(engine, wide) == before
    assert not engine.decisions[wide.id].unmet
    engine.remove(it.id)
    assert cpus(engine, wide) == before
    ended(engine, again.id)
    assert cpus(engine, wide) == "1-11"
    engine.check()


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("shares", [True, False])
def test_who_made_way_does_so_again_though_there_is_room_elsewhere_by_now(
    *, fails: bool, shares: bool
) -> None:
    """The memory of who restarts is at its NUMA node."""
    engine = engine_of("socket:2 core:4 mem:4G")
    filler = container_of("filler", 2, annotations={"pool-name.pinfold.dev/pod": "socket #0"})
    wide = container_of("wide", 0.5, apart(term("core", "it")), fails=fails)
    it = container_of("it", 2, shares=shares)
    assert [placed(engine, one) for one in (filler, wide)] == ["1-2", "4-7"]
    there = placed(engine, it)
    assert there == "4-5"
    engine.stop(filler.id)
    engine.remove(filler.id)
    engine.stop(it.id)
    assert cpus(engine, wide) == "4-7"
    again = replace(it, id=ContainerId("it-1"))
    assert (placed(engine, again), cpus(engine, wide)) == ("4-5", "6-7")
    assert engine.decisions[again.id].decided_by == RESTARTED
    assert not engine.decisions[again.id].unmet
