"""Asking sets: sets of cpus of each of which one is to be shared, for so many who need it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ....topology.sets.cpuset import iter_bits

_NARROW_MAX: Final = 64


class AskingSets:
    """The sets of cpus of which one is needed, and by how many. Sets are masks."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.counts: Mapping[int, int] = self._counts
        """How many need one cpu of a set, by set."""
        self._at: dict[int, tuple[int, ...]] = {}
        """The narrow ones of these sets by cpu: there may be thousands, of cores and caches."""
        self._wide: dict[int, None] = {}
        self._unfiled: dict[int, None] = {}
        """Narrow ones that are not found by cpu yet: it may never be asked."""
        self._with: dict[int, Sequence[int]] = {}
        """All sets that have a cpu, of those asked about since there were others."""

    def copy(self) -> "AskingSets":
        """A copy that changes apart from this one."""
        self._file()  # Once for all copies.
        other = AskingSets()
        # `dict` would put in one by one, and masks of cores have the same few hashes.
        other.counts = other._counts = self._counts.copy()
        other._at, other._wide = dict(self._at), self._wide.copy()
        other._with = dict(self._with)
        return other

    def change(self, cpus: int, count: int) -> bool:
        """Note that so many more need a cpu of these, or fewer; whether nobody does any longer."""
        before = self._counts.get(cpus, 0)
        if before + count:
            self._counts[cpus] = before + count
        else:
            del self._counts[cpus]
        if before and before + count:
            return False
        self._with.clear()
        some = self._wide if cpus.bit_count() > _NARROW_MAX else self._unfiled
        if not before:
            some[cpus] = None
        elif cpus in some:
            del some[cpus]
        else:
            for cpu in iter_bits(cpus):
                self._at[cpu] = tuple([one for one in self._at[cpu] if one != cpus])
        return bool(before)

    def with_cpu(self, cpu: int) -> Sequence[int]:
        """The sets that have a cpu."""
        found = self._with.get(cpu)
        if found is None:
            self._file()
            wide = [one for one in self._wide if one >> cpu & 1]
            found = self._with[cpu] = [*self._at.get(cpu, ()), *wide]
        return found

    def in_place_of(self, unused: Iterable[int], kept: int, free: int) -> tuple[int, int]:
        """Masks of a free cpu, and of several kept ones, that need not be kept once it is.

        Nothing where there is no such. `unused`: the kept ones that may be let go. O(these x sets
        that have them).
        """
        serving = {cpu: self._serving(cpu, kept) & free for cpu in unused}
        once = several = 0
        for mask in serving.values():
            several |= once & mask
            once |= mask
        one = several & -several
        left = kept | one
        for cpu in [cpu for cpu, mask in serving.items() if mask & one]:
            rest = left & ~(1 << cpu)
            if all(map(rest.__and__, self.with_cpu(cpu))):
                left = rest
        others = kept & ~left
        return (one, others) if others & (others - 1) else (0, 0)

    def _serving(self, cpu: int, kept: int) -> int:
        """A mask of the cpus each of which would do in place of a kept one."""
        others, found = kept & ~(1 << cpu), -1
        for cpus in self.with_cpu(cpu):
            if not cpus & others:
                found &= cpus
        return found

    def _file(self) -> None:
        for cpus in self._unfiled:
            for cpu in iter_bits(cpus):
                self._at[cpu] = (*self._at.get(cpu, ()), cpus)
        self._unfiled.clear()
