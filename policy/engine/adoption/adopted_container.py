"""Adopted containers: single ones that run already, booked with what they have.

A fault of ours with one of them is laid to that one, and to no other.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ....topology.sets.cpuset import NO_CPUS, CpuSet, NodeSet
from ...annotations.preferences import parse_preferences
from ...hints.hint_place import resolve
from ...model.container import Container, ContainerId
from ...model.grant import Grant, Refusal
from ...model.hint import Hint, HintOrigin
from ...model.request import CpuType, Request
from ...pens.pen_name import wished_pen
from ...placing.classifier import Classified, request_as_it_runs
from ..advice import Advice
from ..allocator import Allocator
from ..decision import KEPT, Decision, fault_problem, is_left_alone
from ..stuck_containers import StuckContainers, placed_away, placed_running
from .adopted_grant import adopted_grant, kept_grant, overlaps_of


class FaultyContainerError(Exception):
    """A fault of ours with one container; what is booked may be half a change."""

    def __init__(self, container_id: ContainerId, error: Exception) -> None:
        super().__init__(container_id, error)
        self.container_id = container_id
        self.error = error


class Blame(Struct, frozen=True):
    """The container that whatever goes wrong meanwhile is put down to."""

    container: Container

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        # The one place in the policy that catches everything: what strangers write about one
        # container must never keep the others from being known, for their exclusive cpus would be
        # given away. Whoever catches it reports it, and starts with new books.
        if isinstance(error, Exception):
            raise FaultyContainerError(self.container.id, error) from error


def adopt_alone(allocator: Allocator, container: Container, advice: Advice | None) -> Decision:
    """The decision about a container that runs already, beside others that are known."""
    stuck, roster = StuckContainers(allocator), allocator.roster
    classified, others = allocator.know(container), allocator.books.pinner.told_cpus
    is_penned, before = allocator.pens.name_of(container, classified) is not None, stuck.cpus
    # Where it runs it stays, whoever is stuck there.
    stuck.hold({})
    is_kept = not is_penned and adopt(allocator, container, classified.request, others, advice)
    stuck.hold(before)
    if not is_kept:
        return placed_running(allocator, container, near_memory(container, allocator))
    decision = roster.decisions[container.id] = stuck.told(_settled_alone(allocator, container))
    return decision


def adopt(
    allocator: Allocator, container: Container, request: Request, others: int, advice: Advice | None
) -> bool:
    """Book what a running container has; False where that is nothing legal."""
    grant = adopted_grant(container, request, allocator.books, others, advice)
    if grant is None:
        return False
    grant, pinning = allocator.books.adopt(container, request, grant)
    classified = allocator.roster.classified[container.id]
    asked = classified.request.exclusive
    missing = asked - len(grant.exclusive)
    decision = allocator.roster.decisions[container.id] = Decision(
        container_id=container.id,
        result=grant,
        pool=allocator.books.tree.pools[grant.pool_id].name,
        pinning=pinning,
        decided_by=KEPT,
        cold_start_ns=0 if allocator.books.has_dram(grant.memory) else request.cold_start_ns,
        degraded=f"{missing} of {asked} exclusive CPUs are missing" if missing > 0 else "",
        problems=classified.problems,
    )
    if request.claimed:
        allocator.roster.with_shortfall(decision)
    return True


def _settled_alone(allocator: Allocator, container: Container) -> Decision:
    """The decision about the one container that was adopted, with what follows for others."""
    books, unmet = allocator.books, allocator.unmet
    allocator.heed_rules(container, is_alone=True)
    changes = books.pinner.changes(container.id)
    # It may have the last cpu of those who shared it, and are lent others now.
    unmet.note_moves(changes)
    unmet.look_at_displaced()
    unmet.refresh_moved(container.id, changes)
    unmet.look_at_postponed()
    decision = replace(allocator.roster.decisions[container.id], changes=changes)
    allocator.roster.decisions[container.id] = decision
    return decision


def keep(
    allocator: Allocator,
    container: Container,
    others: int,
    advice: Advice | None,
    fault: Exception,
    pens: CpuSet = NO_CPUS,
) -> None:
    """Let a running container be, because we are at fault with it.

    It is told nothing; cpus that are its own alone are nobody else's. `pens`: see `beside_pens`.
    """
    request = request_as_it_runs(container)
    problems = (fault_problem(container, fault),)
    classified = Classified(request=request, rules=(), problems=problems)
    allocator.roster.add(container, classified)
    # To the rules of others it is there: whoever looks at all that hold something finds it.
    allocator.books.let_count(container, classified.rules, classified.placement)
    hint = beside_pens(advice, pens)
    grant = kept_grant(container, request, allocator.books.ledger, others, hint)
    grant, pinning = allocator.books.adopt(container, request, grant)
    allocator.roster.decisions[container.id] = Decision(
        container_id=container.id,
        result=grant,
        pool=allocator.books.tree.pools[grant.pool_id].name,
        pinning=pinning,
        decided_by=KEPT,
        degraded=problems[0].what,
        problems=problems,
        fault=repr(fault),
        remembered=advice,
    )


def left_alone(
    allocator: Allocator,
    running: Sequence[Container],
    advice: Mapping[ContainerId, Advice],
    fault: Exception,
) -> tuple[Decision, ...]:
    """The decisions about containers that are let be, all of them, because we are at fault."""
    others = overlaps_of({one.id: (one.cpus or NO_CPUS).mask for one in running})
    for container in running:
        try:
            keep(allocator, container, others[container.id], advice.get(container.id), fault)
        except Exception as another:
            leave_out(allocator, container, another)
    StuckContainers(allocator).hold(cpus_left_alone(allocator, running))
    return tuple(allocator.roster.decisions[one.id] for one in running)


def cpus_left_alone(
    allocator: Allocator, running: Sequence[Container]
) -> Mapping[ContainerId, int]:
    """Masks of the cpus of those that are let be: nobody takes them off what they share."""
    decisions, grants = allocator.roster.decisions, allocator.books.ledger.grants
    left = [one for one in running if one.id in grants and is_left_alone(decisions.get(one.id))]
    return {one.id: one.cpus.mask for one in left if one.cpus}


def beside_pens(advice: Advice | None, pens: CpuSet) -> Advice | None:
    """The advice for one that is let be, and was in a pen: there is none any more beside `pens`.

    Of all that are let be the first of each such pen keeps what is nobody's slice.
    """
    if advice is None or not advice.rest - pens:
        return advice
    return replace(advice, exclusive=advice.exclusive | (advice.rest - pens))


def stays_on_reserved(allocator: Allocator, container: Container) -> bool:
    """Whether a container that shares reserved cpus stays there, as a rule refuses it elsewhere.

    Nobody remembers by then why it is there.
    """
    books, classified = allocator.books, allocator.roster.classified[container.id]
    root, request = books.tree.root, classified.request
    cpus = (container.cpus or NO_CPUS) & root.cpus
    is_shared = request.cpu_type is CpuType.NORMAL and not request.exclusive
    if not (cpus and cpus <= root.reserved and is_shared and books.standing.rules):
        return False
    if wished_pen(container, parse_preferences(container)) is not None:
        return False
    decision = placed_away(allocator, container, classified)
    if isinstance(decision.result, Grant):
        allocator.conclude(decision)
        return True
    books.let_count(container, classified.rules, classified.placement)
    advice = Advice(pool=root.name, within=root.reserved)
    if not adopt(allocator, container, request, 0, advice):
        return False
    allocator.heed_rules(container)
    return True


def leave_out(allocator: Allocator, container: Container, fault: Exception) -> None:
    """Know of a container that cannot even be left as it runs; nothing is booked for it."""
    problem = fault_problem(container, fault)
    allocator.roster.leave_out(
        container,
        Decision(
            container_id=container.id,
            result=Refusal(reason=problem.what),
            problems=(problem,),
            fault=repr(fault),
        ),
    )


def near_memory(container: Container, allocator: Allocator) -> Classified:
    """Demand of a known container for cpus near the memory nodes that it is restricted to.

    Its pages stay where they are then, and need not be copied. Hints of its own alone count where
    it has some, and memory on all nodes says nothing.
    """
    classified, machine = allocator.roster.classified[container.id], allocator.books.machine
    nodes = container.mems
    everywhere = NodeSet.collect(one.id for one in machine.numa_nodes if one.memory_bytes != 0)
    if not nodes or everywhere <= nodes or classified.request.hints:
        return classified
    hint = Hint(provider="its memory", origin=HintOrigin.MEMORY, numa_nodes=nodes & everywhere)
    near, _ = resolve(hint, machine, container.path)
    if near is None:
        return classified
    return replace(classified, request=_with_hint(classified.request, near))


def _with_hint(request: Request, hint: Hint) -> Request:
    """The request with a hint, for whatever it falls back to as well."""
    less = request.fallback
    return replace(
        request, hints=(hint,), fallback=None if less is None else _with_hint(less, hint)
    )
