"""Readings of all rules that say something of one newcomer."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypedDict, Unpack

from msgspec import Struct, field

from ....topology.model.machine import Level
from ....topology.sets.cpuset import CpuSet
from ...books.books import Books
from ...books.company import affinity_of
from ...configuration.affinity_fields import KubeCompat
from ...configuration.config import Config, OnUnsatisfiable
from ...model.container import Container
from ...model.level_name import a_level, level_noun
from ...model.request import Request
from ...rules.podaffinity.rule_set import (
    PlacementRules,
    PreferredTerm,
    RequiredTerm,
    SpreadRule,
)
from ...rules.podaffinity.standing_rules import StandingRule
from ...rules.podaffinity.term import Term, are_about_owner
from ...rules.podaffinity.term_selection import instances, select_counted, select_term
from ...rules.pulls import SCALE, Pulls
from .barrier import Barrier, BarrierOwners
from .guard import guard
from .judgement import Companions, Judgement
from .restriction import Restriction, names_text
from .scene import Scene, is_exempt
from .spread_counts import SpreadCounts

_FEW_RULES: Final = 4
"""Of so many rules it is looked up one by one where their owners are."""
_GUARD_WEIGHT: Final = 100
"""The weight of what a namespace may not require of containers of others."""
_LACKING: Final = ", which this machine lacks"
"""Behind a pool that is wanted."""
ABSENT: Final = "a container that the rule is about"
"""What required affinity wants where there is none."""
ABSENT_OF_ALL: Final = "a container that all its required affinity is about"
"""`ABSENT` where all terms have to be about one container, as in Kubernetes' code."""


class _Limits(TypedDict, total=False):
    forbidden: int
    choices: tuple[int, ...]
    closed_pools: frozenset[int]
    blockers: tuple[Container, ...]
    level: Level
    is_lasting: bool
    spread: SpreadCounts
    names_pool: bool


