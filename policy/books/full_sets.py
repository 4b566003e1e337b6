"""Full sets: sets of cpus of which little is left beside what is promised on their cpus alone."""

from collections.abc import Iterator
from typing import Final

_CPU_MILLI: Final = 1000
_NARROW_MAX: Final = 64
_WIDE_MAX: Final = 32
"""So many wide sets are known, the last ones that were found: each is looked at again and again."""
_KNOWN_MAX: Final = 4096


class FullSets:
    """The sets that turned out to be full, each with at most how many milli-cpus are left of it.

    Whoever moves on to other cpus, no more is left there until somebody gives something back. Sets
    of cpus are masks. What is forgotten is found out again.
    """

    def __init__(self) -> None:
        self._wide: dict[int, tuple[int, int]] = {}
        """Each with the cpus of all who have some of its cpus, and what is left."""
        self._narrow: dict[int, tuple[int, int]] = {}
        """There may be thousands, of cores and caches: these are looked up, never gone through."""

    def copy(self) -> "FullSets":
        """A copy that changes apart from this one."""
        other = FullSets()
        other._wide, other._narrow = dict(self._wide), dict(self._narrow)
        return other

    def note(self, cpus: int, around: int, milli: int) -> None:
        """At most so much is left of these cpus beside those who have theirs in `around` alone."""
        is_narrow = cpus.bit_count() <= _NARROW_MAX
        some = self._narrow if is_narrow else self._wide
        known = some.pop(cpus, None)
        if known is not None:
            around, milli = around | known[0], min(milli, known[1])
        elif len(some) >= (_KNOWN_MAX if is_narrow else _WIDE_MAX):
            del some[next(iter(some))]
        some[cpus] = around, milli

    def left(self, own: int, cpus: int, milli: int) -> int:
        """At most how much of so many milli-cpus is left for a share of some cpus.

        `own`: cpus that somebody takes besides.
        """
        known = self._narrow.get(cpus)
        if known is not None and known[1] < milli:
            milli = known[1]
        for one, (_, left) in self._wide.items():
            if cpus & one == cpus:
                left -= _CPU_MILLI * (own & one).bit_count()
                milli = min(left, milli)
        return max(milli, 0)

    def closed_by(self, taken: int) -> int:
        """All cpus of the wide sets of which no whole one is left once some are taken."""
        found = 0
        for one, (_, left) in self._wide.items():
            if left < _CPU_MILLI * (1 + (taken & one).bit_count()):
                found |= one
        return found

    def drop(self, cpus: int, milli: int) -> None:
        """A share of some cpus is given back: that is more where it may have had its own."""
        if not self._wide and not self._narrow:
            # So it is where nobody asks about what is full.
            return
        for some in (self._wide, self._narrow):
            for one, (around, left) in self._concerned(some, cpus):
                some[one] = around, left + milli

    def give(self, cpus: int) -> None:
        """Cpus are free that were somebody's own: those who may use them need no others."""
        if not self._wide and not self._narrow:
            return
        for some in (self._wide, self._narrow):
            for one, _ in self._concerned(some, cpus):
                del some[one]

    @staticmethod
    def _concerned(
        some: dict[int, tuple[int, int]], cpus: int
    ) -> Iterator[tuple[int, tuple[int, int]]]:
        yield from [item for item in some.items() if item[1][0] & cpus]
