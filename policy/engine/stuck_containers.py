"""Stuck containers: their runtime refuses updates of them, so the kernel runs them where it did.

So it does with those that are left as they run for a fault of ours, which nobody tells anything.
Whoever got a cpu there for itself would share it, and gets others as long as there are any. Where
there are none it is told so, and not refused: one container's fault would keep all others out.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial, reduce
from itertools import compress
from typing import Final

from msgspec.structs import replace

from ...topology.sets.bits import selectors
from ...topology.sets.cpuset import CpuSet
from ..model.container import Container, ContainerId, ContainerState, Pod, Resources
from ..model.grant import Grant, Refusal
from ..model.pinning import Change, Pinning
from ..model.request import Request
from ..placing.classifier import Classified
from ..placing.judging.restriction import names_text
from ..text.errors import Problem
from .allocator import Allocator
from .decision import STUCK, Decision, is_left_alone

_EXITED: Final = ContainerState.EXITED


class StuckContainers:
    """The stuck containers, as the books of an allocator keep their cpus from newcomers."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._hidden = 0
        """Isolated cpus that are free, and are not shown so for the time of a decision."""

    @property
    def cpus(self) -> Mapping[ContainerId, int]:
        """Masks of the cpus on which the kernel runs each of them."""
        return self._allocator.books.ledger.narrowed.stuck

    @property
    def refused(self) -> Mapping[ContainerId, int]:
        """Masks of the cpus of those whose updates their runtime refuses."""
        known = self._allocator.roster.decisions
        return {one: cpus for one, cpus in self.cpus.items() if not is_left_alone(known.get(one))}

    def note(self, stuck: Mapping[ContainerId, CpuSet]) -> Sequence[ContainerId]:
        """Updates of containers are refused, on these cpus as the kernel has them, and no others.

        Returns those whose own cpus they are on, if that was not told of them before. O(grants).
        """
        grants = self._allocator.books.ledger.grants
        masks = {one: cpus.mask for one, cpus in stuck.items() if one in grants}
        masks |= self._left_alone()
        if masks == self.cpus:
            return ()
        self.hold(masks)
        return self.look_again()

    def look_again(self) -> Sequence[ContainerId]:
        """Tell those of it whose own cpus are others by now; returns the same as `note`."""
        ledger, decisions = self._allocator.books.ledger, self._allocator.roster.decisions
        found, sets = list[ContainerId](), _StuckSets(self._allocator)
        for container_id in ledger.grants:
            decision, new = decisions.get(container_id), sets.problem(container_id)
            # About one that is just being placed none is noted yet.
            if decision is not None and (told := _problem_of(decision)) != new:
                decisions[container_id] = _with_problem(decision, new)
                if told is None:
                    found.append(container_id)
        return found

    def told(self, decision: Decision) -> Decision:
        """The decision, with who is stuck on the cpus that its container has for itself."""
        is_granted = isinstance(decision.result, Grant)
        sets = _StuckSets(self._allocator)
        problem = sets.problem(decision.container_id) if is_granted else None
        return decision if _problem_of(decision) == problem else _with_problem(decision, problem)

    def hold_but(self, insiders: Collection[ContainerId]) -> None:
        """Keep the cpus of all but some from newcomers, and of none that is gone."""
        known, insiders = self._allocator.roster.containers, {*insiders}
        # Who is yet to be adopted holds nothing, and runs.
        gone = [one for one in self.cpus if one not in known or known[one].state is _EXITED]
        insiders.update(gone)
        self.hold({one: cpus for one, cpus in self.cpus.items() if one not in insiders})

    def hide(self) -> None:
        """Show as free no isolated cpus of those whose cpus are kept, until others are held."""
        ledger = self._allocator.books.ledger
        self._hidden = ledger.free_isolated[-1] & ledger.narrowed.stuck_cpus
        if self._hidden:
            ledger.free_isolated[:] = [cpus & ~self._hidden for cpus in ledger.free_isolated]

    def hold(self, stuck: Mapping[ContainerId, int]) -> None:
        """Keep from newcomers the cpus of these alone, without telling anybody of it."""
        ledger = self._allocator.books.ledger
        if self._hidden:
            for pool in ledger.tree.pools:
                ledger.free_isolated[pool.id] |= self._hidden & pool.isolated.mask
            self._hidden = 0
        if stuck != ledger.narrowed.stuck:
            ledger.narrowed.hold_stuck(stuck)
            ledger.spare_cpus.restart()

    def _left_alone(self) -> Mapping[ContainerId, int]:
        decisions = self._allocator.roster.decisions
        return {one: cpus for one, cpus in self.cpus.items() if is_left_alone(decisions.get(one))}


