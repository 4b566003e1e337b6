"""Rules that do not count as they are written, told to whom they are about, or whose they are."""

from msgspec import structs

from ...model.container import Container
from ...rules.podaffinity.standing_rules import LOOKED_AT_MAX
from ...text.errors import Problem
from ..classifier import Classified
from .judgement import Judgement
from .restriction import TOLD_MAX


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


def with_uncounted(classified: Classified, container: Container, count: int) -> Classified:
    """A container's demand with the note that some of its rules do not count for newcomers."""
    problem = Problem(
        where=f"affinity of {container.path}",
        what=f"{count} of its rules do not count for newcomers: {LOOKED_AT_MAX} others of its"
        " namespace are about the same labels",
        fix="write fewer different ones",
        is_advice=True,
    )
    return structs.replace(classified, problems=(*classified.problems, problem))
