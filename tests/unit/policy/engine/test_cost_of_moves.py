"""What it costs to find whom required affinity is about, as many share fewer cpus at once."""

from tests.unit.counted_calls import count_lines
from tests.unit.policy.engine.ruled_pods import container_of, engine_of, near, placed, term

_WITH_WEB = near(term("core", "web"))


def test_where_owners_are_is_looked_up_once_for_all_who_leave_a_core_together() -> None:
    few, many = (_lines_of_an_arrival(owners) for owners in (20, 80))
    assert many < 5 * few, "each was told its cpus by itself, and all leave the same core"


def _lines_of_an_arrival(owners: int) -> int:
    """Of one that gets cpus that so many share; as many owners must be with those."""
    engine = engine_of("socket:2 numa:1 core:8 thread:2 mem:64G")
    for number in range(owners):
        placed(engine, container_of(f"web{number}", 0, app="web"))
        placed(engine, container_of(f"owner{number}", 0, _WITH_WEB))
    return count_lines(lambda: engine.create(container_of("newcomer", 7)))
