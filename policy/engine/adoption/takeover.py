"""Takeovers: allocators that adopt what others held, each container on what it was told."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...model.container import Container, ContainerId
from ...model.instances import Listed
from ...model.pinning import changed, difference
from ...pools.pool_tree import PoolTree
from ..advice import Advice, Usability
from ..allocator import Allocator
from ..decision import Adopted, Decision, carried_over, with_repetition
from ..left_cpus import LeftCpus
from ..missed_resizes import MissedResizes
from ..restoring.restoration import hold_again
from ..snapshot import Snapshot
from ..stuck_containers import StuckContainers
from ..unmet.lost_rules import UnmetNames
from .adopted_container import left_alone
from .readoption import catch_up, readopted


class Remembered(Struct, frozen=True, kw_only=True):
    """Memories of containers as they are adopted: advice, and decisions."""

    advice: Mapping[ContainerId, Advice]
    decisions: Mapping[ContainerId, Decision]
    tree: PoolTree
    """The pools by which these were made."""


def adopted_all(
    allocator: Allocator, containers: Iterable[Container], remembered: Remembered
) -> tuple[Allocator, Adopted]:
    """The allocator that has adopted what a runtime lists, see `readopted`; and what came of it.

    Earlier decisions are carried over, where pools are the same and as far as they still hold; cpus
    that can be used again are given to those that miss some. Who differs from its pinning changes.
    """
    listed, advice, unread = Listed.of(containers), remembered.advice, allocator.roster.unread
    faults = {one.id: [unread[one.id]] for one in listed.running if one.id in unread}
    allocator = readopted(allocator, listed.running, advice, faults)
    is_same_tree = allocator.books.tree.has_pools_of(remembered.tree)
    decisions, missed = allocator.roster.decisions, MissedResizes(allocator)
    for one in listed.running:
        before, hint = remembered.decisions.get(one.id), advice.get(one.id)
        decision = carried_over(decisions[one.id], before, hint, is_same_tree=is_same_tree)
        if missed.is_due(one, hint):
            # Until that is made the next list is to show it, too.
            milli = hint.cpu_request_milli if hint is not None else None
            decision = replace(decision, placed_for_milli=milli or 0)
        if one.id in listed.repeated:
            decision = with_repetition(decision, one, listed.repeated[one.id])
        allocator.carry_over(decision)
    allocator.unmet.refresh_all()
    usability = Usability.since(advice.values(), allocator.books.supply)
    if usability.freed or usability.is_reserved:
        catch_up(allocator, usability.freed)
    stuck = StuckContainers(allocator)
    if stuck.cpus or any(one.leaving for one in advice.values()):
        stuck.look_again()
    told = allocator.books.pinner.told
    changes = (difference(one, told(one.id)) for one in listed.running)
    return allocator, Adopted(
        decisions=tuple(decisions[one.id] for one in listed.running),
        changes=tuple(filter(None, changes)),
        faults={one: errors[-1] for one, errors in faults.items()},
    )


def synchronized(
    allocator: Allocator,
    containers: Sequence[Container],
    remembered: Remembered,
    completed: Callable[[Container], Container],
) -> tuple[Allocator, Adopted]:
    """The allocator that knows what a runtime lists, and nobody else; and what came of it.

    `completed`: gives containers what central rules have for them. Where a fault shows with which
    no single container has to do, all are left as they run: told nothing, and cpus that seem to be
    one's own are nobody else's.
    """
    try:
        for container_id in tuple(allocator.roster.containers):
            allocator.forget(container_id)
        StuckContainers(allocator).hold({})
        running = map(completed, containers)
        return adopted_all(allocator, running, remembered)
    except Exception as fault:
        allocator = allocator.anew()
        decisions = left_alone(allocator, Listed.of(containers).running, remembered.advice, fault)
        return allocator, Adopted(decisions=decisions, changes=(), faults={}, fault=fault)


def recovered(
    half: Allocator, before: Snapshot, completed: Callable[[Container], Container]
) -> tuple[Allocator, Adopted]:
    """The allocator that has adopted what one held whose books a fault of ours left half changed.

    Where another fault shows in that, it holds what was held, and nothing else is looked at.
    """
    try:
        allocator = half.anew()
        allocator.roster.recall_places(half.roster)
        return taken_over(allocator, before, completed)
    except Exception as fault:
        allocator = half.anew()
        allocator.roster.recall_places(half.roster)
        changes = hold_again(before, allocator.books, allocator.roster)
        decisions = tuple(allocator.roster.decisions.values())
        return allocator, Adopted(decisions=decisions, changes=changes, faults={}, fault=fault)


def taken_over(
    allocator: Allocator,
    before: Snapshot,
    completed: Callable[[Container], Container],
    unmet_names: UnmetNames | None = None,
) -> tuple[Allocator, Adopted]:
    """The allocator that has adopted what another one held; and what came of it.

    `completed`: gives containers what central rules have for them. `unmet_names`: by which what is
    lost since is told.
    """
    allocator.books.inherit(before.memory_look, before.due_dram)
    running, told = before.running(), before.pinnings
    remembered = Remembered(
        advice=before.advice(allocator.books.config),
        decisions=before.decisions,
        tree=before.tree,
    )
    allocator, found = adopted_all(allocator, map(completed, running), remembered)
    if unmet_names is not None:
        allocator.unmet.lost.look_at_all(unmet_names, allocator.unmet.look())
    LeftCpus(allocator).take_over(before)
    allocator.unmet.look_at_postponed()
    now = allocator.books.pinner.told
    changes = (changed(one.id, told.get(one.id), now(one.id)) for one in running)
    return allocator, Adopted(
        decisions=tuple(allocator.roster.decisions.values()),
        changes=tuple(filter(None, changes)),
        faults=found.faults,
    )
