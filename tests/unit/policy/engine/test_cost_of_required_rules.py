"""What newcomers cost on ordinary nodes where half of the pods have required rules, in calls.

How long anything takes is nobody's concern here: see `tests/bench`.
"""

from collections.abc import Callable
from itertools import count
from typing import Any, Final

import pytest

from pinfold.cmd.daemon.garbage_collection import GarbageCollector
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.rebalance.tenants import standing_rules, staying_reason
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import Grant, Refusal
from tests.bench.sizes import MEDIUM, SMALL, Size
from tests.bench.timings import Timings, percentile
from tests.bench.turnover import Turnover
from tests.unit.counted_calls import called_modules, count_calls
from tests.unit.policy.engine.ruled_pods import (
    LASTING,
    PREFERRED,
    apart,
    container_of,
    engine_of,
    near,
    prefer,
    term,
)

_TURNS = 300


class _Counted(Timings):
    """Calls of Python in place of times."""

    def time(self, work: Callable[[], Any]) -> Any:
        found: list[Decision] = []
        self.cpu.append(count_calls(lambda: found.append(work())))
        return found[0]


@pytest.mark.parametrize(
    ("size", "calls_max"),
    [
        pytest.param(SMALL, 1000, id="16 cpus, where many a rule cannot be met"),
        pytest.param(MEDIUM, 1270, id="256 cpus, where residents make way"),
    ],
)
def test_hardly_a_newcomer_costs_more_for_required_rules(size: Size, calls_max: int) -> None:
    turnover, counted = Turnover(size.with_required_rules, GarbageCollector()), _Counted()
    for _ in range(_TURNS):
        turnover.turn(counted)
    assert percentile(counted.cpu, 99) < calls_max


def test_whom_a_newcomer_mends_is_looked_at_when_somebody_asks_what_is_told_of_it() -> None:
    engine = engine_of("socket:2 numa:2 core:4 thread:2 mem:4G")
    lonely = [container_of(f"web{n}", 0.1, near(term("numa", "cache"))) for n in range(3)]
    for one in lonely:
        assert isinstance(engine.create(one).result, Grant)
        assert engine.decisions[one.id].unmet
    cache = container_of("cache", 0.1)
    assert isinstance(engine.create(cache).result, Grant)
    asked = count_calls(lambda: engine.decisions)
    assert asked > 10 * count_calls(lambda: engine.decisions)
    assert not all(engine.decisions[one.id].unmet for one in lonely)


_CORES: Final = 1024


@pytest.mark.parametrize(
    ("cpu", "calls_max"),
    [
        pytest.param(0.5, 40, id="a share"),
        pytest.param(1, 40, id="a cpu of its own"),
        pytest.param(2, 40, id="a core of its own, which leaves nobody beside it"),
    ],
)
def test_a_rule_about_cores_that_cannot_be_met_costs_each_core_a_little(
    cpu: float, calls_max: int
) -> None:
    engine = _crowd()
    rules = {**near(term("core", "friend")), **apart(term("core", "friend"))}
    newcomer = container_of("newcomer", cpu, rules)
    calls = count_calls(lambda: engine.create(newcomer))
    assert engine.decisions[newcomer.id].unmet
    assert calls < calls_max * _CORES


@pytest.mark.parametrize("cpu", [0.5, 1, 2, 3])
@pytest.mark.parametrize("fails", [False, True])
def test_rules_of_many_levels_cost_each_core_a_little_wherever_they_break(
    cpu: float, fails: bool
) -> None:
    engine = _crowd()
    terms = [term(level, "friend") for level in ("numa", "core", "l3", "socket")]
    insisting = {"on-unsatisfiable.pinfold.dev/pod": "fail"} if fails else {}
    rules = {**near(*terms), **apart(term("l3", "rival")), **insisting}
    newcomer = container_of("newcomer", cpu, rules)
    calls = count_calls(lambda: engine.create(newcomer))
    assert calls < 60 * _CORES


@pytest.mark.parametrize("cpu", [0.5, 1, 2])
def test_a_rule_about_cores_that_breaks_costs_each_core_hardly_a_call_once_cores_are_known(
    cpu: float,
) -> None:
    """Each core is a place where it breaks or not, and most are like another."""
    engine = _crowd()
    rules = {**near(term("core", "friend")), **apart(term("core", "friend"))}
    engine.create(container_of("first", cpu, rules))
    engine.remove(container_of("first").id)
    newcomer = container_of("newcomer", cpu, rules)
    calls = count_calls(lambda: engine.create(newcomer))
    assert engine.decisions[newcomer.id].unmet
    assert calls < 7 * _CORES


