"""Pens of containers that run already: read off the cpus on which their containers run."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ....topology.sets.cpuset import NO_CPUS, NO_NODES, CpuSet, NodeSet
from ...annotations.preferences import parse_preferences
from ...books.books import Books
from ...books.named_cpus import left_of_share
from ...model.container import Container, ContainerId, PodId
from ...model.grant import Grant, PoolId
from ...model.request import CpuType, Request
from ...pens.pen_name import PenName, is_outside, pen_by_numbers, pod_pen, wished_pen
from ...pens.pod_numbers import own_cpus
from ..advice import Advice
from ..decision import KEPT, Decision
from ..penning import Penning
from ..roster import Roster
from .adopted_grant import may_be_lent
from .believed_advice import cpus_with_hidden, have_own_places


class PennedContainers(Struct, frozen=True, kw_only=True):
    """Containers that run and belong in one pen."""

    name: PenName
    containers: tuple[Container, ...]
    others: int
    """A mask of the cpus on which all others run."""
    given: int
    """Of these, where those run that we may have moved since: nothing there is the pen's by now."""


def find_penned(
    running: Sequence[Container],
    requests: Mapping[ContainerId, Request],
    advice: Mapping[ContainerId, Advice],
    penning: Penning,
    movable: Collection[ContainerId],
) -> tuple[PennedContainers, ...]:
    """Containers of a list that belong in pens, by pen. O(containers x pens).

    `movable`: those that we may have moved since they were remembered.
    """
    by_pod: dict[PodId, list[Container]] = {}
    found: dict[PenName, list[Container]] = {}
    for one in running:
        known = advice.get(one.id)
        if requests[one.id].cpu_type is not CpuType.NORMAL or (known and not known.is_penned):
            # What is remembered of a container, and is no pen, is a place of its own.
            continue
        wished = wished_pen(one, parse_preferences(one))
        name = wished or (pod_pen(one.pod) if known is not None else None)
        if name is not None:
            found.setdefault(name, []).append(one)
        elif not is_outside(one):
            by_pod.setdefault(one.pod.id, []).append(one)
    for pod_id, of_pod in by_pod.items():
        first, *rest = of_pod
        name = pod_pen(first.pod)
        if name not in found:
            if have_own_places(of_pod):
                penning.sizes.note_sum(of_pod)
                continue
            if pen_by_numbers(first, rest, penning.roster.size_of(first.pod)) is None:
                continue
        found.setdefault(name, []).extend(by_pod[pod_id])
    groups: list[PennedContainers] = []
    for name, inside in found.items():
        ids = {one.id for one in inside}
        others = [one for one in running if one.id not in ids]
        told = [one for one in others if one.id in movable]
        groups.append(
            PennedContainers(
                name=name,
                containers=tuple(inside),
                others=taken_by(others, requests),
                given=taken_by(told, requests),
            )
        )
    return tuple(groups)


def adopt_pen(
    penned: PennedContainers, advice: Mapping[ContainerId, Advice], penning: Penning
) -> list[Container]:
    """Book a pen and what its containers have of it; returns those that have nothing legal."""
    books, roster = penning.books, penning.roster
    pinned = _pinned(penned.containers, advice, books, roster)
    known = _known(pinned, penned, advice, books, roster)
    if not pinned:
        return list(penned.containers)
    request = penning.sizes.request_of(penned.name, pinned[0], penned.containers)
    pen = _pen(request, pinned, known, penned, books)
    if pen is None and not known:
        # One that began where no pen can be was pinned by nobody: it moves none of the others.
        pinned = [one for one in pinned if _pen(request, [one], known, penned, books)]
        pen = _pen(request, pinned, known, penned, books) if pinned else None
    if pen is None:
        return list(penned.containers)
    zone = books.adopt_memory(request, pen, _mems(pinned, roster, books) or None)
    books.ledger.add(replace(pen, memory=zone))
    slices = _slices(pen, pinned, advice, penned.name, penning)
    for one in pinned:
        _enter(one, slices[one.id], advice.get(one.id), pen.container_id, penning)
    return [one for one in penned.containers if one not in pinned]


