"""Rules in numbers: what a namespace writes does not decide how long others wait."""

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from pinfold.policy.configuration.config import OnUnsatisfiable
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import Grant
from pinfold.policy.rules.podaffinity.rule_set import FIRM_MAX, LOOKED_AT_MAX
from tests.unit.policy.engine.ruled_pods import apart, container_of, engine_of, near, term

_MANY = LOOKED_AT_MAX + 6
_UNCOUNTED = "of its rules do not count for newcomers"


def _against_all_but(name: str) -> dict[str, Any]:
    """A term that no label tells from its like."""
    selector = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [name]}]}
    return {"labelSelector": selector, "topologyKey": "core", "namespaceSelector": {}}


def _crowd(namespace: str = "crowd", *, are_equal: bool = False) -> Engine:
    engine = engine_of("socket:2 numa:2 core:32 thread:2 mem:8G")
    for number in range(_MANY):
        rules = apart(_against_all_but("x" if are_equal else f"x{number}"))
        engine.create(container_of(f"c{number}", 0.01, rules, namespace=namespace, shares=True))
    return engine


def _uncounted(engine: Engine) -> int:
    problems = [one for decision in engine.decisions.values() for one in decision.problems]
    return sum(_UNCOUNTED in one.what for one in problems)


def test_of_too_many_different_rules_the_first_count_and_the_others_are_told() -> None:
    assert _uncounted(_crowd()) == _MANY - LOOKED_AT_MAX


def test_equal_rules_are_one_however_many_have_them() -> None:
    assert _uncounted(_crowd(are_equal=True)) == 0


def test_a_namespace_full_of_rules_takes_no_room_from_another() -> None:
    engine = _crowd()
    engine.create(container_of("own", 1, apart(_against_all_but("own")), namespace="other"))
    assert _uncounted(engine) == _MANY - LOOKED_AT_MAX


def test_rules_that_go_make_room_for_others() -> None:
    engine = _crowd()
    for number in range(10):
        engine.remove(container_of(f"c{number}").id)
    late = container_of("late", 0.01, apart(_against_all_but("late")), namespace="crowd")
    assert not any(_UNCOUNTED in one.what for one in engine.create(late).problems)


def test_rules_about_different_labels_all_count() -> None:
    engine = engine_of("socket:2 numa:2 core:32 thread:2 mem:8G")
    for number in range(_MANY):
        rules = near(term("socket", f"app{number}"))
        engine.create(container_of(f"c{number}", 0.01, rules, app=f"app{number}", shares=True))
    assert _uncounted(engine) == 0


def test_of_the_rules_that_block_too_much_the_first_are_told_and_the_others_counted() -> None:
    engine = _crowd("noisy")
    problems = engine.create(container_of("calm", 1, namespace="calm")).problems
    told = [one.what for one in problems if one.where.startswith("antiAffinityLimits")]
    assert 0 < len(told) <= 17
    assert sum("would block more" in one for one in told) <= 16


def test_the_newcomer_is_told_of_too_many_rules_under_different_labels() -> None:
    engine = engine_of("socket:2 numa:2 core:32 thread:2 mem:8G")
    for number in range(_MANY):
        own = _against_all_but(f"x{number}")
        name = {"key": ("tier", "zone")[number % 2], "operator": "Exists"}
        own["labelSelector"]["matchExpressions"].append(name)
        rules = apart(own)
        engine.create(container_of(f"c{number}", 0.01, rules, namespace="crowd", shares=True))
    assert _uncounted(engine) == 0
    labels = {"tier": "web", "zone": "a"}
    late = container_of("late", 0.01, namespace="crowd", shares=True, labels=labels)
    told = [one.what for one in engine.create(late).problems if "do not count" in one.what]
    assert told == [
        f"{_MANY - LOOKED_AT_MAX} rules of containers that are there do not count for it:"
        f" {LOOKED_AT_MAX} others of their namespace do"
    ]


def _alone(engine: Engine, number: int) -> Decision:
    """A newcomer that never shares a core with any but its own service."""
    name = f"x{number}"
    rules = apart(_against_all_but(name))
    return engine.create(container_of(f"c{number}", 1, rules, app=name, fails=True))


