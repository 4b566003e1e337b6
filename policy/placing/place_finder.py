"""Places for newcomers: a pool, the region of it that rules leave, and the cpus taken there."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final

from msgspec import Struct, structs

from ...topology.sets.cpuset import NO_CPUS, CpuSet
from ..books.books import Books
from ..books.cpu_ledger import Ledger
from ..memory.memory_choice import ZoneSummary
from ..model.container import ContainerId
from ..model.grant import Grant, PoolId
from ..model.request import Request
from ..rules.pulls import Pulls
from .growth import reserved_region
from .hint_demand import pick_by_hints, strict_cpus, suitable_cpus
from .judging.judge import Judge
from .judging.judgement import Judgement
from .judging.restriction import Restriction
from .lifting import Lift, make_room
from .lineup import Lineup
from .nearby import once_narrowed
from .openings.broken_places import broken_place, has_broken_place
from .openings.concessions import concessions
from .openings.filling import find_fillings
from .openings.narrowing import find_narrowings
from .openings.openings import Openings, OpeningSearch
from .pool_choice import Candidates, Chooser, Facts

ROOM_MADE: Final = "room_made"
"""What decides where shared containers had to be lifted into a wider pool first."""


class ChosenPlace(Struct, frozen=True, kw_only=True):
    """A pool, the region of it that rules leave, and the cpus taken there."""

    pool_id: PoolId
    decided_by: str
    lineup: Lineup
    exclusive: CpuSet
    isolated: CpuSet
    region: int | None = None
    """None: all of the pool."""
    lifted: tuple[Grant, ...] = ()
    may_drive_out: bool = False
    """Whether those who asked for no cpu may be left none of their pool."""
    is_cleared: bool = False
    """Whether rules hold because residents make way: all of them, or all but those lost."""
    lost: Judgement | None = None

    def cpus(self, request: Request, ledger: Ledger) -> int:
        """A mask of the cpus the container will run on."""
        if not request.needs_shared_cpu:
            return self.exclusive.mask
        shared = ledger.share(self.pool_id) & ~self.exclusive.mask
        if self.region is not None:
            shared &= self.region
        return shared | self.exclusive.mask


Kept = Callable[[ChosenPlace], Collection[ContainerId] | None]
"""Containers that asked for no cpu, have to keep one, and are left none by a place; None where very
many are."""


class PlaceFinder:
    """Finds places from what a ledger has left."""

    def __init__(self, books: Books, chooser: Chooser, judge: Judge) -> None:
        """Reads the books, never changes them."""
        self._tree = books.tree
        self._ledger = books.ledger
        self._picker = books.picker
        self._chooser = chooser
        self._books = books
        self._judge = judge

    def find(self, request: Request, facts: Facts) -> ChosenPlace | Lineup:
        """The best pool as it is, else one in which room can be made; the lineup without any."""
        pools = Candidates(self._chooser, request, self._ledger, facts)
        return self._found(request, facts, pools, None)

    def find_by_rules(
        self, request: Request, facts: Facts, judgement: Judgement
    ) -> ChosenPlace | Lineup:
        """The best place where all rules hold, else where the fewest break that may.

        Residents make way before a rule breaks.
        """
        search = OpeningSearch(
            request=request, judgement=judgement, tree=self._tree, ledger=self._ledger
        )
        strict = search.strict()
        # Of all that rules may leave, the pools' own figures are the same.
        pools = Candidates(self._chooser, request, self._ledger, facts)
        root = self._tree.root
        if not request.total_milli and not self._ledger.free_sharable[root.id]:
            # Nobody is refused for asking for nothing: what is reserved is all that is left.
            broken = judgement.broken_by(root.reserved.mask, 0, root.id)
            is_firm = any(not one.can_break for one in broken)
            choice = self._found(request, facts, pools, strict if is_firm else None)
            if isinstance(choice, Lineup):
                return choice
            rules = judgement.restrictions
            return structs.replace(choice, region=reserved_region(rules, self._books))
        if not any(pools.roomy):
            # Rules leave no more than there is without them, whoever makes way for whom.
            found = self._in_room_made(request, facts, pools, strict)
            return found or self._made_anyway(search, facts, pools) or pools.within(strict)
        found = self._chosen(search, pools, strict) or self._cleared(search, pools)
        found = found or self._in_room_made(request, facts, pools, strict)
        if found is not None:
            return found
        openings, found = broken_place(search, pools, partial(self._chosen, search, pools))
        if openings is None:
            return self._made_anyway(search, facts, pools) or pools.within(strict)
        alone = search.without_companions() if found is None else None
        if alone is not None:
            openings, found = broken_place(alone, pools, partial(self._chosen, alone, pools))
        found = self._conceded(search, pools, found) or found
        # Not only rules stand in the way, else: what is missing beside them is the reason.
        return found or self._made_anyway(search, facts, pools) or pools.within(openings)

    def _cleared(self, search: OpeningSearch, pools: Candidates) -> ChosenPlace | None:
        """The best place where all rules hold because residents make way."""
        request = search.request
        ways = chain(find_narrowings(search, self._books), find_fillings(search, self._books))
        for narrowing in ways:
            found = self._chosen(search, pools, narrowing.openings)
            if found is None:
                continue
            cpus = found.cpus(request, self._ledger)
            if request.needs_shared_cpu:
                # What others give back of its pool is for it, too, and then it is there.
                whole = self._tree.pools[found.pool_id].sharable.mask
                cpus |= whole & narrowing.openings.regions[found.pool_id]
            grants = narrowing.grants(cpus)
            if grants is not None and self._keeps(request, found, grants):
                after = once_narrowed(search.judgement, grants, self._books)
                if not after.left_alone(cpus, found.exclusive.mask):
                    return structs.replace(found, lifted=grants, is_cleared=True)
        return None

    def _keeps(self, request: Request, found: ChosenPlace, lifted: Sequence[Grant]) -> bool:
        """Whether all promises have room once some residents have made way for a newcomer."""
        ledger, shared = self._ledger, 0
        if request.needs_shared_cpu:
            shared = ledger.free_sharable[found.pool_id]
            shared &= -1 if found.region is None else found.region
        pairs = [(ledger.counted(one.container_id), one) for one in lifted]
        own, spare = found.exclusive.mask, ledger.spare_cpus.once_narrowed(pairs)
        if spare.can_take(own, shared, request.shared_milli) and spare.are_kept:
            return True
        return not ledger.spare_cpus.are_kept

    def _conceded(
        self, search: OpeningSearch, pools: Candidates, found: ChosenPlace | None
    ) -> ChosenPlace | None:
        """A place where residents make way for some rules, if fewer break than where they stay.

        `found`: the place where they stay.
        """
        if found is None and not pools.has_any():
            # Rules leave no more than there is without them.
            return None
        fewest = None if found is None else self._broken(search, found, search.judgement)
        if fewest is not None and len(fewest) < 2:
            return None  # Places where none breaks were looked for before.

        def find(search: OpeningSearch) -> ChosenPlace | None:
            strict = self._chosen(search, pools, search.strict())
            return strict or self._cleared(search, pools)

        best = None
        for one in concessions(search, find):
            lost = once_narrowed(one.lost, one.place.lifted, self._books)
            broken = self._broken(search, one.place, lost)
            if fewest is None or len(broken) < len(fewest):
                fewest, best = broken, structs.replace(one.place, is_cleared=True, lost=lost)
        return best

    def _broken(
        self, search: OpeningSearch, place: ChosenPlace, judgement: Judgement
    ) -> tuple[Restriction, ...]:
        cpus, own = place.cpus(search.request, self._ledger), place.exclusive.mask
        return judgement.broken_by(cpus, own, self._tree.around(place.pool_id, cpus))

    def has_place(self, request: Request, facts: Facts, judgement: Judgement, kept: Kept) -> bool:
        """Whether `find_by_rules` finds a place, with hardly a look at rules on a full machine.

        One by which those `kept` are left a cpu, whoever makes room.
        """
        if not request.total_milli:
            return isinstance(self.find_by_rules(request, facts, judgement), ChosenPlace)
        pools = Candidates(self._chooser, request, self._ledger, facts)
        # Rules leave no more than there is without them.
        feasible = pools.lineup.feasible() if pools.has_any() else []
        search = OpeningSearch(
            request=request, judgement=judgement, tree=self._tree, ledger=self._ledger
        )
        unranked = replace(search, judgement=_unranked(judgement))
        strict = unranked.strict()
        if feasible and (pools.has_any(strict) or self._cleared(search, pools) is not None):
            return True
        if self._has_room_made(request, facts, pools, strict, kept):
            return True
        if feasible:
            ways = unranked, unranked.without_companions()
            if any(one is not None and has_broken_place(one, feasible) for one in ways):
                return True
            if self._conceded(search, pools, None) is not None:
                return True
        firm = search.firm()
        if firm is None:
            return False
        return self._has_room_made(request, facts, pools, firm.strict(), kept)

    def _has_room_made(
        self,
        request: Request,
        facts: Facts,
        pools: Candidates,
        openings: Openings,
        kept: Kept,
    ) -> bool:
        """Whether room can be made so that all keep a cpu who have to."""
        while (found := self._in_room_made(request, facts, pools, openings)) is not None:
            others = kept(found) if found.may_drive_out else ()
            if others is None:
                return False
            spared = tuple(dict.fromkeys((*facts.spared, *others)))
            if len(spared) == len(facts.spared):
                return True
            facts = structs.replace(facts, spared=spared)
        return False

    def has_room(self, request: Request, facts: Facts, judgement: Judgement) -> bool:
        """Whether there is a place where all rules that insist hold, and nobody makes way."""
        pools = Candidates(self._chooser, request, self._ledger, facts)
        if not pools.has_any():
            return False
        rules = _unranked(judgement.insisting())
        search = OpeningSearch(
            request=request, judgement=rules, tree=self._tree, ledger=self._ledger
        )
        return pools.has_any(search.strict())

    def _chosen(
        self, search: OpeningSearch, pools: Candidates, openings: Openings
    ) -> ChosenPlace | None:
        """The best of some openings, with cpus picked there."""
        if not any(openings.regions):
            # Rules that cannot be met leave nothing as a rule: to rank that is as dear as a choice.
            return None
        ranking = pools.best(openings)
        winner = ranking.winner
        if winner is None:
            return None
        request, region = search.request, openings.regions[winner]
        exclusive = isolated = NO_CPUS
        if request.exclusive:
            free = search.own_cpus.exclusive(winner, region)
            is_isolated = bool(free & self._ledger.free_isolated[winner])
            exclusive = self._drawn(search, winner, free)
            if is_isolated:
                isolated = exclusive
            elif not self._may_take(request, exclusive, winner, region):
                exclusive = self._drawn(search, winner, search.own_cpus.settled(winner, region))
        return ChosenPlace(
            pool_id=winner,
            decided_by=ranking.decided_by,
            lineup=ranking.lineup,
            exclusive=exclusive,
            isolated=isolated,
            region=region,
        )

    def _drawn(self, search: OpeningSearch, winner: PoolId, free: int) -> CpuSet:
        """The exclusive cpus out of free ones, those first to which preferred rules draw."""
        pulls, surely, request = search.judgement.pulls, 0, search.request
        if pulls:
            # What they add to the score is why this pool may have been chosen.
            surely, free = pulls.taken_first(free, request.exclusive)
        return self._pick(request, surely | free, winner, surely)

    def _may_take(self, request: Request, own: CpuSet, pool_id: PoolId, region: int) -> bool:
        """Whether these very cpus leave what others were promised, and the newcomer itself."""
        ledger = self._ledger
        if ledger.narrowed.is_empty and not (request.shared_milli and region != -1):
            return True
        shared = ledger.free_sharable[pool_id] & region
        return ledger.spare_cpus.can_take(own.mask, shared, request.shared_milli)

    def _found(
        self, request: Request, facts: Facts, pools: Candidates, openings: Openings | None
    ) -> ChosenPlace | Lineup:
        """The best pool of a lineup, all of it, else one in which room can be made.

        `openings`: the places that rules leave, where they count.
        """
        ranking = pools.best(openings)
        if ranking.winner is None:
            return self._in_room_made(request, facts, pools, openings) or pools.within(openings)
        exclusive, isolated = self._take(request, ranking.winner, self._ledger)
        return ChosenPlace(
            pool_id=ranking.winner,
            decided_by=ranking.decided_by,
            lineup=ranking.lineup,
            exclusive=exclusive,
            isolated=isolated,
        )

    def _in_room_made(
        self, request: Request, facts: Facts, pools: Candidates, openings: Openings | None
    ) -> ChosenPlace | None:
        """A pool in which room can be made, where no pool has any as it is."""
        lift = self._make_room(request, facts, openings)
        if lift is None:
            return None
        exclusive, isolated = self._take(request, lift.pool_id, lift.ledger)
        return ChosenPlace(
            pool_id=lift.pool_id,
            decided_by=ROOM_MADE,
            lineup=pools.within(openings),
            exclusive=exclusive,
            isolated=isolated,
            lifted=lift.lifted,
            may_drive_out=lift.may_drive_out,
        )

    def _made_anyway(
        self, search: OpeningSearch, facts: Facts, pools: Candidates
    ) -> ChosenPlace | None:
        """A pool in which room can be made, though rules break there that may."""
        firm = search.firm()
        if firm is None:
            return None
        return self._in_room_made(firm.request, facts, pools, firm.strict())

    def _make_room(self, request: Request, facts: Facts, openings: Openings | None) -> Lift | None:
        if request.is_strict or not request.exclusive:
            return None
        zones = facts.memory.zones()
        pools = [
            pool.id
            for pool in self._tree.pools
            if isinstance(zones[pool.id], ZoneSummary)
            and (openings is None or not pool.cpus.mask & ~openings.regions[pool.id])
        ]
        is_bound = self._judge.is_bound if self._books.standing.rules else None
        return make_room(request, self._ledger, tuple(pools), is_bound, facts.spared)

    def _take(self, request: Request, pool_id: PoolId, ledger: Ledger) -> tuple[CpuSet, CpuSet]:
        """The exclusive cpus of a feasible pool, and which of them are isolated."""
        count = request.exclusive
        if not count:
            return NO_CPUS, NO_CPUS
        isolated = ledger.free_isolated[pool_id]
        is_isolated = request.wants_isolated and isolated.bit_count() >= count
        if is_isolated:
            picked = self._pick(request, isolated, pool_id)
            return picked, picked
        free = ledger.slice(pool_id)
        if ledger.narrowed.is_empty:
            return self._pick(request, free, pool_id), NO_CPUS
        shared, spare = ledger.free_sharable[pool_id], ledger.spare_cpus
        if strict_cpus(request, free).bit_count() >= count:
            picked = self._pick(request, free, pool_id)
            if spare.can_take(picked.mask, shared, request.shared_milli):
                return picked, NO_CPUS
        free = spare.settled(strict_cpus(request, shared), count)
        return self._pick(request, free, pool_id), NO_CPUS

    def _pick(self, request: Request, free: int, pool_id: PoolId, surely: int = 0) -> CpuSet:
        """The exclusive cpus out of free ones. `surely`: fewer, which come before all others."""
        count = request.exclusive
        free = suitable_cpus(request, free, count)
        picked = pick_by_hints(request, free, self._picker)
        if picked is None:
            held = free & surely
            more = count - held.bit_count()
            further = self._picker.extend(held, free, more, request.priority, smt=request.smt)
            picked = None if further is None else held | further
        # The pool was found feasible with these numbers: fewer cpus would be our own fault.
        assert picked is not None, (request.container_id, pool_id)
        return CpuSet(picked)


def _unranked(judgement: Judgement) -> Judgement:
    """The judgement without what is only preferred: one place is as good as another."""
    return structs.replace(judgement, pulls=Pulls(judgement.domains), pool_scores=())
