"""Maps of texts in messages, of which only the entries that count are read.

Nobody bounds how many labels and annotations a pod has. Protobuf's own maps take longer for each
entry the more there are; as a list of bytes they cost next to nothing until they are looked at.
Source: the protocol buffers' encoding guide, "Maps": an entry is a message of key and value.
"""

import heapq
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from google.protobuf.message import DecodeError

from ...policy.annotations.annotation_budget import ANNOTATIONS_MAX
from ...policy.rules.label_budget import LABELS_MAX
from ..api import nri_pb2

READ_MAX: Final = 4096
"""So many entries are read if need be; of more, the shortest keys."""

_OURS: Final = re.compile(rb"resource|pinfold|nri")
"""What the keys have that `annotation_budget.is_ours`; also some values, which does no harm."""

_KUBELETS: Final = re.compile(rb"..?io\.kubernetes\.", re.DOTALL)


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


def read_annotations(entries: Sequence[bytes]) -> tuple[dict[str, str], int]:
    """The annotations of a pod that may be for us, and how many of those were left out.

    O(entries).
    """
    ours = list(filter(_OURS.search, entries))
    left_out = 0
    if len(ours) > READ_MAX:
        left_out = len(ours) - ANNOTATIONS_MAX
        # An entry begins with the length of its key.
        ours = _smallest(ANNOTATIONS_MAX, ours)
    return read_entries(ours), left_out


def read_labels(entries: Sequence[bytes]) -> tuple[dict[str, str], int]:
    """The labels of a pod that may count, the kubelet's among them, and how many were left out.

    O(entries).
    """
    if len(entries) <= READ_MAX:
        return read_entries(entries), 0
    every = [*entries]
    kept = {*filter(_KUBELETS.match, every), *_smallest(LABELS_MAX, every)}
    return read_entries(sorted(kept)), len(every) - len(kept)


def _smallest(count: int, entries: list[bytes]) -> list[bytes]:
    # A map of Go comes in an order that nobody can choose; falling entries would each be taken for
    # a while.
    return heapq.nsmallest(count, reversed(entries) if entries[0] > entries[-1] else entries)
