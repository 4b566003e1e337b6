"""Obstacles: required rules that keep a container from all cpus where another rule would hold."""

from collections.abc import Iterable, Sequence
from functools import reduce

from ...pools.pool_tree import PoolTree
from .judgement import Judgement
from .restriction import Restriction


def obstacles(
    sought: Iterable[Restriction], judgement: Judgement, tree: PoolTree
) -> Sequence[Restriction]:
    """The rules that do not give way and leave none of these any cpu to hold on; none: others do.

    O(rules of the judgement), each of all of its owners.
    """
    firm = [one for one in judgement.own if not one.can_break]
    firm += [one.whole for one in judgement.barriers if not one.can_break]
    found: dict[str, Restriction] = {}
    for rule in sought:
        cpus = _held_on(rule, tree)
        others = [one for one in firm if one.name != rule.name]
        left = cpus & reduce(int.__and__, [_held_on(one, tree) for one in others], -1)
        if not cpus or left:
            return ()
        found.update({one.name: one for one in others if cpus & ~_held_on(one, tree)})
    return tuple(found.values())


def _held_on(rule: Restriction, tree: PoolTree) -> int:
    """A mask of the cpus on which a rule holds, as far as it depends on each alone."""
    open_pools = [tree.masks[one.id] for one in tree.pools if one.id not in rule.closed_pools]
    cpus = reduce(int.__or__, open_pools, 0) & ~rule.forbidden
    return cpus & reduce(int.__or__, rule.choices) if rule.choices else cpus