def test_rules_that_break_wherever_two_cores_are_are_not_weighed_in_each_of_very_many_pools() -> (
    None
):
    engine = engine_of("socket:8 numa:8 l3:4 core:4 thread:2 mem:4G")
    for number in range(512):
        app = "friend" if number % 3 else "rival"
        engine.create(container_of(f"resident{number}", 0.1 if number % 2 else 1, app=app))
    beside, liked = near(term("core", "friend")), prefer(100, term("core", "rival"))
    rules = {"podAffinity": {**beside["podAffinity"], **liked["podAffinity"]}}
    engine.create(container_of("first", 2, rules))
    engine.remove(container_of("first").id)
    newcomer = container_of("newcomer", 2, rules)
    calls = count_calls(lambda: engine.create(newcomer))
    assert engine.decisions[newcomer.id].unmet
    assert calls < 30 * _CORES


def test_cpus_on_which_too_much_is_promised_are_found_out_about_once_not_in_each_pool_around() -> (
    None
):
    engine = engine_of("socket:4 numa:4 l3:2 core:4 thread:2 mem:4G")
    for number in range(60):
        engine.create(
            container_of(f"rival{number}", 0.1, apart(term("core", "rival")), app="rival")
        )
    for number in range(400):
        rules = {**near(term("core", "rival")), **apart(term("core", "nobody"))}
        engine.create(container_of(f"resident{number}", 0.9, rules, app="other"))
    rules = {**near(term("core", "rival")), **apart(term("core", "other"))}
    newcomer = container_of("newcomer", 0.3, rules)
    modules = called_modules(lambda: engine.create(newcomer))
    assert engine.decisions[newcomer.id].unmet
    assert modules.count("pinfold.policy.books.cpu_ledger") < 1000


def test_trials_on_a_full_machine_do_not_look_for_where_the_fewest_rules_break() -> None:
    engine = engine_of("socket:2 numa:4 l3:2 core:4 thread:2 mem:32G")
    for number in range(127):
        rules = near(term("core", "resident0"))
        engine.create(container_of(f"resident{number}", 1, rules))
    terms = [term("core", f"resident{number}") for number in range(3)]
    newcomer = container_of("newcomer", 2, apart(*terms))
    refusals: list[Decision] = []
    modules = called_modules(lambda: refusals.append(engine.create(newcomer)))
    assert isinstance(refusals[0].result, Refusal)
    assert modules.count("pinfold.policy.placing.openings.breaking") < 300


def test_trials_look_for_broken_rules_only_where_there_is_room_without_any() -> None:
    engine = engine_of("socket:2 numa:4 l3:2 core:4 thread:2 mem:32G")
    for number in range(126):
        app = "friend" if number % 9 else "rival"
        rules = near(term("l3", app)) if number % 9 else apart(term("core", app))
        resident = container_of(f"resident{number}", 1, rules, app=app, fails=not number % 9)
        assert isinstance(engine.create(resident).result, Grant)
    both = near(term("l3", "friend"), term("core", "friend"))
    newcomer = container_of("newcomer", 2, {**both, **apart(term("core", "rival"))})
    refusals: list[Decision] = []
    calls = count_calls(lambda: refusals.append(engine.create(newcomer)))
    assert isinstance(refusals[0].result, Refusal)
    assert calls < 8_000


def test_who_fills_a_machine_is_sorted_once_for_all_trials_of_a_refusal() -> None:
    engine = engine_of("socket:1 numa:4 core:8 thread:2 mem:32G")
    sharers = 300
    for number in range(sharers):
        engine.create(container_of(f"sharer{number}", 0.05))
    for cpu in (4, 1):
        for number in range(64):
            owner = container_of(f"owner{cpu}-{number}", cpu)
            if isinstance(engine.create(owner).result, Refusal):
                engine.remove(owner.id)
                break
    rules = near(term("core", "owner4-1"))
    engine.create(container_of("first", 0.01, rules))
    refusals: list[Decision] = []
    newcomer = container_of("newcomer", 1, rules)
    modules = called_modules(lambda: refusals.append(engine.create(newcomer)))
    assert isinstance(refusals[0].result, Refusal)
    assert modules.count("pinfold.policy.model.container") < 1.5 * sharers


def fill(engine: Engine) -> None:
    """Let containers with a cpu of their own come until one is refused."""
    for number in count():
        owner = container_of(f"owner{number}", 1)
        if isinstance(engine.create(owner).result, Refusal):
            engine.remove(owner.id)
            return


