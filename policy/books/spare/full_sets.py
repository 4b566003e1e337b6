"""Full sets: sets of cpus of which little is left beside what is promised on their cpus alone."""

from typing import Final

_CPU_MILLI: Final = 1000
_NARROW_MAX: Final = 64
_WIDE_MAX: Final = 32
"""So many wide sets are known, the last ones that were found: each is looked at again and again."""
_KNOWN_MAX: Final = 4096
_GIVEN_MAX: Final = 512
"""So many times that something was given back are known; then the older half of them is forgotten,
and with it the narrow sets that nobody asked about since."""
_WHOLE: Final = -1


class FullSets:
    """The sets that turned out to be full, each with at most how many milli-cpus are left of it.

    Whoever moves on to other cpus, no more is left there until somebody gives something back. Sets
    of cpus are masks. What is forgotten is found out again.
    """

    def __init__(self) -> None:
        self._wide: dict[int, tuple[int, int]] = {}
        """Each with the cpus of all who have some of its cpus, and what is left."""
        self._narrow: dict[int, tuple[int, int, int]] = {}
        """Narrow sets likewise, and how much of `_given` counts already. There may be thousands, of
        cores and caches: these are looked up, and gone through only once in a while."""
        self._given: list[tuple[int, int]] = []
        """What was given back: cpus, and milli-cpus of them, or that they were somebody's own."""

    def copy(self) -> "FullSets":
        """A copy that changes apart from this one."""
        other = FullSets()
        # `dict` would put in one by one, and masks of cores have the same few hashes.
        other._wide, other._narrow = self._wide.copy(), self._narrow.copy()
        other._given = list(self._given)
        return other

    def note(self, cpus: int, around: int, milli: int) -> None:
        """At most so much is left of these cpus beside those who have theirs in `around` alone."""
        is_narrow = cpus.bit_count() <= _NARROW_MAX
        known = self._narrow_left(cpus) if is_narrow else self._wide.get(cpus)
        some = self._narrow if is_narrow else self._wide
        if known is not None:
            around, milli = around | known[0], min(milli, known[1])
            del some[cpus]
        elif len(some) >= (_KNOWN_MAX if is_narrow else _WIDE_MAX):
            del some[next(iter(some))]
        if is_narrow:
            self._narrow[cpus] = around, milli, len(self._given)
        else:
            self._wide[cpus] = around, milli

    def left(self, own: int, cpus: int, milli: int) -> int:
        """At most how much of so many milli-cpus is left for a share of some cpus.

        `own`: cpus that somebody takes besides.
        """
        known = self._narrow_left(cpus)
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

    def whole_left(self, cpus: int) -> int:
        """At most how many of some cpus may be taken all at once."""
        found = cpus.bit_count()
        for one, (_, left) in self._wide.items():
            inside = (cpus & one).bit_count()
            if inside * _CPU_MILLI > left:
                found = min(found, cpus.bit_count() - inside + max(left, 0) // _CPU_MILLI)
        return found

    def drop(self, cpus: int, milli: int) -> None:
        """A share of some cpus is given back: that is more where it may have had its own."""
        for one, (around, left) in self._wide.items():
            if around & cpus:
                self._wide[one] = around, left + milli
        self._note_given(cpus, milli)

    def give(self, cpus: int) -> None:
        """Cpus are free that were somebody's own: those who may use them need no others."""
        for one in [one for one, (around, _) in self._wide.items() if around & cpus]:
            del self._wide[one]
        self._note_given(cpus, _WHOLE)

    def _note_given(self, cpus: int, milli: int) -> None:
        if not self._narrow:
            # So it is where nobody asks about what is full.
            return
        self._given.append((cpus, milli))
        if len(self._given) >= _GIVEN_MAX:
            half = _GIVEN_MAX // 2
            self._narrow = {
                one: (around, left, seen - half)
                for one, (around, left, seen) in self._narrow.items()
                if seen >= half
            }
            del self._given[:half]

    def _narrow_left(self, cpus: int) -> tuple[int, int] | None:
        """The cpus around a narrow set and what is left of it by now; None: it is not known."""
        known = self._narrow.get(cpus)
        if known is None:
            return None
        around, left, seen = known
        if seen < len(self._given):
            for given, milli in self._given[seen:]:
                if not given & around:
                    continue
                if milli == _WHOLE:
                    del self._narrow[cpus]
                    return None
                left += milli
            self._narrow[cpus] = around, left, len(self._given)
        return around, left
