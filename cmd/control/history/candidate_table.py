"""Candidates of a decision as JSON: the text that their documents would give, made without these.

A large machine has hundreds of pools, each with dozens of criteria. Most criteria are one number
for all pools: such numbers are written into the form of a line once, and the others filled in.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec

from ....policy.placing.lineup import Lineup
from ....policy.placing.rank import CRITERIA, Rank
from ..documents import CandidateDocument, DroppedDocument

_LAST: Final = len(CRITERIA) - 1
"""The pool's id, in which no two ranks are alike."""


def candidate_table(lineup: Lineup) -> bytes:
    """JSON of the candidates: by their rank, then those that were dropped. O(pools x criteria)."""
    contest, objections = lineup.contest, lineup.objections()
    names = _encoded(tuple(lineup.names))
    form, columns = list[str](), list[Sequence[int]]()
    for number, (name, criterion) in enumerate(zip(Rank._fields, CRITERIA, strict=True)):
        column = criterion(contest, contest.ids)
        if number < _LAST and (column is contest.zeros or column.count(column[0]) == len(column)):
            form.append(f'"{name}":{column[0]}')
        else:
            form.append(f'"{name}":%d')
            columns.append(column)
    line = f'{{"pool":%s,"rank":{{{",".join(form)}}},"dropped":null}}'
    # What all have in common changes nothing in their order.
    rows = sorted([row for row in zip(*columns, strict=True) if row[-1] not in objections])
    lines = [line % (names[row[-1]], *row) for row in rows]
    for pool_id, one in objections.items():
        dropped = DroppedDocument(
            criterion=one.criterion, wanted=one.wanted, available=one.available
        )
        document = CandidateDocument(pool=lineup.names[pool_id], rank=None, dropped=dropped)
        lines.append(msgspec.json.encode(document).decode())
    return f"[{','.join(lines)}]".encode()


@lru_cache(maxsize=2)
def _encoded(names: tuple[str, ...]) -> Sequence[str]:
    """The names of all pools as JSON; every decision on one machine has the same ones."""
    return tuple([msgspec.json.encode(name).decode() for name in names])
