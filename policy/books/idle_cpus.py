"""Idle cpus: those near a shared container's pool that are nobody's, and who may use them.

They widen a pinning and nothing else: no ledger counts them, to rules and ranks a container is
where its pool is, and whoever is granted one of them has it alone from the same answer on.
"""

from collections.abc import Callable, Collection, Iterable

from ...topology.model.machine import Level
from ..model.container import Container, ContainerId
from ..model.grant import Grant, PoolId
from ..model.level_name import level_noun
from ..pools.domains import Domains
from ..pools.pool_tree import PoolTree
from ..rules.affinity_index import AffinityIndex
from ..rules.podaffinity.rule_set import PlacementRules
from ..rules.podaffinity.standing_rules import StandingRules
from ..rules.podaffinity.term_selection import select_term
from .ties import is_tied


class IdleCpus:
    """The containers that may use idle cpus, and those cpus at the moment."""

    def __init__(
        self,
        tree: PoolTree,
        affinity: AffinityIndex,
        standing: StandingRules,
        domains: Callable[[], Domains],
    ) -> None:
        """`domains` is called for the first such container."""
        self._tree = tree
        self._affinity = affinity
        self._standing = standing
        self._domains = domains
        self._around: dict[tuple[PoolId, Level], int] = {}
        self._users: dict[ContainerId, bool | None] = {}
        """Whether required rules tie them to their pool; None: nobody has looked yet."""
        self.users: Collection[ContainerId] = self._users.keys()
        """Containers that may use idle cpus, as long as no rule ties them to their pool."""

    def know(self, container_id: ContainerId) -> None:
        """Count a container among those that use idle cpus, as its grant says."""
        self._users[container_id] = None

    def forget(self, container_id: ContainerId) -> None:
        """The container is gone, or holds nothing."""
        self._users.pop(container_id, None)

    def level_of(self, grant: Grant) -> Level | None:
        """The level round whose domains a container may use idle cpus; None: it may use none."""
        if grant.idle_level is None or not grant.can_use_idle_cpus or self.is_tied(grant):
            return None
        return grant.idle_level

    def note(self, grant: Grant, level: Level) -> str:
        """The note about a container that wants idle cpus of a level, for people."""
        if grant.pen is not None:
            reason = "it runs on the cpus of its pod or group"
        elif grant.exclusive:
            reason = "it has cpus of its own"
        elif grant.is_strict:
            reason = "strict hints keep it where it is"
        elif not grant.can_use_idle_cpus:
            reason = f"it runs on {grant.kind.value} cpus"
        elif self.is_tied(grant):
            reason = "required rules keep it on the cpus of its pool"
        else:
            return f"idle-cpus: it may use those of its {level_noun(level)} that are nobody's"
        return f"idle-cpus: no others for it, as {reason}"

    def around(self, pool_id: PoolId, level: Level) -> int:
        """A mask of the sharable cpus of the domains round a pool, whoever has them."""
        known = self._around.get((pool_id, level))
        if known is None:
            pool, root = self._tree.pools[pool_id], self._tree.root
            known = root.sharable.mask & self._domains().covering(level, pool.cpus.mask)
            self._around[pool_id, level] = known
        return known

    def is_tied(self, grant: Grant) -> bool:
        """Whether required rules tie a container to its pool's cpus."""
        if grant.within is not None:
            return True
        if not self._standing.rules:
            return False
        known = self._users.get(grant.container_id)
        if known is None:
            container = self._affinity.residents.container(grant.container_id)
            known = is_tied(container, grant, self._standing)
            if grant.container_id in self._users:
                self._users[grant.container_id] = known
        return known

    def doubt(self, owner: Container, rules: PlacementRules) -> Iterable[ContainerId]:
        """The users that rules of a container are about, and itself: their ties change with them.

        To be called with the rules of those who come, and of those who go before they are gone.
        """
        found = [owner.id] if owner.id in self._users else []
        if rules.required:
            residents, places = self._affinity.residents, 0
            for one in rules.required:
                places |= select_term(residents, owner, one.term)
            found += [one for one in self._users if places & residents.place(one)]
        self._users.update(dict.fromkeys(found))
        return found
