"""Growth of shared residents: none into cpus where a rule that holds now would break.

What somebody gives back is for everybody who shares a pool; a container that must not be there, and
is not there only because others have those cpus for themselves, must not follow.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ...topology.model.machine import Level
from ...topology.sets.cpuset import CpuSet
from ..books.books import Books
from ..model.container import ContainerId
from ..model.grant import Grant, PoolId
from .judgement import Judgement
from .narrowing import standing_cpus
from .restriction import Restriction


def held_back(
    judgement: Judgement, newcomer: Grant, cpus: int, books: Books, changed: Sequence[Grant]
) -> tuple[Grant, ...]:
    """Grants of residents that may not grow to the newcomer; those of `changed` are settled.

    Nobody's cpus are others by it now.
    """
    standing = cpus | (standing_cpus(newcomer, books.ledger) if newcomer.has_shared_part else 0)
    settled = {one.container_id for one in changed}
    found: dict[ContainerId, Grant] = {}
    covered: dict[Level, int] = {}
    for container_id, level in _kept_apart(judgement):
        if container_id in settled:
            continue
        grant = found.get(container_id) or books.ledger.grants[container_id]
        if not grant.has_shared_part:
            continue
        may_have = standing_cpus(grant, books.ledger)
        if level not in covered:
            covered[level] = books.domains.covering(level, standing)
        forbidden = may_have & covered[level]
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


def closed_pools(judgement: Judgement, pool_id: PoolId, *, firmly: bool) -> frozenset[int]:
    """The pools that rules about pools, which hold where a resident is, keep it from.

    `firmly`: by those rules alone that never break.
    """
    return frozenset[int]().union(
        *(
            one.closed_pools
            for one in judgement.own
            if pool_id not in one.closed_pools and not (firmly and one.can_break)
        )
    )


def homeless(books: Books) -> tuple[Grant, ...]:
    """Shared grants of which exclusive ones have taken all cpus. O(grants of pools concerned)."""
    ledger = books.ledger
    return tuple(
        grant
        for pool, free in zip(ledger.tree.pools, ledger.free_sharable, strict=True)
        for grant in ledger.sharing(pool.id).values()
        if not (free if grant.within is None else free & grant.within.mask)
    )


def wider_place(judgement: Judgement, grant: Grant, books: Books) -> Grant | None:
    """The grant in the nearest wider pool with cpus where the container's rules hold.

    Where they hold nowhere, those alone count that must not break.
    """
    rules = judgement.restrictions()
    firm = [one for one in rules if not one.can_break]
    return _wider_place(rules, grant, books) or _wider_place(firm, grant, books)


def _wider_place(rules: Sequence[Restriction], grant: Grant, books: Books) -> Grant | None:
    ledger = books.ledger
    for pool_id in (grant.pool_id, *ledger.tree.ancestors[grant.pool_id]):
        left = ledger.free_sharable[pool_id]
        allowed = ledger.tree.pools[pool_id].sharable.mask
        for one in rules:
            forbidden = -1 if pool_id in one.closed_pools else one.forbidden
            left, allowed = left & ~forbidden, allowed & ~forbidden
            if one.choices:
                domain = next((domain for domain in one.choices if domain & left), 0)
                left, allowed = left & domain, allowed & domain
        if left:
            return replace(grant, pool_id=pool_id, within=CpuSet(allowed))
    return None


def _kept_apart(judgement: Judgement) -> Iterator[tuple[ContainerId, Level]]:
    """The residents that must not share a domain with the newcomer, and the level; each once."""
    by_level: dict[Level, dict[ContainerId, None]] = {}
    for one in judgement.own:
        # Many rules are about the same containers.
        by_level.setdefault(one.level, {}).update(dict.fromkeys([b.id for b in one.blockers]))
    for barrier in judgement.barriers:
        by_level.setdefault(barrier.level, {}).update(dict.fromkeys(barrier.owners))
    for level, found in by_level.items():
        for container_id in found:
            yield container_id, level
