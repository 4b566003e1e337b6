"""Resizes that heed the rules between containers: none that holds breaks by one."""

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Final

from msgspec.structs import replace

from ..books.books import Books
from ..books.cpu_ledger import Ledger
from ..books.whereabouts import Whereabouts
from ..model.container import Container
from ..model.grant import Grant
from ..model.request import CpuType, Request
from ..placing.classifier import Classified
from ..placing.departures import DepartureSearch
from ..placing.growth import allowed_cpus, closed_pools, held_back, rules_text
from ..placing.judging.judge import Judge
from ..placing.judging.judgement import Judgement
from ..placing.judging.scene import Scene
from ..placing.openings.regrowth import Regrowth
from ..placing.placer import Failure, Placement
from ..placing.resizer import Resizer
from ..rules.podaffinity.term_selection import instances, select_included

_OWNERS_MAX: Final = 256
"""So many owners are looked at, and rules about others: cpus that further ones need are given up
like others."""


def heeded_resize(
    container: Container,
    grant: Grant,
    classified: Classified,
    scene: Scene,
    *,
    books: Books,
    judge: Judge,
    regrowth: Regrowth,
) -> Placement | Failure:
    """A plan for other resources, by which no rule between containers breaks."""
    request, resizer = classified.request, Resizer(books)
    gives_up = request.exclusive < len(grant.exclusive)
    needed = needed_parts(container, grant, books) if gives_up else ()
    judgement = None
    if grant.cpu_type is CpuType.NORMAL:
        judgement = judge.judge(container, classified.placement, request, scene)
    if judgement is None:
        return resizer.plan(grant, request, needed=needed)
    left = books.ledger.without_share(grant)
    # Whom no rule keeps away as it comes, as on reserved cpus, comes no nearer if it can be helped.
    placement = _heeding(judgement.of_growth(), grant, request, books, resizer, needed, left)
    if isinstance(placement, Failure) and judgement.passed:
        placement = _heeding(judgement, grant, request, books, resizer, needed, left)
    if isinstance(placement, Placement):
        return placement
    told = rules_text((judgement,), books.presence(container.id), grant.pool_id, books)
    if not told:
        return placement

    def has_room(after: Books, rules: Judgement, _: bool) -> bool:
        # It may have got back itself what others kept from it.
        held = after.ledger.grants[container.id]
        left = after.ledger.without_share(held)
        found = _heeding(rules, held, request, after, Resizer(after), needed, left)
        return isinstance(found, Placement)

    more = request.exclusive - len(grant.exclusive)
    search = DepartureSearch(container.id, more, judgement, books, judge, has_room, regrowth)
    return placement.because_of(told).advising(search.found())


def _heeding(
    judgement: Judgement,
    grant: Grant,
    request: Request,
    books: Books,
    resizer: Resizer,
    needed: Sequence[int],
    left: Ledger,
) -> Placement | Failure:
    cpus = books.presence(grant.container_id)
    allowed = allowed_cpus(judgement, grant, cpus)
    closed = closed_pools((judgement,), grant.pool_id, firmly=False)
    owed = _owed(judgement, grant, cpus, firmly=False)
    plan = partial(resizer.plan, grant, request, allowed, needed=needed, left=left)
    placement = plan(closed, owed=owed)
    if isinstance(placement, Failure) and (closed or owed):
        firm = closed_pools((judgement,), grant.pool_id, firmly=True)
        owed_firmly = _owed(judgement, grant, cpus, firmly=True)
        if (firm, owed_firmly) != (closed, owed):
            placement = plan(firm, owed=owed_firmly)
    if isinstance(placement, Failure):
        return placement
    booking = placement.booking
    own = booking.grant.exclusive.mask
    after = cpus | own
    here = cpus & ~grant.exclusive.mask | own
    resized = replace(booking.grant, beside=judgement.beside(here, own))
    held = held_back(judgement, resized, after, books, ())
    booking = replace(booking, grant=resized, lifted=(*booking.lifted, *held))
    return replace(placement, booking=booking)


def _owed(judgement: Judgement, grant: Grant, cpus: int, *, firmly: bool) -> int:
    """Cpus that a container may not have for itself, or it would be without whom it must be with.

    As far as it is with them now. `firmly`: by those rules alone that never break.
    """
    kept = tuple(
        one
        for one in judgement.companions
        if not ((firmly and one.rule.can_break) or one.rule.is_broken_by(cpus, grant.pool_id))
    )
    return replace(judgement, companions=kept).owed_ever if kept else 0


def needed_parts(container: Container, grant: Grant, books: Books) -> Sequence[int]:
    """Masks of own cpus of a container, of each of which it has to keep one.

    Where somebody that must be with it is in a domain of which no other that would do has any cpu.
    O(rules that require it + owners).
    """
    standing, residents, domains = books.standing, books.affinity.residents, books.domains
    if not standing.has_required_affinity or grant.pen is not None:
        return ()
    place, own = residents.place(container.id), grant.exclusive.mask
    # Where it shares cpus, it stays.
    shared = books.presence(container.id) & ~own
    whereabouts, looks = Whereabouts(books), _OWNERS_MAX
    found: dict[int, None] = {}
    for one in standing.requiring([container]):
        owners, term = list(islice(one.owners.values(), looks)), one.rule.term
        if not owners:
            break
        places = select_included(residents, owners[0], term)
        if not places & place:
            looks -= 1
            continue
        looks -= len(owners)
        # In other domains it needs nothing of this container.
        around = domains.covering(term.level, own)
        others = whereabouts.on(around, places & ~place)
        mates = [(owner, instances(residents, owner)) for owner in owners]
        mates = [(owner, some) for owner, some in mates if not some & place]
        reaches = books.reaches([owner.id for owner, _ in mates])
        parts = [(reach & around, some) for reach, (_, some) in zip(reaches, mates, strict=True)]
        parts = [(reach, some & others) for reach, some in parts if reach]
        without = whereabouts.cpus_without_each(others, [some for _, some in parts])
        for (reach, _), elsewhere in zip(parts, without, strict=True):
            alone = reach & ~domains.covering(term.level, elsewhere | shared)
            needed = domains.covering(term.level, alone) & own
            found.update(dict.fromkeys(domains.parts(term.level, needed)))
    return tuple(found)
