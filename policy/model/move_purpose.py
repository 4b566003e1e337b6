"""Purposes of moves to another pool."""

import enum


class MovePurpose(enum.Enum):
    """The purpose of a move to another pool, in the words that decisions have for it."""

    RULES = "mended"
    WISHES = "rebalance"
    ASIDE = "stepped_aside"
    """It gains nothing by it; the moves that follow do."""
    ONE_NUMA_NODE = "one_numa_node"
    WHOLE_CPUS = "gathered"
