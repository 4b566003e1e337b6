"""Adoption of everything that runs, in which a fault with one container is no other one's fault."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial, reduce

from msgspec import Struct
from msgspec.structs import replace

from ....topology.sets.cpuset import NO_CPUS, CpuSet
from ...books.books import Books
from ...model.container import Container, ContainerId
from ...model.request import CpuType, Request
from ...placing.judging.unmet_texts import ToldRules
from ..advice import Advice, Usability, told_rules
from ..allocator import Allocator
from ..stuck_containers import StuckContainers, mend, placed_running
from .adopted_container import (
    Blame,
    FaultyContainerError,
    adopt,
    cpus_left_alone,
    keep,
    leave_out,
    near_memory,
    stays_on_reserved,
)
from .adopted_grant import has_own_cpus, overlaps
from .believed_advice import believed_advice
from .kept_reserve import with_kept_reserve
from .penned_containers import PennedContainers, adopt_pen, find_penned, taken_by


def readopted(
    allocator: Allocator,
    listed: Sequence[Container],
    advice: Mapping[ContainerId, Advice],
    faults: dict[ContainerId, list[Exception]],
) -> Allocator:
    """The allocator that has adopted what runs, or another one where it met a faulty container.

    Every container keeps its cpus and memory where they are still legal; those with illegal or
    missing cpus are placed, Guaranteed first. Those in `faults` are left as they run, and are not
    even booked if that fails, too; faults that show are added to them.
    """
    books = with_kept_reserve(allocator.books, listed, advice)
    if books is not allocator.books:
        allocator = allocator.anew(books)
    while True:
        try:
            _readopt(allocator, listed, advice, faults)
            return allocator
        except FaultyContainerError as fault:
            faults.setdefault(fault.container_id, []).append(fault.error)
            # What was booked may be half a change: begin again without this container.
            allocator = allocator.anew()


def _readopt(
    allocator: Allocator,
    listed: Sequence[Container],
    advice: Mapping[ContainerId, Advice],
    faults: dict[ContainerId, list[Exception]],
) -> None:
    """Raises `FaultyContainerError` where a fault shows: then the allocator is of no use."""
    books, roster = allocator.books, allocator.roster
    hints = [(one.id, advice[one.id]) for one in listed if one.id in advice]
    usability = Usability.since(advice.values(), books.supply)
    running = [_as_remembered(one, advice.get(one.id)) for one in listed]
    had = {one.id: one.cpus for one in running}
    running = [usability.left_of(one, advice.get(one.id)) for one in running]
    advice = {one: hint.where(books.supply.usable, had.get(one)) for one, hint in advice.items()}
    for container in running:
        known = advice.get(container.id)
        if known is not None and known.pod_size is not None:
            # What is made of a container may depend on it.
            roster.note_size(container.pod, known.pod_size)
        if container.id not in faults:
            try:
                with Blame(container):
                    allocator.know(container)
            except FaultyContainerError as fault:
                # Nothing is booked yet, so the others need not begin again.
                books.withdraw(container.id)
                faults[container.id] = [fault.error]
    sound = [one for one in running if one.id not in faults]
    told = told_rules(advice)
    requests = {one.id: roster.classified[one.id].request for one in sound}
    asking = [(one, requests.get(one.id)) for one in running]
    # Whoever began meanwhile may run on anybody's cpus: of who is remembered that tells nothing.
    others = overlaps(asking) | overlaps([one for one in asking if one[0].id in advice])
    advice, movable = believed_advice(sound, had, others, advice, books, roster)
    hinted = (advice[one.id] for one in sound if one.id in advice)
    in_pens = reduce(CpuSet.__or__, (one.rest for one in hinted), NO_CPUS)
    for container in running:
        found = faults.get(container.id, ())
        if len(found) == 1:
            with Blame(container):
                hint = advice.get(container.id)
                keep(allocator, container, others[container.id], hint, found[0], in_pens)
        elif found:
            leave_out(allocator, container, found[-1])
    homeless = _adopt(allocator, sound, requests, others, advice, movable)
    if books.standing.rules:
        adopted = [one for one in sound if one.id in books.ledger.grants]
        _heed_rules(allocator, adopted, advice, told)
    # What was adopted keeps its cpus: nobody is told of growth until the next event.
    allocator.unmet.note_moves(books.pinner.drain())
    # Who stays does so whoever is stuck there. Who has yet to leave may be no less there.
    staying = {one: hint.stuck | hint.leaving for one, hint in hints}
    left_alone = cpus_left_alone(allocator, running)
    held = {one: cpus.mask for one, cpus in staying.items() if cpus}
    StuckContainers(allocator).hold({**held, **left_alone})
    for container in homeless:
        with Blame(container):
            if not stays_on_reserved(allocator, container):
                placed_running(allocator, container, near_memory(container, allocator))
    for container in running:
        is_whole = container.cpus == had[container.id]
        if container.id not in faults and (usability.freed or not is_whole):
            with Blame(container):
                mend(allocator, container.id)
    held = {one: hint.stuck.mask for one, hint in hints if hint.stuck}
    StuckContainers(allocator).hold({**held, **left_alone})


def catch_up(allocator: Allocator, freed: CpuSet) -> None:
    """Tell everybody on shared cpus which they are by now, and share out the freed ones.

    Those have them, too, that rules had narrowed, as far as they allow it. Then rules may hold that
    did not before.
    """
    pinner, unmet = allocator.books.pinner, allocator.unmet
    changes = pinner.catch_up()
    unmet.note_moves(changes)
    if changes:
        # Their rules were heeded beside those who had fewer cpus.
        allocator.shares.hold_all_back()
    if freed:
        unmet.note_moves(allocator.shares.regain(freed))
    allocator.shares.parted.part_all()
    unmet.refresh_all()


def _as_remembered(container: Container, advice: Advice | None) -> Container:
    """The container with the labels that its pod had at first, and on the cpus it was told last.

    On those where it runs if it may have been told others since it was remembered.
    """
    if advice is None:
        return container
    container = advice.as_told(container)
    first, pod = advice.labels, container.pod
    if first is None or first == pod.labels_at_first_sight:
        return container
    return replace(container, pod=replace(pod, first_labels=first))


def _adopt(
    allocator: Allocator,
    running: Sequence[Container],
    requests: Mapping[ContainerId, Request],
    others: Mapping[ContainerId, int],
    advice: Mapping[ContainerId, Advice],
    movable: Collection[ContainerId],
) -> list[Container]:
    """Book what every container has; returns those that have nothing legal.

    `movable`: those that we may have moved since they were remembered.
    """
    books = allocator.books
    penned = find_penned(running, requests, advice, allocator.pens, movable)
    inside = {one.id for group in penned for one in group.containers}
    everybody, running = running, [one for one in running if one.id not in inside]
    if books.must_expect(everybody):
        for container in running:
            with Blame(container):
                books.expect(container, requests[container.id])
    without_place = partial(_without_place, allocator, others, advice)
    known = [one for one in everybody if one.id in advice]
    owning_none = () if advice else _without_own(everybody, requests, books.tree.root.sharable.mask)
    turns = _turns(running, requests, others, advice, known, owning_none)
    own_pens = [group for group in penned if _may_own(group, advice)]
    further = [group for group in penned if not _may_own(group, advice)]
    # What an exclusive grant holds is legal for nobody else, so those come first, and of these the
    # claims that are remembered, as none gets a cpu that somebody is owed by then; but who began on
    # others' cpus since these were remembered takes none from pens. Who shares may have been left
    # the reserved cpus because of them. All other claims come last, as if they came by now.
    sharing = without_place(sorted(turns.own, key=lambda one: not one[1].claimed))
    homeless = _adopt_pens(allocator, own_pens, advice)
    sharing += without_place(turns.since)
    further.sort(key=lambda group: _is_known_to_share(group, advice))
    homeless += _adopt_pens(allocator, further, advice)
    left = [*turns.left, *((one, request.as_shared()) for one, request in sharing)]
    places = {one.id: place for place, one in enumerate(running)}
    lost = without_place(sorted(left, key=lambda one: places[one[0].id]))
    if not advice:
        lost = _without_place(allocator, others, _guessed(lost, books), lost)
    homeless += [one for one, _ in lost]
    homeless += [one for one, _ in without_place(turns.claims)]
    books.expect_no_more()
    return homeless


_Asking = tuple[Container, Request]


class _Turns(Struct, frozen=True):
    """Containers outside pens with what they ask for, in groups that are adopted in turn."""

    own: list[_Asking]
    """Containers with exclusive cpus, and with claims that are remembered."""
    since: list[_Asking]
    """Containers of the same kind that began meanwhile, on cpus of others."""
    claims: list[_Asking]
    """Containers with claims that may be about others' cpus."""
    left: list[_Asking]


