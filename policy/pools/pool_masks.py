"""Masks of pools: those that are among the best by one criterion, of all pools at once.

Of hundreds of pools each pass in Python takes as long as a dozen operations on a mask of all of
them. So criteria whose values are known beforehand, or are two, are asked by masks.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import compress
from typing import Final

_FEW: Final = 8
"""So many figures are looked for one after the other: rules draw to few pools, as a rule."""

Pools = int
"""A mask of pools with a byte for each: 1 where it is in, else 0. So texts of bytes are masks."""


@lru_cache(maxsize=8)
def all_pools(size: int) -> Pools:
    """Mask of so many pools, all in."""
    return int.from_bytes(b"\1" * size, "little")


def pools_where(holds: Iterable[bool]) -> Pools:
    """Pools for which something holds; `holds` tells it of all, by pool id."""
    return int.from_bytes(bytes(holds), "little")


def pools_with(figures: Sequence[int], least: int) -> Pools:
    """Pools whose figure is at least so high. `figures`: by pool id, those of all pools."""
    # Twice as fast as a bound method of the number, as integers are compared by the interpreter.
    return int.from_bytes(bytes([one >= least for one in figures]), "little")


def pools_of(ids: Iterable[int], size: int) -> Pools:
    """Pools of these ids, among `size` pools."""
    found = bytearray(size)
    for one in ids:
        found[one] = 1
    return int.from_bytes(found, "little")


def ids_of(pools: Pools, ids: Sequence[int]) -> list[int]:
    """Ids of some pools, ascending. `ids`: those of all pools."""
    return list(compress(ids, pools.to_bytes(len(ids), "little")))


def grades(column: Sequence[int]) -> tuple[Pools, ...]:
    """Pools by their value in a column, those with the smallest first."""
    values = sorted(set(column))
    return tuple([pools_where(map(one.__eq__, column)) for one in values])


def best_of(pools: Pools, ranked: Iterable[Pools]) -> Pools:
    """Pools of the first grade in `ranked` that any is of; all of them where none is of any."""
    for grade in ranked:
        if found := pools & grade:
            return found
    return pools


def highest_of(pools: Pools, figures: Sequence[int]) -> Pools:
    """Pools with the highest figure of them all. `figures`: by pool id, those of all pools."""
    highest = max(compress(figures, pools.to_bytes(len(figures), "little")))
    count = figures.count(highest)
    if count > _FEW:
        return pools & pools_where([one == highest for one in figures])
    found, at = 0, -1
    for _ in range(count):
        at = figures.index(highest, at + 1)
        found |= 1 << 8 * at
    return pools & found
