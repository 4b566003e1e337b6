"""Bounds of cpus: how many a newcomer needs of a place at least, whatever the pool."""

from collections.abc import Mapping, Sequence
from functools import reduce

from ....topology.model.machine import Level
from ....topology.sets.cpuset import lowest_cpu
from ...books.cpu_ledger import Ledger
from ...model.request import Request
from ..judging.judgement import Judgement


class CpuBounds:
    """The bounds for one newcomer: places below them fit nowhere, others may."""

    def __init__(self, request: Request, judgement: Judgement, ledger: Ledger) -> None:
        self._domains = judgement.domains
        self._left = ledger.free_sharable[-1]
        self._count = self._least = request.exclusive
        may_be_isolated = request.exclusive > 0 and request.may_take_isolated(
            ledger.free_isolated[-1]
        )
        if may_be_isolated:
            self._left |= ledger.free_isolated[-1]
            self._beside = self._left
        else:
            # Those that need not be left to others.
            self._beside = self._left & ~judgement.owed_first
            if request.needs_shared_cpu:
                self._least += max(1, -(-request.shared_milli // 1000))
        self._narrowest: tuple[Level, int, int] | None = None
        """The narrowest level of companions, the cpus that they share, and the last of each domain
        of which all that are shared are left."""
        self._holders: Mapping[int, int] = {}
        narrowest = judgement.narrowest_sharing
        if narrowest is not None and request.exclusive and not may_be_isolated:
            level, holders, shared, last = narrowest
            taken = judgement.domains.covering(level, shared & ~ledger.free_sharable[-1])
            self._narrowest, self._holders = (level, shared, last & ~taken), holders

    @property
    def is_some(self) -> bool:
        """Whether no place without cpus that are left may fit."""
        return self._least > 0

    def may_ever_fit(self, cpus: int) -> bool:
        """Whether some pool may have what the newcomer asks for on these cpus, or on more."""
        if (cpus & self._left).bit_count() < self._least:
            return False
        return (cpus & self._beside).bit_count() >= self._count

    def may_fit(self, cpus: int) -> bool:
        """Whether some pool may have what the newcomer asks for on these cpus alone."""
        left, count = (cpus & self._left).bit_count(), self._count
        if left < self._least or (cpus & self._beside).bit_count() < count:
            return False
        if self._narrowest is None:
            return True
        _, shared, last = self._narrowest
        domain = self._holders.get(lowest_cpu(cpus), 0)
        here = domain & shared
        if not domain & last or domain & cpus != cpus or here & cpus != here:
            return True
        # One of them is left to companions, and all of those that may be it are here, and free.
        return left > count

    def may_fit_domains(self, level: Level) -> int:
        """The domains of a level that may fit by `may_fit`, and maybe some more, as a set."""
        by_left = self._domains.by_count(level, self._left)
        found = _together(by_left[self._least :])
        if self._count:
            found &= _together(self._domains.by_count(level, self._beside)[self._count :])
            found &= _together(by_left[self._count + 1 :]) | ~self._owing(level)
        return found

    def _owing(self, level: Level) -> int:
        """The domains that leave a cpu to companions, which share none elsewhere around."""
        domains = self._domains
        if self._narrowest is None or not domains.nest(level, self._narrowest[0]):
            return 0
        around, shared, last = self._narrowest
        sharing = domains.indexes(level, shared)
        alone = sharing & domains.members(around, domains.by_count(around, sharing)[1])
        return alone & domains.indexes(level, last)


def _together(sets: Sequence[int]) -> int:
    return reduce(int.__or__, sets, 0)
