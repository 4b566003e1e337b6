"""Rules between containers where some of these are in pens: a pen keeps those of all in it."""

from collections.abc import Iterable, Sequence

from ...topology.sets.cpuset import NO_CPUS
from ..books.books import Books
from ..model.container import Container
from ..model.grant import Grant
from ..placing.classifier import Classified
from ..placing.growth import allowed_cpus, held_back, kept_in
from ..placing.judge import Judge
from ..placing.judgement import Judgement


def allowed_in_pen(
    containers: Iterable[tuple[Container, Classified]],
    held: Sequence[Grant],
    books: Books,
    judge: Judge,
) -> int | None:
    """A mask of the cpus where rules of containers, and about them, go on to hold; None: all.

    `held`: the pen that they are in, or all that they have so far.
    """
    shared = books.pinner.pool_cpus
    cpus = 0
    for one in held:
        cpus |= (shared.of(one) or NO_CPUS).mask
    found: int | None = None
    for container, known in containers:
        judgement = judge.judge(container, known.placement, known.request)
        if judgement is not None:
            left = allowed_cpus(judgement, held[0], cpus)
            found = left if found is None else found & left
    return found


def heed_in_pen(judgement: Judgement, grant: Grant, books: Books) -> int:
    """Let a newcomer's pen, and others, grow only where rules go on holding; a mask of its cpus."""
    ledger = books.ledger
    pen = ledger.pens[grant.held_as]
    cpus = (books.pinner.pool_cpus.of(pen) or NO_CPUS).mask
    if pen.has_shared_part:
        kept = kept_in(judgement, pen, cpus, books)
        if kept is not pen:
            ledger.repool(kept)
    for other in held_back(judgement, pen, cpus, books, (pen,)):
        ledger.repool(other)
    return cpus
