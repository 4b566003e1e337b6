"""Decisions as data: what a container got or why not, every candidate, and who else changes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from ..books.books import Books
from ..configuration.config import SchedulingClass
from ..model.container import Container, ContainerId
from ..model.grant import Dropped, Grant, Refusal
from ..model.pinning import Change, Pinning, changed
from ..placing.judging.restriction import TOLD_MAX, told_rule
from ..placing.judging.unmet_texts import joined
from ..placing.lineup import Lineup
from ..placing.placer import Failure, Placement
from ..placing.rank import Rank
from ..placing.restart import MADE_WAY
from ..text.errors import Problem
from ..tuning.resource_class import NO_CLASSES, ResourceClasses
from .advice import Advice

KEPT: Final = "kept"
"""The criterion of a decision that leaves a running container what it had."""
UNMET: Final = "unmet"
"""The place of problems that are rules which do not hold."""
STUCK: Final = "stuck"
"""The place of problems that are containers on cpus of another one, which cannot be moved."""
_UNMET_OF: Final[Callable[["Decision"], tuple[str, ...]]] = attrgetter("unmet")
_PROBLEMS_KNOWN: Final = 256
"""What does not hold is told again and again, at all whom it concerns."""


class Decision(Struct, frozen=True, kw_only=True):
    """The answer for one container and its whole reason.

    `lineup` is None where no choice was made (reserved and preserved containers, re-adoption,
    refusal before any pool was looked at). `decided_by` is the first criterion in which the winner
    differs from the runner-up. Both stay with a container that is adopted as it was.
    """

    container_id: ContainerId
    result: Grant | Refusal
    pool: str = ""
    pinning: Pinning = field(default_factory=Pinning)
    scheduling: SchedulingClass | None = None
    """How the processes of a new container are scheduled; None leaves that to the runtime."""
    classes: ResourceClasses = NO_CLASSES
    """The classes the runtime puts a new container in."""
    cold_start_ns: int = 0
    """How long after its start its memory is to be widened (`Engine.end_cold_start`); 0: never."""
    degraded: str = ""
    """What a container that runs already should have and could not get; empty where it has all."""
    fault: str = ""
    """Our own fault for which a running container is left as it is; empty for all others."""
    remembered: Advice | None = None
    """What was remembered of such a container: the next adoption goes by that."""
    placed_for_milli: int | None = None
    """What its container asked for as its cpus were chosen, where a resize since is missed; 0: that
    is not known. None: what it asks for now."""
    lineup: Lineup | None = None
    decided_by: str = ""
    unmet: tuple[str, ...] = ()
    """Required rules, its own or of others about it, that do not hold where it is, and why."""
    notes: tuple[str, ...] = ()
    """Preferred rules that are not met there, and levels the machine lacks; `Engine.note`."""
    weights: Mapping[ContainerId, int] = field(default_factory=dict[ContainerId, int])
    """What drew it to others, and from them; for its notes, until these are made."""
    changes: tuple[Change, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def candidates(self) -> tuple[Rank | Dropped, ...]:
        """Ranks of the pools by id, or why one was dropped; see `Lineup.candidates`."""
        return self.lineup.candidates() if self.lineup else ()


def fault_problem(container: Container, fault: Exception) -> Problem:
    """The problem of a container with which we are at fault."""
    return Problem(
        where=container.path,
        what=f"kept as it runs, for a fault of ours: {fault!r}",
        fix="report it",
        container=container.name,
    )


def refused(container_id: ContainerId, failure: Failure, problems: tuple[Problem, ...]) -> Decision:
    """The decision about a container for which there is no place."""
    return Decision(
        container_id=container_id,
        result=failure.refusal,
        lineup=failure.lineup,
        problems=problems,
    )


def with_objection(
    problems: tuple[Problem, ...], container: Container, placement: Placement | None
) -> tuple[Problem, ...]:
    """The problems of a container, and that its place has no room for it but by its restart."""
    if placement is None or not placement.objection:
        return problems
    what = "back where it was before its restart, without room for it"
    if placement.decided_by == MADE_WAY:
        what = "back in the pool where it was before its restart, without room for it"
    problem = Problem(
        where=container.path,
        what=f"{what}: {placement.objection}",
        fix="stop or move others there",
        container=container.name,
        is_advice=True,
    )
    return (*problems, problem)


def with_unmet(decision: Decision, texts: tuple[str, ...]) -> Decision:
    """A decision with these unmet rules, the first of very many, also among its problems."""
    texts = texts[:TOLD_MAX]
    if texts == decision.unmet:
        return decision
    problems, known = list[Problem](), dict[str, Problem]()
    for one in decision.problems:
        if one.where == UNMET:
            known[one.what] = one
        else:
            problems.append(one)
    for text in texts:
        # Of many rules a few are told in other words.
        problems.append(known.get(text) or _problem(text))
    return replace(decision, unmet=texts, problems=tuple(problems))


def rule_names(unmet: Iterable[str]) -> tuple[str, ...]:
    """The rules and their owners in texts of unmet rules, without why they do not hold."""
    return tuple(map(told_rule, unmet))


def unmet_rule_names(decisions: Iterable[Decision]) -> dict[str, None]:
    """The rules that decisions tell as unmet, by name and owner: each once, however many tell it.

    It is told of its owner, and of everybody who breaks it.
    """
    # Of a thousand decisions hardly any has one: they are gone through in C.
    texts = chain.from_iterable(map(_UNMET_OF, decisions))
    return dict.fromkeys(rule_names(texts))


@lru_cache(maxsize=_PROBLEMS_KNOWN)
def _problem(text: str) -> Problem:
    return Problem(where=UNMET, what=text, is_advice=True)


def is_left_alone(decision: Decision | None) -> bool:
    """Whether a container is left as it runs for a fault of ours."""
    return decision is not None and bool(decision.fault)


def left_as_it_was(
    held: Grant, failure: Failure, books: Books, problems: tuple[Problem, ...]
) -> Decision:
    """The decision about a container that keeps what it holds: it could not be changed."""
    return Decision(
        container_id=held.container_id,
        result=failure.refusal,
        pool=books.tree.pools[held.pool_id].name,
        pinning=books.pinner.told(held.container_id) or Pinning(),
        lineup=failure.lineup,
        problems=problems,
        notes=(failure.refusal.advice,) if failure.refusal.advice else (),
    )


def with_changes(decision: Decision, later: Sequence[Change], books: Books) -> Decision:
    """A decision with changes that followed after those it has; nobody is in it twice.

    And with the place that its container has by now, which may have come home by itself.
    """
    grant = books.ledger.grants[decision.container_id]
    changes = {one.container_id: one for one in decision.changes}
    own = decision.pinning
    for one in later:
        if one.container_id == decision.container_id:
            own = one.after
            continue
        first = changes.pop(one.container_id, one)
        both = changed(one.container_id, first.before, one.after)
        if both is not None:
            changes[one.container_id] = both
    return replace(
        decision,
        result=grant,
        pool=books.tree.pools[grant.pool_id].name,
        pinning=own,
        changes=tuple(changes.values()),
    )


def carried_over(
    decision: Decision, earlier: Decision | None, advice: Advice | None, *, is_same_tree: bool
) -> Decision:
    """The decision about a container that stays as it is: why it is there is what it was before.

    The pools that were looked at then are told by their numbers, so only of the same tree. Of one
    that is not known any more the rules that did not hold are what is remembered.
    """
    grant = decision.result
    if decision.decided_by != KEPT or decision.fault:
        return decision
    if earlier is None and advice is not None and advice.pool == decision.pool:
        return with_unmet(decision, joined(advice.unmet, decision.unmet))
    if earlier is None or earlier.fault:
        return decision
    held = earlier.result
    if not isinstance(held, Grant) or not isinstance(grant, Grant):
        return decision
    is_same = (earlier.pool, held.cpu_type, held.exclusive) == (
        decision.pool,
        grant.cpu_type,
        grant.exclusive,
    )
    if not is_same:
        return decision
    return replace(
        with_unmet(decision, joined(earlier.unmet, decision.unmet)),
        decided_by=earlier.decided_by,
        lineup=earlier.lineup if is_same_tree else None,
        degraded=earlier.degraded if decision.degraded and earlier.degraded else decision.degraded,
        notes=earlier.notes,
    )


def with_repetition(decision: Decision, container: Container, count: int) -> Decision:
    """The decision about a container whose id a runtime lists several times."""
    problem = Problem(
        where=container.path,
        what=f"the runtime lists id {container.id!r} {count} times; the newest entry counts",
        container=container.name,
    )
    return replace(decision, problems=(*decision.problems, problem))


class Adopted(Struct, frozen=True, kw_only=True):
    """The answer to a list of running containers: one decision each, and who must be updated."""

    decisions: tuple[Decision, ...]
    changes: tuple[Change, ...]
    faults: Mapping[ContainerId, Exception]
    """What went wrong with single containers, to be reported; their decisions name it, too."""
    fault: Exception | None = None
    """What went wrong with the adoption itself: all are left as they run, or hold what they had."""
