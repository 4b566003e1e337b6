"""Resizes that heed the rules between containers: none that holds breaks by one."""

from msgspec.structs import replace

from ..books.books import Books
from ..model.container import Container
from ..model.grant import Grant
from ..model.request import CpuType, Request
from ..placing.classifier import Classified
from ..placing.growth import allowed_cpus, closed_pools, held_back
from ..placing.judging.judge import Judge
from ..placing.judging.judgement import Judgement
from ..placing.placer import Failure, Placement
from ..placing.resizer import Resizer


def heeded_resize(
    container: Container,
    grant: Grant,
    classified: Classified,
    *,
    books: Books,
    judge: Judge,
    resizer: Resizer,
) -> Placement | Failure:
    """A plan for other resources, by which no rule between containers breaks."""
    request = classified.request
    judgement = None
    if grant.cpu_type is CpuType.NORMAL:
        judgement = judge.judge(container, classified.placement, request)
    if judgement is None:
        return resizer.plan(grant, request)
    # Whom no rule keeps away as it comes, as on reserved cpus, comes no nearer if it can be helped.
    placement = _heeding(judgement.of_growth(), grant, request, books, resizer)
    if isinstance(placement, Failure) and judgement.passed:
        placement = _heeding(judgement, grant, request, books, resizer)
    return placement


def _heeding(
    judgement: Judgement, grant: Grant, request: Request, books: Books, resizer: Resizer
) -> Placement | Failure:
    cpus = books.presence(grant.container_id)
    allowed = allowed_cpus(judgement, grant, cpus)
    closed = closed_pools((judgement,), grant.pool_id, firmly=False)
    placement = resizer.plan(grant, request, allowed, closed)
    if isinstance(placement, Failure) and closed:
        firm = closed_pools((judgement,), grant.pool_id, firmly=True)
        if firm != closed:
            placement = resizer.plan(grant, request, allowed, firm)
    if isinstance(placement, Failure):
        return placement
    booking = placement.booking
    after = cpus | booking.grant.exclusive.mask
    held = held_back(judgement, booking.grant, after, books, ())
    return replace(placement, booking=replace(booking, lifted=(*booking.lifted, *held)))
