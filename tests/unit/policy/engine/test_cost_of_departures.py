"""What a departure costs beside many: one that happens, and one that a refusal thinks of."""

from typing import Any

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Resources
from tests.unit.counted_calls import called_modules, count_calls
from tests.unit.policy.engine.ruled_pods import (
    PREFERRED,
    apart,
    container_of,
    engine_of,
    near,
    placed,
    reason,
    term,
)

_SYSTEM = {"matchExpressions": [{"key": "kind", "operator": "In", "values": ["system"]}]}
_WIDE = {"poolAffinity": {PREFERRED: [{"weight": 9, "preference": _SYSTEM}]}}
_WITH_FRIEND = near(term("numa", "friend"))
_SHARE = Resources(cpu_request_milli=200, cpu_limit_milli=200)


def _said_of(*apps: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "app", "operator": "In", "values": [*apps]}]}


def test_whom_one_that_has_ended_kept_apart_is_read_once_for_all_who_wait() -> None:
    few, many = (_calls_of_a_departure(rules) for rules in (2, 42))
    assert many < few + 40 * 20


def _calls_of_a_departure(rules: int) -> int:
    """Of somebody, where 60 made way for one that has ended, and had so many rules of its own."""
    engine = engine_of("socket:2 numa:2 core:4 thread:2 mem:4G")
    apart_from_shop = {**apart(term("numa", "shop")), **_WIDE}
    for number in range(60):
        engine.create(container_of(f"web{number}", 0.01, apart_from_shop, app="web"))
    other = container_of("other", 0.1)
    engine.create(other)
    some = [term("core", f"nobody{number}") for number in range(rules)]
    shop = container_of("shop", 0.1, apart(*some))
    assert len(engine.create(shop).changes) == 60
    engine.stop(shop.id)
    # From now on those who still wait for their cpus make way no more.
    placed(engine, container_of("fan", 0.01, near(term("numa", "web"))))
    return count_calls(lambda: engine.stop(other.id))


def test_what_residents_would_gain_by_a_departure_is_looked_up_once_for_all_rules() -> None:
    few, many = (_calls_of_a_refusal(rules) for rules in (2, 12))
    assert many < few + 10 * 40 * 50


def _calls_of_a_refusal(rules: int) -> int:
    """Of a newcomer that has so many rules, each against the same 40 residents."""
    engine = engine_of("socket:2 numa:2 core:4 thread:2 mem:4G")
    for number in range(40):
        engine.create(container_of(f"web{number}", 0.1, app="web"))
    some = [
        {"topologyKey": "socket", "labelSelector": {"matchExpressions": [
            {"key": "app", "operator": "In", "values": ["web", f"nobody{number}"]}
        ]}}
        for number in range(rules)
    ]  # fmt: skip
    shop = container_of("shop", 0.1, apart(*some), fails=True)
    said = list[str]()
    calls = count_calls(lambda: said.append(reason(engine.create(shop))))
    assert "to make room, stop or move" in said[0]
    return calls


def test_whom_a_departure_parts_from_one_they_must_be_with_takes_a_few_at_a_time() -> None:
    few, many = (_calls_of_parting(owners) for owners in (40, 80))
    assert many < few + 40 * 12, "those that it does not look at are but found"


def _calls_of_parting(owners: int) -> int:
    """Of a removal that leaves so many without the one that they must be with."""
    engine = engine_of("numa:1 core:100 mem:64G")
    friend = container_of("friend", 0.1)
    placed(engine, friend)
    for number in range(owners):
        placed(engine, container_of(f"owner{number}", 1, _WITH_FRIEND))
    assert _kept_for(engine) == owners
    calls = count_calls(lambda: engine.remove(friend.id))
    assert 0 < _kept_for(engine) < owners
    while left := _kept_for(engine):
        engine.widen()
        assert _kept_for(engine) < left, "those that are left come in later events"
    return calls


def _kept_for(engine: Engine) -> int:
    return sum([bool(one.beside) for one in engine.grants.values()])


def test_who_gets_cpus_back_and_for_whom_they_were_kept_share_the_effort_of_an_event() -> None:
    alone, beside_others = (_given_back_by_a_departure(owners) for owners in (0, 40))
    assert 0 < beside_others < alone < 40