def test_on_a_machine_of_very_many_pools_nobody_makes_way_in_trials_of_a_refusal() -> None:
    engine = engine_of("socket:2 numa:8 l3:4 core:4 mem:32G")
    for number in range(200):
        engine.create(container_of(f"sharer{number}", 0.5, app=f"app{number % 40}"))
    fill(engine)
    newcomer = container_of("newcomer", 3, apart(term("numa", "app1")), fails=True)
    refusals: list[Decision] = []
    modules = called_modules(lambda: refusals.append(engine.create(newcomer)))
    assert isinstance(refusals[0].result, Refusal)
    assert modules.count("pinfold.policy.placing.departures")
    assert modules.count("pinfold.policy.placing.lifting") < 500


def test_of_very_many_whom_spread_rules_count_few_are_looked_at_in_a_trial() -> None:
    engine = engine_of("socket:2 numa:4 core:8 mem:16G")
    for number in range(300):
        engine.create(container_of(f"sharer{number}", 0.03, app="sharer"))
    fill(engine)
    some = [{"matchExpressions": [{"key": f"x{n}", "operator": "DoesNotExist"}]} for n in range(20)]
    spread = [{"maxSkew": 1, "topologyKey": "numa", "labelSelector": one} for one in some]
    newcomer = container_of("newcomer", 3, {"topologySpread": spread}, fails=True)
    refusals: list[Decision] = []
    modules = called_modules(lambda: refusals.append(engine.create(newcomer)))
    assert isinstance(refusals[0].result, Refusal)
    assert modules.count("pinfold.policy.placing.departures")
    assert modules.count("pinfold.policy.books.cpu_ledger") < 10_000


def test_a_look_at_rules_required_during_execution_words_none_that_nobody_is_told() -> None:
    engine = engine_of("socket:1 numa:1 core:8 thread:2 mem:32G")
    rules = {"podAntiAffinity": {LASTING: [term("core", "web")]}}
    for number in range(100):
        engine.create(container_of(f"web{number}", 0.01, rules, app="web"))
    engine.look_at_rules()
    assert count_calls(engine.look_at_rules) < 16_000


def test_rules_about_very_many_cost_no_call_for_each_of_them() -> None:
    many = 300
    engine = engine_of("socket:2 numa:2 l3:4 core:16 thread:2 mem:64G")
    for number in range(many):
        app = "friend" if number % 2 else "rival"
        engine.create(container_of(f"own{number}", 1, app=app))
    rules = near(term("numa", "friend"), term("socket", "rival"))
    engine.create(container_of("first", 1, rules))
    newcomer = container_of("newcomer", 1, rules)
    assert count_calls(lambda: engine.create(newcomer)) < 3 * many


def _crowd() -> Engine:
    engine = engine_of(f"socket:4 numa:4 l3:4 core:{_CORES // 64} thread:2 mem:4G")
    for number in range(128):
        engine.create(container_of(f"friend{number}", 0.1, app="friend"))
        if number % 8 == 0:
            engine.create(container_of(f"rival{number}", 0.1, app="rival"))
    return engine


_WEB: Final = {"matchLabels": {"app": "web"}}


def _spread(skew: int) -> dict[str, Any]:
    return {"topologySpread": [{"maxSkew": skew, "topologyKey": "numa", "labelSelector": _WEB}]}


_WITH_CACHE: Final = {"podAffinity": {LASTING: [term("numa", "cache")]}}


def spread_webs(count: int, different: int = 1) -> Engine:
    """Containers with few different required spread rules, and one more that they count."""
    engine = engine_of("socket:2 numa:2 core:8 thread:2 mem:64G")
    at_first = {"pool-name.pinfold.dev/pod": "NUMA node #1"}
    engine.create(first := container_of("cache-0", 1, app="cache", annotations=at_first))
    for number in range(count):
        rule = _spread(999 - number % different)
        engine.create(container_of(f"web{number}", 0.01, rule, app="web"))
    engine.create(container_of("owner", 0.01, _WITH_CACHE, app="web"))
    engine.remove(first.id)
    at_last = {"pool-name.pinfold.dev/pod": "NUMA node #3"}
    engine.create(container_of("cache-1", 1, app="cache", annotations=at_last))
    return engine


def test_a_move_costs_no_more_than_linearly_beside_many_of_one_spread() -> None:
    def cost(count: int) -> int:
        engine = spread_webs(count)
        owner = ContainerId("owner-main")
        calls = count_calls(lambda: engine.place_anew(owner))
        assert engine.tree.pools[engine.grants[owner].pool_id].name == "NUMA node #3"
        return calls

    assert cost(160) < 5 * cost(40)


