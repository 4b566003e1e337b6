"""The values of annotations about cpu quota and memory bandwidth, and how each is read."""

import enum

from ...topology.sets.base_errors import quoted
from ..model.cpu_preference import QuotaUse
from ..text.suggestion import suggestion
from ..text.yaml_nodes import TextError


class MemoryUse(enum.Enum):
    """The way in which a container's memory lies on its memory nodes."""

    INTERLEAVE = "interleave"
    """Page by page on all nodes in turn, for the bandwidth of all of them."""


def parse_quota_use(text: str) -> QuotaUse:
    """The fate of the quota of a container that has its cpus for itself."""
    for use in QuotaUse:
        if use.value == text.strip().lower():
            return use
    fix = suggestion(text.strip(), [use.value for use in QuotaUse])
    raise TextError(f"unknown use of the quota {quoted(text.strip())}", fix)


def parse_memory_use(text: str) -> MemoryUse:
    """The way of lying on memory nodes."""
    if text.strip().lower() != MemoryUse.INTERLEAVE.value:
        raise TextError(f"unknown use of memory {quoted(text.strip())}", "write 'interleave'")
    return MemoryUse.INTERLEAVE
