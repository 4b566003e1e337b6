"""Candidates of decisions as the history keeps them: in lines of their own, and compressed.

A table takes longer to write, and is longer, than all the rest of a decision. So those of granted
containers are written once they have stayed for a while: most of what a busy node starts is gone
again by then.
"""

import zlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec

from ....policy.placing.lineup import Lineup
from ..documents import CandidateDocument
from .candidate_table import candidate_table, parse_candidates

_COMPRESSION: Final = 1
_WINDOW_BITS: Final = 13
_MEMORY_LEVEL: Final = 6
"""A table is some kilobytes: a quarter of a megabyte, as by default, would be had from the kernel
and given back for each. Source: zlib's manual, `deflateInit2`."""
_TREES: Final = 2
"""Pool trees at a time whose names are kept: of more there are decisions after a reload alone."""
_TABLE_BYTES_MAX: Final = 1 << 22
_BEGIN: Final = b'{"candidates_of":"'


class SavedCandidates(msgspec.Struct, frozen=True, kw_only=True):
    """The pools that a container was held against. The struct is the format of a line.

    It lacks what every decision has: versions that know no such lines pass over them.
    """

    candidates_of: str
    """The container's id; the first field, by which the line is found."""
    at: float
    """When that was decided, as the decision's own line says."""
    ranks: bytes
    pools: bytes

    def documents(self) -> tuple[CandidateDocument, ...]:
        """The pools one by one. Raises `ValueError`, `zlib.error`."""
        return candidate_documents(self.ranks, self.pools)


def saved_candidates(container_id: str, at: float, lineup: Lineup) -> SavedCandidates:
    """The candidates of a decision that was made then. O(pools x criteria)."""
    return SavedCandidates(
        candidates_of=container_id,
        at=at,
        ranks=compressed_ranks(lineup),
        pools=compressed_names(lineup),
    )


def parse_candidates_line(line: bytes, container_id: str = "") -> SavedCandidates | None:
    """The candidates in a line, of one container or of any; None where it is another line."""
    if not line.startswith(_BEGIN + container_id.encode()):
        return None
    try:
        found = msgspec.json.decode(line, type=SavedCandidates)
        found.documents()
    except (ValueError, RecursionError, zlib.error):
        return None
    return found


def candidates_by_decision(
    found: Iterable[SavedCandidates | None],
) -> dict[tuple[str, float], SavedCandidates]:
    """Candidates by the container and the moment of their decision."""
    return {(one.candidates_of, one.at): one for one in found if one is not None}


def compressed_ranks(lineup: Lineup) -> bytes:
    """A lineup's candidates, as JSON and compressed. O(pools x criteria)."""
    compressor = zlib.compressobj(_COMPRESSION, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL)
    text = msgspec.json.encode(candidate_table(lineup))
    return compressor.compress(text) + compressor.flush()


def compressed_names(lineup: Lineup) -> bytes:
    """The names of a lineup's candidates, as JSON and compressed."""
    return _compressed_names(tuple(lineup.names))


@lru_cache(_TREES)
def _compressed_names(names: tuple[str, ...]) -> bytes:
    return zlib.compress(msgspec.json.encode(names))


def candidate_documents(ranks: bytes, pools: bytes) -> tuple[CandidateDocument, ...]:
    """The pools one by one, of both as they were compressed. Raises `ValueError`, `zlib.error`."""
    text, names = (zlib.decompressobj().decompress(one, _TABLE_BYTES_MAX) for one in (ranks, pools))
    return parse_candidates(text, names)
