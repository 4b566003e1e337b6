"""Companies: containers with all who have to go where they go, whosever rule says so."""

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property, partial

from ...model.container import ContainerId
from ...pools.domains import Domains
from ...rules.podaffinity.term import Term, is_same_instance
from ..engine import Engine
from ..replacing.joint_replacement import company_of
from ..snapshot import Snapshot


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
        followers = company_of(engine, container_id, partial(_followers, engine))
        with_partners = company_of(engine, container_id, partial(self._others, engine))
        for one in dict.fromkeys((followers, with_partners)):
            if len(one) > 1 and self._movable.keys() >= {*one}:
                yield one

    def _others(
        self, engine: Engine, container_id: ContainerId, company: Collection[ContainerId]
    ) -> Sequence[ContainerId]:
        """The followers of a container, and one partner for each rule that is about no member."""
        found = [*_followers(engine, container_id, company)]
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


def _followers(
    engine: Engine, container_id: ContainerId, company: Collection[ContainerId]
) -> Sequence[ContainerId]:
    return engine.followers(container_id, company, only_lasting=False)


def _cpus(engine: Engine, container_id: ContainerId) -> int:
    told = engine.pinning(container_id)
    if told is not None and told.cpus:
        return told.cpus.mask
    return engine.tree.pools[engine.grants[container_id].pool_id].cpus.mask
