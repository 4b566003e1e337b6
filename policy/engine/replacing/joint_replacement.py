"""Joint replacement: an owner goes to where its rules hold, and its followers come after it."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ...model.container import ContainerId
from ...model.grant import Grant, PoolId
from ...placing.rank import Rank
from ..decision import Decision, rule_names
from ..engine import Engine
from ..snapshot import Snapshot
from .asked_move import AskedMove
from .companies import OwnersCompany, companies_of_owner
from .replacement import leaves_others_alone
from .unmet_names import unmet_after

_POOLS_MAX: Final = 16
"""In so many pools it is tried whether all find room."""
_LOOKS_MAX: Final = 16
"""At rules required during execution it is looked so often; of more owners too much is left."""


class _Broken(NamedTuple):
    """Rules that do not hold, with their owners, and how many of them are one owner's."""

    names: Collection[str]
    own: int

    def is_better_than(self, before: "_Broken") -> bool:
        """Whether fewer of the owner's are broken than before, and no other one."""
        return self.own < before.own and not {*self.names} - {*before.names}


class JointStep(Struct, frozen=True):
    """A move of a container, while others that its rules want there have yet to come."""

    container_id: ContainerId
    pool_id: PoolId | None = None
    """None: where the policy places it, which is beside those that have gone already."""
    awaited: tuple[ContainerId, ...] = ()
    follows: bool = False
    """Whether it goes for rules that are ignored during execution, or for another's alone."""

    @property
    def asked(self) -> AskedMove:
        """The move, as it is asked for."""
        return AskedMove(self.pool_id, awaited=self.awaited)


MakeStep = Callable[[Engine, JointStep], Decision]
"""Makes a step on an engine that tries it out."""


def plan_together(snapshot: Snapshot, owner_id: ContainerId, moves: int) -> Sequence[JointStep]:
    """The steps, at most so many, after which more rules of an owner hold, and all others as well.

    None where that is not found, or nobody has to go with it. Only rules among those that move may
    be broken from one step to the next. For any thread: O(pools tried * containers).
    """
    if owner_id not in snapshot.grants:
        return ()
    first, tries_left = Engine.of(snapshot), _POOLS_MAX
    found = [
        one for one in companies_of_owner(first, snapshot, owner_id) if len(one.members) <= moves
    ]
    for number, company in enumerate(found):
        trial = Engine.of(snapshot) if number else first
        before = _broken(trial, company)
        if before is None:
            return ()
        ways = ways_together(trial, company.members, partial(_place_anew, company))
        for engine, steps in islice(ways, tries_left):
            tries_left -= 1
            after = _broken(engine, company)
            if after is not None and after.is_better_than(before):
                return [replace(one, follows=company.brings(one.container_id)) for one in steps]
    return ()


def may_go_with_others(engine: Engine, owner_id: ContainerId, reason: str) -> bool:
    """Whether it may be for others that an owner stays, which might come with it.

    `reason`: why it stays by itself.
    """
    if leaves_others_alone(reason):
        return True
    known = engine.snapshot().classified.get(owner_id)
    return known is not None and bool(known.placement.near_levels)


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


def _place_anew(company: OwnersCompany, engine: Engine, step: JointStep) -> Decision:
    follows = company.brings(step.container_id)
    return engine.place_anew(step.container_id, step.asked, mends_told=follows)


def _next_best(decision: Decision) -> list[PoolId | None]:
    """The pools that might have been chosen in place of one, the best first."""
    assert isinstance(decision.result, Grant)
    ranks = sorted(one for one in decision.candidates if isinstance(one, Rank))
    pools = [PoolId(one.pool_id) for one in ranks if one.pool_id != decision.result.pool_id]
    return [*pools[:_POOLS_MAX]]


def _broken(engine: Engine, company: OwnersCompany) -> _Broken | None:
    """The rules that do not hold; None where not all owners in a company were looked at."""
    found: dict[ContainerId, Collection[str]] = {}
    for _ in range(_LOOKS_MAX):
        found |= {one: rule_names(texts) for one, texts in engine.look_at_rules().items()}
        if all(one in found for one in company.lasting):
            owner_id = company.members[0]
            told = unmet_after(engine, owner_id)
            own = {*found[owner_id], *rule_names(engine.decisions[owner_id].unmet)}
            return _Broken({*told}.union(*(found[one] for one in company.lasting)), len(own))
    return None
