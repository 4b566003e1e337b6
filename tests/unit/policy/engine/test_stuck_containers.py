"""Stuck containers: nobody gets for itself what they run on, as long as there is anything else."""

from functools import partial

import pytest
from msgspec.structs import replace

from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.policy.inquiry.audit import REFUSED, find_drift
from pinfold.policy.model.container import Container, ContainerId, ContainerState, Resources
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.counted_calls import count_lines
from tests.unit.policy.engine.ruled_pods import (
    GIB,
    apart,
    container_of,
    cpus,
    engine_of,
    placed,
    reason,
    term,
)
from tests.unit.policy.engine.test_left_cpus import THREE_NODES, in_node, move
from tests.unit.policy.engine.test_penning import container as inside
from tests.unit.policy.engine.test_penning import pod as pod_of
from tests.unit.policy.engine.test_penning import whole


def stuck_sharer(engine: Engine, kernel: str = "4-7", node: int = 1) -> Container:
    """A container that shares the cpus of a node, and that the runtime does not take off some."""
    sharer = container_of("sharer", 0.5, annotations=in_node(node))
    placed(engine, sharer)
    engine.stuck_containers.note({sharer.id: CpuSet.parse(kernel)})
    engine.check()
    return sharer


def told(engine: Engine, container: Container) -> list[str]:
    return [one.what for one in engine.decisions[container.id].problems if one.where == "stuck"]


def test_a_newcomer_gets_others_for_itself_where_there_are_some() -> None:
    engine = engine_of(THREE_NODES)
    stuck_sharer(engine)
    newcomer, one = container_of("newcomer", 2), container_of("one", 3)
    assert CpuSet.parse(placed(engine, one)).isdisjoint(CpuSet.parse("4-7"))
    assert CpuSet.parse(placed(engine, newcomer)).isdisjoint(CpuSet.parse("4-7"))
    assert told(engine, one) == told(engine, newcomer) == []
    engine.check()


def test_a_newcomer_for_which_there_are_no_others_has_them_and_is_told() -> None:
    engine = engine_of(THREE_NODES)
    stuck_sharer(engine)
    placed(engine, container_of("plug", 4, annotations=in_node(2)))
    assert placed(engine, container_of("newcomer", 3)) == "1-3"
    last = container_of("last", 2)
    own = placed(engine, last)
    assert CpuSet.parse(own) <= CpuSet.parse("4-7")
    (text,) = told(engine, last)
    assert text == (
        f"cpus {own} of its own are also run on by default/sharer/main: "
        "the runtime refuses to take it off"
    )
    assert engine.decisions[last.id].degraded == text
    engine.check()


def test_those_who_share_cpus_get_the_same_as_ever() -> None:
    engine = engine_of(THREE_NODES)
    stuck_sharer(engine)
    assert placed(engine, container_of("other", 1.5, annotations=in_node(1), shares=True)) == "4-7"


def test_who_had_such_cpus_before_that_was_known_is_told_and_once_it_is_over() -> None:
    engine = engine_of(THREE_NODES)
    sharer = container_of("sharer", 0.5, annotations=in_node(1))
    owner = container_of("owner", 2, annotations=in_node(1))
    placed(engine, sharer)
    placed(engine, owner)
    assert told(engine, owner) == []
    kernel = CpuSet.parse("4-7")
    assert engine.stuck_containers.note({sharer.id: kernel}) == [owner.id]
    assert engine.stuck_containers.note({sharer.id: kernel}) == ()
    assert len(told(engine, owner)) == 1
    assert engine.stuck_containers.note({}) == []
    assert (told(engine, owner), engine.decisions[owner.id].degraded) == ([], "")


def test_one_that_is_gone_keeps_nobody_away() -> None:
    engine = engine_of(THREE_NODES)
    sharer = stuck_sharer(engine)
    placed(engine, container_of("plug", 4, annotations=in_node(2)))
    engine.remove(sharer.id)
    newcomer = container_of("newcomer", 4)
    assert placed(engine, newcomer) == "4-7"
    assert told(engine, newcomer) == []
    engine.check()


