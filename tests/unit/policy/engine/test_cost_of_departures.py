"""What a departure costs beside many: one that happens, and one that a refusal thinks of."""

from tests.unit.counted_calls import count_calls
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
