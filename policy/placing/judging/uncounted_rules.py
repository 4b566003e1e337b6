"""Rules that do not count as they are written, told to whom they are about, or whose they are."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import structs

from ...model.container import Container
from ...rules.podaffinity.rule_set import FIRM_MAX, LOOKED_AT_MAX, Uncounted
from ...rules.podaffinity.standing_rules import StandingRule
from ...text.errors import Problem
from ..classifier import Classified
from .judgement import Judgement
from .restriction import TOLD_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class UncountedFirmly(Problem):
    """The problem of an owner of whose rules some that never give way do not count."""


def first_of_each_namespace(
    matching: Sequence[StandingRule],
) -> tuple[Sequence[StandingRule], int]:
    """The rules about one newcomer that count, and how many do not: so many are of one namespace.

    What a namespace writes under different labels is looked at together, too.
    """
    if len(matching) <= LOOKED_AT_MAX:
        return matching, 0
    counts: dict[str, int] = {}
    kept: list[StandingRule] = []
    for one in matching:
        namespace = next(iter(one.owners.values())).pod.namespace
        counts[namespace] = counts.get(namespace, 0) + 1
        if one.firm or counts[namespace] <= LOOKED_AT_MAX:
            kept.append(one)
    return kept, len(matching) - len(kept)


def guard_problems(judgement: Judgement, container: Container) -> tuple[Problem, ...]:
    """Anti-affinity of other namespaces that would block too much, the first of very many.

    And how many rules of others do not count at all.
    """
    texts = judgement.guarded
    more = len(texts) - TOLD_MAX
    what = "would block more than its namespace may: it counts as preferred"
    told = [f"{text} {what}" for text in texts[:TOLD_MAX]]
    if more > 0:
        told.append(f"so do {more} more rules")
    where = f"antiAffinityLimits of {container.path}"
    found = [Problem(where=where, what=one, is_advice=True) for one in told]
    if judgement.uncounted:
        what = f"{judgement.uncounted} rules of containers that are there do not count for it:"
        what += f" {LOOKED_AT_MAX} others of their namespace do"
        fix = "write fewer different ones there"
        found.append(
            Problem(where=f"affinity to {container.path}", what=what, fix=fix, is_advice=True)
        )
    return tuple(found)


def with_uncounted(
    classified: Classified, container: Container, uncounted: Uncounted
) -> Classified:
    """A container's demand with the note that some of its rules do not count for newcomers.

    It is refused where one of them never gives way: who comes later would break it unseen.
    """
    where, fix = f"affinity of {container.path}", "write fewer different ones"
    found: list[Problem] = []
    if uncounted.firm:
        what = (
            f"{uncounted.firm} of its required rules would not count for newcomers: its namespace"
        )
        what += f" has {FIRM_MAX} different ones that never give way"
        found.append(UncountedFirmly(where=where, what=what, fix=fix, is_fatal=True))
    if others := uncounted.rules - uncounted.firm:
        what = f"{others} of its rules do not count for newcomers: {LOOKED_AT_MAX} others of its"
        what += " namespace are about the same labels"
        found.append(Problem(where=where, what=what, fix=fix, is_advice=True))
    return structs.replace(classified, problems=(*classified.problems, *found))
