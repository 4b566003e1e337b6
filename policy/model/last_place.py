"""Last places: what containers held before their restart, and had asked for."""

from typing import NamedTuple

from msgspec import Struct

from ...topology.sets.cpuset import CpuSet
from .container import Resources
from .grant import Grant
from .request import Request


class Breach(NamedTuple):
    """A rule that does not hold between a container and another one; both may restart."""

    is_own: bool
    """Whether it is the container's, and not the other one's."""
    text: str
    other: str
    """The path of the other one."""


class LastPlace(Struct, frozen=True, kw_only=True):
    """The place of a container before its restart."""

    grant: Grant
    path: str = ""
    """The path of the container that had it."""
    pen: Grant | None = None
    """The pen that it was in, as it left it."""
    pen_cpus: tuple[CpuSet, ...] = ()
    """The own cpus of that one, and those that it had before others left it, the fewest first."""
    request: Request
    resources: Resources = Resources()
    breaches: frozenset[Breach] = frozenset()
    """Rules that did not hold there between it and others."""
    is_awaited: bool = False
    """Whether others have ended that may be back, for whom it made way perhaps, or has less than it
    wishes."""
    is_of_same: bool = False
    """Whether who comes back has the same resources: of its pod's, others may count less by now."""

    def holds(self, request: Request) -> bool:
        """Whether a request is for no more than what was asked for then."""
        before = self.request
        pages = before.hugepage_bytes
        if (request.cpu_type, request.exclusive) != (before.cpu_type, before.exclusive):
            return False
        return self.is_of_same or (
            request.shared_milli <= before.shared_milli
            and request.memory_bytes <= before.memory_bytes
            and all(size <= pages.get(key, 0) for key, size in request.hugepage_bytes.items())
        )
