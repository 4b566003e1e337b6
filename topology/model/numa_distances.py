"""The kernel's distances of NUMA nodes from each other, and which nodes are nearest."""

from collections.abc import Sequence
from typing import Final

from ..sets.cpuset import NodeSet, iter_bits

_TO_ITSELF: Final = 10
_TO_OTHERS: Final = 20


class NumaDistances:
    """Distances of NUMA nodes: the kernel's, or 10 to itself and 20 to others where it has none.

    Immutable, but for a cache of answers.

    >>> distances = NumaDistances([0, 1, 2], [[10, 11, 21], [11, 10, 21], [21, 21, 10]])
    >>> str(distances.nearest(NodeSet.of(2), NodeSet.of(0, 1)))
    '0-1'
    """

    def __init__(self, ids: Sequence[int], rows: Sequence[Sequence[int]] = ()) -> None:
        """`rows`: one per id, in their order, with a column per id; or none."""
        self._ids = tuple(ids)
        self._rows = {one: tuple(row) for one, row in zip(ids, rows, strict=True)} if rows else {}
        self._columns = {one: column for column, one in enumerate(ids)}
        self._rings: dict[int, tuple[tuple[int, int], ...]] = {}

    def between(self, one: int, other: int) -> int:
        """The distance from one NUMA node to another."""
        row, column = self._rows.get(one), self._columns.get(other)
        if row is not None and column is not None:
            return row[column]
        return _TO_ITSELF if one == other else _TO_OTHERS

    def nearest(self, starts: NodeSet, candidates: NodeSet) -> NodeSet:
        """The nodes of `candidates` that are nearest to any node of `starts`; no known ones: none.

        All nodes at the smallest distance there is, none that is farther.
        """
        least, found = 0, 0
        for start in iter_bits(starts.mask if candidates else 0):
            for distance, ring in self._rings_around(start):
                if found and distance > least:
                    break
                if near := ring & candidates.mask:
                    found = found | near if distance == least else near
                    least = distance
                    break
        return NodeSet(found)

    def _rings_around(self, start: int) -> tuple[tuple[int, int], ...]:
        """Each distance from a node and the nodes at it, as a mask; ascending."""
        rings = self._rings.get(start)
        if rings is None:
            masks: dict[int, int] = {}
            for other in self._ids:
                distance = self.between(start, other)
                masks[distance] = masks.get(distance, 0) | 1 << other
            rings = self._rings[start] = tuple(sorted(masks.items()))
        return rings
