"""The columns of a contest: the values of its pools by each criterion that may tell them apart."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from ..model.cpu_preference import CpuPriority
from .rank import CRITERIA, Column, Contest, Criterion, Rank, shared_at

# A member of an enum is looked up by a call of Python.
_NORMAL: Final = CpuPriority.NORMAL


def speaking(contest: Contest) -> Sequence[tuple[str, Criterion]]:
    """The criteria, with their names, that may tell pools apart; to the others all are alike."""
    request = contest.request
    is_isolated = contest.isolated and request.wants_isolated
    return _all_but(
        () if contest.unmet else ("unmet",),
        () if contest.unmet_of_others else ("unmet_of_others",),
        () if contest.narrowed else ("narrowed",),
        () if contest.preferred else ("preferred",),
        () if is_isolated else ("isolated_missing", "isolated_room", "isolated_pool"),
        () if contest.affinities else ("affinity",),
        () if contest.hints else ("hints", "hints_partial", "hints_depth", "hints_pool"),
        ("memory_type", "memory_limit", "memory_missing") if contest.has_usual_memory else (),
        () if request.cpu_limit_milli is not None else ("cpu_limit",),
        () if request.is_unlimited else ("burst_level", "burst_room", "burst_pool"),
        () if request.awaits_friends else ("friends_room",),
        () if contest.misfits_class else ("cpu_class",),
        () if contest.free_of_priority else ("cpu_priority", "cpu_priority_normal"),
        ("cpu_priority",) if request.priority is _NORMAL else ("cpu_priority_normal",),
        () if request.exclusive else ("exclusive_room", "exclusive_pool"),
    )


@lru_cache(maxsize=128)
def _all_but(*silent: tuple[str, ...]) -> Sequence[tuple[str, Criterion]]:
    left_out = {one for group in silent for one in group}
    return tuple([(name, one) for name, one in CRITERIA.items() if name not in left_out])


def columns(contest: Contest) -> Iterator[tuple[str, Column]]:
    """The values of every pool by each criterion, with its name. O(pools x criteria)."""
    contest = replace(contest, shared=tuple(shared_at(contest, contest.ids)))
    telling = dict(speaking(contest))
    for name in Rank._fields:
        if name in telling:
            yield name, telling[name](contest, contest.ids)
        elif name == "isolated_missing" and contest.request.wants_isolated:
            yield name, [1] * len(contest.ids)
        else:
            yield name, contest.zeros


def ranks(contest: Contest) -> list[Rank]:
    """The rank of every pool. O(pools x criteria)."""
    values = [column for _, column in columns(contest)]
    return list(map(Rank._make, zip(*values, strict=True)))
