"""Openings: the cpus of each pool that rules between containers leave to a newcomer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Final

from msgspec import Struct, structs

from ....topology.model.machine import Level
from ...books.cpu_ledger import Ledger
from ...books.narrowed_shares import NarrowedShares
from ...model.grant import Dropped
from ...model.request import Request
from ...pools.pool_tree import PoolTree
from ..judging.judgement import Judgement
from ..judging.restriction import Restriction
from ..rank import Column
from .cpu_bounds import CpuBounds
from .objections import Objections, ObjectionWording
from .own_cpus import OwnCpus
from .sure_parts import sure_parts

_NONE_DROPPED: Final[Mapping[int, Dropped]] = {}
_REGIONS_MAX: Final = 4096
_FEW_PARTS: Final = 8
"""So many parts of pools are looked at one by one."""


class Openings(Struct, frozen=True, kw_only=True):
    """The places that rules leave, by pool id."""

    regions: Sequence[int]
    """Masks of cpus that a container of the pool may have; 0 where it is dropped."""
    dropped: Mapping[int, Dropped]
    preferred: Column = ()
    """Sums of preferred rules, greater is better; empty without any."""
    unmet: Column = ()
    """How many rules are broken; empty where none are."""
    unmet_of_others: Column = ()
    """How many rules of residents are."""
    narrowed: Column = ()
    """How many shared residents must make way; empty where none."""


@dataclass(frozen=True, kw_only=True)
class OpeningSearch:
    """A newcomer's request and the judgement about it, to be held against a ledger."""

    request: Request
    judgement: Judgement
    tree: PoolTree
    ledger: Ledger
    narrowed: NarrowedShares | None = None
    """The narrowed shares without those that make way; None: those of the ledger."""
    scores: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    """Sums of preferred rules for regions of pools; the same in a search without other rules."""

    def firm(self) -> "OpeningSearch | None":
        """The search by those rules alone that never break; None where all are such."""
        judgement, firm = self.judgement, self.judgement.insisting()
        if len(firm.own) == len(judgement.own) and len(firm.barriers) == len(judgement.barriers):
            return None
        return replace(self, judgement=firm)

    def without_companions(self) -> "OpeningSearch | None":
        """The search of a newcomer that takes the very cpus by which others would be beside it.

        None where all that it must be with insist, or there are none.
        """
        companions = self.judgement.companions
        firm = tuple([one for one in companions if not one.rule.can_break])
        if firm == companions:
            return None
        return replace(self, judgement=structs.replace(self.judgement, companions=firm))

    def strict(self) -> Openings:
        """The places where every required rule holds. O(pools + domains that rules name)."""
        judgement, tree = self.judgement, self.tree
        if self.request.total_milli and not (
            judgement.own or judgement.barriers or tree.has_repeated_pools
        ):
            # Most newcomers are only drawn to others.
            return Openings(
                regions=tree.masks, dropped=_NONE_DROPPED, preferred=self.preferences(tree.masks)
            )
        everything = tree.root.cpus.mask & ~judgement.blocked
        return self.openings(
            self.regions(everything, judgement.own), judgement.closed(), judgement.own
        )

    def regions(self, everything: int, own: Sequence[Restriction]) -> list[int]:
        """The sets of cpus of which the newcomer has to stay in one."""
        wanted = everything  # Many rules may ask for the same domains.
        for choices in {(one.level, one.choices): one.choices for one in own}.values():
            if choices:
                wanted &= reduce(int.__or__, choices)
        found, domains, levels = [wanted], self.judgement.domains, list[Level]()
        for level in dict.fromkeys(one.level for one in own if one.choices):
            if not any(domains.nest(narrower, level) for narrower in levels):
                parts = [part for mask in found for part in domains.parts(level, mask)]
                found = parts[:_REGIONS_MAX]
            levels.append(level)
        return found if everything else []

    def openings(
        self, regions: Sequence[int], closed: frozenset[int], own: Sequence[Restriction]
    ) -> Openings:
        """The best region of each pool that is not closed."""
        best = [0] * len(self.tree.pools)
        parts = self._parts(regions, closed, best)
        sure: Mapping[int, int] = {}
        # What residents that make way are promised is in no ledger: it is told one by one.
        is_told = self.narrowed is None or not self.request.shared_milli
        if is_told and len(parts) > _FEW_PARTS:
            sure = sure_parts(self.request, self.judgement, self.ledger, parts, regions)
        for pool_id, inside in parts.items():
            if pool_id in sure:
                best[pool_id] = sure[pool_id]
                continue
            if len(inside) > 1:
                # Stable: of equal regions the first.
                inside = list(filter(self.bounds.may_fit, inside))
                free = self._left(pool_id)
                if self.judgement.pulls or self.judgement.pool_scores:
                    keys = {
                        one: (self.preference(pool_id, one), (free & one).bit_count())
                        for one in inside
                    }
                    inside.sort(key=keys.__getitem__, reverse=True)
                else:
                    inside.sort(key=lambda one: (free & one).bit_count(), reverse=True)
            for one in inside:
                if self.fits(pool_id, one):
                    best[pool_id] = one
                    break
        for pool_id in closed:
            best[pool_id] = 0
        if not self.request.total_milli:
            # Any pool would do by numbers for who asks for nothing, but not by rules: without a cpu
            # there it runs on those of a wider pool.
            left = zip(best, self.ledger.free_sharable, strict=True)
            best = [region if region & free else 0 for region, free in left]
        dropped = bytes([not region for region in best])
        # A decision that is kept keeps this, too: without what was noted during the search.
        wording = ObjectionWording(
            request=self.request,
            tree=self.tree,
            left=reduce(int.__or__, regions, 0),
            own=own,
            judged=self.judgement.own,
            barriers=self.judgement.barriers,
            domains=self.judgement.domains,
        )
        return Openings(
            regions=best,
            dropped=Objections(dropped, wording.objection),
            preferred=self.preferences(best),
        )

    def preferences(self, regions: Sequence[int]) -> Column:
        """The sums of preferred rules by pool; empty without any."""
        judgement = self.judgement
        if judgement.pool_scores:
            return [self.preference(pool_id, region) for pool_id, region in enumerate(regions)]
        if not judgement.pulls:
            return ()
        found, pulls = [0] * len(regions), judgement.pulls
        if not any(regions):
            return found
        pools, masks, pending = self.tree.pools, self.tree.masks, [self.tree.root.id]
        reach, left = pulls.reach, self.ledger.free_sharable
        may_be_isolated = self.may_be_isolated
        while pending:
            pool_id = pending.pop()
            if not masks[pool_id] & reach:
                # Most subtrees have no domain that pulls.
                continue
            children = pools[pool_id].children
            if children and not may_be_isolated and pulls.are_same_within(masks[pool_id]):
                inside, part = pulls.score(masks[pool_id]), slice(pools[pool_id].first, pool_id + 1)
                free: Iterable[int] = left[part]
                if regions is not masks:
                    free = map(int.__and__, regions[part], left[part])
                found[part] = [inside if one else 0 for one in free]
                continue
            if self.request.exclusive or regions is not masks:
                found[pool_id] = self.liking(pool_id, regions[pool_id])
            else:
                found[pool_id] = pulls.score(regions[pool_id] & left[pool_id])
            pending += children
        return found

    def preference(self, pool_id: int, region: int) -> int:
        """The sum of preferred rules for a region of a pool."""
        scores = self.judgement.pool_scores
        return (scores[pool_id] if scores else 0) + self.liking(pool_id, region)

    def liking(self, pool_id: int, region: int) -> int:
        """The sum of preferred rules between containers, without those about pools."""
        if not self.judgement.pulls or not region:
            return 0
        known = self.scores.get((pool_id, region))
        if known is None:
            known = self.scores[pool_id, region] = self._pulled(pool_id, region)
        return known

    def _pulled(self, pool_id: int, region: int) -> int:
        pulls, count = self.judgement.pulls, self.request.exclusive
        cpus = region & self._left(pool_id)
        if not cpus & pulls.reach:
            return 0
        return pulls.best_score(cpus, count) if count else pulls.score(cpus)

    def free(self, pool_id: int, region: int) -> int:
        """The number of cpus of a region that are left."""
        return (self._left(pool_id) & region).bit_count()

    def _left(self, pool_id: int) -> int:
        """Cpus of a pool that nobody has for itself, of the kind that is wanted."""
        request, ledger = self.request, self.ledger
        isolated = ledger.free_isolated[pool_id]
        if request.wants_isolated and isolated.bit_count() >= request.exclusive:
            return isolated
        return ledger.free_sharable[pool_id]

    def serving(self, pool_id: int) -> int:
        """A mask of the cpus of a pool of which some may serve the newcomer, as its own or not."""
        shared = self.ledger.free_sharable[pool_id] if self.request.needs_shared_cpu else 0
        return self._left(pool_id) | shared

    @cached_property
    def may_be_isolated(self) -> bool:
        """Whether isolated cpus may serve the newcomer in some pool."""
        request = self.request
        return request.exclusive > 0 and request.may_take_isolated(self.ledger.free_isolated[-1])

    @cached_property
    def own_cpus(self) -> OwnCpus:
        """The cpus that the newcomer could have for itself."""
        return OwnCpus(self.request, self.judgement, self.ledger)

    def may_fit(self, pool_id: int, region: int) -> bool:
        """Whether some part of a region of a pool may have what the newcomer asks for."""
        request, ledger, count = self.request, self.ledger, self.request.exclusive
        free, isolated = ledger.free_sharable[pool_id] & region, ledger.free_isolated[pool_id]
        if (free | isolated & region).bit_count() < count:
            return False
        if not request.needs_shared_cpu:
            return True
        milli = request.shared_milli
        # Less than nothing is left where too much is promised.
        return bool(free) and (not milli or ledger.room.grantable_milli[pool_id] >= milli)

    @cached_property
    def bounds(self) -> CpuBounds:
        """The bounds of what may fit, whatever the pool."""
        return CpuBounds(self.request, self.judgement, self.ledger)

    def fits(self, pool_id: int, region: int) -> bool:
        """Whether a region of a pool has what the newcomer asks for."""
        request, ledger, count = self.request, self.ledger, self.request.exclusive
        free = ledger.free_sharable[pool_id] & region
        if count and (free | ledger.free_isolated[pool_id] & region).bit_count() < count:
            return False
        may_owe = count and self.judgement.companions and not self.may_be_isolated
        # Of narrow domains there are thousands: most are known to have too few without a look at
        # what the pool may give away.
        few = may_owe and (free ^ free & self.judgement.owed_ever).bit_count() < count
        if few and (free ^ free & self.own_cpus.owed(region)).bit_count() < count:
            return False
        if count and not self.own_cpus.are_sure(pool_id, region):
            own = self.own_cpus.some(pool_id, region)
            if own.bit_count() < count:
                return False
            if own & ledger.free_isolated[pool_id]:
                count = 0
        if not request.needs_shared_cpu:
            return True
        if free.bit_count() <= count or not request.shared_milli:
            return free.bit_count() > count
        wanted, pool = request.shared_milli + 1000 * count, self.tree.pools[pool_id]
        if ledger.room.grantable_milli[pool_id] < wanted:
            return False
        if ledger.narrowed.is_empty:
            # Of all that is left of the pool its own number says it. And most regions have so much
            # left that it does not matter what is promised where.
            left = 1000 * free.bit_count() - wanted
            if free == ledger.free_sharable[pool_id] or (
                left >= 0 and left >= ledger.promised_inside(pool.id, is_rough=True)
            ):
                return True
        if self.narrowed is not None:
            return ledger.room_within(pool.id, region, narrowed=self.narrowed) >= wanted
        return ledger.spare_cpus.grants(free, count, request.shared_milli)

    def _parts(
        self, regions: Sequence[int], closed: frozenset[int], best: list[int]
    ) -> Mapping[int, list[int]]:
        """The parts of the regions in each pool, but for those that a narrower pool holds.

        Pools that are left whole are put into `best` at once, closed ones too: their own numbers
        say what fits. Most rules leave most subtrees as they are.
        """
        pools, masks, has_repeated = self.tree.pools, self.tree.masks, self.tree.has_repeated_pools
        # Who takes cpus leaves some to those it must be beside, and of a whole pool as well.
        counts_whole = not (self.request.exclusive and self.judgement.companions)
        found: dict[int, list[int]] = {}
        for region in regions:
            pending: list[int] = [self.tree.root.id]
            if not closed and not has_repeated:
                # A narrower pool holds all that pools around it have of a region. There may be one
                # region for each core.
                holding = self.tree.holding(region)
                if not pools[holding].children:
                    if counts_whole and region == masks[holding]:
                        best[holding] = region
                    else:
                        found.setdefault(holding, []).append(region)
                    continue
                pending = [holding]
            while pending:
                pool_id = pending.pop()
                mask, children = masks[pool_id], pools[pool_id].children
                here = region & mask
                is_whole = counts_whole and here == mask
                if is_whole and not has_repeated:
                    inner = slice(pools[pool_id].first, pool_id + 1)
                    best[inner] = masks[inner]
                    continue
                is_held = False
                for child in children:
                    if inside := here & masks[child]:
                        pending.append(child)
                        is_held = is_held or (inside == here and child not in closed)
                if is_held and (here != mask or len(children) == 1):
                    continue
                if is_whole:
                    best[pool_id] = here
                elif pool_id not in closed:
                    found.setdefault(pool_id, []).append(here)
        return found