def test_cpus_that_somebody_gives_back_meanwhile_are_kept_from_newcomers_as_well() -> None:
    engine = engine_of(THREE_NODES)
    owner = container_of("owner", 2, annotations=in_node(1))
    placed(engine, owner)
    stuck_sharer(engine)
    engine.remove(owner.id)
    engine.check()
    assert placed(engine, container_of("newcomer", 4)) == "8-11"


def test_a_container_that_grows_takes_others_too() -> None:
    engine = engine_of("socket:1 numa:2 core:8 mem:4G")
    placed(engine, container_of("plug", 7, annotations=in_node(0)))
    placed(engine, sharer := container_of("sharer", 0.5, annotations=in_node(1)))
    placed(engine, owner := container_of("owner", 2, annotations=in_node(1)))
    kernel = CpuSet.parse("8-15") - CpuSet.parse(cpus(engine, owner)) - CpuSet.parse("14-15")
    engine.stuck_containers.note({sharer.id: kernel})
    more = replace(owner.resources, cpu_request_milli=4000, cpu_limit_milli=4000)
    decision = engine.update(owner.id, more)
    assert isinstance(decision.result, Grant)
    assert decision.result.exclusive >= CpuSet.parse("14-15")
    assert told(engine, owner) == []
    most = replace(owner.resources, cpu_request_milli=6000, cpu_limit_milli=6000)
    assert isinstance(engine.update(owner.id, most).result, Grant)
    assert len(told(engine, owner)) == 1
    engine.check()


def test_a_move_goes_to_no_such_cpus() -> None:
    engine = engine_of(THREE_NODES)
    stuck_sharer(engine, "8-9", node=2)
    placed(engine, container_of("plug", 3, annotations=in_node(0)))
    placed(engine, owner := container_of("owner", 2))
    assert CpuSet.parse(cpus(engine, owner)) <= CpuSet.parse("4-7")
    move(engine, owner, 2)
    assert cpus(engine, owner) == "10-11"


def test_rules_that_may_break_give_way() -> None:
    engine = engine_of(THREE_NODES)
    stuck_sharer(engine, "8-11", node=2)
    placed(engine, container_of("wolf", 0.5, app="wolf", annotations=in_node(1)))
    placed(engine, container_of("plug", 3, annotations=in_node(0)))
    shy = container_of("shy", 2, apart(term("numa", "wolf")))
    assert CpuSet.parse(placed(engine, shy)) <= CpuSet.parse("4-7")
    assert engine.decisions[shy.id].unmet
    assert told(engine, shy) == []


def insisting_one(engine: Engine) -> Container:
    """One whose rule leaves it nothing but cpus on which somebody is stuck."""
    stuck_sharer(engine, "8-11", node=2)
    placed(engine, container_of("wolf", 0.5, app="wolf", annotations=in_node(1)))
    placed(engine, container_of("plug", 3, annotations=in_node(0)))
    shy = container_of("shy", 2, apart(term("numa", "wolf")), fails=True)
    assert CpuSet.parse(placed(engine, shy)) <= CpuSet.parse("8-11")
    return shy


def test_an_insisting_rule_does_not() -> None:
    engine = engine_of(THREE_NODES)
    shy = insisting_one(engine)
    assert len(told(engine, shy)) == 1


def test_rules_count_of_one_that_had_no_place_away_from_them() -> None:
    engine = engine_of(THREE_NODES)
    insisting_one(engine)
    late = container_of("late", 0.5, app="wolf", annotations=in_node(2))
    placed(engine, late)
    assert "default/shy/main" in str(engine.decisions[late.id].unmet)
    engine.check()


def test_who_fits_nowhere_at_all_is_refused_as_ever() -> None:
    plain, engine = engine_of(THREE_NODES), engine_of(THREE_NODES)
    placed(plain, container_of("sharer", 0.5, annotations=in_node(1)))
    stuck_sharer(engine)
    wide = container_of("wide", 12)
    assert reason(engine.create(wide)) == reason(plain.create(wide))
    engine.check()
    assert engine.stuck_containers.cpus