class RuleReading(Struct):
    """A newcomer's rules and those about it, on the way to a judgement."""

    books: Books
    config: Config
    container: Container
    rules: PlacementRules
    request: Request
    scene: Scene
    has_pulls: bool
    about_it: Sequence[StandingRule]
    own: list[Restriction] = field(default_factory=list[Restriction])
    inside: list[Restriction] = field(default_factory=list[Restriction])
    companions: list[Companions] = field(default_factory=list[Companions])
    guarded: list[str] = field(default_factory=list[str])
    spreads: list[SpreadCounts] = field(default_factory=list[SpreadCounts])
    choices: dict[tuple[Level, int, int], tuple[int, ...]] = field(
        default_factory=dict[tuple[Level, int, int], tuple[int, ...]]
    )

    def read(self, matching: Sequence[StandingRule], uncounted: int) -> Judgement:
        """The judgement: what all of them come to. `matching`: those of others about it."""
        pulls = Pulls(self.books.domains)
        if self.rules:
            self._read_affinity()
            self._read_anti_affinity()
            self._read_pools()
            for rule in self.rules.spread:
                if rule.is_required or self.has_pulls:
                    self._read_spread(rule, pulls)
            for one in self.rules.preferred if self.has_pulls else ():
                sizes = self.scene.whereabouts.sizes(self._select(one.term))
                pulls.add_all(one.term.level, sizes, one.weight)
        barriers, passed = self._read_standing(matching, pulls)
        return Judgement(
            newcomer=self.container.id,
            own=tuple(self.own),
            barriers=barriers,
            passed=passed,
            inside=tuple(self.inside),
            part=self.scene.whereabouts.cpus_of(self.container.id) if self.inside else 0,
            companions=tuple(self.companions),
            pulls=pulls,
            pool_scores=self._pool_scores(),
            guarded=tuple(self.guarded),
            spreads=tuple(self.spreads),
            about_it=self.about_it,
            uncounted=uncounted,
            seen=self.scene.whereabouts.know(()),
            # Added up anew after each booking: only for one that is placed by it.
            kept=self.books.ledger.owed if self.companions and self.has_pulls else 0,
            domains=self.books.domains,
        )

    @property
    def _usable(self) -> int:
        return self.books.supply.eligible(self.request).mask

    def _select(self, term: Term) -> int:
        return select_term(self.books.affinity.residents, self.container, term)

    def _restrict(self, text: str, wanted: str, about: int = 0, **more: Unpack[_Limits]) -> None:
        """Note a rule of the newcomer's; `about`: the containers that it is about."""
        (self.inside if about & self.scene.whereabouts.mates else self.own).append(
            Restriction(
                text=text,
                owner=self.container.path,
                owner_id=self.container.id,
                can_break=self.rules.on_unsatisfiable is OnUnsatisfiable.DEGRADE,
                wanted=wanted,
                **more,
            )
        )

    def _read_affinity(self) -> None:
        affinity = affinity_of(self.container, self.rules, self.books)
        rules = [rule for rule, _ in affinity]
        # Kubernetes' code waives all terms or none.
        is_strict = self.config.kube_compat is KubeCompat.STRICT
        for rule, selected in affinity:
            matches = self.scene.whereabouts.placed(selected)
            waivers = tuple([one.term for one in rules]) if is_strict else (rule.term,)
            if matches:
                self._stay_with(rule, matches, selected, waivers)
            elif not are_about_owner(waivers, self.container):
                self._restrict(
                    rule.term.text,
                    ABSENT_OF_ALL if is_strict and len(rules) > 1 else ABSENT,
                    forbidden=self._everything,
                    is_lasting=rule.is_lasting,
                )

    def _stay_with(
        self,
        rule: RequiredTerm,
        matches: Sequence[Container],
        places: int,
        waivers: tuple[Term, ...],
    ) -> None:
        domains, term, level = self.books.domains, rule.term, rule.term.level
        presence = self.scene.whereabouts.cpus(places)
        allowed = domains.covering(level, presence)
        is_inside = bool(places & self.scene.whereabouts.mates)
        choices = self._choices(level, allowed, self._size(is_inside=is_inside))
        # What is larger than any domain may be in several of them.
        place = f"one {level_noun(level)}" if choices else a_level(level)
        self._restrict(
            term.text,
            f"cpus of {place} with {names_text(matches)}",
            about=places,
            forbidden=self._everything & ~allowed,
            choices=choices,
            level=level,
            is_lasting=rule.is_lasting,
        )
        if is_inside:
            return
        own = self.scene.whereabouts.exclusive(places)
        shared, told = presence & ~own, self.own[-1]
        self.companions.append(
            Companions(
                level=level,
                own=own,
                shared=shared,
                rule=told,
                containers=matches,
                places=places,
                waivers=waivers,
            )
        )

    def _choices(self, level: Level, allowed: int, size: int) -> tuple[int, ...]:
        """The allowed domains of which so many cpus must be in one; none where none has room."""
        key = level, allowed, size
        known = self.choices.get(key)
        if known is None:
            domains = self.books.domains
            fits = domains.size_max(level, self._usable) >= size
            masks = domains.masks(level) if fits else ()
            known = self.choices[key] = tuple([one for one in masks if one & allowed])
        return known

    @property
    def _everything(self) -> int:
        return self.books.tree.root.cpus.mask

    def _size(self, *, is_inside: bool) -> int:
        """How many cpus the newcomer asks for; `is_inside`: of its pen, else that does for it."""
        ledger, request = self.books.ledger, self.request
        held = ledger.grants.get(self.container.id)
        if held is not None and held.pen is not None and not is_inside:
            pen = ledger.pens[held.pen]
            return len(pen.exclusive) + max(-(-pen.shared_milli // 1000), not pen.exclusive)
        count = request.exclusive + -(-request.shared_milli // 1000)
        return max(count, request.exclusive + 1) if request.needs_shared_cpu else count

    def _read_anti_affinity(self) -> None:
        mates = self.scene.whereabouts.mates
        for one in self.rules.required:
            selected = self._select(one.term) if one.is_anti else 0
            for places in (selected & ~mates, selected & mates):
                matches = self.scene.whereabouts.placed(places) if places else ()
                if not matches:
                    continue
                level = one.term.level
                self._restrict(
                    one.term.text,
                    f"{a_level(level)} without {names_text(matches)}",
                    about=places,
                    forbidden=self.books.domains.covering(
                        level, self.scene.whereabouts.cpus(places)
                    ),
                    blockers=matches,
                    level=level,
                    is_lasting=one.is_lasting,
                )

    def _read_spread(self, rule: SpreadRule, pulls: Pulls) -> None:
        domains, level = self.books.domains, rule.level
        residents = self.books.affinity.residents
        counted = select_counted(residents, self.container.pod.namespace, rule)
        itself = counted & instances(residents, self.container) if counted else 0
        places = counted & ~itself
        counts = SpreadCounts(
            rule=rule,
            counts_itself=rule.counts_itself(self.container),
            counted=places,
            by_count=self.scene.whereabouts.domains_by_count(level, counted, self._usable, itself),
        )
        if rule.is_required and self.rules.on_unsatisfiable is not OnUnsatisfiable.DEGRADE:
            self.spreads.append(counts)
        most, by_count = counts.most, counts.by_count
        if not rule.is_required:
            for count, bits in by_count.items():
                if count > most:
                    pulls.add(level, domains.members(level, bits), most - count)
        elif full := counts.full:
            few, fewest = f"at most {most}" if most > 0 else "none", min(by_count)
            wanted = f"{a_level(level)} with {few} of these containers"
            if fewest <= most:
                first = by_count[fewest] & -by_count[fewest]
                wanted += f", as that of cpus {CpuSet(domains.members(level, first))}"
            self._restrict(
                rule.text,
                wanted,
                about=places,
                forbidden=domains.members(level, full),
                spread=counts,
            )

    def _read_pools(self) -> None:
        pools, rules = self.books.tree.pools, self.rules
        if rules.pool_name is not None:
            others = frozenset(pool.id for pool in pools if pool.name != rules.pool_name)
            is_known = len(others) < len(pools)
            self._restrict(
                f"pool-name {rules.pool_name!r}",
                f"pool {rules.pool_name}{'' if is_known else _LACKING}",
                closed_pools=others,
                names_pool=True,
            )
        for one in rules.pool_required:
            labels = self.books.pool_labels
            others = frozenset(pool.id for pool in pools if not one.holds(labels[pool.id]))
            if others:
                is_known = len(others) < len(pools)
                self._restrict(
                    one.text,
                    f"a pool with these labels{'' if is_known else _LACKING}",
                    closed_pools=others,
                    is_lasting=one.is_lasting,
                )

    def _pool_scores(self) -> Sequence[int]:
        preferred = self.rules.pool_preferred
        if not preferred or not self.has_pulls:
            return ()
        return [
            SCALE * sum([one.weight for one in preferred if one.term.matches(labels)])
            for labels in self.books.pool_labels
        ]

    def _read_standing(
        self, matching: Sequence[StandingRule], pulls: Pulls
    ) -> tuple[tuple[Barrier, ...], tuple[Barrier, ...]]:
        """Barriers that block the newcomer, and those that would if it were not exempt."""
        barriers: list[Barrier] = []
        mates = self.scene.whereabouts.mates
        if len(matching) > _FEW_RULES:
            self.scene.expect(matching)
        for one in matching:
            rule, outside = one.rule, self._outside(one, mates) if mates else one
            if isinstance(rule, RequiredTerm) and rule.is_anti:
                for part in self.scene.owners(outside):
                    barriers.append(self._barrier(rule, part))
                continue
            weight = self.config.hard_affinity_weight
            if isinstance(rule, PreferredTerm):
                weight = rule.weight
            if weight:
                pulls.add_all(rule.term.level, self.scene.sizes(outside), weight)
        if not barriers:
            return (), ()
        if is_exempt(self.container, self.request.cpu_type):
            return (), tuple(barriers)
        kept, preferred = guard(barriers, self.container, self.config, self._everything.bit_count())
        if not preferred:
            return kept, ()
        self.guarded += [one.guard_text for one in preferred]
        # Many rules are of the same owners.
        alike = Counter([(one.level, one.insisting) for one in preferred])
        for (level, owners), rules in alike.items():
            pulls.add_all(level, owners.sizes, -_GUARD_WEIGHT * rules)
        return kept, ()

    def _outside(self, one: StandingRule, mates: int) -> StandingRule:
        """A rule of those alone who are not in its pen; what it says inside is noted."""
        residents = self.books.affinity.residents
        inside = {key: own for key, own in one.owners.items() if residents.place(key) & mates}
        if not inside:
            return one
        if isinstance(one.rule, RequiredTerm) and one.rule.is_anti:
            for part in self.scene.owners(StandingRule(one.rule, inside)):
                self.inside.extend(self._barrier(one.rule, part).restrictions())
        others = {key: own for key, own in one.owners.items() if key not in inside}
        return StandingRule(one.rule, others)

    def _barrier(self, rule: RequiredTerm, part: BarrierOwners) -> Barrier:
        domains, level = self.books.domains, rule.term.level
        return Barrier(
            text=rule.term.text,
            level=level,
            can_break=part.can_break,
            forbidden=domains.covering(level, part.cpus),
            insisting=part,
            domains=domains,
        )
