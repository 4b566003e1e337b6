"""Plans of grants that fit requests: pool, cpus and memory; a plan changes nothing."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import replace

from ...topology.sets.cpuset import CpuSet
from ..books.booking import Booking, grant_of
from ..books.books import Books
from ..books.named_cpus import claimed_part
from ..hints.hint_score import scores
from ..memory.memory_choice import MemoryChoice
from ..model.container import ContainerId
from ..model.grant import Dropped, Grant, PoolId, Refusal
from ..model.request import CpuType, Request
from ..pools.closeness import Closeness
from ..tuning.cpu_class import misfits
from .classifier import Classified
from .departures import Departure, DepartureSearch, HasRoom
from .displacement import TrialDisplacement
from .growth import held_back, kept_in
from .hint_demand import reserved_objection
from .judging.judge import Judge
from .judging.judgement import Judgement
from .judging.restriction import Restriction
from .judging.unmet_texts import with_obstacle
from .lineup import Lineup
from .nearby import Nearby, once_narrowed, reaches
from .openings.objections import unnamed_rules
from .openings.regrowth import Regrowth
from .openings.unruled_books import NOBODY_SPARED, held_text, unruled, yielding_text
from .place_finder import ChosenPlace, PlaceFinder
from .pool_choice import Chooser, Facts


class Placement(Struct, frozen=True, kw_only=True):
    """A booking to be made, and how it was chosen."""

    booking: Booking
    lineup: Lineup | None = None
    decided_by: str
    broken: tuple[Restriction, ...] = ()
    """The required rules that do not hold there."""
    weights: Mapping[ContainerId, int] = field(default_factory=dict[ContainerId, int])
    """What drew the container to others, and from them."""
    objection: str = ""
    """What anybody would be refused for there who was not there before its restart."""
    degraded: str = ""
    """What the container should have, and had not before its restart either."""
    notes: tuple[str, ...] = ()
    """What a move is for, as far as `decided_by` does not tell."""


class Failure(Struct, frozen=True, kw_only=True):
    """No placement, and what was looked at."""

    refusal: Refusal
    lineup: Lineup | None = None

    @classmethod
    def of(cls, reason: str) -> "Failure":
        """The failure for a reason, without pools to show."""
        return cls(refusal=Refusal(reason=reason))

    def because_of(self, *reasons: str) -> "Failure":
        """The failure with more to say of why; empty reasons are left out."""
        reason = " — ".join([self.refusal.reason, *filter(None, reasons)])
        return replace(self, refusal=replace(self.refusal, reason=reason))

    def advising(self, departure: Departure | None) -> "Failure":
        """The failure with who could make room, if anybody could."""
        if departure is None:
            return self
        refusal = replace(self.refusal, advice=departure.whole_text)
        return replace(self, refusal=refusal).because_of(departure.text)


class Placer:
    """Plans grants from what a ledger has left."""

    def __init__(
        self,
        books: Books,
        chooser: Chooser,
        judge: Judge,
        classified: Mapping[ContainerId, Classified] = MappingProxyType({}),
        regrowth: Regrowth | None = None,
        *,
        advises: bool = True,
    ) -> None:
        """Reads the books, never changes them.

        `classified`: what residents ask for; without it nobody minds who is driven out. `regrowth`:
        of residents, once others leave. `advises`: whether refusals tell who could make room.
        """
        self._tree = books.tree
        self._ledger = books.ledger
        self._memory = books.pool_memory
        self._closeness = Closeness(books.tree)
        self._books = books
        self._chooser = chooser
        self._judge = judge
        self._classified = classified
        self._regrowth = regrowth
        self._advises = advises
        self._finder = PlaceFinder(books, chooser, judge)

    def plan(
        self,
        request: Request,
        weights: Mapping[ContainerId, int],
        judgement: Judgement | None,
        spared: Collection[ContainerId] = (),
    ) -> Placement | Failure:
        """The best grant for a request, or for what it falls back to.

        `weights` is the affinity of the container to those present, `judgement` what required and
        preferred rules say of its place. `spared`: see `Facts`.
        """
        placement = self._plan(request, weights, judgement, spared)
        if isinstance(placement, Failure) and request.fallback is not None:
            less = self.plan(request.fallback, weights, judgement, spared)
            return placement if isinstance(less, Failure) else less
        return placement

    def _plan(
        self,
        request: Request,
        weights: Mapping[ContainerId, int],
        judgement: Judgement | None,
        spared: Collection[ContainerId],
    ) -> Placement | Failure:
        memory = self._memory.choice(request)
        if request.cpu_type is CpuType.RESERVED and not self._tree.root.reserved:
            request = replace(request, cpu_type=CpuType.NORMAL)
        if request.cpu_type is not CpuType.NORMAL:
            return self.at_root(request, memory, judgement)
        misfits_class: Sequence[int] = ()
        if request.exclusive and request.class_cpus is not None:
            free = self._ledger.free_sharable
            misfits_class = misfits(free, request.exclusive, request.class_cpus)
        facts = Facts(
            memory=memory,
            affinities=self._affinities(weights) if weights else (),
            hints=scores(self._tree, request.hints) if request.hints else (),
            misfits_class=misfits_class,
            spared=spared,
        )
        if judgement is None:
            choice = self._finder.find(request, facts)
        else:
            choice = self._finder.find_by_rules(request, facts, judgement)
        if isinstance(choice, Lineup):
            yielding = self._yielding(request, facts, choice, judgement)
            reason = choice.reason(yielding)
            failure = Failure(refusal=Refusal(reason=reason), lineup=choice)
            if judgement is None:
                return failure
            # Nobody makes way for one with many rules that may break, see `concessions`.
            rules = judgement if yielding else judgement.insisting()
            told = unnamed_rules(rules, self._tree, reason)
            head = "the rules:" if yielding else "besides,"
            departure = self._departure(request, facts, judgement)
            return failure.because_of(f"{head} {told}" if told else "").advising(departure)
        return self._placement(request, memory, choice, judgement, weights)

    def _placement(
        self,
        request: Request,
        memory: MemoryChoice,
        choice: ChosenPlace,
        judgement: Judgement | None,
        weights: Mapping[ContainerId, int],
    ) -> Placement:
        offer = memory.offer(choice.pool_id)
        grant = grant_of(request, choice.pool_id, choice.exclusive, choice.isolated, offer)
        broken: tuple[Restriction, ...] = ()
        lifted = choice.lifted
        if judgement is not None:
            grant = self._narrowed(grant, choice.region)
        if judgement is not None and not judgement.only_draws:
            cpus = choice.cpus(request, self._ledger)
            own = grant.exclusive.mask
            doubtful = choice.lost if choice.is_cleared else judgement
            if doubtful is not None:
                around = self._tree.around(grant.pool_id, cpus)
                broken = doubtful.broken_by(cpus, own, around)
            broken = (*broken, *judgement.passed_by(cpus))
            if broken and (own or lifted):
                # Of a domain of which it has all that they had they are out, as those who make way.
                seen = {**judgement.seen, **reaches(lifted, self._ledger)}
                nearby = Nearby(broken, cpus, own, self._books, seen)
                broken = tuple(
                    one for one in broken if not one.blockers or nearby.has_blockers(one)
                )
            broken = tuple([with_obstacle(one, choice.lineup) for one in broken])
            there = once_narrowed(judgement, lifted, self._books)
            grant = replace(grant, beside=there.beside(cpus, own))
            if judgement.passed and grant.has_shared_part:
                grant = kept_in(judgement.of_growth(), grant, cpus, self._books)
            lifted = (*lifted, *held_back(judgement, grant, cpus, self._books, lifted))
        return Placement(
            booking=Booking(grant=grant, offer=offer, lifted=lifted),
            lineup=choice.lineup,
            decided_by=choice.decided_by,
            broken=broken,
            weights=weights,
        )

    def _yielding(
        self, request: Request, facts: Facts, refused: Lineup, judgement: Judgement | None
    ) -> str:
        """Text about residents that would make room without rules; empty where none would."""
        if facts.spared:
            # For the sake of rules these keep a cpu: else there was a place.
            return NOBODY_SPARED
        books = self._books
        is_ruled = judgement or books.standing.rules or not self._ledger.narrowed.is_empty
        if not is_ruled or refused.has_room_but_for_rules():
            return ""
        found = self._finder.find(request, facts)
        if isinstance(found, ChosenPlace):
            return yielding_text(found.lifted, books)
        found = PlaceFinder(unruled(books), self._chooser, self._judge).find(request, facts)
        if isinstance(found, Lineup):
            return ""
        return held_text(found.pool_id, found.lifted, books, self._judge.is_bound)

    def _departure(self, request: Request, facts: Facts, judgement: Judgement) -> Departure | None:
        """The containers that could make room for a newcomer that is refused, if any could."""
        if not self._advises:
            return None
        displaced = TrialDisplacement(self._classified, self._judge)

        def has_room(books: Books, rules: Judgement, may_clear: bool) -> bool | None:
            finder = PlaceFinder(books, self._chooser, self._judge)
            if not may_clear:
                return finder.has_room(request, facts, rules)

            def kept(place: ChosenPlace) -> Collection[ContainerId] | None:
                placer = Placer(books, self._chooser, self._judge)
                booking = placer._placement(request, facts.memory, place, rules, {}).booking
                return displaced.kept(books, booking, rules)

            found = finder.has_place(request, facts, rules, kept)
            return None if displaced.were_many and not found else found

        return self._departure_by(has_room, request, request.exclusive, judgement)

    def _departure_by(
        self, has_room: HasRoom, request: Request, exclusive: int, judgement: Judgement
    ) -> Departure | None:
        books, judge, container_id = self._books, self._judge, request.container_id
        search = DepartureSearch(
            container_id, exclusive, judgement, books, judge, has_room, self._regrowth
        )
        return search.found()

    def _narrowed(self, grant: Grant, region: int | None) -> Grant:
        """The grant with what rules leave it of its pool's sharable cpus, if that is not all."""
        sharable = self._tree.pools[grant.pool_id].sharable.mask
        if not self._ledger.free_sharable[self._tree.root.id]:
            sharable |= self._tree.root.reserved.mask
        if region is None or not sharable & ~region or not grant.has_shared_part:
            return grant
        return replace(grant, within=CpuSet(sharable & region))

    def plan_anyway(self, request: Request, judgement: Judgement | None) -> Placement:
        """A grant for a container that runs and fits nowhere: a share of all sharable cpus.

        Of the reserved ones where those serve it. It may use the memory of all nodes. Rules that
        hold where it is now go on holding when others give cpus back.
        """
        root = self._tree.root
        grant = Grant(
            container_id=request.container_id,
            pool_id=root.id,
            cpu_type=request.cpu_type,
            shared_milli=request.total_milli,
            memory=root.memory_nodes,
            memory_bytes=request.memory_bytes,
            preserve_memory=request.preserve_memory,
            hide_hyperthreads=request.hide_hyperthreads,
            idle_level=request.idle_level,
        )
        broken = self._broken_at_root(request, judgement)
        if judgement is None or request.cpu_type is not CpuType.NORMAL:
            booking = Booking(grant=grant)
            return Placement(booking=booking, decided_by="runs already", broken=broken)
        cpus = self._ledger.free_sharable[root.id] or root.reserved.mask
        grant = kept_in(judgement, grant, cpus, self._books)
        lifted = held_back(judgement, grant, cpus, self._books, ())
        return Placement(
            booking=Booking(grant=grant, lifted=lifted),
            decided_by="runs already",
            broken=broken,
        )

    def at_root(
        self,
        request: Request,
        memory: MemoryChoice,
        judgement: Judgement | None,
        *,
        stays: bool = False,
    ) -> Placement | Failure:
        """Reserved and preserved containers: the root pool, and nothing can refuse them cpus.

        A reserved request larger than what is left of the reserved cpus runs on the sharable ones,
        where those have room, unless it `stays` where it was before.
        """
        root = self._tree.root.id
        if (
            not stays
            and request.cpu_type is CpuType.RESERVED
            and request.shared_milli > self._ledger.free_reserved_milli
            and request.shared_milli <= self._ledger.room.grantable_milli[root]
        ):
            request = replace(request, cpu_type=CpuType.NORMAL)
        zone = memory.zone(root)
        objection: Dropped | None = zone if isinstance(zone, Dropped) else None
        if objection is None and request.cpu_type is CpuType.RESERVED:
            objection = reserved_objection(request, self._tree.root.reserved)
        if objection is not None:
            return Failure.of(f"{self._tree.root.name}: {objection}")
        broken = self._broken_at_root(request, judgement)
        insisting = [one for one in broken if one.is_own and not one.can_break]
        if insisting and request.cpu_type is not CpuType.PRESERVE:
            failure = Failure.of(f"{self._tree.root.name}: {insisting[0].dropped()}")
            return failure.advising(self._departure_at_root(request, judgement))
        offer = memory.offer(root)
        claimed = claimed_part(request.claimed, self._ledger)
        grant = grant_of(request, root, claimed, claimed & self._tree.root.isolated, offer)
        placement = Placement(
            booking=Booking(grant=grant, offer=offer),
            decided_by=f"{request.cpu_type.value} cpus",
            broken=broken,
        )
        if judgement is None or request.cpu_type is not CpuType.NORMAL:
            return placement
        return self._held_at_root(placement, judgement.of_growth())

    def _departure_at_root(self, request: Request, judgement: Judgement | None) -> Departure | None:
        """The containers that could make room for one on cpus that are not chosen for it."""
        if judgement is None:
            return None
        cpus, root = self._cpus_at_root(request), self._tree.root.id

        def has_room(_: Books, rules: Judgement, __: bool) -> bool:
            broken = rules.told_at(cpus, root)
            return not any(one.is_own and not one.can_break for one in broken)

        return self._departure_by(has_room, request, 0, judgement)

    def _held_at_root(self, placement: Placement, judgement: Judgement) -> Placement:
        """A share of the root pool that grows to nowhere where a rule breaks, and nobody to it."""
        booking, cpus = placement.booking, self._ledger.free_sharable[self._tree.root.id]
        grant = kept_in(judgement, booking.grant, cpus, self._books)
        lifted = held_back(judgement, grant, cpus, self._books, ())
        return replace(
            placement,
            booking=replace(booking, grant=grant, lifted=lifted),
        )

    def _broken_at_root(
        self, request: Request, judgement: Judgement | None
    ) -> tuple[Restriction, ...]:
        """The rules that do not hold on cpus that nobody chooses for the newcomer."""
        if judgement is None:
            return ()
        return judgement.told_at(self._cpus_at_root(request), self._tree.root.id)

    def _cpus_at_root(self, request: Request) -> int:
        root = self._tree.root
        match request.cpu_type:
            case CpuType.RESERVED:
                return root.reserved.mask
            case CpuType.PRESERVE:
                return self.wherever(request.container_id)
            case CpuType.NORMAL | CpuType.PEN:
                return self._ledger.free_sharable[root.id]

    def wherever(self, container_id: ContainerId) -> int:
        """A mask of the cpus others give to a container: where it is, or it may be anywhere."""
        container = self._books.affinity.residents.container(container_id)
        return (self._tree.root.cpus if container.cpus is None else container.cpus).mask

    def _affinities(self, weights: Mapping[ContainerId, int]) -> list[int]:
        by_pool: dict[PoolId, int] = {}
        for container_id, weight in weights.items():
            friend = self._ledger.grants.get(container_id)
            if friend is not None:
                by_pool[friend.pool_id] = by_pool.get(friend.pool_id, 0) + weight
        return self._closeness.affinities(by_pool)
