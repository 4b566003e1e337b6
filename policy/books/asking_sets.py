"""Asking sets: sets of cpus of each of which one is to be shared, for so many who need it."""

from collections.abc import Mapping, Sequence
from typing import Final

from ...topology.sets.cpuset import iter_bits

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

    def copy(self) -> "AskingSets":
        """A copy that changes apart from this one."""
        other = AskingSets()
        other.counts = other._counts = dict(self._counts)
        other._at, other._wide = dict(self._at), dict(self._wide)
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
        if cpus.bit_count() > _NARROW_MAX:
            if before:
                del self._wide[cpus]
            else:
                self._wide[cpus] = None
            return bool(before)
        for cpu in iter_bits(cpus):
            at = self._at.get(cpu, ())
            self._at[cpu] = tuple([one for one in at if one != cpus]) if before else (*at, cpus)
        return bool(before)

    def with_cpu(self, cpu: int) -> Sequence[int]:
        """The sets that have a cpu."""
        wide = [one for one in self._wide if one >> cpu & 1]
        return [*self._at.get(cpu, ()), *wide]
