"""Candidates of a decision as the history keeps them: by criterion; as documents, when asked for.

A large machine has hundreds of pools, each with dozens of criteria, and most criteria are one
number for all pools. A document of each pool would be eight times as long, and few are looked at.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, repeat
from typing import Final

import msgspec
from msgspec import Struct

from ....policy.model.grant import Dropped
from ....policy.placing.columns import columns
from ....policy.placing.lineup import Lineup
from ....policy.placing.rank import Rank
from ..documents import CandidateDocument, DroppedDocument

_ID: Final = Rank._fields[-1]
"""The pool's id, which every table would have."""
_VALUES_MAX: Final = 1 << 19
"""Of all pools and criteria: thirty times as many as 4096 cpus have."""


class DroppedPools(Struct, frozen=True, kw_only=True):
    """Pools that were dropped for the same reason."""

    reason: DroppedDocument
    pools: Sequence[int]
    """Their ids."""


class CandidateTable(Struct, frozen=True, kw_only=True):
    """All pools, by their ids. The struct is the format in which it is kept.

    Their names are kept beside it: they are the same for all decisions, and as long as the rest.
    """

    ranks: Mapping[str, int | Sequence[int]]
    """Values by criterion, in the criteria's order; one number where all pools have it.

    Without the last one, the pool's id.
    """
    dropped: Sequence[DroppedPools]
    """All other pools have a rank."""

    def documents(self, names: Sequence[str]) -> tuple[CandidateDocument, ...]:
        """The pools by their rank, then those that were dropped. O(pools x criteria).

        `names`: of the pools. Raises `ValueError` where columns have other lengths than there are
        pools, and for too many values: one number for all pools is short, however many they are.
        """
        count = len(names)
        dropped = {one: group.reason for group in self.dropped for one in group.pools}
        if count * len(self.ranks) > _VALUES_MAX:
            raise ValueError(f"more than {_VALUES_MAX} values of criteria")
        columns = [
            repeat(column, count) if isinstance(column, int) else column
            for column in self.ranks.values()
        ]
        rows = zip(range(count), zip(*columns, strict=True), strict=True)
        ranked = sorted([(row, one) for one, row in rows if one not in dropped])
        return (
            *(
                CandidateDocument(
                    pool=names[one],
                    rank={**dict(zip(self.ranks, row, strict=True)), _ID: one},
                    dropped=None,
                )
                for row, one in ranked
            ),
            *(
                CandidateDocument(pool=names[one], rank=None, dropped=dropped[one])
                for one in sorted(dropped)
                if one in range(count)
            ),
        )


def candidate_table(lineup: Lineup) -> CandidateTable:
    """The table of a lineup. O(pools x criteria)."""
    # Many pools are dropped for the same reason.
    groups: dict[Dropped, list[int]] = {}
    for one, found in lineup.objections().items():
        groups.setdefault(found, []).append(one)
    return CandidateTable(
        ranks=dict(_columns(lineup)),
        dropped=[
            DroppedPools(
                reason=DroppedDocument(
                    criterion=found.criterion, wanted=found.wanted, available=found.available
                ),
                pools=pools,
            )
            for found, pools in groups.items()
        ],
    )


def parse_candidates(text: bytes, names: bytes) -> tuple[CandidateDocument, ...]:
    """The documents of a table, and names of pools, that were kept as JSON. Raises `ValueError`."""
    table = msgspec.json.decode(text, type=CandidateTable)
    return table.documents(msgspec.json.decode(names, type=tuple[str, ...]))


def _columns(lineup: Lineup) -> Iterator[tuple[str, int | Sequence[int]]]:
    for name, column in islice(columns(lineup.contest), len(Rank._fields) - 1):
        first = column[0]
        # As a rule the last pool, which is the whole machine, differs from the first one.
        is_same = first == column[-1] and column.count(first) == len(column)
        yield name, first if is_same else list(column)
