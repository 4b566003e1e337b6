"""Words of a decision's reason: what it means that a criterion, or something else, decided.

The one table from criteria to words: the log, `simulate`, `demo` and plans say the same. It imports
nothing of the policy, so that a command that asks a daemon need not load it.
"""

from collections.abc import Mapping
from typing import Final

EVERY_POOL: Final = "every pool"
"""The pools in the reason of a refusal, where all are dropped for the same."""
_TIE: Final = "a tie: the first of equal pools"

CRITERIA: Final[Mapping[str, str]] = {
    "unmet": "it breaks the fewest required rules",
    "unmet_of_others": "it breaks the fewest required rules of other containers",
    "narrowed": "the fewest shared containers had to make way",
    "crowded": "the others have no room left for shared cpu",
    "isolated_missing": "it has the isolated cpus wanted",
    "preferred": "it suits the preferred rules best",
    "affinity": "nearest to the containers it wants near, farthest from those it avoids",
    "hints": "nearest to its devices and mounts, or to its memory",
    "hints_partial": "nearest to some of its devices and mounts, or of its memory",
    "hints_depth": "the tightest pool nearest to its devices and mounts, or to its memory",
    "hints_pool": _TIE,
    "memory_type": "it has memory of exactly the type wanted",
    "memory_limit": "its memory holds the container's limit",
    "cpu_limit": "its shared cpus hold the container's limit",
    "burst_level": "it is of the level where containers without a cpu limit may burst",
    "friends_room": "it has most room around it for containers that come to join it",
    "burst_room": "it has most shared cpu to burst into",
    "burst_pool": _TIE,
    "memory_nodes": "it needs the fewest memory nodes",
    "memory_missing": "it has the memory types wanted",
    "cpu_class": "its cpus suit the cpu class",
    "cpu_priority": "it has enough cpus of the priority wanted",
    "depth": "the tightest pool that holds it",
    "isolated_room": "it has most isolated cpus left",
    "isolated_pool": _TIE,
    "cpu_priority_normal": "it has enough cpus of normal priority",
    "exclusive_room": "it has most room left",
    "exclusive_pool": _TIE,
    "neighbours": "it has the fewest containers",
    "shared_room": "it has most shared cpu left",
    "pool_id": _TIE,
}
"""What it means that a field of `Rank` decided."""

_OTHERS: Final[Mapping[str, str]] = {
    "only_candidate": "no other pool holds it",
    "current pool": "it stays where it is",
    "room_made": "it has room once shared containers were moved to wider pools",
    "restarted": "it ran there before its restart",
    "made_way": "rules keep others on the cpus that it had before its restart",
    "replaced": "a rule required during its execution holds there",
    "mended": "a required rule holds there that did not hold where it was",
    "rebalance": "more of what containers wish of each other is satisfied there",
    "stepped_aside": "others gain, or a rule holds, by the moves that follow its own",
    "one_numa_node": "one NUMA node has room for all of it",
    "gathered": "it leaves a whole cpu free, of which there are few",
    "resize": "it grows or shrinks in place",
    "pen": "its pod or its group runs there",
    "pen returned": "its pod or its group ran there before",
    "kept": "it ran there already",
    "runs already": "it runs already and cannot be refused",
    "reserved cpus": "served from the reserved cpus",
    "normal cpus": "the reserved cpus, which are for it, have no room for it",
    "preserve cpus": "its cpus are left alone: its annotation asks for that, or others set them",
}


def words_of(decided_by: str) -> str:
    """The meaning of `Decision.decided_by`; words that are none of ours are passed on."""
    return CRITERIA.get(decided_by) or _OTHERS.get(decided_by) or decided_by.replace("_", " ")


def moved_text(before: str, pool: str) -> str:
    """The reason of a place that is another one than that of the decision, by the two pools.

    Others needed room, or its pen or its pod grew.
    """
    return f"it was placed in {before}; what happened since has put it into {pool}"
