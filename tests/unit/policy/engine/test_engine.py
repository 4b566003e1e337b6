"""The engine: a container's life, who else is told, and laws of sequences of events."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.policy.configuration.config import Amounts, Config, OnBadAnnotation
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
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
from pinfold.policy.model.pinning import Change, Pinning
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine

DOMAIN = "resource-policy.nri.io"
GIB = 2**30
SMALL = "socket:1 core:4"
NODES = "socket:2 numa:2 core:2 thread:2 mem:2G"


def config_of(
    reserved: str = "cpuset:0",
    *,
    pin_cpu: bool = True,
    pin_memory: bool = True,
    on_bad_annotation: OnBadAnnotation = OnBadAnnotation.IGNORE,
) -> Config:
    return Config(
        reserved_resources=Amounts(cpu=reserved),
        pin_cpu=pin_cpu,
        pin_memory=pin_memory,
        on_bad_annotation=on_bad_annotation,
    )


def engine(spec: str = SMALL, config: Config | None = None) -> Engine:
    return Engine(machine_from_spec(spec), config or config_of())


def guaranteed(milli: int, memory: int = 0) -> Resources:
    return Resources(
        cpu_request_milli=milli,
        cpu_limit_milli=milli,
        memory_request_bytes=memory,
        memory_limit_bytes=memory or None,
    )


def container(
    name: str,
    milli: int = 0,
    annotations: Mapping[str, str] | None = None,
    *,
    pod: str = "",
    instance: str = "",
    qos: QosClass | None = None,
    memory: int = 0,
) -> Container:
    of_pod = Pod(
        id=PodId(pod or f"pod-{name}"),
        name=pod or f"pod-{name}",
        uid=pod,
        annotations=dict(annotations or {}),
        qos=qos or (QosClass.GUARANTEED if milli else QosClass.BEST_EFFORT),
    )
    return Container(
        id=ContainerId(instance or name),
        name=name,
        pod=of_pod,
        resources=guaranteed(milli, memory),
    )


def cpus(one: Engine, name: str) -> str:
    pinning = one.pinning(ContainerId(name))
    assert pinning is not None
    return str(pinning.cpus)


def told(decision: Decision) -> dict[str, str]:
    return {change.container_id: str(change.after.cpus) for change in decision.changes}


def test_a_container_is_told_its_cpus_and_memory() -> None:
    decision = engine().create(container("a", 1500))
    assert (str(decision.pinning.cpus), str(decision.pinning.mems)) == ("1-3", "0")
    assert decision.pool == "socket #0"
    assert decision.decided_by == "only_candidate"


def test_who_shares_is_told_of_cpus_that_go_and_come_back() -> None:
    one = engine()
    one.create(container("shared", 500))
    assert told(one.create(container("own", 1000))) == {"shared": "2-3"}
    (change,) = one.stop(ContainerId("own"))
    assert (change.container_id, str(change.before.cpus)) == ("shared", "2-3")
    assert str(change.after.cpus) == "1-3"


def test_who_does_not_share_these_cpus_is_told_nothing() -> None:
    one = engine("socket:2 core:4")
    one.create(container("own", 1000))
    one.create(container("dns", 100, {f"prefer-reserved-cpus.{DOMAIN}/pod": "true"}))
    shared = [one.create(container(name, 500)) for name in ("near", "away")]
    assert len({decision.pool for decision in shared}) == 2
    decision = one.create(container("more", 1000))
    near = [one.container_id for one in shared if one.pool == decision.pool]
    assert list(told(decision)) == near
    assert len(near) == 1


def test_a_share_more_or_less_changes_nobodys_cpus() -> None:
    one = engine()
    one.create(container("a", 500))
    assert one.create(container("b", 500)).changes == ()
    assert one.update(ContainerId("b"), guaranteed(700)).changes == ()
    assert one.stop(ContainerId("b")) == ()


def held(engine: Engine) -> tuple[object, ...]:
    now = engine.snapshot()
    return now.grants, now.memory, now.room


def test_a_refusal_changes_nothing() -> None:
    one = engine()
    one.create(container("a", 500))
    before = held(one)
    decision = one.create(container("big", 9000))
    assert isinstance(decision.result, Refusal)
    assert decision.pinning == Pinning()
    assert decision.changes == ()
    assert held(one) == before
    assert one.remove(ContainerId("big")) == ()


def test_repeated_and_unknown_events_change_nothing() -> None:
    one = engine()
    one.create(container("a", 1000))
    one.create(container("b"))
    assert len(one.stop(ContainerId("a"))) == 1
    assert one.containers[ContainerId("a")].state is ContainerState.EXITED
    assert one.stop(ContainerId("a")) == ()
    assert one.remove(ContainerId("a")) == ()
    assert one.remove(ContainerId("a")) == ()
    assert one.stop(ContainerId("never")) == ()
    one.start(ContainerId("never"))
    assert list(one.containers) == ["b"]
    update = one.update(ContainerId("never"), guaranteed(500))
    assert isinstance(update.result, Refusal)
    assert "'never' holds no cpus" in update.result.reason


def test_a_container_that_is_started_runs() -> None:
    one = engine()
    one.create(container("a", 1000))
    one.start(ContainerId("a"))
    assert one.containers[ContainerId("a")].state is ContainerState.RUNNING


def test_the_id_a_runtime_gives_later_is_shown_and_changes_nothing_else() -> None:
    one = engine()
    one.create(container("a", 2000))
    before = one.snapshot().grants
    one.identify(ContainerId("a"), "0123abcd")
    one.identify(ContainerId("unknown"), "4567")
    assert one.snapshot().grants == before
    assert one.containers[ContainerId("a")].shown_id == "0123abcd"
    one.start(ContainerId("a"))
    one.update(ContainerId("a"), guaranteed(1000))
    assert one.containers[ContainerId("a")].shown_id == "0123abcd"


def test_a_removed_container_gives_back_what_it_had() -> None:
    one = engine()
    one.create(container("a", 3000, memory=GIB))
    one.remove(ContainerId("a"))
    assert one.snapshot().memory.usage(one.tree.root.memory_nodes) == 0
    assert isinstance(one.create(container("b", 3000)).result, Grant)


def test_a_restarted_container_takes_over_from_its_older_instance() -> None:
    one = engine()
    one.create(container("c", 3000, pod="p", instance="first"))
    decision = one.create(container("c", 3000, pod="p", instance="second"))
    assert isinstance(decision.result, Grant)
    assert list(one.containers) == ["second"]
    assert one.stop(ContainerId("first")) == (), "the late stop of the old one"
    assert cpus(one, "second") == "1-3"


def test_containers_of_two_pods_are_no_instances_of_each_other() -> None:
    one = engine()
    one.create(container("c", 1000, pod="p", instance="first"))
    one.create(container("c", 1000, pod="q", instance="second"))
    assert len(one.grants) == 2


def test_an_update_to_what_it_asks_for_already_changes_nothing() -> None:
    one = engine()
    first = one.create(container("a", 1000))
    grant = one.grants[ContainerId("a")]
    again = one.update(ContainerId("a"), guaranteed(1000))
    assert again == first
    assert one.grants[ContainerId("a")] is grant


def test_an_update_tells_the_others_what_it_took() -> None:
    one = engine()
    one.create(container("a", 1000))
    one.create(container("shared", 200))
    decision = one.update(ContainerId("a"), guaranteed(2000))
    assert told(decision) == {"shared": "3"}
    assert str(decision.pinning.cpus) == "1-2"
    assert told(one.update(ContainerId("a"), guaranteed(1000))) == {"shared": "2-3"}


def test_a_memory_zone_that_has_to_widen_for_a_newcomer_is_an_update() -> None:
    one = engine("socket:1 numa:2 core:4 mem:2G")
    for name in "ab":
        one.create(container(name, 500, qos=QosClass.BURSTABLE, memory=3 * GIB // 2))
    before = {name: one.pinning(ContainerId(name)) for name in "ab"}
    decision = one.create(container("new", 500, memory=GIB))
    assert isinstance(decision.result, Grant)
    (change,) = decision.changes
    assert change.before == before[change.container_id]
    assert change.after == one.pinning(change.container_id)
    assert change.after.cpus == change.before.cpus
    assert (len(change.before.mems or ()), len(change.after.mems or ())) == (1, 2)
    assert one.grants[change.container_id].memory == change.after.mems


STRICT = config_of(on_bad_annotation=OnBadAnnotation.FAIL)
BAD = {f"prefer-isolated-cpus.{DOMAIN}/pod": "perhaps"}


def test_a_bad_annotation_is_told_and_takes_nothing_down() -> None:
    decision = engine().create(container("a", 1000, BAD))
    assert isinstance(decision.result, Grant)
    assert "perhaps" in str(decision.problems[0])


def test_a_bad_annotation_refuses_where_the_operator_says_so() -> None:
    one = engine(config=STRICT)
    decision = one.create(container("a", 1000, BAD))
    assert isinstance(decision.result, Refusal)
    assert "perhaps" in decision.result.reason
    assert one.grants == {}


RULES = {"resource-policy.nri.io/affinity": "a: [b]\nb:\n- match: {operator: Sometimes}\n"}


@pytest.mark.parametrize(
    ("annotations", "refused"),
    [
        pytest.param(RULES, ["b"], id="a bad rule refuses the container whose rule it is"),
        pytest.param(
            {f"prefer-isolated-cpus.{DOMAIN}/container.b": "perhaps"},
            ["b"],
            id="a bad setting refuses the container it is for",
        ),
        pytest.param(
            {f"prefer-isolation.{DOMAIN}/pod": "true"},
            ["a", "b"],
            id="an unknown key refuses the whole pod",
        ),
        pytest.param(
            {"resource-policy.nri.io/affinity": "a: [b"},
            ["a", "b"],
            id="rules that are no yaml refuse the whole pod",
        ),
        pytest.param(
            {"pool-name.pinfold.dev/pod": "NUMA node #0"}, [], id="a reserved key refuses nobody"
        ),
    ],
)
def test_a_strict_node_refuses_only_those_whose_annotation_is_bad(
    annotations: dict[str, str], refused: list[str]
) -> None:
    one = engine(config=STRICT)
    decisions = {
        name: one.create(container(name, 500, annotations, pod="meadow")) for name in ("a", "b")
    }
    assert [
        name for name, decision in decisions.items() if isinstance(decision.result, Refusal)
    ] == refused


NOTHING_PINNED = [
    pytest.param(False, True, (None, "0"), id="cpus"),
    pytest.param(True, False, ("1", None), id="memory"),
    pytest.param(False, False, (None, None), id="both"),
]


@pytest.mark.parametrize(("pin_cpu", "pin_memory", "expected"), NOTHING_PINNED)
def test_accounting_goes_on_where_pinning_is_off(
    pin_cpu: bool, pin_memory: bool, expected: tuple[str | None, str | None]
) -> None:
    one = engine(config=config_of(pin_cpu=pin_cpu, pin_memory=pin_memory))
    one.create(container("shared", 500))
    pinning = one.create(container("a", 1000)).pinning
    found = (pinning.cpus and str(pinning.cpus), pinning.mems and str(pinning.mems))
    assert found == expected
    assert str(one.grants[ContainerId("a")].exclusive) == "1"


def test_nobody_is_ever_told_an_empty_set() -> None:
    one = engine("socket:2 core:2")
    one.create(container("first"))
    for name in "abc":
        one.create(container(name, 1000))
    late = one.create(container("late"))
    assert isinstance(late.result, Grant)
    assert (cpus(one, "first"), cpus(one, "late")) == ("0", "0")
    one.stop(ContainerId("a"))
    shared = {cpus(one, "first"), cpus(one, "late")}
    assert "" not in shared
    assert len(shared - {"0"}) == 1


def test_a_full_node_falls_back_to_the_nearest_pool_above_that_has_cpus() -> None:
    one = engine("socket:1 numa:2 core:3 mem:1G", config_of("cpuset:0"))
    idle = [one.create(container(name)) for name in ("x", "y", "z")]
    pools = {decision.pool: decision.container_id for decision in idle}
    assert len(pools) == 2
    for name in "abcd":
        one.create(container(name, 1000))
    left = one.snapshot().free_sharable[one.tree.root.id]
    assert left.bit_count() == 1
    for decision in idle:
        assert cpus(one, decision.container_id) == str(left.bit_length() - 1)


def test_who_asks_for_nothing_goes_to_no_pool_without_cpus_however_empty_it_is() -> None:
    socket = Config(
        reserved_resources=Amounts(cpu="cpuset:0"), available_resources=Amounts(cpu="cpuset:0-7")
    )
    one = engine(NODES, socket)
    for name, milli in (("a", 3000), ("b", 4000)):
        one.create(container(name, milli, qos=QosClass.BURSTABLE))
    idle = [one.create(container(name)) for name in ("x", "y", "z")]
    assert {decision.pool for decision in idle} == {"NUMA node #0", "NUMA node #1"}
    for decision in idle:
        pinning = one.pinning(decision.container_id)
        assert pinning is not None
        place = (str(pinning.cpus), str(pinning.mems))
        assert place in {("1-3", "0"), ("4-7", "1")}


SMT = "socket:1 core:4 thread:2"
HIDE = {f"hide-hyperthreads.{DOMAIN}/pod": "true"}


def test_hidden_hyperthreads_stay_unused() -> None:
    one = engine(SMT, config_of("cpuset:0-1"))
    own = one.create(container("own", 2000, HIDE))
    assert isinstance(own.result, Grant)
    assert (str(own.result.exclusive), str(own.pinning.cpus)) == ("2-3", "2")
    shared = one.create(container("shared", 500, HIDE))
    assert str(shared.pinning.cpus) == "4,6"
    mixed = one.create(
        container("mixed", 1500, {**HIDE, f"prefer-shared-cpus.{DOMAIN}/pod": "false"})
    )
    assert mixed.pinning.cpus is not None
    assert len(mixed.pinning.cpus) == 2
    assert "3" not in str(one.create(container("idle")).pinning.cpus)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(("create", "create", "create", "stop", "remove", "update")),
        st.integers(0, 9),
        st.sampled_from((0, 100, 500, 1000, 1500, 2000, 3000)),
        st.sampled_from(("", "prefer-shared-cpus", "hide-hyperthreads", "prefer-reserved-cpus")),
        st.sampled_from((0, GIB // 4, GIB)),
    ),
    max_size=30,
)
MACHINES = tuple(
    map(machine_from_spec, (NODES, "socket:1 l3:2 core:2 thread:2 mem:2G isolated:3", SMALL))
)


Events = list[tuple[str, int, int, str, int]]
Answer = Decision | tuple[Change, ...]


def run(machine: Machine, events: Events) -> tuple[Engine, list[Answer]]:
    """An engine after these events, and everything it answered."""
    one = Engine(machine, config_of())
    answers: list[Answer] = []
    for event, number, milli, key, memory in events:
        container_id = ContainerId(f"c{number}")
        if event == "create":
            annotations = {f"{key}.{DOMAIN}/pod": "true"} if key else {}
            annotations[f"{DOMAIN}/affinity"] = f"c{number}: [c{(number + 1) % 10}]"
            given = container(f"c{number}", milli, annotations, pod="p", memory=memory)
            answers.append(one.create(given))
        elif event == "update":
            answers.append(one.update(container_id, guaranteed(milli, memory)))
        else:
            answers.append((one.stop if event == "stop" else one.remove)(container_id))
    return one, answers


@settings(max_examples=60, deadline=None)
@given(machine=st.sampled_from(MACHINES), events=EVENTS)
def test_the_same_events_have_the_same_answers(machine: Machine, events: Events) -> None:
    (first, answers), (second, again) = run(machine, events), run(machine, events)
    assert answers == again
    assert dict(first.grants) == dict(second.grants)


@settings(max_examples=60, deadline=None)
@given(
    machine=st.sampled_from(MACHINES), events=EVENTS, milli=st.sampled_from((0, 500, 1000, 2000))
)
def test_a_release_undoes_a_grant(machine: Machine, events: Events, milli: int) -> None:
    one, _ = run(machine, events)
    before = one.snapshot()
    used = before.memory.usage(one.tree.root.memory_nodes)
    told_before = {name: one.pinning(name) for name in one.grants}
    decision = one.create(container("newcomer", milli))
    is_lifting = decision.decided_by == "room_made"
    back = {change.container_id: change.after for change in one.remove(ContainerId("newcomer"))}
    after = one.snapshot()
    assert after.memory.usage(one.tree.root.memory_nodes) == used
    assert after.free_sharable == before.free_sharable
    assert after.free_isolated == before.free_isolated
    if not is_lifting:
        assert after.room == before.room
        assert {name: one.pinning(name) for name in one.grants} == told_before
        assert all(told_before[name] == after for name, after in back.items())
    one.check()


@settings(max_examples=60, deadline=None)
@given(machine=st.sampled_from(MACHINES), events=EVENTS)
def test_nobody_is_promised_more_than_there_is(machine: Machine, events: Events) -> None:
    one, answers = run(machine, events)
    assert min(one.snapshot().room.grantable_milli) >= 0
    kernel: dict[ContainerId, Pinning] = {}
    for answer in answers:
        changes = answer.changes if isinstance(answer, Decision) else answer
        if isinstance(answer, Decision) and isinstance(answer.result, Grant):
            kernel[answer.container_id] = answer.pinning
        for change in changes:
            assert kernel[change.container_id] == change.before != change.after
            kernel[change.container_id] = change.after
    taken = sum(grant.exclusive.mask for grant in one.grants.values())
    for name, grant in one.grants.items():
        pinning = one.pinning(name)
        assert pinning == kernel[name]
        assert pinning
        assert pinning.cpus
        assert not pinning.cpus.mask & taken & ~grant.exclusive.mask


def test_the_plan_of_a_new_configuration_leaves_the_old_engine_alone() -> None:
    one = engine(NODES)
    for name, milli in (("a", 2000), ("b", 500), ("c", 0)):
        one.create(container(name, milli))
    before = (dict(one.grants), {name: one.pinning(name) for name in one.grants})
    other, answer = one.reconfigured(config_of("cpuset:0,2-3,6-7,10-11"))
    assert (dict(one.grants), {name: one.pinning(name) for name in one.grants}) == before
    assert dict(other.grants).keys() == dict(one.grants).keys()
    for change in answer.changes:
        assert change.before == one.pinning(change.container_id)
        assert change.after == other.pinning(change.container_id)
    for name in other.grants:
        now = other.pinning(name)
        assert now is not None
        assert now.cpus is not None
        assert now.cpus <= other.supply.allowed


def test_one_cpu_serves_everybody() -> None:
    engine = Engine(machine_from_spec("socket:1 core:1"), Config())
    for number, (namespace, milli, qos) in enumerate(
        (
            ("kube-system", 100, QosClass.BURSTABLE),
            ("kube-system", 0, QosClass.BEST_EFFORT),
            ("default", 300, QosClass.BURSTABLE),
            ("default", 200, QosClass.GUARANTEED),
            ("default", 0, QosClass.BEST_EFFORT),
        )
    ):
        name = f"one-{number}"
        pod = Pod(id=PodId(name), name=name, uid=name, namespace=namespace, qos=qos)
        resources = Resources(cpu_request_milli=milli)
        decision = engine.create(
            Container(id=ContainerId(name), name=name, pod=pod, resources=resources)
        )
        assert isinstance(decision.result, Grant), decision.result
        assert str(decision.pinning.cpus) == "0"
    engine.check()