def _cores(engine: Engine) -> Counter[int]:
    """The cores on which containers run, each as often as they are."""
    pinned = [engine.pinning(one) for one in engine.grants]
    taken = [one.cpus for one in pinned if one is not None and one.cpus is not None]
    return Counter(core for cpus in taken for core in {cpu // 2 for cpu in cpus})


_FREE = {"antiAffinityLimits": {"maxBlockedCPUs": "100%"}}


def test_anti_affinity_that_never_gives_way_counts_whatever_the_number_of_different_ones() -> None:
    engine = engine_of("core:80 thread:2 mem:80G", "cpuset:0-1", **_FREE)
    for number in range(_MANY):
        assert isinstance(_alone(engine, number).result, Grant)
    assert _uncounted(engine) == 0
    taken = _cores(engine)
    for number in range(2 * (80 - 1 - _MANY)):
        assert isinstance(engine.create(container_of(f"plain{number}", 1)).result, Grant)
        engine.check()
    assert _cores(engine).keys() >= taken.keys()
    assert all(_cores(engine)[core] == 1 for core in taken)
    late = container_of("late", 1)
    assert not isinstance(engine.create(late).result, Grant)


def test_whose_rule_would_be_one_too_many_is_refused_where_it_never_gives_way() -> None:
    engine = engine_of("core:600 thread:2 mem:80G", "cpuset:0", **_FREE)
    for number in range(FIRM_MAX):
        assert isinstance(_alone(engine, number).result, Grant)
    result = _alone(engine, FIRM_MAX).result
    assert not isinstance(result, Grant)
    assert result.reason == (
        f"affinity of default/c{FIRM_MAX}/main: 1 of its required rules would not count for"
        f" newcomers: its namespace has {FIRM_MAX} different ones that never give way"
        " — write fewer different ones"
    )
    same = container_of("same", 1, apart(_against_all_but("x5")), app="x5", fails=True)
    assert isinstance(engine.create(same).result, Grant)
    engine.remove(container_of("c7").id)
    assert isinstance(_alone(engine, FIRM_MAX).result, Grant)


def test_who_ran_before_its_rule_was_one_too_many_is_back_in_its_place() -> None:
    engine = engine_of("core:600 thread:2 mem:80G", "cpuset:0", **_FREE)
    last = container_of("last", 1, apart(_against_all_but("last")))
    for number in range(FIRM_MAX):
        rules = apart(_against_all_but(f"x{number}"))
        assert isinstance(engine.create(container_of(f"c{number}", 1, rules)).result, Grant)
    assert isinstance(engine.create(last).result, Grant)
    engine, _ = engine.reconfigured(replace(engine.config, on_unsatisfiable=OnUnsatisfiable.FAIL))
    had = engine.grants[last.id]
    engine.stop(last.id)
    again = replace(last, id=ContainerId("again"))
    decision = engine.create(again)
    assert isinstance(decision.result, Grant)
    assert (decision.result.pool_id, decision.result.exclusive) == (had.pool_id, had.exclusive)
    assert any("would not count for newcomers" in one.what for one in decision.problems)
    # Where another one has its place it is judged as one that comes.
    engine.remove(again.id)
    taken = engine.create(container_of("other", 1, namespace="other")).result
    assert isinstance(taken, Grant)
    assert taken.exclusive == had.exclusive
    result = engine.create(last).result
    assert not isinstance(result, Grant)
    assert "would not count for newcomers" in result.reason


@pytest.mark.parametrize("pen", ["pod-pool", "group"])
def test_who_ran_in_a_pen_before_its_rule_was_one_too_many_is_back_there_alone(pen: str) -> None:
    engine = engine_of("core:600 thread:2 mem:80G", "cpuset:0", **_FREE)
    wish = {f"{pen}.pinfold.dev/pod": "true"}
    last = container_of("last", 1, apart(_against_all_but("last")), annotations=wish)
    last = replace(last, pod=replace(last.pod, resources=last.resources))
    for number in range(FIRM_MAX):
        engine.create(container_of(f"c{number}", 1, apart(_against_all_but(f"x{number}"))))
    assert isinstance(engine.create(last).result, Grant)
    engine, _ = engine.reconfigured(replace(engine.config, on_unsatisfiable=OnUnsatisfiable.FAIL))
    had = engine.pinning(last.id)
    engine.stop(last.id)
    again = replace(last, id=ContainerId("again"))
    assert isinstance(engine.create(again).result, Grant)
    assert engine.pinning(again.id) == had
    engine.remove(again.id)
    # Where another one has the pen's place it is judged as one that comes.
    engine.create(container_of("other", 1, namespace="other"))
    result = engine.create(last).result
    assert not isinstance(result, Grant)
    assert "would not count for newcomers" in result.reason


def test_rules_of_one_container_are_counted_one_by_one() -> None:
    """Who has the last one that counts and one more is refused: a restart would count others."""
    engine = engine_of("core:600 thread:2 mem:80G", "cpuset:0", **_FREE)
    for number in range(FIRM_MAX - 1):
        assert isinstance(_alone(engine, number).result, Grant)
    two = apart(_against_all_but("a"), _against_all_but("b"))
    result = engine.create(container_of("both", 1, two, app="a", fails=True)).result
    assert not isinstance(result, Grant)
    assert "1 of its required rules would not count for newcomers" in result.reason
    assert isinstance(_alone(engine, FIRM_MAX).result, Grant)


def test_who_made_way_for_one_that_is_gone_has_its_cpus_back_some_at_a_time() -> None:
    engine = engine_of("socket:1 numa:1 core:16 thread:2 mem:8G")
    for number in range(_MANY):
        engine.create(container_of(f"c{number}", 0.01, app="crowd", shares=True))
    newcomer = container_of("own", 2, apart(term("core", "crowd")))
    engine.create(newcomer)
    assert _narrowed(engine) == _MANY
    engine.stop(newcomer.id)
    left = _narrowed(engine)
    assert 0 < left < _MANY
    while left:
        changes = engine.widen()
        assert len(changes) == left - _narrowed(engine) > 0
        left = _narrowed(engine)
    assert not engine.widen()


def _narrowed(engine: Engine) -> int:
    return sum(one.within is not None for one in engine.grants.values())
