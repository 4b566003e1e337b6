"""Replacement: another place for a container that runs, where its required rules hold again."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from ..annotations.preferences import parse_preferences
from ..books.books import Books
from ..configuration.config import Config
from ..memory.offers import Offer
from ..model.container import Container, ContainerId
from ..model.cpu_preference import MovePreference
from ..model.grant import Grant, PoolId, Refusal
from ..placing.classifier import Classified
from ..placing.judge import Judge
from ..placing.mover import immovable
from ..placing.placer import Failure, Placement, Placer
from ..placing.pool_choice import Chooser
from ..placing.restriction import names_text
from ..rules.podaffinity.rule_set import RequiredTerm, is_lasting
from .roster import Roster

MOVED: Final = "rebalance"
"""What decides where a container goes whose unmet rules a move mends."""
REPLACED: Final = "replaced"
"""What decides where a container goes whose rules had stopped to hold."""


def plan_mending(
    container_id: ContainerId, roster: Roster, books: Books, config: Config, pool_id: PoolId
) -> Placement | Failure:
    """The grant in one pool of a container that required rules hold where it is.

    Only where that mends some of those that its decision tells as unmet.
    """
    container, told = roster.containers[container_id], roster.decisions[container_id].unmet
    if not told:
        return _failure("required rules hold it where it is")
    placement = plan_replacement(container, roster.classified[container_id], books, config, told)
    if isinstance(placement, Failure):
        return placement
    if placement.booking.grant.pool_id != pool_id:
        name = books.tree.pools[placement.booking.grant.pool_id].name
        return _failure(f"required rules would hold in {name} by now")
    return replace(placement, decided_by=MOVED)


def plan_replacement(
    container: Container,
    classified: Classified,
    books: Books,
    config: Config,
    told: Sequence[str] = (),
) -> Placement | Failure:
    """The grant of a container where more of its rules required during execution hold.

    And of others that are told as unmet: these texts. No rule breaks by it that holds where the
    container is. Nobody else has to leave its pool or its memory. O(pools + grants).
    """
    held, request = books.ledger.grants[container.id], classified.request
    if parse_preferences(container).move is MovePreference.NEVER:
        return _failure("its annotation refuses to be moved")
    if objection := immovable(held, request):
        return _failure(objection)
    without = books.without(container.id)
    judge = Judge(without, config)
    judgement = judge.judge(container, classified.placement, request)
    if judgement is None:
        return _failure("no rule says where it is")
    here, pool_id = books.presence(container.id), books.pool_around(container.id)
    before = judgement.told_at(here, pool_id)
    chooser = Chooser(books.tree, books.picker.classes)
    weights = books.affinity.affinities(container, classified.rules).weights
    relaxed = judgement.kept_from(here, pool_id)
    placement = Placer(without, chooser, judge).plan(request, weights, relaxed)
    if isinstance(placement, Failure):
        return placement
    left = {one.name for one in placement.broken}
    sought = [one for one in before if one.is_lasting or any(map(one.is_told_by, told))]
    if not {one.name for one in sought} - left or left - {one.name for one in before}:
        reasons = "; ".join(one.unmet_text for one in sought)
        return _failure(f"no place is better: {reasons}")
    grant = placement.booking.grant
    if followers := _left_alone(container.id, grant, books):
        return _failure(f"{followers} must be with it")
    wanted = books.pool_memory.choice(request).request_at(grant.pool_id)
    offer = books.memory.offer(wanted, replaces=container.id)
    if isinstance(offer, Refusal):
        return Failure(refusal=offer)
    return _with_memory(placement, offer)


def _with_memory(placement: Placement, offer: Offer) -> Placement | Failure:
    if offer.moves:
        return _failure(f"memory: others would have to leave nodes {offer.zone}")
    booking = placement.booking
    grant = replace(booking.grant, memory=offer.zone)
    return replace(
        placement,
        booking=replace(booking, grant=grant, offer=offer),
        decided_by=REPLACED,
    )


def _left_alone(container_id: ContainerId, grant: Grant, books: Books) -> str:
    """The residents that must be with a container, are, and would not follow it; for people."""
    standing, domains = books.standing, books.domains
    before, after = books.presence(container_id), grant.exclusive.mask
    if grant.has_shared_part:
        shared = books.ledger.share(grant.pool_id)
        after |= shared if grant.within is None else shared & grant.within.mask
    found: dict[ContainerId, Container] = {}
    for one in standing.matching(books.affinity.residents.container(container_id)):
        rule = one.rule
        if not isinstance(rule, RequiredTerm) or rule.is_anti or is_lasting(rule):
            continue
        for owner_id, owner in one.owners.items():
            around = domains.covering(rule.term.level, books.presence(owner_id))
            if around & before and not around & after:
                found[owner_id] = owner
    return names_text(tuple(found.values()))


def _failure(reason: str) -> Failure:
    return Failure(refusal=Refusal(reason=reason))
