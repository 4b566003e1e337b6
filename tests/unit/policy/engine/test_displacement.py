"""Containers that restart where others came meanwhile whom rules that insist hold there."""

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Resources
from pinfold.policy.placing.restart import MADE_WAY
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.unit.counted_calls import count_calls
from tests.unit.policy.engine.ruled_pods import (
    apart,
    container_of,
    cpus,
    engine_of,
    placed,
    reason,
    term,
)
from tests.unit.topology.model.offline import without

CORES = "socket:1 core:4 thread:2 mem:8G"
"""Cpu 0 is reserved."""
IT = container_of("it", 2)
AGAIN = replace(IT, id=ContainerId("it-1"))
LATE = container_of("late", 1.5, apart(term("core", "noisy")), fails=True)


def with_late_on_its_cpus(noisy: Container) -> Engine:
    """An engine in which one came to the cpus of another, and may be in no other core."""
    engine = engine_of(CORES)
    first = container_of("first", 1, app="noisy")
    assert [placed(engine, one) for one in (first, IT, noisy)] == ["1", "2-3", "4-7"]
    ended(engine, IT)
    assert placed(engine, LATE) == "2-3"
    return engine


def ended(engine: Engine, container: Container) -> None:
    engine.stop(container.id)
    engine.remove(container.id)


def test_who_is_back_drives_out_nobody_whom_a_rule_that_insists_keeps_there() -> None:
    noisy = container_of("noisy", 3.5, shares=True)
    engine = with_late_on_its_cpus(noisy)
    told = reason(engine.create(AGAIN))
    assert "who shares the CPUs 2-3 that it had before its restart would have to leave" in told
    assert "anti-affinity at core to app=noisy" in told
    assert told.endswith("stop or move default/late/main")
    assert (cpus(engine, LATE), cpus(engine, noisy)) == ("2-3", "4-7")
    assert not engine.decisions[LATE.id].unmet
    engine.check()
    engine.remove(AGAIN.id)
    ended(engine, LATE)
    assert placed(engine, AGAIN) == "2-3"


def test_who_may_break_a_rule_makes_way_for_who_is_back() -> None:
    noisy = container_of("noisy", 3.5, shares=True)
    engine = engine_of(CORES)
    first = container_of("first", 1, app="noisy")
    late = container_of("late", 1.5, apart(term("core", "noisy")))
    assert [placed(engine, one) for one in (first, IT, noisy)] == ["1", "2-3", "4-7"]
    ended(engine, IT)
    assert placed(engine, late) == "2-3"
    assert placed(engine, AGAIN) == "2-3"
    assert engine.decisions[late.id].unmet


def test_who_is_back_has_other_cpus_before_it_is_refused() -> None:
    """By the numbers nothing is left, as `runs` was there before."""
    noisy = container_of("noisy", 0.5, shares=True)
    engine = with_late_on_its_cpus(noisy)
    runs = container_of("runs", 4, shares=True)
    engine.adopt(replace(runs, cpus=CpuSet.parse("4-7"), mems=NodeSet.of(0)))
    assert placed(engine, AGAIN) == "6-7"
    decision = engine.decisions[AGAIN.id]
    assert decision.decided_by == MADE_WAY
    assert "in the pool where it was before its restart, without room" in decision.problems[0].what
    assert (cpus(engine, LATE), cpus(engine, noisy)) == ("2-3", "4-5")
    assert not engine.decisions[LATE.id].unmet


@pytest.mark.parametrize("fails", [True, False])
def test_who_is_back_has_no_other_cpus_where_a_rule_that_insists_would_not_hold(
    *, fails: bool
) -> None:
    """The rule of `keeper`, which began all the same beside what the other shares."""
    engine = engine_of("socket:1 core:5 thread:2 mem:8G")
    mixed = container_of(
        "it", 2, annotations={"prefer-shared-cpus.resource-policy.nri.io/pod": "false"}
    )
    size = replace(mixed.resources, cpu_request_milli=2500, cpu_limit_milli=2500)
    mixed = replace(mixed, resources=size)
    noisy = container_of("noisy", 0.5, shares=True)
    keeper = container_of("keeper", 1, apart(term("core", "it")), fails=fails)
    placed(engine, container_of("first", 1, app="noisy"))
    assert [placed(engine, one) for one in (mixed, noisy)] == ["2-9", "4-9"]
    engine.adopt(replace(keeper, cpus=CpuSet.of(8), mems=NodeSet.of(0)))
    assert engine.decisions[keeper.id].unmet
    ended(engine, mixed)
    assert placed(engine, LATE) == "2-3"
    runs = container_of("runs", 3, shares=True)
    engine.adopt(replace(runs, cpus=CpuSet.parse("4-7"), mems=NodeSet.of(0)))
    decision = engine.create(replace(mixed, id=ContainerId("it-1")))
    if fails:
        assert "would have to leave them: anti-affinity at core to app=noisy" in reason(decision)
    else:
        assert decision.decided_by == MADE_WAY
        assert decision.unmet
    engine.check()


