"""The nesting of levels: whose domains lie inside those of another level, as on most machines."""

from collections.abc import Mapping
from typing import Final

from ...topology.model.machine import Level

INNER_LEVELS: Final[Mapping[Level, frozenset[Level]]] = {
    Level.SOCKET: frozenset({Level.DIE, Level.NUMA, Level.L3, Level.CLUSTER, Level.CORE}),
    Level.DIE: frozenset({Level.L3, Level.CLUSTER, Level.CORE}),
    Level.NUMA: frozenset({Level.CLUSTER, Level.CORE}),
    Level.L3: frozenset({Level.CLUSTER, Level.CORE}),
    Level.CLUSTER: frozenset({Level.CORE}),
    Level.CORE: frozenset[Level](),
}
"""Levels whose domains lie inside those of a level on almost every machine; NUMA and L3 differ."""
_MAY_CROSS: Final = (Level.NUMA, Level.CLUSTER)
"""A machine without clusters has L3 caches in their place, and those may span NUMA nodes."""


def is_apart_inside(apart: Level, level: Level) -> bool:
    """Whether those that keep apart at one level are never together at another one."""
    return apart is level or (level in INNER_LEVELS[apart] and (apart, level) != _MAY_CROSS)
