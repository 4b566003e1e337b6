"""Missed resizes: containers ask for other amounts than when their cpus were chosen.

Their runtime resized them while nobody looked, or the news was lost. They are adopted on the cpus
that they have, and resized then as if they were told of by now.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ..model.container import Container, ContainerId
from ..model.kubelet_resources import shares_of_milli
from ..model.request import CpuType
from .advice import Advice
from .allocator import Allocator
from .decision import Decision
from .stuck_containers import mended


class MissedResizes:
    """The resizes of containers that an allocator has adopted, which are yet to be made."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator

    def among(
        self, containers: Sequence[Container], advice: Mapping[ContainerId, Advice]
    ) -> Sequence[ContainerId]:
        """Containers, of some that are listed, that were resized since, by what is remembered.

        Where nothing is, those that have other cpus for themselves than they ask for.
        """
        return [one.id for one in containers if self.is_due(one, advice.get(one.id))]

    def misses(self, container_id: ContainerId) -> bool:
        """Whether one of these runs still, and has other cpus for itself than it asks for.

        One that is left as it runs, for a fault of ours or as it wishes, misses nothing.
        """
        grant = self._allocator.books.ledger.grants.get(container_id)
        if grant is None or grant.pen is not None or grant.cpu_type is not CpuType.NORMAL:
            return False
        request = self._allocator.roster.classified[container_id].request
        return len(grant.exclusive) != request.exclusive

    def make(self, container_id: ContainerId) -> Decision:
        """The decision about a container's resize; a refusal leaves it what it has."""
        return mended(self._allocator, container_id)

    def remember(self, container_id: ContainerId) -> None:
        """Remember with a decision that a resize is missed still: whoever starts next is to try it.

        What the container asked for as its cpus were chosen is not known, unless it says so.
        """
        decisions = self._allocator.roster.decisions
        if decisions[container_id].placed_for_milli is None:
            decisions[container_id] = replace(decisions[container_id], placed_for_milli=0)

    def is_due(self, listed: Container, hint: Advice | None) -> bool:
        """Whether one that is listed was resized since, see `among`."""
        if not self.misses(listed.id):
            return False
        roster = self._allocator.roster
        own = len(self._allocator.books.ledger.grants[listed.id].exclusive)
        request = roster.classified[listed.id].request
        if hint is None or not (before := hint.cpu_request_milli):
            # It may have come before shared cpus were preferred, or have less than it wishes.
            counts = [one.exclusive for one in request.wishes]
            return own > 0 and request.exclusive > 0 and own not in counts
        # The runtime lost what it was told, and with it perhaps resizes of which we heard.
        is_stale = hint.told is not None and hint.told != listed.cpus
        now = roster.containers[listed.id].resources.cpu_request_milli
        # Beyond what shares can say, a quota told of more, and may be lifted by now.
        return bool(now) and not is_stale and shares_of_milli(now) != shares_of_milli(before)