def test_a_copy_and_a_reload_know_of_them() -> None:
    engine = engine_of(THREE_NODES)
    sharer = stuck_sharer(engine)
    trial = Engine.of(engine.snapshot())
    trial.check()
    assert placed(trial, container_of("newcomer", 4)) == "8-11"
    other = config_from_values({"reservedResources": {"cpu": "cpuset:0"}, "pinMemory": False})
    engine, _ = engine.reconfigured(other)
    engine.check()
    assert list(engine.stuck_containers.cpus) == [sharer.id]
    assert placed(engine, container_of("newcomer", 4)) == "8-11"


@pytest.mark.parametrize("kernel", ["4-7", "0-11"])
def test_a_stuck_container_may_have_for_itself_what_it_runs_on(kernel: str) -> None:
    engine = engine_of(THREE_NODES)
    sharer = stuck_sharer(engine, kernel)
    placed(engine, container_of("plug", 3, annotations=in_node(2)))
    wants = Resources(cpu_request_milli=2000, cpu_limit_milli=2000)
    _ = engine.update(sharer.id, wants)
    assert told(engine, sharer) == []
    engine.check()


@pytest.mark.parametrize("is_full", [False, True])
def test_who_restarts_comes_back_there_only_where_there_are_no_others(is_full: bool) -> None:
    engine = engine_of(THREE_NODES)
    placed(engine, container_of("plug", 3, annotations=in_node(0)))
    placed(engine, owner := container_of("owner", 2))
    home = cpus(engine, owner)
    node, kernel = (1, "4-7") if home == "4-5" else (2, "8-11")
    sharer = stuck_sharer(engine, kernel, node)
    assert len(told(engine, owner)) == 1
    if is_full:
        others = container_of("others", 4)
        assert CpuSet.parse(placed(engine, others)).isdisjoint(CpuSet.parse(home))
    engine.stop(owner.id)
    again = replace(owner, id=ContainerId("again"))
    is_back = placed(engine, again) == home
    assert (is_back, len(told(engine, again))) == (is_full, is_full)
    assert engine.grants[sharer.id]


def test_an_audit_tells_who_is_stuck_on_whose_cpus() -> None:
    engine = engine_of(THREE_NODES)
    sharer, other = (container_of(one, 0.5, annotations=in_node(1)) for one in ("sharer", "other"))
    owner = container_of("owner", 2, annotations=in_node(1))
    for one in (sharer, other, owner):
        placed(engine, one)
    kernel = {one.id: Pinning(cpus=CpuSet.parse("4-7")) for one in (sharer, other)}
    engine.stuck_containers.note({sharer.id: CpuSet.parse("4-7")})
    first, second = find_drift(engine.snapshot(), kernel)
    assert first.likely == f"{REFUSED}; it runs on cpus of default/owner/main"
    assert second.likely != first.likely
    engine.remove(owner.id)
    kernel = {sharer.id: Pinning(cpus=CpuSet.parse("4-5"))}
    (first,) = find_drift(engine.snapshot(), kernel)
    assert first.likely == REFUSED


def test_an_audit_names_those_of_a_pen_and_one_of_them_only_for_the_part_of_another() -> None:
    engine = engine_of(THREE_NODES)
    sharer = container_of("sharer", 0.5, annotations=in_node(1))
    inner = inside(pod_of(whole(4)), "a")
    owner = inside(inner.pod, "own", whole(2, memory=GIB))
    for one in (sharer, inner):
        placed(engine, one)
    wide = CpuSet.parse("4-11")
    engine.stuck_containers.note({sharer.id: wide, inner.id: wide})
    kernel = {one.id: Pinning(cpus=wide) for one in (sharer, inner)}
    found = {one.container.id: one.likely for one in find_drift(engine.snapshot(), kernel)}
    assert found == {
        sharer.id: f"{REFUSED}; it runs on cpus of default/p/a",
        inner.id: REFUSED,
    }
    placed(engine, owner)
    found = {one.container.id: one.likely for one in find_drift(engine.snapshot(), kernel)}
    assert found == {
        sharer.id: f"{REFUSED}; it runs on cpus of default/p/a, default/p/own",
        inner.id: f"{REFUSED}; it runs on cpus of default/p/own",
    }


