"""Joint replacement: an owner goes to where its rules hold, and its followers come after it."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ...model.container import ContainerId
from ...model.grant import Grant, PoolId
from ...placing.rank import Rank
from ..decision import Decision, rule_names
from ..engine import Engine
from ..snapshot import Snapshot
from .asked_move import AskedMove

COMPANY_MAX: Final = 6
"""So many containers go together at most; of more each goes by itself."""
_POOLS_MAX: Final = 16
"""In so many pools it is tried whether all find room."""
_LOOKS_MAX: Final = 16
"""At rules required during execution it is looked so often; of more owners too much is left."""

_Names = Mapping[ContainerId, Collection[str]]


class JointStep(Struct, frozen=True):
    """A move of a container, while others that its rules want there have yet to come."""

    container_id: ContainerId
    pool_id: PoolId | None = None
    """None: where the policy places it, which is beside those that have gone already."""
    awaited: tuple[ContainerId, ...] = ()

    @property
    def asked(self) -> AskedMove:
        """The move, as it is asked for."""
        return AskedMove(self.pool_id, awaited=self.awaited)


MakeStep = Callable[[Engine, JointStep], Decision]
"""Makes a step on an engine that tries it out."""


Others = Callable[[ContainerId, Collection[ContainerId]], Collection[ContainerId]]
"""Finds who has to go with a container, by that one and those who go with it in any case."""


def company_of(
    engine: Engine, owner_id: ContainerId, others: Others | None = None
) -> tuple[ContainerId, ...]:
    """An owner, its followers, and theirs, nearest first; one by itself where they are too many.

    `others`: who goes with one, in place of those that follow by rules required during execution.
    """
    found = {owner_id: None}
    waiting = [owner_id]
    while waiting and len(found) <= COMPANY_MAX:
        member = waiting.pop(0)
        if others is None:
            more: Collection[ContainerId] = engine.followers(member, found, only_lasting=True)
        else:
            more = others(member, found)
        further = [one for one in more if one not in found]
        found.update(dict.fromkeys(further))
        waiting += further
    return (owner_id,) if len(found) > COMPANY_MAX else tuple(found)


def plan_together(snapshot: Snapshot, owner_id: ContainerId) -> Sequence[JointStep]:
    """The steps after which more rules of an owner hold, and none of its followers breaks.

    None where that is not found, or nobody follows. Only rules among those that move may be broken
    from one step to the next. For any thread: O(pools tried * containers).
    """
    trial = Engine.of(snapshot)
    company = company_of(trial, owner_id) if owner_id in trial.grants else ()
    before = _broken(trial, company)
    if len(company) < 2 or before is None:
        return ()
    for engine, steps in ways_together(trial, company, _place_anew):
        after = _broken(engine, company)
        if after is not None and _is_better(after, before, owner_id):
            return steps
    return ()


def ways_together(
    trial: Engine, company: Sequence[ContainerId], make: MakeStep, pool_id: PoolId | None = None
) -> Iterator[tuple[Engine, Sequence[JointStep]]]:
    """The steps of those of a company that can go, and the engine on which they were made.

    The first time this one, then copies of what it was. The owner goes to the pool, if one is said,
    or else to one after the other, the best first; the others go where the policy places them then.
    """
    snapshot = trial.snapshot()
    first, *others = (
        JointStep(one, None, tuple(company[number:])) for number, one in enumerate(company, start=1)
    )
    wanted = [pool_id]
    while wanted:
        step = replace(first, pool_id=wanted.pop(0))
        decision = make(trial, step)
        if not isinstance(decision.result, Grant):
            continue
        if step.pool_id is None:
            wanted = _next_best(decision)
        made = [one for one in others if isinstance(make(trial, one).result, Grant)]
        yield trial, [step, *made]
        trial = Engine.of(snapshot)


def make_move(engine: Engine, container_id: ContainerId, asked: AskedMove) -> Decision:
    """Move a container as a plan says, or as it is tried out for one, also for unmet rules."""
    if asked.awaited or asked.pool_id is None or asked.purpose is None:
        return engine.place_anew(container_id, asked, mends_told=True)
    return engine.move(container_id, asked.pool_id, asked.purpose)


def _place_anew(engine: Engine, step: JointStep) -> Decision:
    return engine.place_anew(step.container_id, step.asked)


def _next_best(decision: Decision) -> list[PoolId | None]:
    """The pools that might have been chosen in place of one, the best first."""
    assert isinstance(decision.result, Grant)
    ranks = sorted(one for one in decision.candidates if isinstance(one, Rank))
    pools = [PoolId(one.pool_id) for one in ranks if one.pool_id != decision.result.pool_id]
    return [*pools[:_POOLS_MAX]]


def _broken(engine: Engine, company: Collection[ContainerId]) -> _Names | None:
    """The rules that do not hold at members of a company; None where not all were looked at."""
    found: dict[ContainerId, Collection[str]] = {}
    for _ in range(_LOOKS_MAX):
        found |= {one: rule_names(texts) for one, texts in engine.look_at_rules().items()}
        if all(one in found for one in company):
            told = {one: rule_names(engine.decisions[one].unmet) for one in company}
            return {one: {*found[one], *told[one]} for one in company}
    return None


def _is_better(after: _Names, before: _Names, owner_id: ContainerId) -> bool:
    is_harmed = any({*after[one]} - {*before[one]} for one in after)
    return not is_harmed and len(after[owner_id]) < len(before[owner_id])
