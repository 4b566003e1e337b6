"""Own cpus: cpus of a region that a newcomer could have for itself, beside all that is promised."""

from functools import cached_property

from ...books.cpu_ledger import Ledger
from ...model.request import Isolation, Request
from ..hint_demand import strict_cpus
from ..judging.judgement import Judgement


class OwnCpus:
    """The cpus of regions that one newcomer could have for itself. Sets of cpus are masks."""

    def __init__(self, request: Request, judgement: Judgement, ledger: Ledger) -> None:
        """Reads the ledger, which stays as it is."""
        self._request = request
        self._judgement = judgement
        self._ledger = ledger
        self._slices: dict[int, int] = {}
        self._owed: dict[int, int] = {}

    def exclusive(self, pool_id: int, region: int) -> int:
        """A mask of cpus of a region that the newcomer could have for itself."""
        ledger, count = self._ledger, self._request.exclusive
        some = self.some(pool_id, region)
        if ledger.narrowed.is_empty or some.bit_count() < count:
            return some
        if some & ledger.free_isolated[pool_id]:
            return some
        # Which ones are spare is not to depend on what was asked before.
        free = self._sliced(pool_id, region)
        return free if free.bit_count() >= count else self.settled(pool_id, region)

    def some(self, pool_id: int, region: int) -> int:
        """Such cpus, or other ones that are as many where they are enough."""
        request, ledger = self._request, self._ledger
        isolated = ledger.free_isolated[pool_id] & region
        if request.wants_isolated and isolated.bit_count() >= request.exclusive:
            return strict_cpus(request, isolated)
        if request.isolation is Isolation.REQUIRED:
            return 0
        if ledger.narrowed.is_empty:
            return self._sliced(pool_id, region)
        cpus = self._open_cpus(pool_id, region)
        return ledger.spare_cpus.takeable(cpus, request.exclusive, or_fewer=False)

    def are_too_few(self, pool_id: int) -> bool:
        """Whether a pool has too few cpus for the newcomer alone, and so has every part of it."""
        ledger, count = self._ledger, self._request.exclusive
        if not count or ledger.narrowed.is_empty or ledger.free_isolated[pool_id]:
            return False
        found = ledger.spare_cpus.takeable(ledger.free_sharable[pool_id], count, or_fewer=False)
        return found.bit_count() < count

    def settled(self, pool_id: int, region: int) -> int:
        """A mask of such sharable cpus that it may have all at once."""
        cpus = self._open_cpus(pool_id, region)
        return self._ledger.spare_cpus.settled(cpus, self._request.exclusive)

    def _open_cpus(self, pool_id: int, region: int) -> int:
        left = self._ledger.free_sharable[pool_id] & region & ~self.owed(region)
        return strict_cpus(self._request, left)

    def _sliced(self, pool_id: int, region: int) -> int:
        if pool_id not in self._slices:
            self._slices[pool_id] = self._ledger.slice(self._ledger.tree.pools[pool_id].id)
        left = self._slices[pool_id] & region & ~self.owed(region)
        return strict_cpus(self._request, left)

    def are_sure(self, number: int, region: int) -> bool:
        """Whether sharable cpus of a region serve that need not be looked at one by one."""
        request, ledger = self._request, self._ledger
        if not self._takes_any:
            return False
        isolated = ledger.free_isolated[number] & region
        if request.wants_isolated and isolated.bit_count() >= request.exclusive:
            return False
        pool_id, wanted = ledger.tree.pools[number].id, request.exclusive
        owed = self._judgement.owed_ever if self._judgement.companions else 0
        if not ledger.narrowed.is_empty:
            # They are spare whatever pools promised, too.
            free = ledger.free_sharable[number] & region & ledger.spare_cpus.sure
            if (free ^ free & owed).bit_count() >= wanted:
                return True
            return bool(free & owed) and (free & ~self.owed(region)).bit_count() >= wanted
        if ledger.cut_within(pool_id, region ^ region & owed) >= wanted:
            return True
        # What is owed of the region alone takes longer to tell.
        left = region ^ region & self.owed(region) if region & owed else 0
        return left != 0 and ledger.cut_within(pool_id, left) >= wanted

    @cached_property
    def _takes_any(self) -> bool:
        """Whether the newcomer may take any cpus that are left."""
        request = self._request
        return not (request.is_strict or request.isolation is Isolation.REQUIRED)

    def owed(self, region: int) -> int:
        """Cpus of a region that the newcomer must leave to companions."""
        # It is asked about the same regions in one pool after another.
        known = self._owed.get(region)
        if known is None:
            known = self._owed[region] = self._judgement.owed(region)
        return known
