"""Left cpus: those that containers had until they were moved live, or given others otherwise.

They are for nobody until the kernel has taken them from these. A runtime may be late, or refuse:
whoever was given the cpus meanwhile would share them.
"""

from collections.abc import Iterable, Mapping
from functools import partial, reduce

from msgspec import Struct
from msgspec.structs import replace

from ...topology.sets.cpuset import NO_NODES, CpuSet
from ..books.booking import Booking
from ..books.cpu_ledger import Ledger
from ..books.promises import keeps_promises
from ..model.container import ContainerId
from ..model.grant import Grant, Refusal
from ..model.pinning import Change
from ..placing.growth import homeless
from ..placing.judging.restriction import names_text
from ..placing.placer import Failure
from .allocator import Allocator
from .decision import KEPT, Decision, left_as_it_was
from .snapshot import Snapshot
from .stuck_containers import StuckContainers


class PenBefore(Struct, frozen=True):
    """A pen, and what each one in it had of it, before it was moved."""

    pen: Grant
    members: Mapping[ContainerId, Grant]
    """Oldest first."""


class LeftCpus:
    """The cpus that containers have left, as the books of an allocator keep them for nobody."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator

    def held(self, container_id: ContainerId) -> Grant | None:
        """The grant of a container, or of its pen, at present; None where it holds nothing."""
        ledger = self._ledger
        return ledger.counted(container_id) if container_id in ledger.grants else None

    def lend(self, container_id: ContainerId) -> Grant | None:
        """The grant of `held` with what it has left: it may have that again until it is kept."""
        held, left = self.held(container_id), None
        if held is not None:
            left = self._ledger.left.get(held.container_id)
        if held is None or left is None:
            return held
        self._ledger.let_go(left.container_id)
        own, isolated = held.exclusive | left.exclusive, held.isolated | left.isolated
        return replace(held, exclusive=own, isolated=isolated)

    def keep(self, before: Iterable[Grant]) -> tuple[Change, ...]:
        """Keep what containers, and pens, had for themselves before they were moved.

        As far as nobody has it by now, and all others have their room without it: nobody goes
        elsewhere for it. Returns who may not use it yet, who otherwise would. O(grants).
        """
        for one in before:
            self._keep(one)
        return self._allocator.changes()

    def take_over(self, before: Snapshot) -> None:
        """Keep what an older engine kept. O(grants)."""
        for left in before.left.values():
            self._keep(left)

    def _keep(self, left: Grant) -> None:
        ledger, root = self._ledger, self._allocator.books.tree.root
        earlier = ledger.left.get(left.container_id)
        ledger.let_go(left.container_id)
        own = left.exclusive.mask | (0 if earlier is None else earlier.exclusive.mask)
        isolated = own & ledger.free_isolated[-1]
        own &= ledger.free_sharable[-1] | isolated
        if not own:
            return
        short, away = ledger.room.shared_milli, len(homeless(self._allocator.books))
        ledger.keep_left(
            Grant(
                container_id=left.container_id,
                pool_id=root.id,
                exclusive=CpuSet(own),
                isolated=CpuSet(isolated),
            )
        )
        pairs = zip(short, ledger.room.shared_milli, strict=True)
        is_less = any(now < min(0, then) for then, now in pairs)
        if is_less or len(homeless(self._allocator.books)) > away:
            ledger.let_go(left.container_id)

    def let_go(self, holders: Iterable[ContainerId]) -> tuple[Change, ...]:
        """The kernel has moved some, or they are gone: what they left is for others.

        `holders`: the ids of containers, or of pens. Returns who is to use it.
        """
        if not [one for one in holders if self._ledger.let_go(one)]:
            return ()
        return self._allocator.return_home(None)

    def pen_before(self, container_id: ContainerId) -> PenBefore | None:
        """The pen that a container is in at present; None where it is in none. O(grants)."""
        ledger = self._ledger
        grant = ledger.grants.get(container_id)
        if grant is None or grant.pen is None:
            return None
        members = {one: ledger.grants[one] for one in ledger.members(grant.pen)}
        return PenBefore(ledger.pens[grant.pen], members)

    def take_back(self, container_id: ContainerId, had: PenBefore) -> Decision:
        """The decision about one of a pen that all have back what they had; or it stays moved.

        That is where anybody came to it or left it, or others have got the cpus, or were promised
        them. What it left is to be lent before.
        """
        allocator, ledger, pen_id = self._allocator, self._ledger, had.pen.container_id
        pen = ledger.pens.get(pen_id)
        is_same = pen is not None and {*ledger.members(pen_id)} == {*had.members}
        others = allocator.books.without(pen_id).ledger
        if not is_same or not keeps_promises(replace(had.pen, memory=NO_NODES), others):
            held = ledger.grants[container_id]
            failure = Failure.of(f"{pen_id} cannot have back what it left")
            return left_as_it_was(held, failure, allocator.books, ())
        look = allocator.unmet.look()
        allocator.unmet.note_displaced(one for one in had.members if one != container_id)
        back = partial(self._back_in, had, container_id)
        decision = allocator.make_change(container_id, back, look)
        stuck = StuckContainers(allocator)
        stuck.look_again()
        return stuck.told(decision)

    def _back_in(self, had: PenBefore, container_id: ContainerId) -> Decision:
        allocator, ledger, pen_id = self._allocator, self._ledger, had.pen.container_id
        books, roster = allocator.books, allocator.roster
        for one in had.members:
            ledger.drop(one)
        request = books.memory.request_of(pen_id)
        if request is not None:
            books.memory.release(pen_id)
            books.memory.adopt(request, had.pen.memory)
        books.take(Booking(grant=had.pen))
        books.pinner.mark(pen_id)
        for one, grant in had.members.items():
            classified = roster.classified[one]
            allocator.pens.enter(pen_id, roster.containers[one], classified, grant.exclusive)
        decision = roster.decisions[container_id]
        return replace(decision, result=ledger.grants[container_id], decided_by=KEPT, notes=())

    def told(self, decision: Decision) -> Decision:
        """The decision; a refusal also says which cpus are about to be free, if these would do."""
        left, refusal = self._ledger.left, decision.result
        if not isinstance(refusal, Refusal) or not self._would_do(decision.container_id):
            return decision
        cpus = CpuSet(reduce(int.__or__, [one.exclusive.mask for one in left.values()]))
        known = self._allocator.roster.containers
        holders = [one for held_as in left for one in self._ledger.occupants(held_as)]
        owners = [known[one] for one in holders if one in known]
        # A pen may be none any more, once the configuration is another.
        have = f"{names_text(owners)} has" if owners else "those who were there have"
        reason = f"{refusal.reason}; cpus {cpus} are free once {have} left them"
        return replace(decision, result=Refusal(reason=reason))

    def _would_do(self, container_id: ContainerId) -> bool:
        """Whether there were a place for a refused container on all that was left."""
        allocator, ledger = self._allocator, self._ledger
        container = allocator.roster.containers[container_id]
        classified = allocator.roster.classified[container_id]
        was_there = allocator.pens.has_place_of(container)
        if allocator.planner.objection(container, classified.problems, was_there=was_there):
            return False
        if allocator.pens.name_of(container, classified) is not None:
            # To plan a pen is to book it.
            return True
        books, kept = allocator.books, tuple(ledger.left.values())
        last = allocator.roster.last_place(container)
        for one in kept:
            ledger.let_go(one.container_id)
        books.let_count(container, classified.rules, classified.placement)
        try:
            plan, _ = allocator.planner.plan(container, classified, last, allocator.occupancy)
        finally:
            books.withdraw(container_id)
            for one in kept:
                ledger.keep_left(one)
        return not isinstance(plan, Failure)

    @property
    def _ledger(self) -> Ledger:
        return self._allocator.books.ledger
