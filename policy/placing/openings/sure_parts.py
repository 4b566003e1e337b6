"""Parts of pools that have enough cpus for sure, or surely too few, without a look at each."""

from collections.abc import Mapping, Sequence
from functools import reduce

from ...books.cpu_ledger import Ledger
from ...model.request import Request
from ..judging.judgement import Judgement


def sure_parts(
    request: Request,
    judgement: Judgement,
    ledger: Ledger,
    parts: Mapping[int, Sequence[int]],
    regions: Sequence[int],
) -> Mapping[int, int]:
    """The only parts of pools that have whole cpus enough for sure, 0 of those that have not.

    By pool id. Looked at together: of a wide region there are hundreds.
    """
    if not request.exclusive or request.shared_milli:
        return {}
    if request.is_strict or request.wants_isolated:
        return {}
    everything = reduce(int.__or__, regions)
    masks, left = ledger.tree.masks, ledger.free_sharable
    if ledger.narrowed.is_empty:
        cuts = ledger.cuts_within(everything)
    else:
        # They are spare whatever pools promised, too.
        sure = everything & ledger.spare_cpus.sure
        cuts = list(map(int.bit_count, map(sure.__and__, left)))
    wanted, found = request.exclusive, dict[int, int]()
    enough = wanted + judgement.owed_at_most
    for pool_id, inside in parts.items():
        here = everything & masks[pool_id]
        if cuts[pool_id] >= enough and inside[0] == here:
            found[pool_id] = here
        elif (here & left[pool_id]).bit_count() < wanted:
            found[pool_id] = 0
    return found
