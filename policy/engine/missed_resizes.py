"""Missed resizes: containers ask for other amounts than when their cpus were chosen.

Their runtime resized them while nobody looked, or the news was lost. They are adopted on the cpus
that they have, and resized then as if they were told of by now.
"""

from collections.abc import Mapping, Sequence

from ..model.container import ContainerId
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
        self, container_ids: Sequence[ContainerId], advice: Mapping[ContainerId, Advice]
    ) -> Sequence[ContainerId]:
        """Containers, of some, that were resized since, by what is remembered of them.

        Where nothing is, those that have another number of cpus for themselves than they ask for.
        """
        return [one for one in container_ids if self._is_due(one, advice.get(one))]

    def make(self, container_id: ContainerId) -> Decision:
        """The decision about a container's resize; a refusal leaves it what it has."""
        return mended(self._allocator, container_id)

    def _is_due(self, container_id: ContainerId, hint: Advice | None) -> bool:
        roster = self._allocator.roster
        grant = self._allocator.books.ledger.grants.get(container_id)
        if grant is None or grant.pen is not None or grant.cpu_type is not CpuType.NORMAL:
            return False
        own, wanted = len(grant.exclusive), roster.classified[container_id].request.exclusive
        if hint is None or hint.cpu_request_milli is None:
            return own > 0 and own != wanted
        now = roster.containers[container_id].resources.cpu_request_milli
        return own != wanted and now != hint.cpu_request_milli