def test_a_pen_that_is_short_grows_to_nowhere_when_one_leaves_it_who_may_be_back() -> None:
    """Once that one is gone no rule keeps the pen from the socket of `far`."""
    engine = engine_of("socket:2 core:6 mem:8G")
    group = {"group.pinfold.dev/pod": "red"}
    there = {"pool-name.pinfold.dev/pod": "socket #1"}
    rules = apart(term("socket", "web"))
    far = container_of("far", 1, rules, fails=True, annotations=there)
    one, two = (container_of(name, 2, annotations=group) for name in ("one", "two"))
    here = {"pool-selector.pinfold.dev/pod": "socket=0"}
    web = container_of("web", 1, annotations=group)
    taker = container_of("taker", 2, annotations=here, fails=True)
    assert [placed(engine, each) for each in (far, one, web, two)][-1] == "1-5"
    ended(engine, two)
    assert placed(engine, taker) == "4-5"
    assert placed(engine, replace(two, id=ContainerId("two-1"))) == "1-3"
    engine.stop(web.id)
    assert cpus(engine, one) == "1-3"
    assert placed(engine, replace(web, id=ContainerId("web-1"))) == "1-3"


@pytest.mark.parametrize("fails", [True, False])
def test_nobody_who_asks_for_no_cpu_is_driven_to_where_its_rule_that_insists_breaks(
    *, fails: bool
) -> None:
    """On a machine that is full otherwise, as cpu 0 is reserved."""
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    here = {"pool-name.pinfold.dev/pod": "NUMA node #0"}
    it = container_of("it", 0, apart(term("numa", "other")), fails=fails)
    placed(engine, container_of("other", 1, annotations=here))
    assert placed(engine, it) == "4-7"
    decision = engine.create(container_of("large", 6))
    rule = "anti-affinity at numa to app=other (affinity.pinfold.dev/pod:1) of default/it/main"
    told = f"{rule}: in one NUMA node with default/other/main"
    assert cpus(engine, it) == ("4-7" if fails else "0")
    assert list(engine.decisions[it.id].unmet) == ([] if fails else [told])
    if fails:
        said = f"would be left none where rules hold: {told} — to make room, stop or move {it.path}"
        assert said in reason(decision)
    engine.check()


def test_of_very_many_whom_one_would_drive_out_some_are_looked_at_that_keep_their_cpus() -> None:
    few, many = (_refusal_beside(count) for count in (97, 297))
    assert many < few + 200 * 20


def _refusal_beside(count: int) -> int:
    """The calls of a refusal beside so many who ask for no cpu and may be in one NUMA node."""
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    here = {"pool-name.pinfold.dev/pod": "NUMA node #0"}
    placed(engine, container_of("other", 1, annotations=here))
    rules = apart(term("numa", "other"))
    for number in range(count):
        engine.create(container_of(f"it{number}", 0, rules, fails=True))
    large = container_of("large", 6)
    told: list[Decision] = []
    calls = count_calls(lambda: told.append(engine.create(large)))
    said = reason(told[0])
    assert "anti-affinity at numa to app=other (affinity.pinfold.dev/pod:1) of default/it0" in said
    named = "default/it0/main, default/it7/main, default/it14/main, default/it21/main"
    if count == 97:
        assert said.endswith(
            f"and maybe more rules — to make room, stop or move some of {named} and 93 more"
        )
    assert cpus(engine, container_of("it5")) == "4-7"
    # Without all of those it has a place.
    engine.remove(large.id)
    for number in range(count):
        ended(engine, container_of(f"it{number}"))
    placed(engine, large)
    return calls