def test_cpus_of_a_claim_are_its_own_whoever_is_stuck_there() -> None:
    engine = engine_of(THREE_NODES)
    stuck_sharer(engine)
    claiming = replace(container_of("claiming", 2), claimed=CpuSet.parse("4-5"))
    decision = engine.create(claiming)
    assert isinstance(decision.result, Grant)
    assert str(decision.result.exclusive) == "4-5"
    assert len(told(engine, claiming)) == 1
    engine.stuck_containers.note({})
    placed(engine, container_of("plug", 4, annotations=in_node(2)))
    others = [engine.create(container_of(f"other-{number}", 1)) for number in range(8)]
    own = [one.result.exclusive for one in others if isinstance(one.result, Grant)]
    assert own
    assert all(one.isdisjoint(decision.result.exclusive) for one in own)
    engine.check()


def test_one_that_ran_already_and_has_such_cpus_is_told() -> None:
    engine = engine_of(THREE_NODES)
    stuck_sharer(engine)
    late = replace(container_of("late", 2), cpus=CpuSet.parse("4-5"), state=ContainerState.RUNNING)
    decision = engine.adopt(late)
    assert str(decision.pinning.cpus) == "4-5"
    assert len(told(engine, late)) == 1
    assert decision.problems == engine.decisions[late.id].problems
    claiming = replace(container_of("claiming", 2), claimed=CpuSet.parse("6-7"), id=late.id)
    decision = engine.adopt(replace(claiming, cpus=CpuSet.parse("6-7")))
    assert isinstance(decision.result, Grant)
    assert str(decision.result.exclusive) == "6-7"
    engine.check()


def pod_beside(engine: Engine) -> Container:
    """One of a pod that has two cpus of node 1; all others of other nodes are others' own."""
    placed(engine, container_of("plug-0", 3, annotations=in_node(0)))
    placed(engine, container_of("plug-2", 4, annotations=in_node(2)))
    first = inside(pod_of(whole(2)), "a")
    placed(engine, first)
    placed(engine, inside(first.pod, "b"))
    assert cpus(engine, first) == "4-5"
    return first


def test_a_pod_that_grows_has_such_cpus_where_there_are_no_others_and_is_told() -> None:
    engine = engine_of(THREE_NODES)
    first = pod_beside(engine)
    stuck_sharer(engine, "6-7")
    assert not isinstance(engine.resize_pod(first.pod, whole(3)), Refusal)
    assert cpus(engine, first) == "4-6"
    (text,) = told(engine, first)
    assert text.startswith("cpus 6 of its own")
    assert not isinstance(engine.resize_pod(first.pod, whole(2)), Refusal)
    assert told(engine, first) == []
    assert isinstance(engine.resize_pod(first.pod, whole(6)), Refusal)
    assert list(engine.stuck_containers.cpus)
    engine.check()


def test_a_pod_may_grow_to_where_it_runs_itself() -> None:
    engine = engine_of(THREE_NODES)
    first = inside(pod_of(whole(2)), "a")
    placed(engine, first)
    placed(engine, second := inside(first.pod, "b"))
    engine.stuck_containers.note({second.id: CpuSet.parse("4-7")})
    assert not isinstance(engine.resize_pod(first.pod, whole(4)), Refusal)
    assert cpus(engine, first) == "4-7"
    assert told(engine, first) == []
    engine.check()


def test_who_has_a_part_of_a_pen_alone_is_told_of_others_in_it() -> None:
    engine = engine_of(THREE_NODES)
    sharer = inside(pod_of(whole(4)), "a")
    owner = inside(sharer.pod, "own", whole(2, memory=GIB))
    placed(engine, sharer)
    placed(engine, owner)
    part = engine.grants[owner.id].exclusive
    assert engine.stuck_containers.note({sharer.id: CpuSet.parse("4-7")}) == [owner.id]
    (text,) = told(engine, owner)
    assert text.startswith(f"cpus {part} of its own are also run on by default/p/a")
    assert told(engine, sharer) == []


