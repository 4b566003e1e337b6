"""Judgements: what all rules together say about the place of one newcomer."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, reduce
from itertools import islice
from typing import Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from ....topology.model.machine import Level
from ....topology.sets.cpuset import CpuSet
from ...books.company import Company, beside
from ...model.container import Container, ContainerId
from ...pools.domains import Domains
from ...rules.podaffinity.standing_rules import StandingRule
from ...rules.podaffinity.term import Term
from ...rules.pulls import Pulls
from .barrier import Barrier
from .restriction import Restriction, ids_in_the_way
from .spread_counts import SpreadCounts

OWNERS_MAX: Final = 48
"""More than the containers with rules about one newcomer on an ordinary node: of more, nobody is
counted by himself."""
_TOLD_MAX: Final = 256
"""Rules of residents that are told where they do not hold, each of each owner: an ordinary node has
not so many of them."""


class Companions(Struct, frozen=True, kw_only=True):
    """Cpus of containers that a newcomer must share domains with, as masks."""

    level: Level
    own: int
    """Cpus that one of them has for itself."""
    shared: int
    """Cpus that they lose when another container takes them."""
    rule: Restriction
    """The rule that says so."""
    containers: Sequence[Container] = ()
    places: int = 0
    """The containers, and such ones that hold nothing, as a set of residents."""
    waivers: tuple[Term, ...] = ()
    """The terms that all have to be about the newcomer, too, for it to be the first of them."""


class _Sharing(NamedTuple):
    """Shared cpus of companions at a level."""

    level: Level
    shared: int
    last: int
    """The last of them in each domain in which companions have those alone."""
    holders: Mapping[int, int]
    """The domains of the level, by each of their cpus."""


class Judgement(Struct, frozen=True, kw_only=True, dict=True):
    """The place of one newcomer as far as required and preferred rules say of it."""

    newcomer: ContainerId | None = None
    """The container whose place it is; of a pen that begins, the one that it begins for."""
    own: tuple[Restriction, ...] = ()
    barriers: tuple[Barrier, ...] = ()
    given_up: tuple[Barrier, ...] = ()
    """Barriers that a search leaves out: a reason for their owners to make way all the same."""
    passed: tuple[Barrier, ...] = ()
    """Rules of others that do not block the newcomer, and are told where they do not hold."""
    inside: tuple[Restriction, ...] = ()
    """Rules between one that is in a pen and others there: they speak of its own part of it."""
    part: int = 0
    """A mask of the cpus on which it runs there."""
    companions: tuple[Companions, ...] = ()
    pulls: Pulls
    pool_scores: Sequence[int] = ()
    """By pool id the sum of preferred pool terms, scaled like pulls; empty without any."""
    guarded: tuple[str, ...] = ()
    """Rules of others that would block too much, and are preferences for this newcomer."""
    spreads: tuple[SpreadCounts, ...] = ()
    """What its own required spread rules count where they insist, those that leave all too."""
    about_it: Sequence[StandingRule] = ()
    """Rules of residents that are about the newcomer, whatever they say."""
    uncounted: int = 0
    """How many rules of others do not count: their namespaces have too many about the newcomer."""
    seen: Mapping[ContainerId, int] = field(default_factory=dict[ContainerId, int])
    """The `Books.reach` of containers, as far as that was asked for."""
    kept: int = 0
    """Cpus that nobody takes anyway, see `Ledger.owed`: companions need no others there."""
    domains: Domains

    @property
    def is_silent(self) -> bool:
        """Whether no rule says anything."""
        is_drawn = self.pulls or self.pool_scores
        return self.only_draws and not is_drawn and not self.guarded

    @property
    def only_draws(self) -> bool:
        """Whether no required rule says anything: no place would break any."""
        return not (self.own or self.barriers or self.passed or self.inside)

    @property
    def effort(self) -> int:
        """The number of rules that had to be read for it, those about nobody not among them."""
        return len(self.own) + len(self.barriers) + len(self.passed) + len(self.inside)

    @property
    def crowd(self) -> int:
        """The number of containers at most that stand in the way of one of these rules."""
        sizes = [len(one.blockers) for one in (*self.own, *self.inside)]
        sizes += [len(one.owners) for one in (*self.barriers, *self.passed)]
        return max(sizes, default=0)

    @property
    def blocked(self) -> int:
        """A mask of the cpus that some required rule keeps the newcomer from."""
        mask = 0
        for one in self.own:
            mask |= one.forbidden
        for barrier in self.barriers:
            mask |= barrier.forbidden
        return mask

    def yielding(self) -> "Judgement":
        """The judgement in which every rule gives way where it cannot be met."""
        return replace(
            self,
            own=tuple(replace(one, can_break=True) for one in self.own),
            barriers=tuple(replace(one, can_break=True) for one in self.barriers),
            companions=tuple(
                replace(one, rule=replace(one.rule, can_break=True)) for one in self.companions
            ),
        )

    def of_growth(self) -> "Judgement":
        """The judgement that counts passed rules, too: it need come no nearer than it is."""
        return replace(self, barriers=(*self.barriers, *self.passed), passed=())

    def of_a_restart(self) -> "Judgement":
        """The judgement in which only rules that keep containers apart insist."""
        own = tuple(replace(one, can_break=one.can_break or not one.blockers) for one in self.own)
        return replace(self, own=own)

    def joined(self, other: "Judgement") -> "Judgement":
        """The judgement about a place that two newcomers are to have together."""
        pulls = Pulls(self.domains)
        pulls.join(self.pulls)
        pulls.join(other.pulls)
        known = {(one.text, one.level, *one.owners) for one in (*self.barriers, *self.passed)}
        barriers, passed = (
            tuple(one for one in some if (one.text, one.level, *one.owners) not in known)
            for some in (other.barriers, other.passed)
        )
        scores = [sum(pair) for pair in zip(self.pool_scores, other.pool_scores, strict=False)]
        return replace(
            self,
            own=(*self.own, *other.own),
            barriers=(*self.barriers, *barriers),
            passed=(*self.passed, *passed),
            companions=(*self.companions, *other.companions),
            pulls=pulls,
            pool_scores=scores or self.pool_scores or other.pool_scores,
            guarded=(*self.guarded, *other.guarded),
            spreads=(*self.spreads, *other.spreads),
            uncounted=max(self.uncounted, other.uncounted),
        )

    def kept_from(self, cpus: int, pool_id: int) -> "Judgement":
        """The judgement in which only rules give way that do not hold on these cpus."""
        own = tuple(replace(one, can_break=one.is_broken_by(cpus, pool_id)) for one in self.own)
        by_name = {one.name: one for one in own}
        return replace(
            self,
            own=own,
            barriers=tuple(
                replace(one, can_break=bool(cpus & one.forbidden)) for one in self.barriers
            ),
            companions=tuple(replace(one, rule=by_name[one.rule.name]) for one in self.companions),
        )

    def closed_to(self, others: frozenset[int], wanted: str) -> "Judgement":
        """The judgement where, besides, a place in some pools is ruled out.

        `wanted`: the pool that is asked for, for people.
        """
        asked = Restriction(
            text="the move that is asked for",
            owner="",
            owner_id=ContainerId(""),
            can_break=False,
            wanted=wanted,
            closed_pools=others,
        )
        return replace(self, own=(*self.own, asked))

    def closed(self) -> frozenset[int]:
        """The pools that some required rule keeps the newcomer from."""
        return frozenset[int]().union(*(one.closed_pools for one in self.own))

    @cached_property
    def restrictions(self) -> tuple[Restriction, ...]:
        """Every required rule by itself, those of very many residents together."""
        if self._are_of_many:
            return (*self.own, *(barrier.whole for barrier in self.barriers))
        return (*self.own, *(one for barrier in self.barriers for one in barrier.restrictions()))

    @cached_property
    def _are_of_many(self) -> bool:
        """Whether the rules of others are of so many that nobody is counted by himself."""
        return sum([len(barrier.owners) for barrier in self.barriers]) > OWNERS_MAX

    def told_at(self, cpus: int, pool_id: int) -> tuple[Restriction, ...]:
        """Every required rule that does not hold on these cpus, those that block nobody as well.

        Of very many, all of the newcomer's own and the first of residents'.
        """
        found = [one for one in self.own if one.is_broken_by(cpus, pool_id)]
        found += [one for one in self.inside if one.is_broken_by(self.part, pool_id)]
        found += islice(self._of_others((*self.barriers, *self.passed), cpus), _TOLD_MAX)
        return tuple(found)

    def _of_others(self, barriers: Sequence[Barrier], cpus: int) -> Iterator[Restriction]:
        for barrier in barriers:
            if cpus & barrier.forbidden:
                yield from (one for one in barrier.restrictions(cpus) if cpus & one.forbidden)

    def still_told(
        self, texts: Sequence[str], cpus: int, pool_id: int, *, or_lasting: bool = False
    ) -> tuple[Restriction, ...]:
        """The rules that texts tell and that do not hold on these cpus, each of one owner.

        Rules that nobody told are not even worded. `or_lasting`: and its own that are required
        during execution.
        """
        found = [one for one in self.own if one.is_broken_by(cpus, pool_id)]
        found += [one for one in self.inside if one.is_broken_by(self.part, pool_id)]
        found = [one for one in found if (or_lasting and one.is_lasting) or one.is_told(texts)]
        broken = [one for one in (*self.barriers, *self.passed) if cpus & one.forbidden]
        found += [one for barrier in broken for one in barrier.told_by(texts, cpus)]
        return tuple(found)

    def passed_by(self, cpus: int) -> tuple[Restriction, ...]:
        """The rules of others that do not hold on these cpus, and do not block the newcomer."""
        rules = (one for barrier in self.passed for one in barrier.restrictions(cpus))
        return tuple(islice((one for one in rules if cpus & one.forbidden), _TOLD_MAX))

    def broken_by(self, cpus: int, exclusive: int, pool_id: int) -> tuple[Restriction, ...]:
        """The rules that break where the newcomer runs on these cpus, some of them its own."""
        found = [one for one in self.own if one.is_broken_by(cpus, pool_id)]
        # Most rules of others hold: those are not even worded.
        if self._are_of_many:
            found += [one.whole for one in self.barriers if cpus & one.forbidden]
        else:
            found += self._of_others(self.barriers, cpus)
        found += [one for one in self.left_alone(cpus, exclusive) if one not in found]
        return tuple(found)

    def left_alone(self, cpus: int, exclusive: int) -> Sequence[Restriction]:
        """The rules by which companions would not be beside the newcomer on these cpus."""
        found: list[Restriction] = []
        for one in self.companions:
            beside = one.own | (one.shared & ~exclusive)
            here = self.domains.covering(one.level, beside)
            if cpus & ~here and one.rule not in found:
                found.append(one.rule)
        return found

    def beside(self, cpus: int, exclusive: int) -> tuple[CpuSet, ...]:
        """Shared cpus of companions without which the newcomer would be alone, by domain."""
        company = [Company(one.level, one.own, one.shared) for one in self.companions]
        return beside(company, self.domains, cpus, exclusive)

    def blockers(self) -> tuple[Container, ...]:
        """The containers because of which a rule that insists keeps the newcomer from some cpus."""
        rules = [one.blockers for one in self.own if not one.can_break]
        rules += [one.insisting.containers for one in self.barriers if not one.can_break]
        return tuple({other.id: other for some in rules for other in some}.values())

    def insisting(self) -> "Judgement":
        """The rules that never break."""
        return replace(
            self,
            own=tuple([one for one in self.own if not one.can_break]),
            barriers=tuple([one for one in self.barriers if not one.can_break]),
            given_up=(*self.given_up, *[one for one in self.barriers if one.can_break]),
            companions=tuple([one for one in self.companions if not one.rule.can_break]),
        )

    def kept_apart(self) -> frozenset[ContainerId]:
        """The residents that must not share a domain with the newcomer."""
        found = ids_in_the_way(self.own)
        # Many rules may be of the same owners.
        crowds = {barrier.insisting for barrier in self.barriers}
        return frozenset(found.union(*(one.presence for one in crowds)))

    def owed(self, region: int) -> int:
        """Cpus of a region that the newcomer must leave, so that companions stay beside it.

        For all domains at once: there may be thousands, and regions as many.
        """
        sharing = self._sharing
        if len(sharing) == 1:
            return sharing[0].last & region
        kept, lowest = 0, (region & -region).bit_length() - 1
        for one in sharing:
            domain = one.holders.get(lowest, 0)
            if region & domain == region:
                # Most are in one domain of each level.
                here = one.last & domain
                kept |= here if here and not kept & one.shared & domain else 0
                continue
            here = one.last & self.domains.covering(one.level, region)
            beside = kept & one.shared
            # Where a cpu is left anyway nobody needs another one.
            kept |= here & ~self.domains.covering(one.level, beside) if beside else here
        return kept & region

    @property
    def owed_at_most(self) -> int:
        """The number of cpus that `owed` comes to at most, whatever the region."""
        return sum([one.last.bit_count() for one in self._sharing])

    @cached_property
    def owed_ever(self) -> int:
        """Cpus without which `owed` leaves none, whatever the region."""
        return reduce(int.__or__, [one.last for one in self._sharing], 0)

    @property
    def owed_first(self) -> int:
        """Cpus that `owed` comes to at least, as far as they are in a region."""
        sharing = self._sharing
        return sharing[0].last if sharing else 0

    @property
    def narrowest_sharing(self) -> tuple[Level, Mapping[int, int], int, int] | None:
        """Domains of the narrowest level of companions, by cpu, and the cpus that they share there.

        And the last of each of the domains of which `owed` leaves them one, whichever it is.
        """
        if not self._sharing:
            # Of most newcomers there are none.
            return None
        levels = list(Level)
        found = max(self._sharing, key=lambda one: levels.index(one.level))
        return found.level, found.holders, found.shared, found.last

    @cached_property
    def _sharing(self) -> Sequence[_Sharing]:
        # Many rules may be about the same companions.
        alike = dict.fromkeys([(one.level, one.shared, one.own) for one in self.companions])
        domains, found = self.domains, list[_Sharing]()
        for level, shared, own in alike:
            indexes = domains.indexes(level, shared) & ~domains.indexes(level, own)
            alone = shared & domains.members(level, indexes)
            kept = alone & self.kept
            others = alone & ~domains.covering(level, kept) if kept else alone
            last = domains.highest(level, kept) | domains.highest(level, others)
            found.append(_Sharing(level, shared, last, domains.holders(level)))
        return found


def bits(mask: int) -> Iterator[int]:
    """The bits of a mask, each by itself, ascending."""
    while mask:
        bit = mask & -mask
        yield bit
        mask ^= bit
