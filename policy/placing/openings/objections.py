"""Objections of rules to pools, worded when somebody asks for them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from ....topology.sets.cpuset import CpuSet
from ...model.grant import Dropped
from ...model.request import Request
from ...pools.domains import Domains
from ...pools.pool_tree import PoolTree
from ...rules.pulls import Pulls
from ..judging.barrier import Barrier
from ..judging.judgement import Judgement
from ..judging.restriction import TOLD_MAX, Restriction, wants_text

_NARROWER: Final = "a narrower pool has all cpus that its rules leave"
_READ_MAX: Final = 4 * TOLD_MAX
"""So many rules are looked for in a reason that may be long."""
_NAMED: Final = (": {}: ", "({}; ", "({})", "; {})")
"""A rule by its name in an objection, alone or with another one."""


class Objections(Mapping[int, Dropped]):
    """The objections of rules to pools, by id; each is worded when somebody asks."""

    def __init__(self, pools: Sequence[int], objection: Callable[[int], Dropped]) -> None:
        """`pools`: ascending."""
        self._pools = dict.fromkeys(pools)
        self._objection = objection

    def __getitem__(self, pool_id: int) -> Dropped:
        if pool_id not in self._pools:
            raise KeyError(pool_id)
        return self._objection(pool_id)

    def __contains__(self, pool_id: object) -> bool:
        return pool_id in self._pools

    def __iter__(self) -> Iterator[int]:
        return iter(self._pools)

    def __len__(self) -> int:
        return len(self._pools)


class ObjectionWording(Struct, frozen=True, kw_only=True):
    """The reasons why rules leave a newcomer none of a pool, to be worded one by one."""

    request: Request
    tree: PoolTree
    left: int
    """The cpus that rules leave it, in one region or another, as a mask."""
    own: Sequence[Restriction]
    """Its own rules, without those that make way for it."""
    judged: tuple[Restriction, ...]
    barriers: tuple[Barrier, ...]
    domains: Domains

    def objection(self, pool_id: int) -> Dropped:
        """The reason why a pool is dropped. O(rules)."""
        pool = self.tree.pools[pool_id]
        for one in self.own:
            if pool.id in one.closed_pools or not pool.cpus.mask & ~one.forbidden:
                return one.dropped()
        usable = (pool.sharable | pool.isolated).mask
        for barrier in self.barriers:
            if not usable & ~barrier.forbidden:
                # Most owners may be elsewhere: their rules are not even worded.
                for one in barrier.restrictions(usable):
                    if usable & one.forbidden:
                        return one.dropped()
        inside = self.left & usable
        if inside and any(not inside & ~self.tree.pools[one].cpus.mask for one in pool.children):
            return Dropped(_NARROWER, "more of them", str(CpuSet(inside)))
        domains = self.domains
        judgement = Judgement(
            own=self.judged, barriers=self.barriers, pulls=Pulls(domains), domains=domains
        )
        # Its own ones are among all of them.
        names = dict.fromkeys(one.name for one in (*self.own, *judgement.restrictions()))
        name = "; ".join(islice(names, 2))
        # Some of these are others', or all of them are too few.
        available = f"too little on {CpuSet(inside)}" if inside else "none"
        return Dropped(f"cpus where rules hold ({name})", self.request.describe(), available)


def unnamed_rules(judgement: Judgement, tree: PoolTree, reason: str) -> str:
    """The rules that keep a newcomer from some cpus and that a reason does not name, for people.

    A pool that lacks cpus anyway is dropped for that: where all do, no rule is named.
    """
    usable = (tree.root.sharable | tree.root.isolated).mask
    rules = [one for one in judgement.restrictions() if _keeps_from_some(one, usable)]
    unnamed = [one for one in rules[:_READ_MAX] if not _is_named(one.name, reason)]
    return wants_text(unnamed, len(rules[_READ_MAX:]))


def _is_named(name: str, reason: str) -> bool:
    return any([form.format(name) in reason for form in _NAMED])


def _keeps_from_some(rule: Restriction, usable: int) -> bool:
    if rule.closed_pools or rule.forbidden & usable:
        return True
    return any([usable & ~domain for domain in rule.choices])