class _StuckSets:
    """The stuck containers by the sets of cpus that they are on: mostly many on the same one."""

    def __init__(self, allocator: Allocator) -> None:
        """For as long as nobody else is stuck."""
        self._ledger, self._known = allocator.books.ledger, allocator.roster.containers
        held = self._ledger.grants
        self._ids = [one for one in self._ledger.narrowed.stuck if one in held]
        self._places = {one: 1 << number for number, one in enumerate(self._ids)}
        self._on: dict[int, int] = {}
        """Places of those that are on each set."""
        self._names: dict[int, str] = {}
        self._left_alone = 0
        """Places of those that are left as they run for a fault."""
        decisions = allocator.roster.decisions
        for one, place in self._places.items():
            cpus = self._ledger.narrowed.stuck[one]
            self._on[cpus] = self._on.get(cpus, 0) | place
            if is_left_alone(decisions.get(one)):
                self._left_alone |= place

    def problem(self, container_id: ContainerId) -> Problem | None:
        """The problem to be told of one on whose own cpus some are. O(sets)."""
        ledger = self._ledger
        grant = ledger.grants.get(container_id)
        own = 0 if grant is None else (grant.exclusive or grant.rest).mask
        if grant is None or not own & ledger.narrowed.stuck_cpus:
            return None
        # What is nobody's part of a pen all share that are in it.
        beside = () if grant.exclusive else ledger.members(grant.held_as)
        among = ~reduce(int.__or__, map(self._place, (container_id, *beside)))
        here = cpus = 0
        for some, places in self._on.items():
            if some & own and places & among:
                here |= places & among
                cpus |= some & own
        if not here:
            return None
        if (names := self._names.get(here)) is None:
            owners = [self._known[one] for one in compress(self._ids, selectors(here))]
            names = self._names[here] = names_text(owners)
        why, remedy = self._why(here)
        return Problem(
            where=STUCK,
            what=f"cpus {CpuSet(cpus)} of its own are also run on by {names}: {why}",
            fix=remedy,
            container=self._known[container_id].name,
            is_advice=True,
        )

    def _why(self, here: int) -> tuple[str, str]:
        """The reason why these are there, and the remedy, for people."""
        them, left_alone = ("them" if here.bit_count() > 1 else "it"), here & self._left_alone
        if not left_alone:
            why = f"the runtime refuses to take {them} off"
            return why, f"read the 'error' of its event=not-applied, or stop {them}"
        are = (
            "they are left as they run"
            if left_alone & (left_alone - 1)
            else "it is left as it runs"
        )
        if left_alone != here:
            are = "some are left as they run"
        return f"{are} for a fault of ours", f"report it, or stop {them}"

    def _place(self, container_id: ContainerId) -> int:
        return self._places.get(container_id, 0)