@pytest.mark.parametrize(("different", "is_moved"), [(8, True), (9, False), (300, False)])
def test_nobody_is_moved_whom_more_than_eight_different_spread_rules_may_count(
    different: int, is_moved: bool
) -> None:
    engine = spread_webs(max(different, 20), different)
    result = engine.place_anew(ContainerId("owner-main")).result
    assert isinstance(result, Grant) == is_moved
    if isinstance(result, Refusal):
        assert result.reason == "more than 8 different spread rules may count it"


@pytest.mark.parametrize("app", ["web", "shop"])
def test_a_newcomer_costs_little_among_many_owners_of_different_spread_rules(app: str) -> None:
    engine = engine_of("socket:2 numa:2 core:8 thread:2 mem:64G")
    lonely = near(term("numa", "cache"))
    for number in range(400):
        rules = {**_spread(999 - number % 100), **lonely}
        engine.create(container_of(f"web{number}", 0.01, rules, app="web"))
    _ = engine.decisions
    engine.create(container_of("other", 0.01, app=app))
    assert count_calls(lambda: engine.decisions) < 2500


def test_who_may_be_moved_is_told_in_no_more_than_linear_time_beside_many_of_one_spread() -> None:
    def cost(count: int) -> int:
        engine = spread_webs(count)
        for number in range(count):
            engine.create(container_of(f"other{number}", 0.01))
        snapshot = engine.snapshot()
        standing = standing_rules(snapshot)
        return count_calls(
            lambda: [
                staying_reason(snapshot, one, standing, moves_exclusive=False)
                for one in snapshot.grants
            ]
        )

    assert cost(160) < 5 * cost(40)


def test_rules_that_require_others_cost_nothing_where_nobody_may_make_way() -> None:
    """All that are near have cpus of their own."""

    def cost(requiring: int) -> int:
        engine = engine_of("socket:2 numa:2 core:8 thread:2 mem:64G")
        for number in range(requiring):
            engine.create(container_of(f"lonely{number}", 0.1, near(term("socket", f"{number}"))))
        for number in range(12):
            engine.create(container_of(f"owner{number}", 1, app="cache"))
        rules = apart(term("core", "cache"), term("numa", "cache"))
        engine.create(container_of("first", 1, rules))
        engine.remove(container_of("first").id)
        return count_calls(lambda: engine.create(container_of("new", 1, rules)))

    assert cost(30) < cost(1) + 100


def test_keys_that_nobody_has_cost_those_who_leave_no_call_each() -> None:
    few, many = (_calls_of_a_departure(keys) for keys in (8, 240))
    assert many < few + 240


def _calls_of_a_departure(keys: int) -> int:
    """Of a plain container that residents made way for, whose rules name so many keys each."""
    engine = engine_of("socket:2 numa:2 core:4 thread:2 mem:4G")
    absent = [{"key": f"k{n}", "operator": "DoesNotExist"} for n in range(keys)]
    is_shop = {"key": "app", "operator": "In", "values": ["shop"]}
    rule = {"topologyKey": "numa", "labelSelector": {"matchExpressions": [*absent, is_shop]}}
    wish = {"key": "kind", "operator": "In", "values": ["system"]}
    wide = {
        "poolAffinity": {PREFERRED: [{"weight": 9, "preference": {"matchExpressions": [wish]}}]}
    }
    for n in range(4):
        engine.create(container_of(f"web{n}", 0.1, {**apart(rule), **wide}))
    shop = container_of("shop", 0.1, labels={"app": "shop"})
    assert engine.create(shop).changes
    return count_calls(lambda: engine.stop(shop.id))


def test_where_those_are_whom_many_rules_of_one_that_leaves_are_about_is_asked_once() -> None:
    few, many = (_calls_of_a_disturber(terms) for terms in (1, 16))
    assert many < few + 16 * 100


def _calls_of_a_disturber(terms: int) -> int:
    """Of the departure of one with so many rules about 20 others, none of which holds."""
    engine = engine_of("socket:1 numa:1 core:4 mem:4G")
    for n in range(20):
        engine.create(container_of(f"web{n}", 0.01, labels={"app": "web"}))
    others = [term("numa", "web", matchLabelKeys=[f"k{n}"]) for n in range(terms)]
    shop = container_of("shop", 0.01, apart(*others))
    engine.create(shop)
    assert engine.decisions[shop.id].unmet
    return count_calls(lambda: engine.stop(shop.id))
