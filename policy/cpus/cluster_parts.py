"""Parts of clusters: what is left of a request when no whole cluster fits it any more."""

from collections.abc import Iterable, Sequence

from .cpu_blocks import CpuBlocks

Pieces = Sequence[tuple[int, int]]
"""(free cpus of a cluster, how many of them to take)."""


class ClusterParts:
    """Divides a request over the fewest clusters, the one with the least to spare last."""

    def __init__(self, clusters: Iterable[int], regions: Iterable[Sequence[int]]) -> None:
        """`regions`: families of wider masks (L3 groups, NUMA nodes, dies, sockets)."""
        self._cluster_of = {mask & -mask: mask for mask in clusters}
        self._blocks = CpuBlocks(self._cluster_of.values())
        self._cpus = sum(self._cluster_of.values())
        filled = (family for family in regions if family)
        self._regions = sorted(filled, key=lambda one: max(mask.bit_count() for mask in one))
        self.is_empty = not self._cluster_of

    def divide(self, free: int, count: int, *, whole: int, threads: int, taken: int) -> Pieces:
        """Together `count` cpus, in the narrowest region that has them; empty where none fit.

        `whole`: the free cpus in cores with no other user; multiples of `threads` come from those
        where there are enough. `taken`: what the request has already; regions with some of it come
        before all others.
        """
        if free & ~self._cpus:
            return ()
        needed = count - count % threads
        if not needed and (free & ~whole).bit_count() >= count:
            free &= ~whole
        if not needed or whole.bit_count() < needed:
            whole, threads = free, 1
        if taken and (pieces := self._in_regions(free, count, whole, threads, taken)):
            return pieces
        anywhere = self._plan(free, count, whole, threads)
        if len(anywhere) > 1:
            return self._in_regions(free, count, whole, threads, self._cpus) or anywhere
        return anywhere

    def _in_regions(self, free: int, count: int, whole: int, threads: int, near: int) -> Pieces:
        """The best plan of the narrowest regions that hold some of `near` and have `count` cpus."""
        for family in self._regions:
            best: tuple[tuple[int, int, int], Pieces] | None = None
            for region in family:
                room = (free & region).bit_count()
                if room < count or not region & near:
                    continue
                pieces = self._plan(free & region, count, whole & region, threads)
                rank = (len(pieces), room, region & -region)
                if pieces and (best is None or rank < best[0]):
                    best = rank, pieces
            if best:
                return best[1]
        return ()

    def _plan(self, free: int, count: int, whole: int, threads: int) -> Pieces:
        """The largest parts, until one cluster has the rest: the one with the least to spare."""
        by_free = self._blocks.by_free_count(free)
        by_whole = by_free if whole == free else self._blocks.by_free_count(whole)
        pieces: list[tuple[int, int]] = []
        unused = -1
        while True:
            enough = 0
            for firsts in by_whole[count - count % threads :]:
                enough |= firsts & unused
            for firsts in by_free[count:]:
                if fitting := firsts & enough:
                    return (*pieces, (self._cluster_of[fitting & -fitting] & free, count))
            largest = len(by_whole) - 1
            while largest and not by_whole[largest] & unused:
                largest -= 1
            if not largest:
                return ()
            fullest = by_whole[largest] & unused
            first = fullest & -fullest
            pieces.append((self._cluster_of[first] & free, largest))
            unused ^= first
            count -= largest