def _turns(
    running: Sequence[Container],
    requests: Mapping[ContainerId, Request],
    others: Mapping[ContainerId, int],
    advice: Mapping[ContainerId, Advice],
    known: Sequence[Container],
    owning_none: Collection[ContainerId],
) -> _Turns:
    """The turns of containers outside pens. `known`: all that are remembered.

    `owning_none`: those that have none of the cpus of their own that they ask for.
    """
    # Whoever began meanwhile may run on anybody's cpus, and takes none from who is remembered.
    remembered, held = taken_by(known, requests), 0
    for one in known:
        # Of a pen much may be hidden, or shared by nobody, so that no cpuset tells.
        if advice[one.id].is_penned:
            held |= advice[one.id].exclusive.mask | advice[one.id].rest.mask
            held |= advice[one.id].pen.mask
    turns = _Turns([], [], [], [])
    for container in running:
        request, hint = requests[container.id], advice.get(container.id)
        with Blame(container):
            if request.claimed:
                # It was told of by whoever creates pods, and may be about others' cpus. Where it is
                # not, who was left the reserved cpus because of these is known for that then.
                had = NO_CPUS if hint is None else hint.exclusive
                is_its = bool(had) and not had.mask & remembered
                turn = turns.own if is_its else turns.claims
            elif container.id in owning_none:
                turn, request = turns.left, request.as_shared()
            elif has_own_cpus(request, hint):
                cpus = container.cpus or NO_CPUS
                is_intruder = hint is None and cpus.mask & (others[container.id] | held)
                turn = turns.since if advice and is_intruder else turns.own
            else:
                turn = turns.left
            turn.append((container, request))
    return turns


