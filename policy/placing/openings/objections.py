"""Objections of rules to pools, worded when somebody asks for them."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress, islice
from typing import Final

from msgspec import Struct

from ....topology.sets.cpuset import CpuSet
from ...model.grant import Dropped
from ...model.request import Request
from ...pools.domains import Domains
from ...pools.pool_tree import Pool, PoolTree
from ...rules.pulls import Pulls
from ..judging.barrier import Barrier
from ..judging.judgement import Judgement
from ..judging.restriction import TOLD_MAX, Restriction, by_kind, kind_name, wants_text

_READ_MAX: Final = 4 * TOLD_MAX
"""So many rules are looked for in a reason that may be long."""
_RULED: Final = "CPUs where rules hold"
_NAMED: Final = (": {}: ", "({}; ", "({})", "; {})")
"""A rule by its name in an objection, alone or with another one."""


class Objections(Mapping[int, Dropped]):
    """The objections of rules to pools, by id; each is worded when somebody asks."""

    def __init__(self, dropped: bytes, objection: Callable[[int], Dropped]) -> None:
        """`dropped`: of each pool, by id, 1 where rules drop it, else 0."""
        # A decision keeps it as long as its container lives: a dict takes four times as much.
        self._dropped = dropped
        self._objection = objection

    def __getitem__(self, pool_id: int) -> Dropped:
        if pool_id not in self:
            raise KeyError(pool_id)
        return self._objection(pool_id)

    def __contains__(self, pool_id: object) -> bool:
        dropped = self._dropped
        return isinstance(pool_id, int) and 0 <= pool_id < len(dropped) and dropped[pool_id] == 1

    def __iter__(self) -> Iterator[int]:
        return compress(range(len(self._dropped)), self._dropped)

    def __len__(self) -> int:
        return self._dropped.count(1)


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
        usable, everything = _usable(pool), _usable(self.tree.root)
        for barrier in self.barriers:
            if not usable & ~barrier.forbidden:
                # Where a rule closes every pool it is told once, with all of its owners.
                is_everywhere = not everything & ~barrier.forbidden
                return barrier.dropped(everything if is_everywhere else usable)
        inside = self.left & usable
        for child in map(self.tree.pools.__getitem__, pool.children if inside else ()):
            if not inside & ~child.cpus.mask:
                # Where it may be at all it is in the pool inside, which has a line of its own.
                wanted = f"some outside {child.name}"
                return Dropped(_RULED, wanted, f"{CpuSet(inside)}, all inside it")
        domains = self.domains
        judgement = Judgement(
            own=self.judged, barriers=self.barriers, pulls=Pulls(domains), domains=domains
        )
        # Its own ones are among all of them.
        rules = {one.name: one for one in (*self.own, *judgement.restrictions)}
        kinds = by_kind(rules.values())
        name = "; ".join([kind_name(one) for one in islice(kinds, 2)])
        # Some of these are others', or all of them are too few.
        available = f"too little on {CpuSet(inside)}" if inside else "none"
        return Dropped(f"{_RULED} ({name})", self.request.describe(), available)


def unnamed_rules(judgement: Judgement, tree: PoolTree, reason: str) -> str:
    """The rules that keep a newcomer from some cpus and that a reason does not name, for people.

    A pool that lacks cpus anyway is dropped for that: where all do, no rule is named.
    """
    usable = _usable(tree.root)
    rules = [one for one in judgement.restrictions if _keeps_from_some(one, usable)]
    kinds = by_kind(rules)
    looked_at = kinds[:_READ_MAX]
    unnamed = [one for some in looked_at for one in _unnamed(some, reason)]
    told = [one for some in looked_at for one in some if one.is_own and _is_named(one.name, reason)]
    return wants_text(unnamed, len(kinds[_READ_MAX:]), told)


def _unnamed(alike: Sequence[Restriction], reason: str) -> Sequence[Restriction]:
    """Rules of several owners without those that a reason names, or counts with another one."""
    left = [one for one in alike if not _is_named(one.name, reason)]
    # Very many owners have one restriction together, in whose way each of them is by himself.
    owners = sum([1 if one.is_own else len(one.blockers) for one in left])
    if owners > 1 and f"{left[0].text} of " in reason:
        counts = re.findall(rf"{re.escape(left[0].text)} of [^ ]+ and ([0-9]+) others?\b", reason)
        if any([int(one) + 1 >= owners for one in counts]):
            return ()
    return left


def _is_named(name: str, reason: str) -> bool:
    return any([form.format(name) in reason for form in _NAMED])


def _usable(pool: Pool) -> int:
    return (pool.sharable | pool.isolated).mask


def _keeps_from_some(rule: Restriction, usable: int) -> bool:
    if rule.closed_pools or rule.forbidden & usable:
        return True
    return any([usable & ~domain for domain in rule.choices])
