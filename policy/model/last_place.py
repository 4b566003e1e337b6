"""Last places: what containers held before their restart, and had asked for."""

from msgspec import Struct

from .container import ContainerId, Resources
from .grant import Grant
from .request import Request


class LastPlace(Struct, frozen=True, kw_only=True):
    """The place of a container before its restart."""

    grant: Grant
    pen: Grant | None = None
    """The pen that it was in, as it left it."""
    request: Request
    resources: Resources = Resources()
    disturbed: frozenset[ContainerId] = frozenset()
    """Owners of rules that did not hold beside it."""
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
