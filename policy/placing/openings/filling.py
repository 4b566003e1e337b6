"""Filling: a newcomer takes the last cpus of a domain, and is alone where others shared it.

Those that required rules hold where they are do not make way: but they lose what any newcomer may
take for itself. And where it takes all cpus of a domain it is the only one that a spread rule
counts there.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import islice
from typing import Final

from msgspec.structs import replace

from ....topology.model.machine import Level
from ...books.books import Books
from ...pools.domains import Domains
from ..judging.judgement import Judgement, bits
from ..judging.restriction import Restriction
from .crowds import Crowds
from .narrowing import (
    RESIDENTS_MAX,
    Narrowing,
    can_leave,
    leaving_part,
    number_of,
    standing_residents,
    without_leaving,
    without_movable,
)
from .openings import OpeningSearch

_FILLINGS_MAX: Final = 16
"""So many domains at most that a newcomer could fill are looked at, of each level."""


def find_fillings(search: OpeningSearch, books: Books) -> Iterator[Narrowing]:
    """The way to be alone in a domain by taking the last cpus that others share there, if any.

    Not in one with reserved cpus, which are never the newcomer's.
    """
    judgement, request, ledger = search.judgement, search.request, search.ledger
    domains, root = judgement.domains, search.tree.root
    free, reserved, count = ledger.free_sharable[root.id], root.reserved.mask, request.exclusive
    if not count or request.needs_shared_cpu:
        return
    alone = {
        level: _with_just(domains, level, free, count) & ~domains.indexes(level, reserved)
        for level in _said(judgement)
    }
    if not any(alone.values()):
        return
    if len(judgement.kept_apart()) > RESIDENTS_MAX:
        return
    crowds = Crowds(books, with_held=True)
    own = [
        _without_filled(without_movable(one, crowds), alone, free, domains) for one in judgement.own
    ]
    open_cpus = free
    for one in own:
        open_cpus &= ~one.forbidden & (reduce(int.__or__, one.choices) if one.choices else -1)
    left = _open_domains(alone, free, open_cpus, domains)
    for barrier in judgement.barriers:
        if not any(left.values()):
            # Whoever else could be driven out.
            return
        open_cpus &= ~crowds.kept_by(barrier)
        left = _open_domains(left, free, open_cpus, domains)
    movable = dict(sorted(crowds.movable.items()))
    pairs = zip(own, judgement.own, strict=True)
    if not movable and all(one.forbidden == rule.forbidden for one, rule in pairs):
        return
    search = dataclasses.replace(search, narrowed=without_leaving(movable, ledger.narrowed))
    standing, parts, most = standing_residents(movable, ledger), list[int](), 0
    for level, firsts in left.items():
        for first in islice(bits(firsts), _FILLINGS_MAX):
            part = free & domains.members(level, first)
            leaving = leaving_part(standing, part, domains)
            fills = not any(one.cpus & cover & free & ~part for one, cover in leaving)
            if fills and _is_in_one(part, own, domains) and can_leave(leaving):
                parts.append(part)
                most = max(most, number_of(leaving))
    if parts:
        openings = search.openings(list(dict.fromkeys(parts)), judgement.closed(), own)
        openings = replace(openings, narrowed=[most] * len(openings.regions))
        yield Narrowing(openings=openings, movable=movable, ledger=ledger, domains=domains)


def _said(judgement: Judgement) -> Iterable[Level]:
    """The levels of the rules that others are in the way of."""
    levels = [one.level for one in judgement.own if one.blockers]
    levels += [one.spread.rule.level for one in judgement.own if one.spread is not None]
    return dict.fromkeys(levels + [one.level for one in judgement.barriers])


def _with_just(domains: Domains, level: Level, cpus: int, count: int) -> int:
    """The domains that have just so many of some cpus, as a set."""
    by_count = domains.by_count(level, cpus)
    return by_count[count] if count < len(by_count) else 0


def _open_domains(
    some: Mapping[Level, int], free: int, open_cpus: int, domains: Domains
) -> Mapping[Level, int]:
    """The domains, out of some, of which all free cpus are open."""
    closed = free & ~open_cpus
    return {level: firsts & ~domains.indexes(level, closed) for level, firsts in some.items()}


def _without_filled(
    rule: Restriction, alone: Mapping[Level, int], free: int, domains: Domains
) -> Restriction:
    """A restriction that leaves domains of which the newcomer takes all, if it counts containers.

    Who runs there is driven out, and nobody comes back as long as it is there.
    """
    if rule.spread is None:
        return rule
    level = rule.spread.rule.level
    filled = alone[level] & ~domains.indexes(level, domains.everything & ~free)
    return replace(rule, forbidden=rule.forbidden & ~domains.members(level, filled))


def _is_in_one(part: int, own: Iterable[Restriction], domains: Domains) -> bool:
    """Whether a part is in one domain, wherever rules ask for one."""
    levels = {one.level for one in own if one.choices}
    return not any(part & ~domains.covering(level, part & -part) for level in levels)
