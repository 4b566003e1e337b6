"""Believed advice: what is remembered, without what is older than the last changes.

The daemon may be killed before these are saved. Where containers run tells what is so by now.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import reduce

from msgspec.structs import replace

from ....topology.sets.cpuset import NO_CPUS, CpuSet
from ...books.books import Books
from ...model.container import Container, ContainerId
from ...model.request import CpuType
from ..advice import Advice
from ..roster import Roster


def believed_advice(
    running: Sequence[Container],
    had: Mapping[ContainerId, CpuSet | None],
    others: Mapping[ContainerId, int],
    advice: Mapping[ContainerId, Advice],
    books: Books,
    roster: Roster,
) -> tuple[Mapping[ContainerId, Advice], Collection[ContainerId]]:
    """The advice that does not contradict where containers run; and whom we may have moved since.

    Of one that runs on none of the cpus that were its own nothing is remembered, and a pen of such
    a one has the cpus on which its containers run. `had`: the cpus in the runtime's list. `others`:
    for each a mask of those on which any other one runs.
    """
    since = {(one.pod.id, had[one.id]) for one in running if one.id not in advice and had[one.id]}
    believed, pens = dict(advice), dict[CpuSet, None]()
    is_older = _is_older(running, advice, books.tree.root.cpus)
    for one in running:
        hint, cpus = advice.get(one.id), had[one.id]
        # Who is left alone runs on any cpus, whatever it claims.
        is_left_alone = roster.classified[one.id].request.cpu_type is CpuType.PRESERVE
        if hint is None or not cpus or is_left_alone:
            continue
        if _has_more_since(one, hint, others[one.id], books, roster):
            believed[one.id] = replace(hint, exclusive=cpus & books.tree.root.cpus, grown=())
            continue
        # On the cpus that it was told last, wherever it runs, nothing is disproved.
        if hint.told is not None or not (hint.exclusive or hint.rest):
            continue
        # Another of its pod came, with which it has a pen by now.
        has_pen_since = hint.exclusive and not hint.is_penned and (one.pod.id, cpus) in since
        if not (has_pen_since or hint.is_disproved(cpus, books.picker)):
            pass
        elif not hint.is_penned:
            del believed[one.id]
        elif is_older:
            pens[hint.pen] = None
    for pen in pens:
        inside = [one for one in running if one.id in advice and advice[one.id].pen == pen]
        if have_own_places(inside):
            # The pen is no more.
            for one in inside:
                del believed[one.id]
            continue
        run = reduce(CpuSet.__or__, (cpus_with_hidden(one, books, roster) for one in inside))
        for one in inside:
            believed[one.id] = replace(advice[one.id], exclusive=NO_CPUS, rest=run, pen=run)
    movable = {key for key, hint in advice.items() if is_older and hint.told is None}
    return believed, movable


def _is_older(
    running: Sequence[Container], advice: Mapping[ContainerId, Advice], usable: CpuSet
) -> bool:
    """Whether what is remembered may be older than the last changes.

    Where nobody came, went or was resized since, we changed nothing: a container that runs on
    others' cpus was put there by another program, and nobody loses any to it. Who began on all
    cpus, as one does while nobody looks, was given none of others'.
    """
    asked = {
        one.id: one.resources.cpu_request_milli
        for one in running
        if one.id in advice or (one.cpus and not usable <= one.cpus)
    }
    return asked != {key: hint.cpu_request_milli for key, hint in advice.items()}


def have_own_places(of_pod: Sequence[Container]) -> bool:
    """Whether containers run like those of an ordinary pod: on cpus of their own, each on enough.

    Their pod grew, and the runtime tells the size it had before.
    """
    once = 0
    for one in of_pod:
        mask = (one.cpus or NO_CPUS).mask
        if not mask or mask & once:
            return False
        if mask.bit_count() * 1000 != one.resources.cpu_request_milli:
            return False
        once |= mask
    return True


def _has_more_since(
    container: Container, hint: Advice, others: int, books: Books, roster: Roster
) -> bool:
    """Whether a container was resized since, and got all the cpus on which it runs for itself."""
    cpus = (container.cpus or NO_CPUS) & books.tree.root.cpus
    is_as_before = hint.cpu_request_milli in (None, container.resources.cpu_request_milli)
    if is_as_before or hint.is_penned or cpus.mask & others or cpus == hint.exclusive:
        return False
    wishes = roster.classified[container.id].request.wishes
    return any(
        one.exclusive == len(cpus) and not (one.shared_milli or one.hide_hyperthreads)
        for one in wishes
    )


def cpus_with_hidden(container: Container, books: Books, roster: Roster) -> CpuSet:
    """The cpus on which a container runs, with the hyperthreads that are hidden from it."""
    # An offline cpu cannot run anybody.
    cpus = (container.cpus or NO_CPUS) & books.tree.root.cpus
    if not roster.classified[container.id].request.hide_hyperthreads:
        return cpus
    return CpuSet(books.picker.cores.covering(cpus.mask)) & books.tree.root.cpus
