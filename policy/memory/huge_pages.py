"""Huge pages promised to sets of memory nodes: how many of the promises can be kept at once.

A container may find its pages on any of its nodes. Sets that cross each other share pages without
one being part of the other, so sums over single sets do not tell; this is a flow problem.
"""

from collections.abc import Mapping

from ...topology.sets.cpuset import iter_bits


def pages_short(promised: Mapping[int, int], pages: Mapping[int, int]) -> int:
    """The pages that are missing however the others are dealt out; 0 where all promises hold.

    `promised`: number of pages by the mask of the nodes they may come from; `pages`: number of
    pages by node. Cost O(sets x nodes) for each set, and more where many sets cross.
    """
    dealt: dict[int, dict[int, int]] = {mask: {} for mask in promised}
    left = dict(pages)
    short = 0
    for mask, count in promised.items():
        while count > 0:
            moved = _deal(mask, count, dealt, left)
            if not moved:
                short += count
                break
            count -= moved
    return short


def _deal(mask: int, count: int, dealt: dict[int, dict[int, int]], left: dict[int, int]) -> int:
    """Give a set up to `count` pages, others taking theirs elsewhere; returns how many it got."""
    # How each set was reached: from which set, over which node.
    reached: dict[int, tuple[int, int] | None] = {mask: None}
    queue = [mask]
    for here in queue:
        for node in iter_bits(here):
            if left.get(node, 0) > 0:
                return _pass_on(here, node, min(count, left[node]), reached, dealt, left)
            for other, held in dealt.items():
                if other not in reached and held.get(node, 0) > 0:
                    reached[other] = (here, node)
                    queue.append(other)
    return 0


def _pass_on(
    last: int,
    free: int,
    count: int,
    reached: Mapping[int, tuple[int, int] | None],
    dealt: dict[int, dict[int, int]],
    left: dict[int, int],
) -> int:
    """Move pages along the way back to the set that needs them; returns how many."""
    here, way = last, list[tuple[int, int, int]]()
    while (step := reached[here]) is not None:
        before, node = step
        way.append((before, here, node))
        count = min(count, dealt[here][node])
        here = before
    left[free] -= count
    dealt[last][free] = dealt[last].get(free, 0) + count
    for before, after, node in way:
        dealt[after][node] -= count
        dealt[before][node] = dealt[before].get(node, 0) + count
    return count
