"""Slices of pens: the cpus of a pen that one container in it has for itself."""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ...topology.sets.cpuset import NO_CPUS, CpuSet
from ..annotations.annotations import effective
from ..books.cpu_ledger import Ledger
from ..cpus.picker import CpuPicker
from ..model.container import Container, Resources
from ..model.grant import Grant, Refusal
from ..model.request import Request
from ..placing.classifier import Classified
from ..placing.wishes.own_cpus import wants_own_cpus
from ..text.errors import Problem
from .pen_name import PenName
from .pod_numbers import own_cpus

_COLD_START_KEY: Final = "cold-start"
_POD_POOL_KEY: Final = "pod-pool"


class Slice(Struct, frozen=True):
    """Cpus of a pen for one container alone; `grown`: those that resizes added, oldest first."""

    exclusive: CpuSet = NO_CPUS
    grown: tuple[CpuSet, ...] = ()


def slice_size(
    name: PenName, container: Container, classified: Classified, size: Resources | None
) -> int:
    """The number of cpus of its pen that a container asks for as its own. `size`: its pod's."""
    if name.is_group or classified.request.shared_milli:
        return 0
    if wants_own_cpus(container):
        return classified.request.exclusive
    return min(own_cpus(size, container), classified.request.exclusive)


def fitting_slice(
    ledger: Ledger,
    pen: Grant,
    count: int,
    request: Request,
    picker: CpuPicker,
    awaited: CpuSet = NO_CPUS,
) -> CpuSet:
    """So many cpus of a pen for a newcomer; none where the others would have none to share.

    Those that are `awaited` by others only where it cannot do without.
    """
    rest = rest_of(ledger, pen)
    if not count or len(rest) - count < _shared_min(ledger, pen):
        return NO_CPUS
    if awaited and len(rest - awaited) >= count:
        rest -= awaited
    return CpuSet(picker.pick(rest.mask, count, request.priority, request.smt) or 0)


def slice_again(ledger: Ledger, pen: Grant, found: CpuSet, held: Grant, awaited: CpuSet) -> CpuSet:
    """The cpus of a pen for one that is back in it, instead of those `found` for a newcomer.

    Those that it had for itself, see `held`. One that had none takes none of what it shared, which
    others share as well, nor as long as some is there of what is `awaited`: what others had who
    have ended, and may be back.
    """
    rest, before = rest_of(ledger, pen), held.exclusive
    if before and len(before) == len(found) and before <= rest:
        return before
    is_more = not awaited & rest and len(rest) - len(found) >= len(held.rest)
    return found if before or is_more else NO_CPUS


def resized_slice(
    ledger: Ledger, pen: Grant, held: Grant, count: int, request: Request, picker: CpuPicker
) -> Slice | Refusal:
    """Another slice for a container of a pen: next to what it has, what it got last given up."""
    if not count:
        return Slice()
    more = count - len(held.exclusive)
    if more <= 0:
        return shrunk_slice(held, count, request, picker)
    rest = rest_of(ledger, pen)
    # It is itself among those that share, until it has a slice.
    spared = _shared_min(ledger, pen, but=held)
    if len(rest) - more < spared:
        left = max(len(rest) - spared, 0)
        return Refusal(
            reason=f"no room to grow to {count} exclusive CPUs — {left} of the {len(pen.exclusive)}"
            f" CPUs of its pod are free: wanted {more} more"
        )
    added = CpuSet(
        picker.extend(held.exclusive.mask, rest.mask, more, request.priority, smt=request.smt) or 0
    )
    return Slice(held.exclusive | added, (*held.grown, added) if held.exclusive else ())


def shrunk_slice(held: Grant, count: int, request: Request, picker: CpuPicker) -> Slice:
    """A slice of so many of its cpus: what it got last is given up first."""
    kept, grown = held.exclusive, list(held.grown)
    while grown and len(kept) > count:
        last = grown.pop() & kept
        left = _some(last, max(len(last) - (len(kept) - count), 0), picker)
        kept -= last - left
        if left:
            grown.append(left)
    if len(kept) > count:
        kept = CpuSet(picker.pick(kept.mask, count, request.priority, request.smt) or 0)
    return Slice(kept, tuple(grown))