def test_a_pen_that_somebody_is_back_to_drives_out_nobody_whom_a_rule_keeps_there() -> None:
    """It stays short of what it had."""
    engine = engine_of(CORES)
    group = {"group.pinfold.dev/pod": "red"}
    one, two = (container_of(name, 2, annotations=group) for name in ("one", "two"))
    first = container_of("first", 1, app="noisy")
    noisy = container_of("noisy", 1.5, shares=True)
    assert [placed(engine, each) for each in (first, one, two, noisy)] == ["1", "2-3", "2-5", "6-7"]
    ended(engine, two)
    assert placed(engine, LATE) == "4-5"
    again = replace(two, id=ContainerId("two-1"))
    assert placed(engine, again) == "2-3"
    assert (cpus(engine, LATE), cpus(engine, noisy)) == ("4-5", "6-7")
    assert not engine.decisions[LATE.id].unmet
    assert "no room to grow to 4 exclusive CPUs" in engine.decisions[again.id].problems[-1].what
    engine.stop(again.id)
    engine.remove(again.id)
    ended(engine, LATE)
    assert placed(engine, replace(two, id=ContainerId("two-2"))) == "2-5"


def test_nobody_is_driven_beside_another_because_its_rule_is_broken_beside_somebody() -> None:
    """`beside` ran already as it was announced."""
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    here = {"pool-name.pinfold.dev/pod": "NUMA node #0"}
    it = container_of("it", 0, apart(term("numa", "other")), fails=True)
    placed(engine, container_of("far", 1, app="other", annotations=here))
    assert placed(engine, it) == "4-7"
    beside = container_of("beside", 1, app="other")
    engine.adopt(replace(beside, cpus=CpuSet.of(4), mems=NodeSet.of(1)))
    assert cpus(engine, it) == "5-7"
    decision = engine.create(container_of("large", 5))
    said = "in one NUMA node with default/far/main — to make room, stop or move default/it/main"
    assert said in reason(decision)
    assert cpus(engine, it) == "5-7"


@pytest.mark.parametrize("has_pen", [False, True])
def test_who_is_back_drives_nobody_beside_itself_whose_rule_keeps_it_apart(
    *, has_pen: bool
) -> None:
    """All that would be left to `it` is beside `far`, or on cpu 7, which is reserved."""
    engine = engine_of("socket:1 numa:2 core:4 mem:4G", "cpuset:7")
    here = {"pool-name.pinfold.dev/pod": "NUMA node #0"}
    far, noisy = container_of("far", 2, annotations=here), container_of("noisy", 3)
    if has_pen:
        size = Resources(cpu_request_milli=3000, cpu_limit_milli=3000)
        told = {"pod-pool.pinfold.dev/pod": "true"}
        noisy = replace(noisy, pod=replace(noisy.pod, annotations=told, resources=size))
    assert [placed(engine, one) for one in (far, noisy)] == ["0-1", "4-6"]
    ended(engine, noisy)
    rules = apart(term("numa", "far"), term("numa", "noisy"))
    it = container_of("it", 0, rules, fails=True)
    assert placed(engine, it) == "4-6"
    told_why = reason(engine.create(replace(noisy, id=ContainerId("noisy-1"))))
    assert "who shares the CPUs 4-6 that it had before its restart would have to leave" in told_why
    assert cpus(engine, it) == "4-6"
    assert not engine.decisions[it.id].unmet


@pytest.mark.parametrize("fails", [True, False])
def test_nobody_is_driven_to_where_it_is_spread_no_more_though_it_insists(*, fails: bool) -> None:
    """On a machine that is full otherwise, as cpu 0 is reserved."""
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    here = {"pool-name.pinfold.dev/pod": "NUMA node #0"}
    workers = {"labelSelector": {"matchLabels": {"app": "worker"}}}
    spread = {"topologySpread": [{"maxSkew": 1, "topologyKey": "numa", **workers}]}
    it = container_of("it", 0, spread, app="worker", fails=fails)
    placed(engine, container_of("first", 1, app="worker", annotations=here))
    assert placed(engine, it) == "4-7"
    decision = engine.create(container_of("large", 6))
    assert cpus(engine, it) == ("4-7" if fails else "0")
    place = "a NUMA node with none of these containers, as that of cpus 4-7"
    told = f" of default/it/main: it wants {place}"
    assert [told in text for text in engine.decisions[it.id].unmet] == ([] if fails else [True])
    if fails:
        assert f"{told} — to make room, stop or move {it.path}" in reason(decision)
    engine.check()