def seen_gone(allocator: Allocator, changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """The changes by one that has given back its cpus, once stuck ones are looked at for owners.

    Others in its pen may have fewer, and run beside nobody any more.
    """
    if stuck := allocator.books.ledger.narrowed.stuck:
        grants, containers = allocator.books.ledger.grants, StuckContainers(allocator)
        containers.hold({one: cpus for one, cpus in stuck.items() if one in grants})
        containers.look_again()
    return changes


def placed_away(allocator: Allocator, container: Container, classified: Classified) -> Decision:
    """The decision about a new container, away from all that are stuck if there is such a place."""

    def place() -> Decision:
        if container.id not in allocator.books.affinity:
            # A refusal has withdrawn its rules.
            allocator.books.let_count(container, classified.rules, classified.placement)
        return allocator.place(container, classified)

    return _decided_away(allocator, container, place, classified.request)


def placed_running(allocator: Allocator, container: Container, asked: Classified) -> Decision:
    """The decision about one that runs and has to leave its cpus, as about a new container."""

    def place() -> Decision:
        if not allocator.books.ledger.narrowed.stuck:
            return allocator.conclude(allocator.place_running(container, asked))
        # It cannot be refused, but there is a place left to be tried before it goes without.
        decision = allocator.place(container, asked, runs=True)
        if isinstance(decision.result, Grant):
            return allocator.conclude(decision)
        allocator.books.let_count(container, asked.rules, asked.placement)
        return decision

    return _changed_away(allocator, container, place)


def mend(allocator: Allocator, container_id: ContainerId) -> None:
    """Give a container cpus for exclusive ones it misses, if it does, as to a new container."""
    if allocator.roster.decisions[container_id].degraded:
        mended(allocator, container_id)


def mended(allocator: Allocator, container_id: ContainerId) -> Decision:
    """The decision about what a container asks for and has not, as about a new container."""
    container = allocator.roster.containers[container_id]
    return _changed_away(allocator, container, partial(allocator.mend, container_id))


def resized(allocator: Allocator, container_id: ContainerId, resources: Resources) -> Decision:
    """The decision about other resources for a container, as for a new one.

    A refusal leaves it what it had, and the same resources change nothing.
    """
    container = allocator.roster.containers.get(container_id)
    if container is None or container_id not in allocator.books.ledger.grants:
        refusal = Refusal(reason=f"container {container_id!r} holds no cpus to resize")
        return Decision(container_id=container_id, result=refusal)
    if resources == container.resources:
        allocator.unmet.look_at_postponed()
        pinning = allocator.books.pinner.told(container_id) or Pinning()
        last = allocator.roster.decisions[container_id]
        return replace(last, pinning=pinning, changes=())
    resize = partial(allocator.resize, container_id, resources)
    return _changed_away(allocator, container, resize)


def resized_pod(allocator: Allocator, pod: Pod, size: Resources) -> Refusal | tuple[Change, ...]:
    """Changes by another size for a pod, as for a new container; a refusal leaves what it had."""
    refusal = _resized_pod_away(allocator, pod, size)
    if refusal is not None:
        allocator.unmet.forget_shifted()
        return refusal
    allocator.shift_shares()
    changes = allocator.return_home(None)
    allocator.unmet.refresh_all()
    return changes


def _resized_pod_away(allocator: Allocator, pod: Pod, size: Resources) -> Refusal | None:
    stuck, resize = StuckContainers(allocator), partial(allocator.pen_resizer.resize_pod, pod, size)
    if not stuck.cpus:
        return resize()
    before = stuck.cpus
    try:
        stuck.hold_but(allocator.roster.of_pod(pod.id))
        stuck.hide()
        refusal = resize()
        if refusal is not None and stuck.cpus:
            stuck.hold({})
            refusal = resize()
    finally:
        stuck.hold(before)
    stuck.look_again()
    return refusal


def _changed_away(
    allocator: Allocator, container: Container, decide: Callable[[], Decision]
) -> Decision:
    if not allocator.books.ledger.narrowed.stuck:
        return decide()
    decision = _decided_away(allocator, container, decide)
    if isinstance(decision.result, Grant):
        allocator.roster.decisions[container.id] = decision
    return decision


def _decided_away(
    allocator: Allocator,
    container: Container,
    decide: Callable[[], Decision],
    request: Request | None = None,
) -> Decision:
    """`request`: what is asked for, if it is known beforehand."""
    stuck, ledger = StuckContainers(allocator), allocator.books.ledger
    before, held = stuck.cpus, ledger.grants.get(container.id)
    try:
        # Nobody is kept from where he runs himself, or those do with whom he shares a pen.
        beside = () if held is None or held.exclusive else ledger.members(held.held_as)
        stuck.hold_but({container.id, *beside})
        stuck.hide()
        if container.claimed is not None:
            # It runs on these very cpus, and nobody else is to have them.
            stuck.hold({})
        elif request is not None and request.fallback is None:
            clear = ledger.free_sharable[-1] & ~ledger.narrowed.stuck_cpus
            if request.exclusive > (clear | ledger.free_isolated[-1]).bit_count():
                # On a large machine it takes long to find that there is no other place.
                stuck.hold({})
        decision = decide()
        if isinstance(decision.result, Refusal) and stuck.cpus:
            stuck.hold({})
            decision = decide()
    finally:
        stuck.hold(before)
    if isinstance(decision.result, Grant) and decision.result.pen is not None:
        # The others in its pen may have other cpus, too.
        stuck.look_again()
    return stuck.told(decision)


def _problem_of(decision: Decision) -> Problem | None:
    return next((one for one in decision.problems if one.where == STUCK), None)


def _with_problem(decision: Decision, problem: Problem | None) -> Decision:
    former = _problem_of(decision)
    others = tuple(one for one in decision.problems if one.where != STUCK)
    own = "" if former is not None and decision.degraded == former.what else decision.degraded
    if problem is None:
        return replace(decision, problems=others, degraded=own)
    return replace(decision, problems=(*others, problem), degraded=own or problem.what)
