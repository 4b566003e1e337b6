"""What it costs to find whom required affinity is about, as many share fewer cpus at once."""

from msgspec import structs

from pinfold.policy.model.container import Resources
from tests.unit.counted_calls import called_modules, count_lines
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


def test_where_nobody_has_rules_no_domains_are_worked_out() -> None:
    """On a large machine there are thousands, and most nodes never need them."""
    engine = engine_of("socket:2 numa:2 core:4 thread:2 mem:4G")
    sharer = container_of("sharer", 0)
    it = structs.replace(container_of("it", 1), resources=Resources())

    def live() -> None:
        placed(engine, sharer)
        placed(engine, it)
        engine.update(it.id, Resources(cpu_request_milli=1000, cpu_limit_milli=1000))
        engine.remove(it.id)

    assert "pinfold.policy.pools.domains" not in called_modules(live)
