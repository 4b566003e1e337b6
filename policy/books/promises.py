"""Promises to those who share cpus: whether all are kept beside another grant.

Which cpus are kept for whom is chosen anew: `Ledger.slice` and what is owed to narrowed shares are
one choice of many.
"""

from collections.abc import Sequence

from ...topology.sets.cpuset import CpuSet
from ..model.grant import Grant, PoolId
from .cpu_ledger import Ledger


def keeps_promises(grant: Grant, ledger: Ledger, changed: Sequence[Grant] = ()) -> bool:
    """Whether nobody is left without a cpu, or with fewer than promised, as a grant is added.

    `changed`: other grants of some who share; their own cpus are the same. O(pools + grants).
    """
    own, free = grant.exclusive.mask, ledger.free_sharable
    if own & ~(free[-1] | ledger.free_isolated[-1]) or ledger.narrowed.alone_without(own, free[-1]):
        return False
    after = ledger.copy()
    after.add(grant)
    for one in changed:
        after.repool(one)
    if not (after.tree.root.reserved or after.free_sharable[-1]):
        # Somebody may come who asks for nothing.
        return False
    for pool in after.tree.pools:
        for one in after.sharing(pool.id).values():
            if _shared(one.within, pool.id, after):
                continue
            if one is grant or one in changed or _shared(one.within, pool.id, ledger):
                return False
    return after.spare_cpus.are_kept


def _shared(within: CpuSet | None, pool_id: PoolId, ledger: Ledger) -> int:
    free = ledger.free_sharable[pool_id]
    return free if within is None else free & within.mask
