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


def kept_in(judgement: Judgement, grant: Grant, cpus: int, books: Books) -> Grant:
    """The grant of a resident on these cpus, which may grow where no rule breaks by it.

    Rules that are broken already hold it back from nothing.
    """
    before = standing_cpus(grant, books.ledger)
    may_have = before & allowed_cpus(judgement, grant, cpus)
    return grant if may_have == before else replace(grant, within=CpuSet(may_have))


def allowed_cpus(judgement: Judgement, grant: Grant, cpus: int) -> int:
    """A mask of all cpus that a resident may have without breaking a rule that holds now."""
    allowed = judgement.domains.everything
    for one in judgement.restrictions():
        if not one.is_broken_by(cpus, grant.pool_id):
            allowed &= ~one.forbidden
            for domain in one.choices:
                allowed &= domain if not cpus & ~domain else -1
    return allowed


def _kept_apart(judgement: Judgement) -> Iterator[tuple[ContainerId, Level]]:
    """The residents that must not share a domain with the newcomer, and the level."""
    for one in judgement.own:
        for other in one.blockers:
            yield other.id, one.level
    for barrier in judgement.barriers:
        for owner_id in barrier.owners:
            yield owner_id, barrier.level