def _given_back_by_a_departure(owners: int) -> int:
    """To how many more is given, where so many owners were parted from their friend just before."""
    engine = engine_of("socket:2 numa:2 core:60 mem:4G")
    rules = {**apart(term("numa", "shop")), **_WIDE}
    webs = [container_of(f"web{number}", 0.01, rules, app="web") for number in range(40)]
    friend, shop = container_of("friend", 0.1), container_of("shop", 0.1)
    some = [container_of(f"owner{number}", 1, _WITH_FRIEND) for number in range(owners)]
    for one in (*webs, shop, friend, *some):
        placed(engine, one)
    assert all(engine.grants[one.id].within is not None for one in webs)
    assert _kept_for(engine) == owners
    engine.remove(friend.id)
    kept, before = _kept_for(engine), dict(engine.grants)
    engine.remove(shop.id)
    assert _kept_for(engine) < kept or not owners
    return sum(engine.grants[one.id] != before[one.id] for one in webs)


def test_who_would_make_way_again_is_asked_for_a_few_at_a_time() -> None:
    few, many = (_calls_of_an_end(webs) for webs in (100, 200))
    assert many < few + 100 * 10


def _calls_of_an_end(webs: int) -> int:
    """Of one that may be back, for which so many made way who would not do so again."""
    engine = engine_of("socket:2 numa:2 core:4 thread:2 mem:4G")
    rules = {**apart(term("numa", "shop")), **_WIDE}
    for number in range(webs):
        placed(engine, container_of(f"web{number}", 0.001, rules, app="web"))
    shop = container_of("shop", 0.1)
    assert len(engine.create(shop).changes) == webs
    placed(engine, container_of("fan", 0.01, near(term("numa", "web"))))
    before = dict(engine.grants)
    calls = count_calls(lambda: engine.stop(shop.id))
    assert all(engine.grants[one] is before[one] for one in engine.grants)
    return calls


def test_whom_one_must_be_with_is_read_without_what_others_want() -> None:
    few, many = (_calls_of_parting_amid(others) for others in (2, 42))
    assert many < few + 40 * 5


def _calls_of_parting_amid(others: int) -> int:
    """Of a removal that parts an owner from its friend, about which so many others have rules."""
    engine = engine_of("numa:1 core:100 mem:64G")
    friend, owner = container_of("friend", 0.1), container_of("owner", 1, _WITH_FRIEND, app="shop")
    placed(engine, friend)
    placed(engine, owner)
    for number in range(others):
        rules = apart({**term("core"), "labelSelector": _said_of("shop", f"nobody{number}")})
        placed(engine, container_of(f"other{number}", 1, rules))
    calls = count_calls(lambda: engine.remove(friend.id))
    assert _kept_for(engine) == 0
    return calls


def test_cpus_shared_in_each_core_are_compared_with_all_of_those_needed_together() -> None:
    few, many = (_calls_of_parting_in(cores) for cores in (25, 100))
    assert many < 3 * few


def _calls_of_parting_in(cores: int) -> int:
    """Of a friend that gets other cpus, and an owner that shares all cores with more friends."""
    engine = engine_of(f"numa:1 core:{cores} thread:2 mem:64G")
    placed(engine, container_of("wide", 0.1, app="friend"))
    some = container_of("some", 1, app="friend")
    placed(engine, some)
    owner = container_of("owner", 2.5, near(term("core", "friend")))
    placed(engine, owner)
    assert len(engine.grants[owner.id].beside) > cores // 2
    return count_calls(lambda: engine.update(some.id, _SHARE))


def test_where_those_in_the_way_are_is_looked_up_once_for_all_departures_that_are_tried() -> None:
    engine = engine_of("socket:2 numa:2 core:4 thread:2 mem:4G")
    for number in range(40):
        engine.create(container_of(f"web{number}", 0.1, app="web"))
    shop = container_of("shop", 0.1, apart(term("socket", "web")), fails=True)
    modules = called_modules(lambda: engine.create(shop))
    assert modules.count("pinfold.policy.books.books") < 108
