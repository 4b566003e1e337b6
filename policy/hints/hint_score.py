"""Scores of pools: how near each is to what a container's hints point at."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from ..model.hint import Hint, HintOrigin
from ..pools.pool_tree import PoolTree


def scores(
    tree: PoolTree, hints: Iterable[Hint], regions: Sequence[int] | None = None
) -> Sequence[tuple[int, int]]:
    """Scores by pool id: the product of all hints' scores, and that of those that are not zero.

    A resolved hint's score is the share of its cpus that are in the pool, or in the region of it
    that is left. Of memory that a container has all pools score alike that have none but its cpus:
    in a wider pool it would get further memory. Whole numbers, exact after one common scale: they
    compare with those of the same call only. Empty where no hint tells pools apart. O(pools x
    different sets of cpus).
    """
    everything = tree.root.cpus.mask
    # What is near all cpus (a machine of one NUMA node, firmware that does not know) says nothing,
    # but would count against every pool smaller than the whole.
    telling = Counter(
        (hint.cpus.mask, hint.origin is HintOrigin.MEMORY)
        for hint in hints
        if hint.cpus and everything & ~hint.cpus.mask
    )
    if not telling:
        return ()
    masks = tree.masks if regions is None else regions
    found = [_score(mask, telling) for mask in masks]
    scale = math.gcd(*(value for pair in found for value in pair)) or 1
    return [(full // scale, partial // scale) for full, partial in found]


def _score(pool: int, telling: Counter[tuple[int, bool]]) -> tuple[int, int]:
    """Both products times the number of cpus of every hint, which makes them whole."""
    full, partial, is_near_any = 1, 1, False
    for (mask, is_memory), times in telling.items():
        inside = (mask & pool).bit_count()
        if is_memory:
            inside = mask.bit_count() * (inside > 0 and not pool & ~mask)
        full *= inside**times
        partial *= (inside or mask.bit_count()) ** times
        is_near_any |= inside > 0
    return full, partial if is_near_any else 0
