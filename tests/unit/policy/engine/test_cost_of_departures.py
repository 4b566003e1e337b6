"""What a departure costs beside many who may get back what they gave up for others."""

from tests.unit.counted_calls import count_calls
from tests.unit.policy.engine.ruled_pods import (
    PREFERRED,
    apart,
    container_of,
    engine_of,
    near,
    placed,
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