def _pinned(
    containers: Sequence[Container],
    advice: Mapping[ContainerId, Advice],
    books: Books,
    roster: Roster,
) -> Sequence[Container]:
    """The containers whose cpus tell where their pen is.

    Where some are remembered, not those that began elsewhere, as nobody pinned them.
    """
    pinned = [one for one in containers if _cpus(one, books)]
    known = [(one, advice[one.id]) for one in pinned if one.id in advice]
    hints = [hint for _, hint in known]
    inside = _union([cpus_with_hidden(one, books, roster) for one, _ in known]) | _remembered(hints)
    inside |= _union([one.pen for one in hints])
    return [one for one in pinned if not inside or one.id in advice or _cpus(one, books) <= inside]


def _known(
    pinned: Sequence[Container],
    penned: PennedContainers,
    advice: Mapping[ContainerId, Advice],
    books: Books,
    roster: Roster,
) -> Sequence[Advice]:
    """What is remembered of a pen's containers, without what it had given up before a kill.

    Whoever shares its cpus runs on all that are in no slice.
    """
    hints = [advice[one.id] for one in pinned if one.id in advice]
    run = _union([cpus_with_hidden(one, books, roster) for one in pinned])
    whole, given = _union([one.pen for one in hints]), CpuSet(penned.given)
    if whole & given - run:
        # Of the others that are remembered none was on its cpus then.
        return [replace(one, rest=one.rest & run, pen=one.pen & run) for one in hints]
    if all(hint.exclusive for hint in hints):
        return hints
    # What it asks for it has all the same: who was left alone in it is told with the next event.
    return [replace(one, rest=one.rest & run) for one in hints]


def _enter(
    container: Container,
    own: CpuSet,
    known: Advice | None,
    pen_id: ContainerId,
    penning: Penning,
) -> None:
    """Book a container in its pen, on the cpus on which it runs."""
    books, roster = penning.books, penning.roster
    classified = roster.classified[container.id]
    penning.enter(pen_id, container, classified, own)
    grant = books.ledger.grants[container.id]
    if known is not None and own and known.exclusive == own:
        grant = replace(grant, grown=known.grown)
        books.ledger.repool(grant)
    pinning = books.pinner.pinning(grant)
    if pinning.cpus is not None:
        pinning = replace(pinning, cpus=_cpus(container, books))
    books.pinner.note(container.id, pinning)
    roster.decisions[container.id] = Decision(
        container_id=container.id,
        result=books.ledger.grants[container.id],
        pool=books.tree.pools[grant.pool_id].name,
        pinning=pinning,
        decided_by=KEPT,
        # The pen was made around a container that had begun without DRAM.
        cold_start_ns=0 if books.has_dram(grant.memory) else classified.request.cold_start_ns,
        problems=classified.problems,
    )


def _pen(
    request: Request,
    pinned: Sequence[Container],
    known: Sequence[Advice],
    penned: PennedContainers,
    books: Books,
) -> Grant | None:
    """The pen that explains the cpus of its containers; None where there is no legal one."""
    ledger, root = books.ledger, books.tree.root
    cpus = _union([_cpus(one, books) for one in pinned])
    sharable = CpuSet(ledger.free_sharable[root.id])
    unbooked = sharable | CpuSet(ledger.free_isolated[root.id])
    given = CpuSet(penned.given)
    remembered = _remembered(known) - given
    left = _union([one.pen for one in known]) & unbooked - remembered - given
    remembered |= _slices_left(left, remembered, cpus, request, books)
    free = unbooked - CpuSet(penned.others)
    grant = Grant(
        container_id=request.container_id,
        is_pen=True,
        pool_id=root.id,
        memory_bytes=request.memory_bytes,
        preserve_memory=request.preserve_memory,
        hide_hyperthreads=request.hide_hyperthreads,
    )
    is_own = bool(remembered) if known else request.exclusive > 0
    # Whoever began meanwhile may run on all cpus: that takes from no pen what is remembered of it.
    is_remembered = cpus <= remembered <= unbooked
    if is_own and (is_remembered or cpus <= free):
        if is_remembered:
            cpus = remembered
        spared = 0 if root.reserved else 1
        missing = min(request.exclusive - len(cpus), len((free & sharable) - cpus) - spared)
        if missing > 0 and not remembered:
            more = books.picker.extend(cpus.mask, (free & sharable).mask, missing)
            cpus |= CpuSet(more or 0)
        if root.reserved or sharable - cpus:
            pool_id = books.tree.smallest_holding(cpus).id
            grant = replace(grant, exclusive=cpus, isolated=cpus & root.isolated)
            named = _remembered_pool(known, cpus, books)
            return replace(grant, pool_id=pool_id if named is None else named)
    hint = known[0] if known else None
    if hint is not None and not remembered:
        cpus = left_of_share(cpus, request.total_milli, hint.pool, ledger)
    if not (cpus <= sharable or may_be_lent(cpus, request.total_milli, ledger, hint)):
        return None
    within = next((one.within for one in known if one.within is not None), None)
    named = _remembered_pool(known, cpus, books)
    return replace(
        grant,
        pool_id=books.tree.smallest_sharing(cpus).id if named is None else named,
        shared_milli=request.total_milli,
        within=within if within is not None and cpus <= within else None,
    )


