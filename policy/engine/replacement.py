"""Replacement: another place for containers that run, where their required rules hold again.

For a container by itself, or for a pen with all who are in it: the pen is the unit of a rule.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ...topology.sets.cpuset import NO_CPUS, CpuSet
from ..annotations.preferences import parse_preferences
from ..books.books import Books
from ..books.missed_companions import UnmetOf, missed_companions
from ..memory.offers import Offer
from ..model.container import Container, ContainerId
from ..model.cpu_preference import MovePreference
from ..model.grant import Grant, PoolId, Refusal
from ..model.request import Request
from ..pens.pen_slices import rest_of
from ..placing.classifier import Classified
from ..placing.judging.evenness import COUNTING_MAX, counting_rules, made_uneven
from ..placing.judging.judge import Judge
from ..placing.judging.judgement import Judgement
from ..placing.judging.near_blockers import NearBlockers
from ..placing.judging.obstacles import obstacles
from ..placing.judging.restriction import TOLD_MAX, Restriction, names_text, wants_text
from ..placing.judging.rule_look import RuleLook
from ..placing.mover import bound_to_place, immovable
from ..placing.placer import Failure, Placement, Placer
from ..placing.pool_choice import Chooser
from ..rules.podaffinity.rule_set import PlacementRules, RequiredTerm, is_lasting
from .asked_move import ANYWHERE, AskedMove
from .decision import Decision
from .penning import Penning
from .roster import Roster

_MENDED: Final = "it was moved to mend "
_MUST_BE_WITH_IT: Final = " must be with it"
_OUT_OF_THE_WAY: Final = "it was moved out of the way of "
"""The beginning of a note about a rule that others are still in the way of."""


class Party(Struct, frozen=True):
    """Containers that can only be placed together: those of a pen, or one by itself."""

    members: Mapping[ContainerId, tuple[Container, Classified]]
    """Oldest first."""
    held: Grant
    """What they hold together."""
    request: Request
    awaited: Sequence[Container] = ()
    """Containers that come to where they go, once they are there."""

    @property
    def containers(self) -> Mapping[ContainerId, Container]:
        """The members themselves."""
        return {one: container for one, (container, _) in self.members.items()}

    def others(self, container_id: ContainerId) -> Iterator[Container]:
        """All containers but one."""
        return (one for one in self.containers.values() if one.id != container_id)

    def rules_of(self, container_id: ContainerId) -> PlacementRules:
        """The rules of a member but for those that hold beside one that goes where it goes."""
        container, classified = self.members[container_id]
        rules, others = classified.placement, (*self.others(container_id), *self.awaited)
        if not others:
            return rules
        required = tuple(
            one
            for one in rules.required
            if one.is_anti or not any(one.term.includes(container, other) for other in others)
        )
        return replace(rules, required=required)


PartyWith = Callable[[ContainerId], Party]
"""The containers that have to go where one of them goes."""


def party_of(
    container_id: ContainerId,
    books: Books,
    roster: Roster,
    pens: Penning,
    awaited: Iterable[ContainerId] = (),
) -> Party:
    """The containers that have to go where one of them goes. `awaited`: those that come later."""
    held = books.ledger.counted(container_id)
    ids = books.ledger.members(held.container_id) or (container_id,)
    members = {one: (roster.containers[one], roster.classified[one]) for one in ids}
    container, classified = members[next(iter(ids))]
    request, name = classified.request, None
    if held.is_pen:
        name = pens.name_of(container, classified)
    if name is not None:
        request = pens.sizes.request_of(name, container)
        request = replace(request, exclusive=len(held.exclusive), shared_milli=held.shared_milli)
    return Party(members, held, request, [roster.containers[one] for one in awaited])


def plan_replacement(
    party: Party,
    books: Books,
    roster: Roster,
    pens: Penning,
    asked: AskedMove = ANYWHERE,
    *,
    mends_told: bool = False,
) -> Placement | Failure:
    """The grant of a party where more of its rules required during execution hold.

    And with `mends_told` of those that are told as unmet, by it or by owners of rules about it.
    With `asked` in its pool alone, if they do there. No rule breaks by it that holds where
    the party is. Nobody else has to leave its pool or its memory. O(pools + grants).
    """
    held, request = party.held, party.request
    wanted_pool = asked.pool_id
    if objection := _objection(party, books):
        return _failure(objection)
    without = books.without(held.container_id)
    judge = Judge(without, books.config)
    judgement = _judgement(party, judge)
    if judgement is None:
        return _failure("no rule says where it is")
    here = _presence(party, books)
    unmet_of: UnmetOf = roster.unmet_of if mends_told else lambda _: ()
    missed = missed_companions(party.containers, here, books, unmet_of) if mends_told else ()
    pool_id = books.tree.around(held.pool_id, here)
    before = judgement.told_at(here, pool_id)
    chooser = Chooser(books.tree, books.picker.classes)
    weights = _weights(party, books)
    relaxed = judgement.kept_from(here, pool_id)
    told = [text for one in party.members for text in unmet_of(one)]
    sought = _sought(before, told, unmet_of)
    if wanted_pool is not None and not (told or sought or missed):
        return _failure("required rules hold it where it is")

    def plan(rules: Judgement, *, advises: bool = True) -> Placement | Failure | None:
        """The placement by some rules; None where it mends nothing, or breaks something."""
        found = Placer(without, chooser, judge, advises=advises).plan(request, weights, rules)
        if isinstance(found, Failure):
            return found
        left = {one.name for one in found.broken}
        after = _presence_after(found.booking.grant, books)
        mended = {one.name: one for one in sought if one.name not in left}
        met = dict.fromkeys([one.name for one in missed if one.holds_beside(after)])
        is_deserted = any(_is_deserted(one, here, after) for one in found.broken)
        if not (mended or met) or left - {one.name for one in before} or is_deserted:
            return None
        look = RuleLook(without, roster.containers, roster.classified, judge)
        notes = [_note(one, look) for one in islice(mended.values(), TOLD_MAX)]
        notes += [f"{_MENDED}{one}" for one in met if one not in mended]
        return replace(found, notes=tuple(notes[:TOLD_MAX]))

    # In the pool that is asked for nobody is told who could make room there.
    confined = _confined(relaxed, held, wanted_pool, books)
    placement = plan(confined, advises=wanted_pool is None)
    if wanted_pool is not None and not isinstance(placement, Placement):
        # It may be the policy's own choice all the same: a wider pool, say.
        placement = plan(relaxed)
        if isinstance(placement, Placement):
            found = placement.booking.grant.pool_id
            if found != wanted_pool:
                return _failure(f"its rules would hold in {books.tree.pools[found].name} by now")
    if isinstance(placement, Failure):
        return placement
    if placement is None:
        near = NearBlockers(books).named(sought, here)
        unmet = [*(one.unmet_text for one in near), *(one.text for one in missed)]
        return _nowhere_better(unmet, obstacles(sought, relaxed, books.tree))
    grant = placement.booking.grant
    party_with = partial(party_of, books=books, roster=roster, pens=pens)
    if harm := _harm(party, grant, books, None if mends_told else party_with):
        return _failure(harm)
    wanted = books.pool_memory.choice(request).request_at(grant.pool_id)
    offer = books.memory.offer(wanted, replaces=held.container_id)
    if isinstance(offer, Refusal):
        return Failure(refusal=offer)
    return _with_memory(placement, offer, asked.decided_by)


def _nowhere_better(unmet: Sequence[str], others: Sequence[Restriction]) -> Failure:
    """The failure where no place is better; `others`: rules that do not hold where `unmet` do."""
    reasons = "; ".join(unmet)
    if kept := wants_text(others):
        reasons += f"; where that would hold others do not: {kept}"
    return _failure(f"no place is better: {reasons or 'its rules hold where it is'}")


def _sought(
    broken: Sequence[Restriction], told: Sequence[str], unmet_of: UnmetOf
) -> Sequence[Restriction]:
    """The broken rules that are to hold again. `told`: what is told of the party as unmet."""
    texts = {one.owner_id: (*told, *unmet_of(one.owner_id)) for one in broken}
    return [one for one in broken if one.is_lasting or one.is_told(texts[one.owner_id])]


def _is_deserted(rule: Restriction, here: int, after: int) -> bool:
    """Whether a broken rule wants one domain with others, and they are in none of it any more."""
    company = ~rule.forbidden
    return bool(rule.choices and here & company and not after & company)


def _note(rule: Restriction, look: RuleLook) -> str:
    """What a move does for a rule that it does not break; `look`: at all who stay.

    Others may be in the way of somebody's rule as well, and go later, or never.
    """
    is_broken = not rule.is_own and look.still_broken(rule.owner_id, (rule.unmet_text,))
    return f"{_OUT_OF_THE_WAY if is_broken else _MENDED}{rule.name}"


def leaves_others_alone(reason: str) -> bool:
    """Whether a container is not moved because others would be left alone, and only because."""
    return reason.endswith(_MUST_BE_WITH_IT)


def is_about_a_move(note: str) -> bool:
    """Whether a note says why a container was moved."""
    return note.startswith((_MENDED, _OUT_OF_THE_WAY))


def nothing_to_move(container_id: ContainerId) -> Decision:
    """The refusal to move a container that holds nothing, or is not known."""
    refusal = Refusal(reason=f"container {container_id!r} holds no cpus to move")
    return Decision(container_id=container_id, result=refusal)


def relocated(
    container_id: ContainerId, party: Party, placement: Placement, books: Books, pens: Penning
) -> Decision:
    """The decision about one of a pen that was moved as planned; all have as much of it as before.

    What they are told is not settled yet.
    """
    ledger, pen_id = books.ledger, party.held.container_id
    slices = {one: len(ledger.grants[one].exclusive) for one in party.members}
    for one in party.members:
        ledger.drop(one)
    pens.bookings.move(placement)
    pen = ledger.pens[pen_id]
    for one, (container, classified) in party.members.items():
        own, request = NO_CPUS, classified.request
        if count := slices[one]:
            free = rest_of(ledger, pen).mask
            own = CpuSet(books.picker.pick(free, count, request.priority, request.smt) or 0)
        pens.enter(pen_id, container, classified, own)
    _, classified = party.members[container_id]
    return Decision(
        container_id=container_id,
        result=ledger.grants[container_id],
        pool=books.tree.pools[pen.pool_id].name,
        lineup=placement.lineup,
        decided_by=placement.decided_by,
        notes=placement.notes,
        problems=classified.problems,
        scheduling=classified.scheduling,
        classes=classified.classes,
    )


def _objection(party: Party, books: Books) -> str:
    """The reason why a party stays, whatever rules say; empty where it may be moved."""
    wishes = {parse_preferences(one).move for one in party.containers.values()}
    if MovePreference.NEVER in wishes:
        return "its annotation refuses to be moved"
    objection = immovable(party.held, party.request)
    if objection or not party.held.is_pen:
        return objection
    for container, classified in party.members.values():
        held = books.ledger.grants[container.id]
        if objection := bound_to_place(held, classified.request):
            return f"{container.path} of its pen: {objection}"
    return ""


def _judgement(party: Party, judge: Judge) -> Judgement | None:
    found = [
        judge.judge(container, party.rules_of(container.id), party.request)
        for container, _ in party.members.values()
    ]
    said = [one for one in found if one is not None]
    return reduce(Judgement.joined, said) if said else None


def _confined(rules: Judgement, held: Grant, wanted_pool: PoolId | None, books: Books) -> Judgement:
    """The rules, and that a pool is asked for; none that spreads more widely than the one held."""
    if wanted_pool is None:
        return rules
    pools = books.tree.pools
    is_wider = pools[wanted_pool].height > pools[held.pool_id].height
    others = frozenset(pool.id for pool in pools if is_wider or pool.id != wanted_pool)
    return rules.closed_to(others, f"pool {pools[wanted_pool].name}")


def _weights(party: Party, books: Books) -> Mapping[ContainerId, int]:
    """What draws the members to others, and from them, together."""
    found: dict[ContainerId, int] = {}
    for container, classified in party.members.values():
        weights = books.affinity.affinities(container, classified.rules).weights
        for other, weight in weights.items():
            if other not in party.members:
                found[other] = found.get(other, 0) + weight
    return found


def _presence(party: Party, books: Books) -> int:
    cpus = 0
    for one in party.members:
        cpus |= books.reach(one)
    return cpus


def _with_memory(placement: Placement, offer: Offer, decided_by: str) -> Placement | Failure:
    if offer.moves:
        return _failure(f"memory: others would have to leave nodes {offer.zone}")
    booking = placement.booking
    grant = replace(booking.grant, memory=offer.zone)
    return replace(
        placement,
        booking=replace(booking, grant=grant, offer=offer),
        decided_by=decided_by,
    )


def _harm(party: Party, grant: Grant, books: Books, party_with: PartyWith | None) -> str:
    """The rules of others that a party would break by leaving, for people; empty without any."""
    if lonely := _left_alone(party, grant, books, party_with):
        return f"{lonely}{_MUST_BE_WITH_IT}"
    counting = counting_rules(party.containers.values(), books)
    if counting is None:
        return f"more than {COUNTING_MAX} different spread rules may count it"
    if uneven := made_uneven(party.members, _presence_after(grant, books), books, counting):
        return f"the spread of {uneven} would be uneven"
    return ""


def _left_alone(party: Party, grant: Grant, books: Books, party_with: PartyWith | None) -> str:
    """The residents that must be with a party, are, and would not follow it; for people.

    Those follow that it awaits, and with `party_with` those that may be moved and whose rules are
    required during execution.
    """
    after, awaited = _presence_after(grant, books), {one.id for one in party.awaited}
    found: dict[ContainerId, Container] = {}
    for rule, owner, around in _company(party, books):
        if around & after or owner.id in awaited:
            continue
        if party_with and is_lasting(rule) and not _objection(party_with(owner.id), books):
            continue
        found[owner.id] = owner
    return names_text(tuple(found.values()))


def followers(
    party: Party, books: Books, party_with: PartyWith, *, only_lasting: bool
) -> Sequence[ContainerId]:
    """Containers that must be with a party, are, and may be moved as it may: one of each pen.

    `only_lasting`: those whose rules are required during execution, which follow by themselves.
    """
    found: dict[ContainerId, ContainerId] = {}
    if _objection(party, books):
        return ()
    for rule, owner, _ in _company(party, books):
        if is_lasting(rule) or not only_lasting:
            other = party_with(owner.id)
            if not _objection(other, books):
                found.setdefault(other.held.container_id, owner.id)
    return tuple(found.values())


def _company(party: Party, books: Books) -> Iterator[tuple[RequiredTerm, Container, int]]:
    """Residents that must be with a party, and are, by rule, each with a mask of its domains."""
    here = _presence(party, books)
    for container in party.containers.values():
        for one in books.standing.matching(container):
            if not isinstance(rule := one.rule, RequiredTerm) or rule.is_anti:
                continue
            for owner_id, owner in one.owners.items():
                around = books.domains.covering(rule.term.level, books.reach(owner_id))
                if owner_id not in party.members and around & here:
                    yield rule, owner, around


def _presence_after(grant: Grant, books: Books) -> int:
    cpus = grant.exclusive.mask
    if grant.has_shared_part:
        shared = books.ledger.share(grant.pool_id)
        cpus |= shared if grant.within is None else shared & grant.within.mask
    return cpus


def _failure(reason: str) -> Failure:
    return Failure(refusal=Refusal(reason=reason))
