"""Making room for exclusive cpus by lifting shared containers into wider pools.

Every pool that has promised any share keeps a whole cpu for it, so shares spread thinly over many
pools can leave nothing to slice although far fewer cpus than there are were asked for. The kubelet
counts cpus for the whole node: what fits there must fit here. A lifted container runs on more cpus
than before and keeps its memory.
"""

from collections.abc import Callable, Collection

from msgspec import Struct
from msgspec.structs import replace

from ..books.cpu_ledger import Ledger
from ..model.container import ContainerId
from ..model.grant import Grant, PoolId
from ..model.request import Isolation, Request
from ..pools.pool_tree import PoolTree


class Lift(Struct, frozen=True, kw_only=True):
    """A pool with room after some grants were moved up to it."""

    pool_id: PoolId
    lifted: tuple[Grant, ...]
    """The grants as they will be; all others stay."""
    ledger: Ledger
    """What a ledger looks like then; the newcomer's cpus are still in it."""
    may_drive_out: bool
    """Whether those who asked for no cpu may be left none of their pool."""


def make_room(
    request: Request,
    ledger: Ledger,
    pools: tuple[PoolId, ...],
    is_bound: Callable[[ContainerId], bool] | None = None,
    spared: Collection[ContainerId] = (),
) -> Lift | None:
    """The tightest of `pools` that has room once grants below it are lifted; None if none has.

    `is_bound`: whether rules hold a container or a pen where it is; without it they hold nobody.
    `spared`: those who keep a cpu though they asked for none.

    Only where nothing fits otherwise: O(pools x grants).
    """
    if not request.exclusive or request.isolation is Isolation.REQUIRED:
        return None
    tree = ledger.tree
    for pool_id in sorted(pools, key=lambda one: (-tree.pools[one].depth, one)):
        lift = _lift(request, ledger, tree, pool_id, is_bound, spared)
        if lift is not None:
            return lift
    return None


def _lift(
    request: Request,
    ledger: Ledger,
    tree: PoolTree,
    pool_id: PoolId,
    is_bound: Callable[[ContainerId], bool] | None,
    spared: Collection[ContainerId],
) -> Lift | None:
    if ledger.room.grantable_milli[pool_id] < request.total_milli:
        return None
    below = [
        grant
        for inner in tree.subtree(pool_id)
        if inner != pool_id
        for grant in ledger.sharing(PoolId(inner)).values()
        if not grant.is_strict and not (is_bound and is_bound(grant.container_id))
    ]
    # Where rules hold everybody there is nothing to try on a copy.
    may_spare = bool(tree.root.reserved) and _is_any_unasking(ledger)
    if not (below or may_spare or _fits(request, ledger, pool_id)):
        return None
    trial = ledger.copy()
    lifted: list[Grant] = []
    # Small shares first: they give back the most whole cpus for the least that is promised above.
    for grant in sorted(below, key=lambda one: (one.shared_milli, one.container_id)):
        if _fits(request, trial, pool_id):
            break
        wider = replace(grant, pool_id=pool_id)
        trial.repool(wider)
        lifted.append(wider)
    may_drive_out = not _fits(request, trial, pool_id)
    if may_drive_out:
        if not may_spare:
            return None
        # At last no cpu is spared for who asked for none: they run on those of wider pools.
        # Where it is tried who makes room, some of those others have left, too.
        held = [one for one in spared if one in trial.grants or one in trial.pens]
        trial.spare_only(held)
        if not _fits(request, trial, pool_id):
            return None
    if not trial.narrowed.is_empty:
        count, free = request.exclusive, trial.free_sharable[pool_id]
        if trial.spare_cpus.takeable(free, count).bit_count() < count:
            return None
        if not trial.spare_cpus.grants(free, count, request.shared_milli):
            return None
    return Lift(pool_id=pool_id, lifted=tuple(lifted), ledger=trial, may_drive_out=may_drive_out)


def _is_any_unasking(ledger: Ledger) -> bool:
    """Whether somebody asked for no cpu, for whom one is kept all the same."""
    return ledger.room.shared_milli != ledger.room.grantable_milli


def _fits(request: Request, ledger: Ledger, pool_id: PoolId) -> bool:
    room = ledger.room
    left = room.grantable_milli[pool_id] - 1000 * request.exclusive
    return ledger.sliceable(pool_id) >= request.exclusive and left >= request.shared_milli