def _without_own(
    everybody: Sequence[Container], requests: Mapping[ContainerId, Request], sharable: int
) -> Collection[ContainerId]:
    """Containers that seem to share the cpus that they would have for themselves, all of them.

    Others run there alone, and there is no room for all of these elsewhere. For where nobody is
    remembered: an owner may have lost its own cpus. `sharable`: mask of the root's cpus.
    """
    whole, shared, wanted_milli = dict[ContainerId, int](), set[int](), 0
    for one in everybody:
        request = requests[one.id]
        if not one.cpus or request.cpu_type is not CpuType.NORMAL:
            continue
        if request.exclusive == len(one.cpus) and not request.shared_milli:
            whole[one.id] = one.cpus.mask
            sharable &= ~one.cpus.mask
        else:
            shared.add(one.cpus.mask)
            wanted_milli += request.total_milli
    if wanted_milli <= 1000 * sharable.bit_count():
        return ()
    return [one for one, own in whole.items() if any(not some & ~own for some in shared)]


def _without_place(
    allocator: Allocator,
    others: Mapping[ContainerId, int],
    advice: Mapping[ContainerId, Advice],
    asking: Iterable[_Asking],
) -> list[_Asking]:
    """Adopt containers where they run; returns those that have nothing legal there."""
    found: list[_Asking] = []
    for container, request in asking:
        with Blame(container):
            hint = advice.get(container.id)
            if not adopt(allocator, container, request, others[container.id], hint):
                found.append((container, request))
    return found


def _guessed(asking: Iterable[_Asking], books: Books) -> Mapping[ContainerId, Advice]:
    """Advice for those who share, where none is remembered: they may be in the nearest pool.

    Whoever runs on all that can be shared is perhaps pinned by nobody.
    """
    tree = books.tree
    return {
        one.id: Advice(pool=tree.smallest_sharing(one.cpus).name)
        for one, _ in asking
        if one.cpus and one.cpus != tree.root.sharable
    }


def _adopt_pens(
    allocator: Allocator,
    groups: Iterable[PennedContainers],
    advice: Mapping[ContainerId, Advice],
) -> list[Container]:
    """Book pens; returns those of their containers that have nothing legal."""
    found: list[Container] = []
    for group in groups:
        with Blame(group.containers[0]):
            found += adopt_pen(group, advice, allocator.pens)
    return found


def _may_own(penned: PennedContainers, advice: Mapping[ContainerId, Advice]) -> bool:
    """Whether a pen has cpus of its own as is remembered, or where nothing is of anybody."""
    known = [advice[one.id] for one in penned.containers if one.id in advice]
    return not advice or any(one.exclusive or one.rest for one in known)


def _is_known_to_share(penned: PennedContainers, advice: Mapping[ContainerId, Advice]) -> bool:
    known = [advice.get(one.id) for one in penned.containers]
    return all(one is not None and not (one.exclusive or one.rest) for one in known)


def _heed_rules(
    allocator: Allocator,
    adopted: Sequence[Container],
    advice: Mapping[ContainerId, Advice],
    told: ToldRules,
) -> None:
    """Let nobody who was adopted grow to where a rule between containers would break."""
    recalled = set[ContainerId]()
    # Before any of them is held back, by which others get narrower.
    for container in adopted:
        hint = advice.get(container.id)
        with Blame(container):
            if hint is not None and allocator.shares.recall(container.id, hint):
                recalled.add(container.id)
    for container in adopted:
        with Blame(container):
            allocator.heed_rules(container, told, is_recalled=container.id in recalled)
    allocator.rehouse(moves_nobody=True)
