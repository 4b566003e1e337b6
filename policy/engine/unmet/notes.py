"""Notes about a placement: preferred rules that are not met, levels the machine lacks, idle cpus.

They are for people, and are worked out when nobody waits for an answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from msgspec.structs import replace

from ....topology.model.machine import Level
from ...books.books import Books
from ...books.whereabouts import Whereabouts
from ...model.container import Container, ContainerId
from ...model.grant import Grant, PoolId, Refusal
from ...model.level_name import a_level, level_noun
from ...placing.classifier import Classified
from ...placing.judging.judgement import OWNERS_MAX
from ...placing.judging.restriction import names_text, together_text
from ...pools.domains import Domains
from ...rules.podaffinity.namespace_scope import OWN_NAMESPACE
from ...rules.podaffinity.rule_set import PlacementRules, PreferredTerm, RequiredTerm, SpreadRule
from ...rules.podaffinity.term_selection import select_spread, select_term
from ..roster import Roster

_NOTES_MAX: Final = 16
_LOOKED_AT_MAX: Final = 256
"""So many containers are looked at for the weights."""


def note_placement(
    container_id: ContainerId, roster: Roster, books: Books, *, is_anew: bool
) -> tuple[str, ...]:
    """The notes about a container, kept with its decision. Unknown ids have none.

    `is_anew`: what draws it to others is that of now, and not what did as it was placed.
    """
    decision, known = roster.decisions.get(container_id), roster.classified.get(container_id)
    if decision is None or known is None:
        return ()
    grant, level = books.ledger.grants.get(container_id), known.request.idle_level
    notes: tuple[str, ...] = ()
    if grant is not None and level is not None:
        notes = (books.idle.note(grant, level),)
    # Nothing of a cold start is a surprise: it ends with DRAM.
    if grant is not None and not known.request.cold_start_ns:
        notes += _other_memory(grant, known, books)
    container, weights = roster.containers[container_id], decision.weights
    if is_anew:
        weights = books.affinity.affinities(container, known.rules).weights
    if isinstance(decision.result, Refusal) and decision.result.advice:
        notes += (decision.result.advice,)
    if decision.unmet or isinstance(decision.result, Refusal):
        notes += _counted_together(container, books)
    if known.placement or weights:
        notes += placement_notes(container, known, weights, books, decision.unmet)
    if not notes:
        return ()
    roster.decisions[container_id] = replace(decision, notes=notes)
    return notes


def _other_memory(grant: Grant, known: Classified, books: Books) -> tuple[str, ...]:
    """The note that memory is not of the kinds an annotation wants alone, as these are full."""
    chosen, nodes = known.preferences.memory_types, books.machine.numa_nodes
    if chosen is None or grant.preserve_memory or grant.pen is not None:
        return ()
    wanted = known.request.memory_kinds & {node.kind for node in nodes}
    kinds = {node.kind for node in nodes if node.id in grant.memory} - wanted
    if not kinds or not chosen.value & wanted:
        return ()
    others, asked = (", ".join(sorted(kind.value for kind in some)) for some in (kinds, wanted))
    return (f"{chosen.key}: it has {others} memory, as too little {asked} is left",)


def _counted_together(container: Container, books: Books) -> tuple[str, ...]:
    """The note that rules which are broken were not counted by owner, as there were too many."""
    rules = [
        one
        for one in books.standing.matching(container)
        if isinstance(one.rule, RequiredTerm) and one.rule.is_anti
    ]
    owners = sum([len(one.owners) for one in rules])
    if owners <= OWNERS_MAX:
        return ()
    plural = "s" if len(rules) != 1 else ""
    return (
        f"{owners} required rules of containers that are there are about it, more than"
        f" {OWNERS_MAX}: counted as {len(rules)} rule{plural}, those with one text as one",
    )


def placement_notes(
    container: Container,
    known: Classified,
    weights: Mapping[ContainerId, int],
    books: Books,
    unmet: Sequence[str] = (),
) -> tuple[str, ...]:
    """The notes about a container where it is, the first of very many.

    `weights`: what drew it to others when it was placed, and from them. `unmet`: what is told of
    its required rules anyway. Of one that was refused: which of its levels the machine lacks.
    """
    if container.id not in books.ledger.grants:
        return tuple(_absent_levels(known.placement, books.domains))
    look = _Look(container, books, books.supply.eligible(known.request).mask)
    return tuple(islice(look.notes(known.placement, weights, unmet), _NOTES_MAX))


class _Look:
    """One container among those that are there."""

    def __init__(self, container: Container, books: Books, eligible: int) -> None:
        """`eligible`: a mask of the cpus that it may be granted."""
        self._eligible = eligible
        self._container = container
        self._books = books
        self._cpus, self._part = books.reach(container.id), books.presence(container.id)
        self._pool_id = books.pool_around(container.id)
        self._whereabouts = Whereabouts(books, books.pen_around(container.id))
        self._beside: dict[tuple[Level, int], int] = {}

    def notes(
        self, rules: PlacementRules, weights: Mapping[ContainerId, int], unmet: Sequence[str]
    ) -> Iterator[str]:
        for required in rules.required:
            yield from self._of_guarded(required, unmet)
        for one in rules.preferred:
            yield from self._of_term(one)
        for spread in rules.spread:
            if not spread.is_required:
                yield from self._of_spread(spread)
        for wish in rules.pool_preferred:
            labels = self._books.pool_labels[self._pool_id]
            if wish.term.expressions and not wish.term.matches(labels):
                yield f"{wish.text}: {self._books.tree.pools[self._pool_id].name} is another"
        yield from self._of_weights(weights)
        yield from _absent_levels(rules, self._books.domains)

    def _of_term(self, rule: PreferredTerm) -> Iterator[str]:
        term, level = rule.term, rule.term.level
        matches = select_term(self._books.affinity.residents, self._container, term)
        inside = self._in_its_domains(level, matches)
        # Names cost a step for each container, so of the few rules alone that are told.
        if rule.weight > 0 and (away := self._whereabouts.placed(matches & ~inside)):
            near, where = inside.bit_count(), f"in no {level_noun(level)} with {names_text(away)}"
            # Each of them adds its weight: who is elsewhere was wished for as well.
            some = f", and with {near} of {near + len(away)} in one" if near else ""
            yield f"{term.text}: {where}{some}"
        if rule.weight > 0 and (part := self._met_part(level, inside)):
            yield f"{term.text}: met in part, as {part}"
        if rule.weight < 0 and inside:
            count = len(self._whereabouts.placed(matches))
            count += term.includes(self._container, self._container)
            together = together_text(level, names_text(self._whereabouts.placed(inside)))
            yield f"{term.text}: {together}{self._few(level, count)}"

    def _of_guarded(self, rule: RequiredTerm, unmet: Sequence[str]) -> Iterator[str]:
        """A required rule that others need not keep, as it would block too much for them."""
        term, level = rule.term, rule.term.level
        if not rule.is_anti or term.namespaces == OWN_NAMESPACE:
            return
        matches = select_term(self._books.affinity.residents, self._container, term)
        own = self._container.pod.namespace
        beside = self._whereabouts.placed(self._in_its_domains(level, matches))
        others = [one for one in beside if one.pod.namespace != own]
        if others and not any([term.text in one for one in unmet]):
            yield f"{term.text}: {together_text(level, names_text(others))} (antiAffinityLimits)"

    def _in_its_domains(self, level: Level, places: int) -> int:
        """The containers of a set that are in one domain of a level with it."""
        found = self._beside.get((level, places))
        if found is None:
            domains, look = self._books.domains, self._whereabouts
            inside = look.on(domains.covering(level, self._part), places & look.mates)
            outside = look.on(domains.covering(level, self._cpus), places & ~look.mates)
            found = self._beside[level, places] = inside | outside
        return found

    def _met_part(self, level: Level, inside: int) -> str:
        """The domains that a container is in beside those of others; empty where there are none."""
        domains, look = self._books.domains, self._whereabouts
        own = domains.indexes(level, self._part if inside & look.mates else self._cpus)
        if not inside or not own & (own - 1):
            return ""
        count = own.bit_count()
        shared = (own & domains.indexes(level, look.cpus(inside))).bit_count()
        where = f"it is in {count} {level_noun(level)}s, and with "
        names = names_text(look.placed(inside))
        return f"{where}{names} in {shared} of them" if shared < count else ""

    def _few(self, level: Level, count: int) -> str:
        """The reason why containers, so many, cannot all be in domains of their own."""
        domains = self._books.domains.indexes(level, self._eligible).bit_count()
        if count <= domains:
            return ""
        plural = "s" if domains != 1 else ""
        return f" ({count} containers, {domains} {level_noun(level)}{plural})"

    def _of_spread(self, rule: SpreadRule) -> Iterator[str]:
        books, usable = self._books, self._eligible
        places = select_spread(books.affinity.residents, self._container, rule)
        by_count = self._whereabouts.domains_by_count(rule.level, places, usable)
        itself = rule.counts_itself(self._container)
        least = rule.least_of(by_count, sum(bits.bit_count() for bits in by_count.values()))
        cpus = self._part if places & self._whereabouts.mates else self._cpus
        own = books.domains.indexes(rule.level, cpus)
        most = max((count + itself for count, bits in by_count.items() if bits & own), default=0)
        if most - least > rule.max_skew:
            noun = level_noun(rule.level)
            yield f"{rule.text}: {most} of them in its {noun}, and {least} in another one"

    def _of_weights(self, weights: Mapping[ContainerId, int]) -> Iterator[str]:
        books, residents = self._books, self._books.affinity.residents
        away: list[Container] = []
        near: list[Container] = []
        looked_at = islice(weights, _LOOKED_AT_MAX)
        placed = [one for one in looked_at if one in books.ledger.grants]
        for container_id, is_near in zip(placed, self._are_in_one_pool(placed), strict=True):
            if is_near is not (weights[container_id] > 0):
                (near if is_near else away).append(residents.container(container_id))
        if away:
            yield f"affinity: in no one pool with {names_text(away)}"
        if near:
            yield f"anti-affinity: in one pool with {names_text(near)}"

    def _are_in_one_pool(self, others: Sequence[ContainerId]) -> Iterator[bool]:
        """Whether each of other containers is in one pool with this one, see `Books.pool_around`.

        Those side by side are at the same place: it is looked at once.
        """
        tree, grants = self._books.tree, self._books.ledger.grants
        known: dict[tuple[PoolId, int], bool] = {}
        for one, cpus in zip(others, self._books.reaches(others), strict=True):
            place = grants[one].pool_id, cpus
            is_near = known.get(place)
            if is_near is None:
                other = tree.around(*place)
                is_near = other in tree.subtree(self._pool_id)
                is_near = known[place] = is_near or self._pool_id in tree.subtree(other)
            yield is_near


def _absent_levels(rules: PlacementRules, domains: Domains) -> Iterator[str]:
    levels = [one.term.level for one in rules.required]
    levels += [one.term.level for one in rules.preferred]
    levels += [one.level for one in rules.spread]
    for level in dict.fromkeys(levels):
        wider = domains.stand_in(level)
        if wider is not level:
            yield (
                f"this machine has no {level_noun(level)}s: what holds at {a_level(level)}"
                f" holds at {a_level(wider)}"
            )