def test_all_that_share_a_pen_are_told_where_one_of_them_has_it_grow() -> None:
    engine = engine_of(THREE_NODES)
    placed(engine, container_of("plug-0", 3, annotations=in_node(0)))
    placed(engine, container_of("plug-2", 4, annotations=in_node(2)))
    pod = pod_of(None, wish="pod-pool.pinfold.dev=true")
    half = Resources(cpu_request_milli=600, cpu_limit_milli=600)
    alone, first, second = (
        inside(pod, "a", whole(1)),
        inside(pod, "b", half),
        inside(pod, "c", half),
    )
    placed(engine, alone)
    placed(engine, first)
    stuck_sharer(engine, "6-7")
    placed(engine, second)
    assert [cpus(engine, one) for one in (alone, first, second)] == ["4", "5-6", "5-6"]
    assert [len(told(engine, one)) for one in (alone, first, second)] == [0, 1, 1]
    engine.check()


def test_who_shares_a_pen_has_it_grow_to_where_others_in_it_run() -> None:
    engine = engine_of(THREE_NODES)
    pod = pod_of(None, wish="pod-pool.pinfold.dev=true")
    half = Resources(cpu_request_milli=600, cpu_limit_milli=600)
    first, second = (inside(pod, one, half) for one in ("b", "c"))
    for one in (inside(pod, "a", whole(1, memory=GIB)), first, second):
        placed(engine, one)
    assert cpus(engine, second) == "5-6"
    engine.stuck_containers.note({first.id: CpuSet.parse("5-7")})
    more = replace(half, cpu_request_milli=1600, cpu_limit_milli=1600)
    assert isinstance(engine.update(second.id, more).result, Grant)
    assert [cpus(engine, one) for one in (first, second)] == ["5-7", "5-7"]
    assert told(engine, first) == told(engine, second) == []
    engine.check()


def test_who_has_a_part_of_a_pen_alone_grows_by_cpus_that_none_of_the_others_runs_on() -> None:
    engine = engine_of(THREE_NODES)
    pod = pod_of(None, wish="pod-pool.pinfold.dev=true")
    first, second = (inside(pod, one, whole(1, memory=GIB)) for one in ("a", "b"))
    placed(engine, first)
    placed(engine, second)
    assert [cpus(engine, one) for one in (first, second)] == ["4", "5"]
    engine.stuck_containers.note({first.id: CpuSet.parse("4,6-7")})
    assert isinstance(engine.update(second.id, whole(3, memory=GIB)).result, Grant)
    assert cpus(engine, second) == "1-2,5"
    assert told(engine, second) == []
    engine.check()


def test_to_tell_owners_takes_a_time_in_proportion_to_their_number() -> None:
    lines: list[int] = []
    for count in (20, 80):
        engine = engine_of("socket:1 numa:4 core:32 mem:64G")
        for number in range(count):
            placed(engine, container_of(f"owner-{number}", 1))
        sharers = [container_of(f"sharer-{number}", 0.1) for number in range(count)]
        for one in sharers:
            placed(engine, one)
        kernel = {one.id: CpuSet.parse("1-127") for one in sharers}
        lines.append(count_lines(partial(engine.stuck_containers.note, kernel)))
        owner = container_of("owner-7", 1)
        assert f"and {count - 4} more: the runtime" in told(engine, owner)[0]
    few, many = lines
    assert many < 5 * few


ISOLATED = "socket:1 numa:2 core:8 mem:4G isolated:4-7,12-15"
WANTS_ISOLATED = {"prefer-isolated-cpus.resource-policy.nri.io/pod": "true"}


def test_a_newcomer_gets_isolated_cpus_on_which_nobody_is_stuck() -> None:
    engine = engine_of(ISOLATED)
    stuck_sharer(engine, "2-14", node=0)
    first, second = (container_of(one, 1, annotations=WANTS_ISOLATED) for one in ("a", "b"))
    assert placed(engine, first) == "15"
    assert told(engine, first) == []
    engine.check()
    own = CpuSet.parse(placed(engine, second))
    assert own.isdisjoint(CpuSet.parse("2-14"))
    engine.check()
    engine.stuck_containers.note({})
    assert str(engine.snapshot().free_isolated[-1].bit_count()) == "7"


