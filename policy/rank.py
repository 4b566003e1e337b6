"""The order in which feasible pools are preferred, written once, as a type."""

from typing import NamedTuple


class Rank(NamedTuple):
    """Criteria in order of importance; the smaller value wins; the last field is unique.

    The first field in which two ranks differ is the reason for the choice.
    """

    crowded: int
    """1 where shared requests would take more than the pool has left."""
    isolated_missing: int
    """1 where isolated cpus were wanted and the pool has too few of them."""
    affinity: int
    """Minus the affinity of the pool (scaled integer)."""
    hints: int
    hints_partial: int
    hints_depth: int
    hints_pool: int
    memory_type: int
    """1 where the memory zone is not of exactly the types asked for."""
    memory_limit: int
    """1 where the pool's memory is smaller than the container's limit."""
    cpu_limit: int
    """1 where the pool's sharable cpus are fewer than the container's limit."""
    burst_level: int
    """Distance from the level wanted for containers with no cpu limit."""
    burst_room: int
    burst_pool: int
    memory_nodes: int
    """Number of nodes in the memory zone."""
    memory_missing: int
    """1 where a memory type asked for is not among the pool's nodes."""
    cpu_class: int
    cpu_priority: int
    depth: int
    """Minus the depth in the pool tree: the tightest pool first."""
    isolated_room: int
    isolated_pool: int
    cpu_priority_normal: int
    exclusive_room: int
    exclusive_pool: int
    neighbours: int
    """Number of containers of the same cpu type in exactly this pool."""
    shared_room: int
    pool_id: int


def decided_by(winner: Rank, loser: Rank) -> str:
    """The name of the first criterion in which the two differ."""
    for name, one, other in zip(Rank._fields, winner, loser, strict=True):
        if one != other:
            return name
    raise AssertionError("two pools of one rank: pool ids are unique")


class Dropped(NamedTuple):
    """Why a pool was not a candidate: it has too little of something, or a rule is against it."""

    criterion: str
    """What was short: exclusive cpus, shared cpus, memory …"""
    wanted: str
    available: str

    def __str__(self) -> str:
        return f"{self.criterion}: wanted {self.wanted}, available {self.available}"
