"""Rules between containers where some of these are in pens: a pen keeps those of all in it."""

from collections.abc import Iterable, Sequence

from ...topology.sets.cpuset import NO_CPUS
from ..books.books import Books
from ..model.container import Container, ContainerId
from ..model.grant import Grant
from ..placing.classifier import Classified
from ..placing.growth import allowed_cpus, held_back, kept_in
from ..placing.judging.judge import Judge
from ..placing.judging.judgement import Judgement


def judged_in_pen(
    containers: Iterable[tuple[Container, Classified]], judge: Judge
) -> tuple[Judgement, ...]:
    """Judgements about the containers of one pen, where rules have something to say about them."""
    found = (judge.judge(one, known.placement, known.request) for one, known in containers)
    return tuple(one for one in found if one is not None)


def allowed_in_pen(
    judgements: Iterable[Judgement], held: Sequence[Grant], books: Books
) -> int | None:
    """A mask of the cpus where rules of containers, and about them, go on to hold; None: all.

    `held`: the pen that they are in, or all that they have so far.
    """
    shared = books.pinner.pool_cpus
    cpus = 0
    for one in held:
        cpus |= (shared.of(one) or NO_CPUS).mask
    found: int | None = None
    for judgement in judgements:
        left = allowed_cpus(judgement, held[0], cpus)
        found = left if found is None else found & left
    return found


def heed_all_in_pen(judgements: Iterable[Judgement], pen_id: ContainerId, books: Books) -> None:
    """As `heed_in_pen`, for several who are in it."""
    for one in judgements:
        heed_in_pen(one, pen_id, books)


def heed_in_pen(judgement: Judgement, pen_id: ContainerId, books: Books) -> int:
    """Let a pen, and others, grow only where rules of one in it go on holding; a mask of its cpus.

    The pen is new, or has another size: others might come to cpus that are its own by now.
    """
    ledger = books.ledger
    pen = ledger.pens[pen_id]
    cpus = (books.pinner.pool_cpus.of(pen) or NO_CPUS).mask
    if pen.has_shared_part:
        kept = kept_in(judgement.of_growth(), pen, cpus, books)
        if kept is not pen:
            ledger.repool(kept)
    for other in held_back(judgement, pen, cpus, books, (pen,)):
        ledger.repool(other)
    return cpus