def test_where_all_isolated_cpus_are_run_on_and_no_others_are_left_it_has_some() -> None:
    engine = engine_of(ISOLATED)
    for number in range(6):
        placed(engine, container_of(f"plug-{number}", 1))
    stuck_sharer(engine, "0-15", node=0)
    wants = container_of("wants", 2, annotations=WANTS_ISOLATED)
    assert CpuSet.parse(placed(engine, wants)) <= CpuSet.parse("4-7,12-15")
    assert len(told(engine, wants)) == 1
    engine.check()


def test_a_newcomer_gets_isolated_cpus_too_where_no_others_are_clear() -> None:
    engine = engine_of(ISOLATED)
    stuck_sharer(engine, "0-14", node=0)
    assert placed(engine, newcomer := container_of("a", 1, annotations=WANTS_ISOLATED)) == "15"
    assert told(engine, newcomer) == []
    engine.check()


def test_one_that_ran_already_keeps_isolated_cpus_whoever_is_stuck_there() -> None:
    engine = engine_of(ISOLATED)
    stuck_sharer(engine, "4-5", node=0)
    late = container_of("late", 2, annotations=WANTS_ISOLATED)
    late = replace(late, cpus=CpuSet.parse("4-5"), state=ContainerState.RUNNING)
    assert str(engine.adopt(late).pinning.cpus) == "4-5"
    assert len(told(engine, late)) == 1
    engine.check()


def test_one_that_has_isolated_cpus_grows_by_those_on_which_nobody_is_stuck() -> None:
    engine = engine_of(ISOLATED)
    owner = container_of("owner", 1, annotations=WANTS_ISOLATED)
    assert placed(engine, owner) == "4"
    engine.start(owner.id)
    stuck_sharer(engine, "5-6", node=0)
    more = replace(owner.resources, cpu_request_milli=2000, cpu_limit_milli=2000)
    assert isinstance(engine.update(owner.id, more).result, Grant)
    assert cpus(engine, owner) == "4,7"
    engine.check()


def test_a_pod_that_has_isolated_cpus_grows_by_those_on_which_nobody_is_stuck() -> None:
    engine = engine_of(ISOLATED)
    pod = replace(pod_of(whole(2, memory=GIB)), annotations=WANTS_ISOLATED)
    placed(engine, first := inside(pod, "a"))
    placed(engine, inside(pod, "b"))
    assert cpus(engine, first) == "4-5"
    stuck_sharer(engine, "6", node=0)
    assert not isinstance(engine.resize_pod(pod, whole(3, memory=GIB)), Refusal)
    assert cpus(engine, first) == "4-5,7"
    assert told(engine, first) == []
    engine.check()


@pytest.mark.parametrize("event", ["stop", "remove"])
def test_those_of_a_pen_that_shrinks_as_one_leaves_it_are_not_told_any_more(event: str) -> None:
    engine = engine_of(THREE_NODES)
    placed(engine, container_of("plug-0", 3, annotations=in_node(0)))
    placed(engine, container_of("plug-2", 4, annotations=in_node(2)))
    pod = pod_of(None, wish="pod-pool.pinfold.dev=true")
    half = Resources(cpu_request_milli=600, cpu_limit_milli=600)
    first, second = inside(pod, "b", half), inside(pod, "c", half)
    placed(engine, inside(pod, "a", whole(1)))
    placed(engine, first)
    stuck_sharer(engine, "6-7")
    placed(engine, second)
    assert cpus(engine, first) == "5-6"
    assert [len(told(engine, one)) for one in (first, second)] == [1, 1]
    getattr(engine, event)(second.id)
    assert cpus(engine, first) == "5"
    assert told(engine, first) == []
    assert engine.decisions[first.id].degraded == ""
    engine.check()


def listed(engine: Engine) -> list[Container]:
    return [
        replace(one, state=ContainerState.RUNNING, mems=None) for one in engine.snapshot().running()
    ]


def test_newcomers_keep_clear_after_a_restart_of_whom_the_state_tells() -> None:
    engine = engine_of(THREE_NODES)
    placed(engine, owner := container_of("owner", 1, annotations=in_node(1)))
    sharer = stuck_sharer(engine)
    again = engine_of(THREE_NODES)
    again.synchronize(listed(engine), engine.snapshot().advice())
    again.check()
    assert again.stuck_containers.cpus == {sharer.id: CpuSet.parse("4-7").mask}
    assert len(told(again, owner)) == 1
    assert placed(again, container_of("newcomer", 4)) == "8-11"


