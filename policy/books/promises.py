"""Promises to those who share cpus: whether all are kept beside another grant.

Which cpus are kept for whom is chosen anew: `Ledger.slice` and what is owed to narrowed shares are
one choice of many.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ...topology.sets.cpuset import CpuSet
from ..model.grant import Grant, PoolId
from .cpu_ledger import Ledger

_SETS_MAX: Final = 128
"""Of shares on more different sets of cpus nobody knows: it would take too long."""


def keeps_promises(grant: Grant, ledger: Ledger, changed: Sequence[Grant] = ()) -> bool:
    """Whether nobody is left without a cpu, or with fewer than promised, as a grant is added.

    `changed`: other grants of some who share; their own cpus are the same. O(pools + grants), and
    O(sets of cpus³) at worst.
    """
    own, free = grant.exclusive.mask, ledger.free_sharable
    if own & ~(free[-1] | ledger.free_isolated[-1]) or ledger.narrowed.alone_without(own, free[-1]):
        return False
    after = ledger.copy()
    after.add(grant)
    for one in changed:
        after.repool(one)
    if not (after.tree.root.reserved or after.free_sharable[-1]):
        # Somebody may come who asks for nothing.
        return False
    wanted: dict[int, int] = {}
    for pool in after.tree.pools:
        for one in after.sharing(pool.id).values():
            cpus = _shared(one.within, pool.id, after)
            if cpus:
                wanted[cpus] = wanted.get(cpus, 0) + one.shared_milli
            elif one is grant or one in changed or _shared(one.within, pool.id, ledger):
                return False
    found = {cpus: milli for cpus, milli in wanted.items() if milli}
    return len(found) <= _SETS_MAX and has_room(found)


def _shared(within: CpuSet | None, pool_id: PoolId, ledger: Ledger) -> int:
    free = ledger.free_sharable[pool_id]
    return free if within is None else free & within.mask


def has_room(wanted: Mapping[int, int]) -> bool:
    """Whether sets of cpus, as masks, have room for so many milli-cpus each, all at once."""
    parts = [-1]
    for cpus in wanted:
        parts = [part for one in parts for part in (one & cpus, one & ~cpus) if part]
    # The last one is in no set.
    parts = [one for one in parts if one > 0]
    sets = sorted(wanted, key=int.bit_count)
    room = _Room([1000 * one.bit_count() for one in parts], [_near(one, parts) for one in sets])
    return all(room.takes(number, wanted[cpus]) for number, cpus in enumerate(sets))


def _near(cpus: int, parts: Sequence[int]) -> Sequence[int]:
    return [number for number, part in enumerate(parts) if part & cpus]


class _Room:
    """Room of parts of cpus, and who has how much of it; who has some moves on where that helps."""

    def __init__(self, left: list[int], parts_of: Sequence[Sequence[int]]) -> None:
        self._left = left
        self._parts_of = parts_of
        self._taken = [dict[int, int]() for _ in left]
        """By part how much of it each has."""

    def takes(self, number: int, milli: int) -> bool:
        """Whether one of them finds so much room."""
        while milli > 0:
            found = self._find(number, milli, set())
            if not found:
                return False
            milli -= found
        return True

    def _find(self, number: int, milli: int, asked: set[int]) -> int:
        asked.add(number)
        for part in self._parts_of[number]:
            if found := min(milli, self._left[part]):
                self._left[part] -= found
                self._note(number, part, found)
                return found
        for part in self._parts_of[number]:
            for other, has in tuple(self._taken[part].items()):
                found = 0 if other in asked else self._find(other, min(milli, has), asked)
                if found:
                    self._note(other, part, -found)
                    self._note(number, part, found)
                    return found
        return 0

    def _note(self, number: int, part: int, milli: int) -> None:
        taken = self._taken[part]
        taken[number] = taken.get(number, 0) + milli
        if not taken[number]:
            del taken[number]
