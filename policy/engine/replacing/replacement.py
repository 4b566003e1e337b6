"""Replacement: another place for containers that run, where their required rules hold again.

For a container by itself, or for a pen with all who are in it: the pen is the unit of a rule.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import islice
from typing import Final

from msgspec.structs import replace

from ....topology.sets.cpuset import NO_CPUS, CpuSet
from ...books.booking import Booking
from ...books.books import Books
from ...books.missed_companions import UnmetOf, missed_companions
from ...configuration.config import Config
from ...model.container import ContainerId
from ...model.grant import Grant, PoolId, Refusal
from ...pens.pen_slices import rest_of
from ...placing.judging.evenness import COUNTING_MAX, counting_rules, made_uneven
from ...placing.judging.judge import Judge
from ...placing.judging.judgement import Judgement
from ...placing.judging.near_blockers import NearBlockers
from ...placing.judging.obstacles import obstacles
from ...placing.judging.restriction import TOLD_MAX, Restriction, names_text, wants_text
from ...placing.judging.rule_look import RuleLook
from ...placing.mover import memory_elsewhere
from ...placing.placer import Failure, Placement, Placer
from ...placing.pool_choice import Chooser
from ..decision import Decision
from .asked_move import AskedMove
from .party import Parties, Party

_MENDED: Final = "it was moved to mend "
_MUST_BE_WITH_IT: Final = " must be with it"
_HOLDS: Final = "its rules hold where it is"
_OUT_OF_THE_WAY: Final = "it was moved out of the way of "
"""The beginning of a note about a rule that others are still in the way of."""


def plan_replacement(
    party: Party,
    parties: Parties,
    asked: AskedMove,
    *,
    mends_told: bool,
) -> Placement | Failure:
    """The grant of a party where more of its rules required during execution hold.

    And with `mends_told` of those that are told as unmet, by it or by owners of rules about it.
    With `asked` in its pool alone, if they do there. No rule breaks by it that holds where
    the party is. Nobody else has to leave its pool or its memory. O(pools + grants).
    """
    books, roster = parties.books, parties.roster
    held, request = party.held, party.request
    wanted_pool = asked.pool_id
    if objection := parties.objection(party):
        return Failure.of(objection)
    without = books.without(held.container_id)
    judge = Judge(without, _drawing(books.config) if mends_told else books.config)
    judgement = _judgement(party, judge)
    if judgement is None:
        return Failure.of("no rule says where it is")
    here = parties.presence(party)
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
        return Failure.of("required rules hold it where it is")

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
                return Failure.of(f"its rules would hold in {books.tree.pools[found].name} by now")
    if isinstance(placement, Failure):
        return placement
    if placement is None:
        near = NearBlockers(books).named(sought, here)
        unmet = [*(one.unmet_text for one in near), *(one.text for one in missed)]
        return _nowhere_better(unmet, obstacles(sought, relaxed, books.tree))
    grant = placement.booking.grant
    if harm := _harm(party, grant, parties, lasting_follow=not mends_told):
        return Failure.of(harm)
    offer = memory_elsewhere(held.container_id, request, grant.pool_id, books)
    if isinstance(offer, Failure):
        return offer
    booking = Booking(
        grant=replace(grant, memory=offer.zone), offer=offer, lifted=placement.booking.lifted
    )
    return replace(placement, booking=booking, decided_by=asked.decided_by)


def _drawing(config: Config) -> Config:
    """The configuration by which those that others must be with are drawn there, if only a bit."""
    is_drawing = config.hard_affinity_weight > 0
    return config if is_drawing else replace(config, hard_affinity_weight=1)


def _nowhere_better(unmet: Sequence[str], others: Sequence[Restriction]) -> Failure:
    """The failure where no place is better; `others`: rules that do not hold where `unmet` do."""
    reasons = "; ".join(unmet)
    if kept := wants_text(others):
        reasons += f"; where that would hold others do not: {kept}"
    return Failure.of(f"no place is better: {reasons or _HOLDS}")


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


def holds_where_it_is(reason: str) -> bool:
    """Whether a container is not moved because its rules hold, as others have moved since."""
    return reason.endswith(_HOLDS)


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
    container_id: ContainerId, party: Party, placement: Placement, parties: Parties
) -> Decision:
    """The decision about one of a pen that was moved as planned; all have as much of it as before.

    What they are told is not settled yet.
    """
    books, pens = parties.books, parties.pens
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


def _harm(party: Party, grant: Grant, parties: Parties, *, lasting_follow: bool) -> str:
    """The rules of others that a party would break by leaving, for people; empty without any."""
    books = parties.books
    after = _presence_after(grant, books)
    if lonely := parties.left_alone(party, after, lasting_follow=lasting_follow):
        return f"{names_text(lonely)}{_MUST_BE_WITH_IT}"
    counting = counting_rules(party.containers.values(), books)
    if counting is None:
        return f"more than {COUNTING_MAX} different spread rules may count it"
    if uneven := made_uneven(party.members, after, books, counting, parties.roster.classified):
        return f"the spread of {uneven} would be uneven"
    return ""


def _presence_after(grant: Grant, books: Books) -> int:
    cpus = grant.exclusive.mask
    if grant.has_shared_part:
        shared = books.ledger.share(grant.pool_id)
        cpus |= shared if grant.within is None else shared & grant.within.mask
    return cpus
