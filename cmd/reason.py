"""Why a container is where it is, in one line for people."""

from collections.abc import Mapping
from typing import Final

from ..policy.decision import Decision, Refusal
from ..policy.pool import PoolTree
from ..policy.rank import Rank

CRITERIA: Final[Mapping[str, str]] = {
    "crowded": "the others have no room left for shared cpu",
    "isolated_missing": "it has the isolated cpus wanted",
    "affinity": "nearest to the containers it wants near, farthest from those it avoids",
    "hints": "nearest to its devices and mounts",
    "hints_partial": "nearest to some of its devices and mounts",
    "hints_depth": "nearest to its devices and mounts, and the tightest such pool",
    "hints_pool": "nearest to its devices and mounts, and the first such pool",
    "memory_type": "it has memory of exactly the type wanted",
    "memory_limit": "its memory holds the container's limit",
    "cpu_limit": "its shared cpus hold the container's limit",
    "burst_level": "it is of the level where containers without a cpu limit may burst",
    "burst_room": "it has most shared cpu to burst into",
    "burst_pool": "equal in all that matters: the first pool",
    "memory_nodes": "it needs the fewest memory nodes",
    "memory_missing": "it has the memory types wanted",
    "cpu_class": "its cpus suit the cpu class",
    "cpu_priority": "it has enough cpus of the priority wanted",
    "depth": "the tightest pool that holds it",
    "isolated_room": "it has most isolated cpus left",
    "isolated_pool": "equal in all that matters: the first pool",
    "cpu_priority_normal": "it has enough cpus of normal priority",
    "exclusive_room": "it has most room left",
    "exclusive_pool": "equal in all that matters: the first pool",
    "neighbours": "it has the fewest containers",
    "shared_room": "it has most shared cpu left",
    "pool_id": "equal in all that matters: the first pool",
}
"""What it means that a field of `Rank` decided."""

_OTHERS: Final[Mapping[str, str]] = {
    "only_candidate": "no other pool holds it",
    "current pool": "it stays where it is",
    "room_made": "it has room once shared containers were moved to wider pools",
    "resize": "it grows or shrinks in place",
    "kept": "it ran there already",
    "runs already": "it runs already and cannot be refused",
    "reserved cpus": "served from the reserved cpus",
    "preserve cpus": "its cpus are left alone, as its annotation asks",
}


def reason_of(decision: Decision, tree: PoolTree) -> str:
    """The reason of a decision; for a choice also the runner-up."""
    if isinstance(decision.result, Refusal):
        return f"refused: {decision.result.reason}"
    word = decision.decided_by
    text = CRITERIA.get(word) or _OTHERS.get(word) or word.replace("_", " ")
    others = [
        one
        for one in decision.candidates
        if isinstance(one, Rank) and one.pool_id != decision.result.pool_id
    ]
    if word not in CRITERIA or not others:
        return text
    return f"{text} (next best: {tree.pools[min(others).pool_id].name})"