def test_who_is_back_and_shares_beside_its_own_cpus_is_none_of_those_it_drives_out() -> None:
    """All others of its pool are another's own by now."""
    engine = engine_of("socket:1 core:4 mem:2G")
    whole = container_of("it", 1, apart(term("core", "noisy")))
    more = replace(whole.resources, cpu_request_milli=1500, cpu_limit_milli=1500)
    mixed = replace(whole, resources=more)
    assert placed(engine, mixed) == "1-3"
    ended(engine, mixed)
    engine.adopt(replace(container_of("runs", 2), cpus=CpuSet.parse("2-3"), mems=NodeSet.of(0)))
    again = replace(mixed, id=ContainerId("it-1"))
    assert placed(engine, again) == "0-1"


def test_who_keeps_apart_on_reserved_cpus_stays_there_as_others_get_theirs_back() -> None:
    """Both are back narrowed, so that both may have more once somebody else ends."""
    engine = engine_of("socket:1 core:5 mem:4G")
    owner, idle = container_of("owner", 3), container_of("idle", 0)
    noisy = container_of("noisy", 0.5, apart(term("core", "nobody")))
    late = container_of("late", 0.3, apart(term("core", "noisy")), fails=True)
    placed(engine, owner)
    engine.stop(owner.id)
    assert [placed(engine, one) for one in (idle, noisy, late)] == ["1-4", "1-4", "1"]
    assert cpus(engine, noisy) == "2-4"
    for one in (noisy, late):
        engine.stop(one.id)
    again = [replace(one, id=ContainerId(f"{one.id}-1")) for one in (noisy, late, owner)]
    assert [placed(engine, one) for one in again] == ["2-4", "1", "1-3"]
    assert [cpus(engine, one) for one in again] == ["4", "0", "1-3"]
    engine.stop(idle.id)
    assert [cpus(engine, one) for one in again] == ["4", "0", "1-3"]
    assert not any(engine.decisions[one.id].unmet for one in again)
    engine.check()


def test_who_shares_cpus_beside_its_own_is_not_back_where_it_would_be_lent_those_of_others() -> (
    None
):
    """Its own one seemed to be among those that it shares, until it was its own."""
    engine = engine_of("socket:2 core:4 mem:4G")
    here = {"pool-name.pinfold.dev/pod": "socket #0"}
    rules = apart(term("socket", "mixed"))
    keeper = container_of("keeper", 0.5, rules, fails=True, annotations=here)
    mixed, taker = container_of("mixed", 1.5, is_guaranteed=True), container_of("taker", 3)
    assert [placed(engine, one) for one in (keeper, mixed)] == ["1-3", "4-7"]
    engine.stop(mixed.id)
    engine.adopt(replace(taker, cpus=CpuSet.parse("5-7"), mems=NodeSet.of(1)))
    again = replace(mixed, id=ContainerId("mixed-1"))
    assert "stop or move one of" in reason(engine.create(again))
    assert not engine.decisions[keeper.id].unmet
    engine.remove(again.id)
    ended(engine, taker)
    assert placed(engine, again) == "4-7"


def test_who_has_nothing_to_share_where_rules_hold_stays_there_as_another_goes() -> None:
    """Of its pool rules leave it its own cpu alone, so that it is lent the reserved one."""
    machine = machine_from_spec("socket:1 core:3 thread:2 mem:4G")
    engine = engine_of(machine)
    mixed = container_of("mixed", 1.5, is_guaranteed=True)
    keeper = container_of("keeper", 1, apart(term("core", "mixed")), fails=True)
    idle = container_of("idle", 0, apart(term("core", "nobody")))
    gone = container_of("gone", 0.1, apart(term("core", "mixed")))
    assert [placed(engine, one) for one in (mixed, keeper, idle)] == ["1-5", "2", "3-5"]
    engine, _ = engine.reconfigured(engine.config, without(machine, CpuSet.parse("4-5")))
    assert [placed(engine, gone), cpus(engine, mixed)] == ["3", "1"]
    engine.remove(gone.id)
    assert cpus(engine, mixed) == "1"
    assert not engine.decisions[keeper.id].unmet
    engine.check()
