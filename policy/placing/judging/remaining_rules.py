"""Remaining rules: what rules say of a newcomer once some residents have left."""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, reduce
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec.structs import replace

from ...books.books import Books
from ...books.whereabouts import Whereabouts
from ...model.container import Container, ContainerId
from ...rules.podaffinity.term import are_about_owner
from .barrier import Barrier, BarrierOwners
from .judgement import OWNERS_MAX, Companions, Judgement
from .restriction import Restriction
from .spread_counts import SpreadCounts


class Freed(NamedTuple):
    """Cpus that are left to others once residents have left."""

    shared: int
    """A mask of all cpus that are nobody's own then."""
    is_anybodys: bool
    """Whether nobody kept away from them, by their rules or its own, and comes to have more."""


NOTHING_FREED: Final = Freed(shared=0, is_anybodys=True)

_NOTHING_REGAINED: Final[Mapping[ContainerId, int]] = MappingProxyType({})

_WAIVED: Final = Restriction(text="", owner="", owner_id=ContainerId(""), can_break=True, wanted="")
"""In place of required affinity of the first of a group."""


class _Share(NamedTuple):
    """The cpus that a resident may share, as masks: all of its pool, and what it is left of it."""

    pool: int
    within: int
    reach: int
    """The cpus on which it may run already."""


_InTheWay = tuple[Sequence[Container], Sequence[ContainerId], Sequence[int]]


