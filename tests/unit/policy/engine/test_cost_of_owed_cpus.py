"""What is owed to narrowed shares, and beside companions, is worked out for those alone who ask.

On a large machine there are thousands of sets of cpus of which some are owed.
"""

from collections.abc import Callable

from pinfold.policy.engine.engine import Engine
from tests.unit.counted_calls import called_modules
from tests.unit.policy.engine.ruled_pods import (
    LASTING,
    container_of,
    engine_of,
    placed,
    term,
)

_OWED = "pinfold.policy.books.narrowed_shares"


def _are_called(prefix: str, work: Callable[[], object]) -> bool:
    return any(one.startswith(prefix) for one in called_modules(work))


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
