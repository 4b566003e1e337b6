"""Growth of shared residents: none into cpus where a rule that holds now would break.

What somebody gives back is for everybody who shares a pool; a container that must not be there, and
is not there only because others have those cpus for themselves, must not follow.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...topology.model.machine import Level
from ...topology.sets.cpuset import CpuSet
from ..books.books import Books
from ..model.container import ContainerId
from ..model.grant import Grant
from .judgement import Judgement
from .narrowing import standing_cpus


def held_back(
    judgement: Judgement, newcomer: Grant, cpus: int, books: Books, changed: Sequence[Grant]
) -> tuple[Grant, ...]:
    """Grants of residents that may not grow to the newcomer; those of `changed` are settled.

    Nobody's cpus are others by it now.
    """
    standing = cpus | (standing_cpus(newcomer, books.ledger) if newcomer.has_shared_part else 0)
    settled = {one.container_id for one in changed}
    found: dict[ContainerId, Grant] = {}
    for container_id, level in _kept_apart(judgement):
        if container_id in settled:
            continue
        grant = found.get(container_id) or books.ledger.grants[container_id]
        if not grant.has_shared_part:
            continue
        may_have = standing_cpus(grant, books.ledger)
        forbidden = may_have & books.domains.covering(level, standing)
        if forbidden and not forbidden & books.presence(container_id) & ~newcomer.exclusive.mask:
            found[container_id] = replace(grant, within=CpuSet(may_have & ~forbidden))
    return tuple(found.values())


def _kept_apart(judgement: Judgement) -> Iterator[tuple[ContainerId, Level]]:
    """The residents that must not share a domain with the newcomer, and the level."""
    for one in judgement.own:
        for other in one.blockers:
            yield other.id, one.level
    for barrier in judgement.barriers:
        for owner_id in barrier.owners:
            yield owner_id, barrier.level