@pytest.mark.parametrize("is_same_engine", [True, False])
def test_one_that_is_stuck_where_another_one_has_cpus_by_now_stays_told_what_it_was(
    *, is_same_engine: bool
) -> None:
    engine = engine_of(THREE_NODES)
    placed(engine, plug := container_of("plug", 1, annotations=in_node(1)))
    placed(engine, mixed := container_of("mixed", 1.5, annotations=in_node(1), is_guaranteed=True))
    # By its name it is adopted first.
    placed(engine, container_of("has-one-of-them", 1, annotations=in_node(1)))
    engine.remove(plug.id)
    before = engine.pinning(mixed.id)
    kernel = CpuSet.parse("4-7")
    engine.stuck_containers.note({mixed.id: kernel})
    running = [replace(one, cpus=kernel) if one.id == mixed.id else one for one in listed(engine)]
    advice, own = engine.snapshot().advice(), engine.grants[mixed.id].exclusive
    again = engine if is_same_engine else engine_of(THREE_NODES)
    again.synchronize(running, advice)
    again.check()
    assert again.pinning(mixed.id) == before
    assert again.grants[mixed.id].exclusive == own


@pytest.mark.parametrize("event", ["restart", "list", "adopt"])
@pytest.mark.parametrize("kernel", ["0-14", "0-12,14-15"])
def test_who_ran_unpinned_gets_isolated_cpus_on_which_nobody_is_stuck(
    event: str, kernel: str
) -> None:
    engine = engine_of(ISOLATED)
    stuck_sharer(engine, kernel, node=0)
    late = replace(
        container_of("late", 1, annotations=WANTS_ISOLATED),
        cpus=CpuSet.parse("0-15"),
        state=ContainerState.RUNNING,
    )
    running, advice = [*listed(engine), late], engine.snapshot().advice()
    if event == "restart":
        engine = engine_of(ISOLATED)
        engine.synchronize(running, advice)
    elif event == "list":
        engine.synchronize(running, advice)
    else:
        engine.adopt(late)
    engine.check()
    assert cpus(engine, late) == str(CpuSet.parse("0-15") - CpuSet.parse(kernel))
    assert told(engine, late) == []
    assert engine.stuck_containers.cpus


@pytest.mark.parametrize("event", ["restart", "list", "adopt"])
def test_who_ran_unpinned_has_such_cpus_where_there_are_no_others_and_is_told(event: str) -> None:
    engine = engine_of(THREE_NODES)
    placed(engine, container_of("plug-0", 3, annotations=in_node(0)))
    placed(engine, container_of("plug-2", 4, annotations=in_node(2)))
    stuck_sharer(engine)
    late = replace(container_of("late", 2), cpus=CpuSet.parse("0-11"), state=ContainerState.RUNNING)
    running, advice = [*listed(engine), late], engine.snapshot().advice()
    if event == "restart":
        engine = engine_of(THREE_NODES)
    if event == "adopt":
        engine.adopt(late)
    else:
        engine.synchronize(running, advice)
    engine.check()
    own = engine.grants[late.id].exclusive
    assert len(own) == 2
    assert told(engine, late) == [
        f"cpus {own} of its own are also run on by default/sharer/main: "
        "the runtime refuses to take it off"
    ]
    assert engine.stuck_containers.cpus


def test_who_loses_its_isolated_cpus_by_a_reload_gets_such_ones() -> None:
    engine = engine_of(ISOLATED)
    placed(engine, first := container_of("first", 1, annotations=WANTS_ISOLATED))
    assert cpus(engine, first) == "4"
    stuck_sharer(engine, "1-14", node=0)
    available = {"reservedResources": {"cpu": "cpuset:0"}}
    available["availableResources"] = {"cpu": "cpuset:0-3,5-15"}
    engine, _ = engine.reconfigured(config_from_values(available))
    engine.check()
    assert cpus(engine, first) == "15"
    assert told(engine, first) == []
    assert engine.stuck_containers.cpus