class RemainingRules:
    """Rules about a newcomer without what some residents have to do with them; nothing changes."""

    def __init__(self, books: Books) -> None:
        """Reads the books, in which everybody is still there."""
        self._books = books
        self._freed = NOTHING_FREED
        self._gained: dict[ContainerId, int] = {}
        """What residents gain by the cpus that were freed last, of those asked about."""
        self._shares: dict[ContainerId, _Share | None] = {}
        """What they share so far, whatever is freed; None: nothing."""
        self._reaches: dict[int, _InTheWay] = {}
        """By the object that holds them, residents in the way of rules, and where each may be."""

    def without(
        self,
        rules: Judgement,
        leaving: Collection[ContainerId],
        freed: Freed,
        after: Books | None = None,
        regained: Mapping[ContainerId, int] = _NOTHING_REGAINED,
    ) -> Judgement:
        """The rules that are left. `after`: books in which those hold nothing.

        `regained`: masks of the cpus on which others run then that had made way for those.
        Without these no rule comes to say more: all whom the newcomer must be with are taken to
        stay, and nobody is missed by a spread rule that leaves it all domains.
        """
        if after is not None and rules.companions:
            rules = self._beside_without(rules, leaving, freed, after, regained)
        own = [self._own_without(one, leaving, freed) for one in rules.own]
        if after is not None:
            even = [one for one in rules.spreads if not one.full]
            own += [self._uneven_without(one, rules, leaving) for one in even]
        barriers = self._barriers_without(rules.barriers, leaving, freed)
        return replace(
            rules,
            own=tuple([one for one in own if one is not None]),
            barriers=tuple(barriers),
        )

    def may_make_uneven(
        self, rules: Judgement, leaving: Collection[ContainerId], freed: Freed
    ) -> bool:
        """Whether whom spread rules count may be in more domains once some residents have left.

        As those share cpus that are given back.
        """
        ledger = self._books.ledger
        if not any(ledger.counted(one).exclusive for one in leaving):
            return False
        return any([self._spreads_wider(one, leaving, freed) for one in rules.spreads])

    def _spreads_wider(
        self, spread: SpreadCounts, leaving: Collection[ContainerId], freed: Freed
    ) -> bool:
        books, ledger = self._books, self._books.ledger
        everybody = (
            one
            for one in books.affinity.residents.ids(spread.counted)
            if one in ledger.grants and one not in leaving and ledger.counted(one).has_shared_part
        )
        sharers = list(islice(everybody, OWNERS_MAX + 1))
        if len(sharers) > OWNERS_MAX:
            return True
        gains = zip(sharers, self.gained(sharers, freed), strict=True)
        return any([self._comes_to_more(spread, one, gained) for one, gained in gains])

    def makes_uneven(self, rules: Judgement, regained: Mapping[ContainerId, int]) -> bool:
        """Whether whom spread rules count are in more domains by what they get back."""
        place = self._books.affinity.residents.place
        return any(
            [
                place(one) & spread.counted and self._comes_to_more(spread, one, cpus)
                for spread in rules.spreads
                for one, cpus in regained.items()
            ]
        )

    def _comes_to_more(self, spread: SpreadCounts, counted: ContainerId, gained: int) -> bool:
        """Whether one that is counted comes to domains by the cpus that it gains."""
        domains, level = self._books.domains, spread.rule.level
        reach = self._books.reach(counted)
        return bool(domains.indexes(level, gained) & ~domains.indexes(level, reach))

    def gained(self, container_ids: Collection[ContainerId], freed: Freed) -> Sequence[int]:
        """The cpus that each resident shares once others have left, and may not have now."""
        if freed is not self._freed:
            self._freed, self._gained = freed, {}
        # Many rules may be about the same residents.
        found = self._gained
        for one in container_ids:
            if one not in found:
                found[one] = self._gained_by(one, freed)
        return [found[one] for one in container_ids]

    def _gained_by(self, container_id: ContainerId, freed: Freed) -> int:
        if container_id not in self._shares:
            self._shares[container_id] = self._share_of(container_id)
        share = self._shares[container_id]
        if share is None:
            return 0
        # Else it may have been narrowed for somebody who leaves.
        cpus = share.within if freed.is_anybodys else share.pool
        return cpus & freed.shared & ~share.reach

    def _share_of(self, container_id: ContainerId) -> _Share | None:
        ledger = self._books.ledger
        if container_id not in ledger.grants:
            return None
        grant = ledger.counted(container_id)
        if not grant.has_shared_part:
            return None
        pool = self._books.tree.masks[grant.pool_id]
        within = pool if grant.within is None else pool & grant.within.mask
        return _Share(pool, within, self._books.reach(container_id))

    @cached_property
    def _sharers(self) -> Mapping[int, int]:
        """The residents that share cpus, as sets, by the cpus that these may be. O(grants)."""
        ledger, residents = self._books.ledger, self._books.affinity.residents
        masks, found = self._books.tree.masks, dict[int, int]()
        for container_id, grant in ledger.grants.items():
            if grant.pen is not None:
                grant = ledger.pens[grant.pen]
            # Most have cpus of their own alone.
            shares = grant.shared_milli or not grant.exclusive.mask
            if shares and grant.has_shared_part and not grant.rest:
                cpus = masks[grant.pool_id]
                if grant.within is not None:
                    cpus &= grant.within.mask
                found[cpus] = found.get(cpus, 0) | residents.place(container_id)
        return found

    def _gains(self, freed: Freed) -> Sequence[tuple[int, int]]:
        """Cpus that are somebody's own so far, each with the residents that share them then."""
        newly, found = freed.shared & ~self._books.ledger.free_sharable[-1], dict[int, int]()
        for cpus, sharers in self._sharers.items() if newly else ():
            if here := cpus & newly:
                found[here] = found.get(here, 0) | sharers
        return tuple(found.items())

    def _beside_without(
        self,
        rules: Judgement,
        leaving: Collection[ContainerId],
        freed: Freed,
        after: Books,
        regained: Mapping[ContainerId, int],
    ) -> Judgement:
        """The rules where some leave whom the newcomer must be with, or are elsewhere, too."""
        around, beside = Whereabouts(after), dict[str, Companions]()
        place = self._books.affinity.residents.place
        gone = reduce(int.__or__, map(place, leaving), 0)
        gains = [*self._gains(freed), *((cpus, place(one)) for one, cpus in regained.items())]
        for one in rules.companions:
            # They may be many, and so may such rules.
            stay = one.places & ~gone
            gained = reduce(int.__or__, [cpus for cpus, sharers in gains if sharers & stay], 0)
            if stay != one.places:
                beside[one.rule.name] = self._now_beside(one, around, gained)
            elif gained:
                beside[one.rule.name] = self._beside_on(one, one.own, one.shared | gained, gained)
        if not beside:
            return replace(rules, kept=after.ledger.owed)
        own: list[Restriction] = []
        for rule in rules.own:
            found = beside.get(rule.name)
            if found is None:
                own.append(rule)
            elif found.rule is not _WAIVED:
                now = found.rule
                own.append(replace(rule, forbidden=now.forbidden, choices=now.choices))
        companions = [beside.get(one.rule.name, one) for one in rules.companions]
        return replace(
            rules,
            own=tuple(own),
            companions=tuple([one for one in companions if one.containers]),
            kept=after.ledger.owed,
        )

    def _now_beside(self, one: Companions, around: Whereabouts, gained: int) -> Companions:
        """Companions as they are once some have left. `gained`: cpus that they share then, too.

        Nobody where the rule is waived then, or cannot be met.
        """
        rest, rule = around.placed(one.places), one.rule
        everything = self._books.tree.root.cpus.mask
        if not rest:
            nowhere = replace(rule, forbidden=everything, choices=())
            is_waived = self._is_first(one)
            return replace(one, rule=_WAIVED if is_waived else nowhere, containers=())
        presence, own = around.cpus(one.places) | gained, around.exclusive(one.places)
        now = replace(one, rule=replace(rule, forbidden=everything), containers=rest)
        return self._beside_on(now, own, presence & ~own, presence)

    def _beside_on(self, one: Companions, own: int, shared: int, besides: int) -> Companions:
        """Companions with these cpus of their own, and these that they share.

        `besides`: cpus whose domains come to those that the rule leaves.
        """
        domains, rule = self._books.domains, one.rule
        forbidden = rule.forbidden & ~domains.covering(one.level, besides)
        if forbidden != rule.forbidden:
            choices = domains.masks(one.level) if rule.choices else ()
            left = tuple([domain for domain in choices if domain & ~forbidden])
            rule = replace(rule, forbidden=forbidden, choices=left)
        return replace(one, own=own, shared=shared, rule=rule)

    def _is_first(self, one: Companions) -> bool:
        """Whether the newcomer may be the first of a group in which there is nobody else."""
        residents, owner_id = self._books.affinity.residents, one.rule.owner_id
        is_known = owner_id in residents
        return is_known and are_about_owner(one.waivers, residents.container(owner_id))

    def _own_without(
        self, rule: Restriction, leaving: Collection[ContainerId], freed: Freed
    ) -> Restriction | None:
        if rule.spread is not None:
            return self._spread_without(rule, rule.spread, leaving)
        if not rule.blockers:
            return rule
        ids, reaches = self._in_the_way_of(rule)
        rest, cpus = list[Container](), 0
        places = zip(rule.blockers, reaches, self.gained(ids, freed), strict=True)
        for one, reach, gained in places:
            if one.id not in leaving:
                rest.append(one)
                cpus |= reach | gained
        forbidden = self._books.domains.covering(rule.level, cpus)
        return replace(rule, forbidden=forbidden, blockers=tuple(rest)) if rest else None

    def _in_the_way_of(self, rule: Restriction) -> tuple[Sequence[ContainerId], Sequence[int]]:
        """The residents in the way of a rule of the newcomer's, and where each may be."""
        known = self._reaches.get(id(rule.blockers))
        if known is None:
            ids = [one.id for one in rule.blockers]
            # The tuple goes along, so that no other one gets its id.
            known = self._reaches[id(rule.blockers)] = rule.blockers, ids, self._books.reaches(ids)
        return known[1:]

    def _spread_without(
        self, rule: Restriction, spread: SpreadCounts, leaving: Collection[ContainerId]
    ) -> Restriction | None:
        left = self._counts_without(spread, leaving)
        forbidden = self._books.domains.members(spread.rule.level, left.full)
        return replace(rule, forbidden=forbidden, spread=left) if forbidden else None

    def _uneven_without(
        self, spread: SpreadCounts, rules: Judgement, leaving: Collection[ContainerId]
    ) -> Restriction | None:
        """A spread rule that leaves all domains, and then those alone with the fewest."""
        left = self._counts_without(spread, leaving)
        if not left.full:
            return None
        return Restriction(
            text=spread.rule.text,
            owner="",
            owner_id=rules.newcomer or ContainerId(""),
            can_break=False,
            wanted="",
            forbidden=self._books.domains.members(spread.rule.level, left.full),
            spread=left,
        )

    def _counts_without(
        self, spread: SpreadCounts, leaving: Collection[ContainerId]
    ) -> SpreadCounts:
        """The counts of a spread rule once some residents have left."""
        books, residents = self._books, self._books.affinity.residents
        gone = [one for one in leaving if residents.place(one) & spread.counted]
        reaches = books.reaches(gone)
        return spread.without([books.domains.indexes(spread.rule.level, one) for one in reaches])

    def _barriers_without(
        self, barriers: Sequence[Barrier], leaving: Collection[ContainerId], freed: Freed
    ) -> Sequence[Barrier]:
        """The rules of those owners who stay, on the cpus that they share then as well."""
        left: dict[BarrierOwners, BarrierOwners | None] = {}
        found: list[Barrier] = []
        for barrier in barriers:
            of = barrier.insisting
            # Many rules are of the same owners.
            if of not in left:
                left[of] = self._owners_without(of, leaving, freed)
            owners = left[of]
            if owners is of:
                found.append(barrier)
            elif owners is not None:
                forbidden = self._books.domains.covering(barrier.level, owners.cpus)
                found.append(replace(barrier, forbidden=forbidden, insisting=owners))
        return found

    def _owners_without(
        self, of: BarrierOwners, leaving: Collection[ContainerId], freed: Freed
    ) -> BarrierOwners | None:
        """The owners who stay: themselves where nobody leaves, or gains anything; None if none."""
        presence = of.presence
        gained = self.gained(presence, freed)
        if not any(gained) and not any([one in presence for one in leaving]):
            return of
        rest = {
            one: (owner, cpus | more)
            for (one, (owner, cpus)), more in zip(presence.items(), gained, strict=True)
            if one not in leaving
        }
        return BarrierOwners.of(rest, of.can_break, of.are_systems) if rest else None
