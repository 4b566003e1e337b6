"""What is owed to narrowed shares, and beside companions, is worked out for those alone who ask.

On a large machine there are thousands of sets of cpus of which some are owed.
"""

from collections.abc import Callable

from msgspec.structs import replace

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container
from tests.unit.counted_calls import called_modules
from tests.unit.policy.engine.ruled_pods import (
    LASTING,
    apart,
    container_of,
    cpus,
    engine_of,
    placed,
    reason,
    term,
)

_OWED = "pinfold.policy.books.narrowed_shares"


def _are_called(prefix: str, work: Callable[[], object]) -> bool:
    return any(one.startswith(prefix) for one in called_modules(work))


def _held_apart() -> tuple[Engine, Container]:
    """A share that is left one cpu of three."""
    engine = engine_of("socket:1 numa:1 core:2 thread:2 mem:4G")
    one = container_of("one", 0.5, apart(term("core", "noisy")))
    assert placed(engine, one) == "1-3"
    placed(engine, container_of("noisy", 1))
    assert cpus(engine, one) == "1"
    return engine, one


def test_a_share_that_rules_keep_from_growing_is_told_what_they_leave_to_share() -> None:
    engine, one = _held_apart()
    grown = replace(one.resources, cpu_request_milli=1500)
    assert "rules between containers leave 1000m" in reason(engine.update(one.id, grown))


def _companions(*owners: str) -> Engine:
    """Owners of rules that want to go on sharing with a friend the cores on which it runs."""
    engine = engine_of("socket:1 numa:2 core:8 thread:2 mem:4G")
    placed(engine, container_of("friend"))
    rules = {"podAffinity": {LASTING: [term("core", "friend")]}}
    for name in owners:
        placed(engine, container_of(name, 1, rules))
    return engine


def test_a_look_at_rules_adds_up_nothing_that_is_owed() -> None:
    engine = _companions("owner", "other")
    placed(engine, container_of("newcomer", 1))
    engine.stop(container_of("newcomer").id)
    assert engine.look_at_rules().keys() == {container_of("owner").id, container_of("other").id}
    engine.create(container_of("newcomer", 1))
    assert not _are_called(_OWED, engine.look_at_rules)


def test_what_is_owed_is_added_up_while_nobody_waits() -> None:
    engine = _companions("owner", "other")
    engine.stop(container_of("other").id)
    assert _are_called(_OWED, engine.prepare)
