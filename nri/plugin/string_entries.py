"""Maps of texts in messages, of which only the entries that count are read.

Nobody bounds how many labels and annotations a pod has. Protobuf's own maps take longer for each
entry the more there are; as a list of bytes they cost next to nothing until they are looked at.
Source: the protocol buffers' encoding guide, "Maps": an entry is a message of key and value.
"""

import heapq
import re
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final

from google.protobuf.message import DecodeError

from ...policy.annotations.annotation_budget import ANNOTATIONS_MAX
from ...policy.rules.container_facts import KUBELET_LABELS
from ...policy.rules.label_budget import LABELS_MAX
from ..api import nri_pb2

READ_MAX: Final = 4096
"""So many entries are looked at one by one; of more labels, the shortest keys are read."""

NAMES_MAX: Final = 2 * ANNOTATIONS_MAX
"""So often a name like ours may stand in a pod's annotations; beyond that none of them is read."""

_NAMES: Final = (b"resource", b"pinfold", b"nri")
"""What the keys have that `annotation_budget.is_ours`; also some values, which does no harm."""

_OURS: Final = re.compile(b"|".join(_NAMES))
_KUBELETS: Final = re.compile(
    b"|".join(re.escape(b"\n%c%b" % (len(key), key.encode())) for key in KUBELET_LABELS)
)
"""Beginnings of entries with the kubelet's keys. Others' may begin with `io.kubernetes.` too."""


def write_entries(texts: Mapping[str, str]) -> list[bytes]:
    """A map as the entries of a message."""
    return [
        nri_pb2.StringEntry(key=key, value=value).SerializeToString()
        for key, value in texts.items()
    ]


def read_entries(entries: Iterable[bytes]) -> dict[str, str]:
    """The map that entries are of, without those that are malformed; the last of a key counts."""
    found: dict[str, str] = {}
    for one in entries:
        try:
            entry = nri_pb2.StringEntry.FromString(one)
        except DecodeError:
            continue
        found[entry.key] = entry.value
    return found


def decode_annotations(entries: Sequence[bytes]) -> tuple[dict[str, str], int]:
    """The annotations of a pod that may be for us; if there are too many, none, and how many.

    O(entries).
    """
    if len(entries) <= READ_MAX:
        ours = list(filter(_OURS.search, entries))
        is_flood = len(ours) > NAMES_MAX
    else:
        every = [*entries]
        text = b"".join(every)
        is_flood = sum(map(text.count, _NAMES)) > NAMES_MAX
        ours = [] if is_flood else _found(every, text, _OURS)
    return ({}, len(entries)) if is_flood else (read_entries(ours), 0)


def _found(entries: list[bytes], text: bytes, names: re.Pattern[bytes]) -> list[bytes]:
    """The entries with one of a few names; `text`: all of them together."""
    starts = [match.start() for match in names.finditer(text)]
    if not starts:
        return []
    ends = list(accumulate(map(len, entries)))
    # No name is made of two entries: each begins with the tag of a field, which no name has.
    return [entries[one] for one in sorted({bisect(ends, start) for start in starts})]


def decode_labels(entries: Sequence[bytes]) -> tuple[dict[str, str], int]:
    """The labels of a pod that may count, the kubelet's among them, and how many were left out.

    O(entries).
    """
    if len(entries) <= READ_MAX:
        return read_entries(entries), 0
    every = [*entries]
    # An entry at a time takes longer than all else here.
    kept = {*_found(every, b"".join(every), _KUBELETS), *_smallest(LABELS_MAX, every)}
    return read_entries(sorted(kept)), len(every) - len(kept)


def _smallest(count: int, entries: list[bytes]) -> list[bytes]:
    # A map of Go comes in an order that nobody can choose; falling entries would each be taken for
    # a while.
    return heapq.nsmallest(count, reversed(entries) if entries[0] > entries[-1] else entries)