def shrunk_pen(ledger: Ledger, pen: Grant, count: int, picker: CpuPicker) -> Grant | Refusal:
    """A pen of at most so many exclusive cpus: what it got last is given up first, but no slice."""
    surplus = len(pen.exclusive) - count
    if surplus <= 0:
        return pen
    rest = rest_of(ledger, pen)
    if len(rest) - surplus < _shared_min(ledger, pen):
        sliced = len(pen.exclusive) - len(rest)
        return Refusal(
            reason=f"no room in {count} CPUs for its containers: {sliced} of its"
            f" {len(pen.exclusive)} CPUs are exclusive to some of them, and others share the rest"
        )
    grown = list(pen.grown)
    given = NO_CPUS
    while grown and len(given) < surplus:
        last = (grown.pop() & rest) - given
        given |= _some(last, min(len(last), surplus - len(given)), picker)
    if missing := surplus - len(given):
        left = rest - given
        near, count = ledger.tree.cpus_near(left, pen.memory), len(left) - missing
        more = max(count - len(near), 0)
        given |= left - (
            _some(near, min(count, len(near)), picker) | _some(left - near, more, picker)
        )
    kept = pen.exclusive - given
    grown = [one & kept for one in pen.grown if one & kept]
    return replace(pen, exclusive=kept, isolated=pen.isolated & kept, grown=tuple(grown))


def rest_of(ledger: Ledger, pen: Grant) -> CpuSet:
    """The exclusive cpus of a pen that are in no slice."""
    rest = pen.exclusive
    for one in ledger.members(pen.container_id):
        rest -= ledger.grants[one].exclusive
    return rest


def no_slice_problem(container: Container, count: int, pen: Grant) -> Problem:
    """The problem of a container that shares its pod's cpus although it asks for its own."""
    cpus = f"{count} cpu{'s' if count > 1 else ''}"
    return Problem(
        where=container.path,
        what=f"it shares its pod's cpus {pen.exclusive}: with {cpus} of its own"
        " none would be left for the others",
        fix="ask for more cpus for the pod",
        is_advice=True,
        container=container.name,
    )


def unheeded_wish(container: Container, *, is_group: bool) -> Problem | None:
    """The problem of a container that wants cpus for itself in a pen where nobody can have any."""
    if not wants_own_cpus(container):
        return None
    outside = f"'pod-pool.pinfold.dev/container.{container.name}: \"false\"'"
    return Problem(
        where=f"exclusive of {container.path}",
        what=f"no cpus of its own: it shares those of its {'group' if is_group else 'pod'}",
        fix=(
            "leave it out of the group"
            if is_group
            else f"ask for whole cpus for the pod, with the same limit, or write {outside}"
        ),
        is_advice=True,
        container=container.name,
    )


def unheeded_cold_start(container: Container, *, is_group: bool) -> Problem:
    """The problem of a container with a cold start in a pen, whose memory is that of all in it."""
    setting = effective(container.pod.annotations, _COLD_START_KEY, container.name)
    return Problem(
        where=f"{setting.key if setting is not None else _COLD_START_KEY} of {container.path}",
        what=f"no cold start: its memory nodes are those of its {'group' if is_group else 'pod'},"
        " and have DRAM",
        fix=(
            "leave it out of the group"
            if is_group
            else f"write 'pod-pool.pinfold.dev/container.{container.name}: \"false\"', or leave"
            " it out"
        ),
        is_advice=True,
        container=container.name,
    )


def unheeded_whole_cpus(container: Container, whole_milli: int) -> Problem:
    """The problem of a container that would have cpus for itself, in a pen that only shares them.

    `whole_milli`: what its pod asks for.
    """
    setting = effective(container.pod.annotations, _POD_POOL_KEY, container.name)
    return Problem(
        where=f"{setting.key if setting is not None else _POD_POOL_KEY} of {container.path}",
        what=f"it shares its cpus, since its pod's set of {whole_milli}m is not of whole ones",
        fix=f"have the pod ask for {-(-whole_milli // 1000)} cpus, or write"
        f" 'pod-pool.pinfold.dev/container.{container.name}: \"false\"'",
        is_advice=True,
        container=container.name,
    )


def _shared_min(ledger: Ledger, pen: Grant, but: Grant | None = None) -> int:
    """How many cpus of a pen must stay to be shared: one where anybody has no slice."""
    left_out = None if but is None else but.container_id
    members = ledger.members(pen.container_id)
    return int(any(not ledger.grants[one].exclusive for one in members if one != left_out))


def _some(cpus: CpuSet, count: int, picker: CpuPicker) -> CpuSet:
    return CpuSet(picker.pick(cpus.mask, count) or 0)
