"""Rules between containers where some of these are in pens: a pen keeps those of all in it."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from ...topology.sets.cpuset import NO_CPUS, CpuSet
from ..books.books import Books
from ..model.container import Container, ContainerId
from ..model.grant import Grant, Refusal
from ..model.last_place import LastPlace
from ..model.request import Request
from ..placing.classifier import Classified
from ..placing.departures import Needed
from ..placing.growth import allowed_cpus, held_back, kept_in
from ..placing.judging.judge import Judge
from ..placing.judging.judgement import Judgement
from ..placing.judging.near_blockers import NearBlockers
from ..placing.judging.restriction import TOLD_MAX, Restriction
from ..placing.judging.scene import Scene
from ..placing.placer import Failure


def kept_out(
    container: Container,
    classified: Classified,
    pen: Grant,
    judge: Judge,
    books: Books,
    back: LastPlace | None,
) -> Failure | None:
    """The failure of a container whose pen is where a rule that insists does not hold.

    Nothing moves a pen for it. Rules between those in the pen keep nobody out. `back`: its place in
    it before a restart, after which those rules alone count that keep it and others apart.
    """
    request = replace(
        classified.request,
        exclusive=len(pen.exclusive),
        shared_milli=pen.shared_milli,
        whole_cores=False,
    )
    scene = Scene(books, pen.container_id)
    found = judge.judge(container, classified.placement, request, scene, has_pulls=False)
    return kept_from("stays", _firm(found), pen, books, back)


def firm_rules(
    container: Container,
    classified: Classified,
    request: Request,
    residents: Sequence[Grant],
    judge: Judge,
    books: Books,
) -> Sequence[Restriction]:
    """The rules that insist of a container, and about it, whose pen begins around residents.

    But for those between it and these. `request`: the pen's.
    """
    request = replace(request, whole_cores=False)
    scene = Scene(books, residents=[one.container_id for one in residents])
    found = judge.judge(container, classified.placement, request, scene, has_pulls=False)
    return _firm(found)


def kept_from(
    what: str,
    firm: Iterable[Restriction],
    pen: Grant,
    books: Books,
    back: LastPlace | None,
) -> Failure | None:
    """The failure of a container where such rules do not hold on the cpus of its pen.

    `what`: what the pen does there. `back`: see `kept_out`.
    """
    cpus = (books.pinner.pool_cpus.of(pen) or NO_CPUS).mask
    there = [one for one in firm if one.is_broken_by(cpus, pen.pool_id)]
    broken = [one for one in NearBlockers(books).named(there, cpus) if _keeps_out(one, back)]
    if not broken:
        return None
    told = [one.unmet_text for one in broken[:TOLD_MAX]]
    if more := len(broken) - len(told):
        told.append(f"and {more} more rules")
    reason = f"its pen {what} on cpus {CpuSet(cpus)}: {'; '.join(told)}"
    if all(one.blockers for one in broken):
        others = {other.id: other for one in broken for other in one.blockers}
        named = Needed.ALL.text(tuple(others.values()))
        reason = f"{reason} — for that to hold, stop or move {named}"
    return Failure(refusal=Refusal(reason=reason))


def _firm(found: Judgement | None) -> Sequence[Restriction]:
    # Those of very many are one rule each: no firm one is passed over among others that are told.
    return [one for one in found.restrictions if not one.can_break] if found is not None else []


def _keeps_out(rule: Restriction, back: LastPlace | None) -> bool:
    if back is None:
        return True
    return bool(rule.is_own and rule.blockers) or not rule.breaches <= back.breaches


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


def heed_in_pen(judgements: Iterable[Judgement], pen_id: ContainerId, books: Books) -> None:
    """Let a pen, and others, grow only where rules of some in it go on holding.

    The pen is new, or has another size: others might come to cpus that are its own by now.
    """
    ledger = books.ledger
    for judgement in judgements:
        pen = ledger.pens[pen_id]
        cpus = (books.pinner.pool_cpus.of(pen) or NO_CPUS).mask
        if pen.has_shared_part:
            kept = kept_in(judgement.of_growth(), pen, cpus, books)
            if kept is not pen:
                ledger.repool(kept)
        for other in held_back(judgement, pen, cpus, books, (pen,)):
            ledger.repool(other)
