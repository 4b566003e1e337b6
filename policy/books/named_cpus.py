"""Named cpus: whether pools can spare these very ones, as a claim or an older grant names them.

`Ledger.slice` chooses by itself which cpus pools keep for what they owe their shared containers.
"""

from ...topology.sets.cpuset import NO_CPUS, CpuSet
from ..model.grant import PoolId
from .cpu_ledger import Ledger


def claimed_part(claimed: CpuSet | None, ledger: Ledger) -> CpuSet:
    """The cpus of a claim that can be booked for its container; all of it as a rule.

    What is booked never takes the last cpus owed to shared containers: the environment that tells
    of a claim is written by whoever may create pods.
    """
    if not claimed:
        return NO_CPUS
    root = ledger.tree.root.id
    isolated = claimed.mask & ledger.free_isolated[root]
    sharable = claimed.mask & ledger.free_sharable[root]
    if not ledger.narrowed.is_empty:
        sharable = ledger.spare_cpus.settled(sharable, sharable.bit_count())
    elif not can_spare(sharable, root, ledger):
        sharable &= ledger.slice(root)
        if sharable.bit_count() > ledger.sliceable(root):
            return NO_CPUS
    return CpuSet(sharable | isolated)


def can_spare(cpus: int, pool_id: PoolId, ledger: Ledger) -> bool:
    """Whether these cpus of a pool may be taken, and all below have what they owe.

    O(pools inside).
    """
    masks = ledger.tree.masks
    if cpus & (~ledger.free_sharable[pool_id] | ledger.owed):
        return False
    inside = [PoolId(one) for one in ledger.tree.subtree(pool_id) if cpus & masks[one]]
    return all((cpus & masks[one]).bit_count() <= ledger.sliceable(one) for one in inside)


def left_of_share(cpus: CpuSet, milli: int, pool: str, ledger: Ledger) -> CpuSet:
    """The cpus of a share in a pool of this name that nobody has for itself by now.

    All of them where it cannot go on with those: none are left, its pool has no room for it, or it
    had others than sharable ones. O(pools) where others have some of its cpus, else O(1).
    """
    left = cpus.mask & ledger.free_sharable[-1]
    named = ledger.tree.named(pool)
    if left in (0, cpus.mask) or named is None or not cpus <= ledger.tree.root.sharable:
        return cpus
    is_room = not milli or ledger.room.grantable_milli[named.id] >= milli
    return CpuSet(left) if is_room else cpus
