"""Concessions: rules that hold nowhere are given up, so that residents make way for the others."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final, Generic, TypeVar

from msgspec import Struct, structs

from ....topology.model.machine import Level
from ..judging.judgement import Judgement
from .openings import OpeningSearch

_RULES_MAX: Final = 8
_RESIDENTS_MAX: Final = 24
"""Of more rules that give way, or with more in the way, nobody makes way before they break: each is
looked at by itself."""

Place = TypeVar("Place")


class Concession(Struct, Generic[Place], frozen=True):
    """A place where some of a newcomer's rules hold, if need be because residents make way."""

    place: Place
    lost: Judgement
    """The rules that were given up; some of them may hold there."""


def concessions(
    search: OpeningSearch, find: Callable[[OpeningSearch], Place | None]
) -> Iterator[Concession[Place]]:
    """Places where those rules hold that insist, and more and more of the others.

    `find`: a place where all rules of a search hold, residents make way if need be; there is none
    for all rules of this one.
    """
    judgement = search.judgement
    weak = _weak(judgement)
    if not weak or len(weak) > _RULES_MAX or len(judgement.kept_apart()) > _RESIDENTS_MAX:
        return
    lost, firm = frozenset[int]().union(*weak), judgement.insisting()
    if firm.own or firm.barriers:
        place = find(replace(search, judgement=firm))
        if place is None:
            return
        yield Concession(place, _of(judgement, lost, is_lost=True))
    # Whose loss counts most comes first, and the newcomer's own before others.
    for one in sorted(weak, key=weak.__getitem__, reverse=True):
        less = lost - one
        if not less:  # as was asked before
            return
        place = find(replace(search, judgement=_of(judgement, less, is_lost=False)))
        if place is not None:
            lost = less
            yield Concession(place, _of(judgement, lost, is_lost=True))


def _weak(judgement: Judgement) -> Mapping[frozenset[int], int]:
    """Rules that give way, and how many they are; each by the id of the object that says so.

    Those that keep the newcomer from the same cpus give way as one, as of replicas that must be
    apart from each other.
    """
    alike: dict[tuple[Level, int], list[tuple[int, int]]] = {}
    for number, one in enumerate(judgement.own):
        if one.can_break:
            is_plain = not one.choices and not one.closed_pools
            # No mask is negative.
            key = one.level, one.forbidden if is_plain else ~number
            alike.setdefault(key, []).append((id(one), 1))
    for barrier in judgement.barriers:
        if barrier.can_break:
            key = barrier.level, barrier.forbidden
            alike.setdefault(key, []).append((id(barrier), len(barrier.owners)))
    return {
        frozenset([one for one, _ in some]): sum([count for _, count in some])
        for some in alike.values()
    }


def _of(judgement: Judgement, lost: Collection[int], *, is_lost: bool) -> Judgement:
    """The rules that were lost, or all others; `lost`: as of `_weak`."""
    own = tuple([one for one in judgement.own if (id(one) in lost) == is_lost])
    names = {one.name for one in own}
    return structs.replace(
        judgement,
        own=own,
        barriers=tuple([one for one in judgement.barriers if (id(one) in lost) == is_lost]),
        given_up=(
            *judgement.given_up,
            *[one for one in judgement.barriers if (id(one) in lost) != is_lost],
        ),
        companions=tuple([one for one in judgement.companions if one.rule.name in names]),
    )
