"""Candidates of a decision as the history keeps them: by criterion; as documents, when asked for.

A large machine has hundreds of pools, each with dozens of criteria, and most criteria are one
number for all pools. A document of each pool would be eight times as long, and few are looked at.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Final

import msgspec
from msgspec import Struct

from ....policy.placing.choice import speaking
from ....policy.placing.lineup import Lineup
from ....policy.placing.rank import CRITERIA, Rank, with_shared
from ..documents import CandidateDocument, DroppedDocument

_ID: Final = Rank._fields[-1]
"""The pool's id, which every table would have."""
_VALUES_MAX: Final = 1 << 19
"""Of all pools and criteria: thirty times as many as 4096 cpus have."""


class CandidateTable(Struct, frozen=True, kw_only=True):
    """All pools, by their ids. The struct is the format in which it is kept."""

    pools: Sequence[str]
    """Their names."""
    ranks: Mapping[str, int | Sequence[int]]
    """Values by criterion, in the criteria's order; one number where all pools have it.

    Without the last one, the pool's id: tables of older versions have it, too.
    """
    dropped: Mapping[int, DroppedDocument]
    """By pool id; all others have a rank."""

    def documents(self) -> tuple[CandidateDocument, ...]:
        """The pools by their rank, then those that were dropped. O(pools x criteria).

        Raises `ValueError` where columns have other lengths than there are pools, and for too many
        values: one number for all pools is short, however many they are.
        """
        count = len(self.pools)
        if count * len(self.ranks) > _VALUES_MAX:
            raise ValueError(f"more than {_VALUES_MAX} values of criteria")
        columns = [
            repeat(column, count) if isinstance(column, int) else column
            for column in self.ranks.values()
        ]
        rows = zip(range(count), zip(*columns, strict=True), strict=True)
        ranked = sorted([(row, one) for one, row in rows if one not in self.dropped])
        return (
            *(
                CandidateDocument(
                    pool=self.pools[one],
                    rank={**dict(zip(self.ranks, row, strict=True)), _ID: one},
                    dropped=None,
                )
                for row, one in ranked
            ),
            *(
                CandidateDocument(pool=self.pools[one], rank=None, dropped=dropped)
                for one, dropped in sorted(self.dropped.items())
                if one in range(count)
            ),
        )


def candidate_table(lineup: Lineup) -> CandidateTable:
    """The table of a lineup. O(pools x criteria)."""
    objections = lineup.objections()
    # Many pools are dropped for the same reason.
    documents = {
        found: DroppedDocument(
            criterion=found.criterion, wanted=found.wanted, available=found.available
        )
        for found in set(objections.values())
    }
    return CandidateTable(
        pools=lineup.names,
        ranks=dict(_columns(lineup)),
        dropped={one: documents[found] for one, found in objections.items()},
    )


def parse_candidates(text: bytes) -> tuple[CandidateDocument, ...]:
    """The documents of a table that was kept as JSON. Raises `ValueError`."""
    return msgspec.json.decode(text, type=CandidateTable).documents()


def _columns(lineup: Lineup) -> Iterator[tuple[str, int | Sequence[int]]]:
    contest = with_shared(lineup.contest)
    telling = {name for name, _ in speaking(contest)}
    for name, criterion in zip(Rank._fields[:-1], CRITERIA[:-1], strict=True):
        if name not in telling:
            yield name, criterion(contest, contest.ids[:1])[0]
            continue
        column = criterion(contest, contest.ids)
        first = column[0]
        # As a rule the last pool, which is the whole machine, differs from the first one.
        is_same = column is contest.zeros or (
            first == column[-1] and column.count(first) == len(column)
        )
        yield name, first if is_same else list(column)
