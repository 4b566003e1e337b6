"""Parts of pools that have enough cpus for sure, or surely too few, without a look at each."""

from collections.abc import Mapping, Sequence
from functools import reduce

from ...books.cpu_ledger import Ledger
from ...model.request import Isolation, Request
from ..judging.judgement import Judgement


def sure_parts(
    request: Request,
    judgement: Judgement,
    ledger: Ledger,
    parts: Mapping[int, Sequence[int]],
    regions: Sequence[int],
) -> Mapping[int, int]:
    """The only parts of pools that have what is asked for for sure, 0 of those that have not.

    By pool id. Looked at together: of a wide region there are hundreds.
    """
    own, shared_milli = request.exclusive, request.shared_milli
    are_kept = not ledger.narrowed.is_empty and ledger.spare_cpus.are_kept
    if not request.total_milli or request.is_strict or request.isolation is Isolation.REQUIRED:
        return {}
    if request.may_take_isolated(ledger.free_isolated[-1]):
        return {}
    if shared_milli and not are_kept:
        # What is promised on a part of a pool is told one by one.
        return {}
    everything = reduce(int.__or__, regions)
    masks, left, milli_left = ledger.tree.masks, ledger.free_sharable, ledger.room.grantable_milli
    counts, enough = _counts(judgement, ledger, everything, own), own + -(-shared_milli // 1000)
    milli, found = 1000 * own + shared_milli, dict[int, int]()
    for pool_id, inside in parts.items():
        here = everything & masks[pool_id]
        if (here & left[pool_id]).bit_count() < own:
            found[pool_id] = 0
        elif are_kept and milli_left[pool_id] < milli:
            # Where all promises have room, no more is left of it, whoever moves on to where.
            found[pool_id] = 0
        elif counts[pool_id] >= enough and inside[0] == here:
            found[pool_id] = here
    return found


def _counts(judgement: Judgement, ledger: Ledger, cpus: int, own: int) -> Sequence[int]:
    """Of each pool a number of some cpus that may be taken for sure, whatever is owed."""
    counts, owed = _spare(ledger, cpus), judgement.owed_at_most if own else 0
    if not owed:
        return counts
    # Few of the cpus that may be owed are in one pool, or few are owed in all.
    beside = _spare(ledger, cpus & ~judgement.owed_ever)
    least = zip([one - owed for one in counts], beside, strict=True)
    return [some if some > other else other for some, other in least]


def _spare(ledger: Ledger, cpus: int) -> Sequence[int]:
    if ledger.narrowed.is_empty:
        return ledger.cuts_within(cpus)
    # They are spare whatever pools promised, too.
    sure = cpus & ledger.spare_cpus.sure
    return list(map(int.bit_count, map(sure.__and__, ledger.free_sharable)))
