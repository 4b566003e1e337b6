"""Faults of the fields about moves of containers that run, beyond their types."""

from collections.abc import Iterator
from typing import Final

from ..text.errors import ConfigError
from ..text.quantity import parse_nanoseconds
from .config import Config
from .shape import Fault, range_faults

_MOVES_MAX: Final = 600


def moving_faults(config: Config) -> Iterator[Fault]:
    """Faults of the grace period and the budgets of moves."""
    section = config.during_execution
    try:
        parse_nanoseconds(section.grace_period)
    except ConfigError as error:
        yield Fault(("duringExecution", "gracePeriod"), str(error))
    path = "duringExecution", "movesPerMinute"
    yield from range_faults(path, section.moves_per_minute, 0, _MOVES_MAX)
    path = "rebalance", "movesPerHour"
    yield from range_faults(path, config.rebalance.moves_per_hour, 0, _MOVES_MAX)
