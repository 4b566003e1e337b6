"""Companies: containers with all who have to go where they go, whosever rule says so."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property, partial
from typing import Final, NamedTuple

from ...annotations.preferences import parse_preferences
from ...model.container import ContainerId
from ...model.cpu_preference import MovePreference
from ...pools.domains import Domains
from ...rules.podaffinity.term import Term, is_same_instance
from ..engine import Engine
from ..snapshot import Snapshot

COMPANY_MAX: Final = 6
"""So many containers go together at most; of more each goes by itself."""

Others = Callable[[ContainerId, Collection[ContainerId]], Collection[ContainerId]]
"""Finds who has to go with a container, by that one and those who go with it in any case."""


def company_of(
    engine: Engine, owner_id: ContainerId, others: Others | None = None
) -> tuple[ContainerId, ...]:
    """An owner, its followers, and theirs, nearest first; one by itself where they are too many.

    `others`: who goes with one, in place of those that follow by rules required during execution.
    """
    others = others or partial(engine.followers, only_lasting=True)
    found = {owner_id: None}
    waiting = [owner_id]
    while waiting and len(found) <= COMPANY_MAX:
        member = waiting.pop(0)
        further = [one for one in others(member, found) if one not in found]
        found.update(dict.fromkeys(further))
        waiting += further
    return (owner_id,) if len(found) > COMPANY_MAX else tuple(found)


def own_objection(snapshot: Snapshot, container_id: ContainerId, *, moves_exclusive: bool) -> str:
    """The reason of its own why a container is not moved, whatever for; empty where it may be."""
    known, grant = snapshot.classified.get(container_id), snapshot.grants[container_id]
    if known is None or container_id in snapshot.unread or snapshot.decisions[container_id].fault:
        return "it could not be read"
    wish = parse_preferences(snapshot.containers[container_id]).move
    if wish is MovePreference.NEVER:
        return "its annotation refuses it"
    if grant.exclusive and not moves_exclusive and wish is not MovePreference.ALLOWED:
        return "it has exclusive cpus"
    return ""


def movable_ids(snapshot: Snapshot, *, moves_exclusive: bool) -> Sequence[ContainerId]:
    """The containers outside pens that may be moved, in the order of their paths."""
    grants, containers = snapshot.grants, snapshot.containers
    return [
        one
        for one in sorted(grants, key=lambda one: (containers[one].path, one))
        if grants[one].pen is None
        and not own_objection(snapshot, one, moves_exclusive=moves_exclusive)
    ]


class Companies:
    """The companies of containers, of those alone who may be moved."""

    def __init__(self, snapshot: Snapshot, movable: Sequence[ContainerId]) -> None:
        """`movable`: the containers that may be moved, those first that are to be chosen first."""
        self._snapshot = snapshot
        self._movable = dict.fromkeys(movable)

    @cached_property
    def _domains(self) -> Domains:
        return Domains(self._snapshot.machine, self._snapshot.supply.allowed)

    def of(self, engine: Engine, container_id: ContainerId) -> Iterator[Sequence[ContainerId]]:
        """A container, nearest first with those that must be with it; then with its own partners.

        These come as well where nobody else would do, at the place to which it goes.
        """
        follow = partial(engine.followers, only_lasting=False)
        followers = company_of(engine, container_id, follow)
        with_partners = company_of(engine, container_id, partial(self._others, engine))
        for one in dict.fromkeys((followers, with_partners)):
            if len(one) > 1 and self._movable.keys() >= {*one}:
                yield one

    def _others(
        self, engine: Engine, container_id: ContainerId, company: Collection[ContainerId]
    ) -> Sequence[ContainerId]:
        """The followers of a container, and one partner for each rule that is about no member."""
        found = [*engine.followers(container_id, company, only_lasting=False)]
        for rule in self._snapshot.classified[container_id].placement.required:
            if not rule.is_anti:
                members = {*company, *found}
                partner = self._partner(engine, container_id, rule.term, members)
                found += [] if partner is None else [partner]
        return found

    def _partner(
        self, engine: Engine, owner_id: ContainerId, term: Term, company: Collection[ContainerId]
    ) -> ContainerId | None:
        """One that a term of a container is about, and with whom it is; None beside a member."""
        owner = engine.containers[owner_id]

        def is_meant(one: ContainerId) -> bool:
            other = engine.containers[one]
            return term.includes(owner, other) and not is_same_instance(owner, other)

        if any(map(is_meant, company)):
            return None
        around = self._domains.covering(term.level, _cpus(engine, owner_id))
        near = (one for one in self._movable if _cpus(engine, one) & around and is_meant(one))
        return next(near, None)


class OwnersCompany(NamedTuple):
    """Company of the owner of a rule that stopped holding: all of them go together, or nobody."""

    members: Sequence[ContainerId]
    """The owner first."""
    lasting: Collection[ContainerId]
    """The owner, and those that follow by rules that are required during execution."""

    def brings(self, member: ContainerId) -> bool:
        """Whether a member goes only as others have to be with it, or it with them."""
        return member not in self.lasting


def companies_of_owner(
    engine: Engine, snapshot: Snapshot, owner_id: ContainerId
) -> Sequence[OwnersCompany]:
    """The companies with which the owner of a rule that stopped holding may go, least first.

    First with those alone that follow by rules required during execution. Others come as far as
    a rebalance in the background might move them.
    """
    lasting = company_of(engine, owner_id)
    movable = movable_ids(snapshot, moves_exclusive=snapshot.config.rebalance.move_exclusive)
    wider = Companies(snapshot, (*lasting, *movable)).of(engine, owner_id)
    found = [tuple(one) for one in ((lasting, *wider) if len(lasting) > 1 else wider)]
    return [
        OwnersCompany(one, [each for each in one if each in lasting])
        for one in dict.fromkeys(found)
    ]


def _cpus(engine: Engine, container_id: ContainerId) -> int:
    told = engine.pinning(container_id)
    if told is not None and told.cpus:
        return told.cpus.mask
    return engine.tree.pools[engine.grants[container_id].pool_id].cpus.mask