def _remembered(known: Sequence[Advice]) -> CpuSet:
    """The cpus of a pen that are remembered of the containers that are in it still."""
    return _union([one.exclusive | one.rest for one in known])


def _slices_left(
    left: CpuSet, held: CpuSet, cpus: CpuSet, request: Request, books: Books
) -> CpuSet:
    """The cpus of a pen, beside those `held`, that remain of who is gone: as far as it asks so.

    Where another container began on its slice, as one that restarts does, the pen has that.
    """
    found = left & cpus
    # It may have them for itself although it asks for a part of one besides, by now.
    wanted = -(-request.total_milli // 1000)
    missing = min(wanted - len(held | found), len(left - found))
    if missing <= 0:
        return found
    more = books.picker.extend((held | found).mask, (left - found).mask, missing)
    return found | CpuSet(more or 0)


def _slices(
    pen: Grant,
    pinned: Sequence[Container],
    advice: Mapping[ContainerId, Advice],
    name: PenName,
    penning: Penning,
) -> Mapping[ContainerId, CpuSet]:
    """The slice of each container, none for those that share; what is shared is never empty."""
    books, roster = penning.books, penning.roster
    once = twice = 0
    for one in pinned:
        mask = _cpus(one, books).mask
        twice |= once & mask
        once |= mask
    found: dict[ContainerId, CpuSet] = {}
    rest = pen.exclusive
    for one in pinned:
        cpus, known = _cpus(one, books), advice.get(one.id)
        own = NO_CPUS
        is_alone = not cpus.mask & twice and not name.is_group
        if known is not None and known.is_penned and known.exclusive:
            others = CpuSet(once) - cpus
            # Who shares the rest runs on what it gave back.
            own = known.exclusive - others
        elif len(cpus) == own_cpus(penning.roster.size_of(one.pod), one):
            # Who is remembered to share would run on all that is shared.
            is_since = known is not None and cpus_with_hidden(one, books, roster) < known.rest
            own = cpus if known is None or is_since else NO_CPUS
        is_legal = is_alone and bool(own) and cpus <= own <= rest
        found[one.id] = own if is_legal else NO_CPUS
        rest -= found[one.id]
    if pen.exclusive and not rest and not all(found.values()):
        youngest = [one.id for one in pinned if found[one.id]][-1]
        found[youngest] = NO_CPUS
    return found


def _remembered_pool(known: Sequence[Advice], cpus: CpuSet, books: Books) -> PoolId | None:
    names = {one.pool for one in known}
    return next(
        (one.id for one in books.tree.pools if one.name in names and cpus <= one.cpus), None
    )


def _cpus(container: Container, books: Books) -> CpuSet:
    # An offline cpu cannot run anybody.
    return (container.cpus or NO_CPUS) & books.tree.root.cpus


def _mems(pinned: Sequence[Container], roster: Roster, books: Books) -> NodeSet:
    """The memory nodes that some containers have together: none of them loses one that it uses.

    Nobody tells where the memory is of those for whom it is to be left alone.
    """
    usable, found = NodeSet(books.memory.nodes.ordinary.with_memory), NO_NODES
    for one in pinned:
        if one.mems and not roster.classified[one.id].request.preserve_memory:
            found |= one.mems & usable
    return found


def taken_by(containers: Sequence[Container], requests: Mapping[ContainerId, Request]) -> int:
    """A mask of the cpus on which some containers run, but for those that are left alone."""
    mask = 0
    for one in containers:
        if one.cpus and requests[one.id].cpu_type is not CpuType.PRESERVE:
            mask |= one.cpus.mask
    return mask


def _union(sets: Sequence[CpuSet]) -> CpuSet:
    mask = 0
    for one in sets:
        mask |= one.mask
    return CpuSet(mask)
