"""Laws of faults of ours: what an event had half done when it raised is as it was before.

Each resize and each move raises first, at any call of a function of the policy, and is then made.
The engine differs in nothing from one that nothing ever raised in, at once and for ever after:
neither in what it shows, nor in anything that it knows, nor in what it decides next.
"""

import os
import random
import sys
from collections.abc import Callable, Generator, Iterable, KeysView, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from inspect import CO_GENERATOR
from operator import itemgetter
from types import FrameType, MethodType
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from pinfold.policy.engine.decision import UNMET, Decision, rule_names
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.restoring.undoing import EventUndoing
from pinfold.policy.engine.snapshot import Snapshot
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import CpuSet
from tests.property.kinds_walk import KindsWalk
from tests.property.walk_machines import MACHINES

STEPS = int(os.environ.get("PINFOLD_UNDOING_STEPS", "150"))
SEED = int(os.environ.get("PINFOLD_UNDOING_SEED", "1"))
UNORDERED = (".roster._of_pod",)
"""Tables that nobody goes through."""
EVENTS = "update", "move", "place_anew", "resize_pod", "end_cold_start", "observe_memory", "widen"


class InjectedError(Exception):
    """A fault of ours."""


class Calls:
    """Counts calls of the policy's functions, and raises at one of them."""

    def __init__(self, raises_at: int = 0) -> None:
        self.count, self.raises_at = 0, raises_at

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        # What a generator raises as it is closed nobody hears of.
        is_function = not frame.f_code.co_flags & CO_GENERATOR
        if (
            event == "call"
            and is_function
            and frame.f_globals.get("__name__", "").startswith("pinfold.policy.")
        ):
            self.count += 1
            if self.count == self.raises_at:
                raise InjectedError(frame.f_code.co_qualname)

    @contextmanager
    def counted(self) -> Generator[None]:
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)


def held(snapshot: Snapshot) -> dict[str, Any]:
    """All that a snapshot shows, in its order."""
    found = asdict(snapshot)
    del found["layout"]
    found["pool_cpus"] = snapshot.pool_cpus.shared, snapshot.pool_cpus.reserved
    return {name: [*one.items()] if isinstance(one, dict) else one for name, one in found.items()}


def decided(snapshot: Snapshot) -> dict[str, Any]:
    """The same but for its order, and for words, which name others first by another order."""
    found = held(snapshot)
    found["decisions"] = [(one, *_decided(decision)) for one, decision in found["decisions"]]
    tables = [name for name, one in found.items() if isinstance(one, list)]
    return {**found, **{name: _by_id(found[name]) for name in tables}}


def _by_id(entries: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return sorted(entries, key=itemgetter(0))


def _decided(decision: Decision) -> tuple[object, ...]:
    problems = [one for one in decision.problems if one.where != UNMET]
    is_degraded = bool(decision.degraded)
    plain = replace(decision, lineup=None, unmet=(), problems=(), degraded="", notes=())
    return plain, sorted(rule_names(decision.unmet)), problems, is_degraded


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is not the same in both."""
    return {name: (one[name], other[name]) for name in one if one[name] != other[name]}


def copied(engine: Engine) -> Engine:
    """Another engine that holds and knows the same."""
    found = copy(engine)
    vars(found)["_allocator"] = undoing_of(engine).allocator()
    return found


def undoing_of(engine: Engine) -> EventUndoing:
    return EventUndoing(vars(engine)["_allocator"])


def unlike(engine: Engine, other: Engine) -> Sequence[str]:
    """Whatever two engines do not know alike beside their books, by its path.

    Books are made anew: they are held against each other by what they show, and by what follows.
    So are the texts that were read.
    """
    one, its = vars(engine)["_allocator"], vars(other)["_allocator"]
    anew = zip(_made_anew(one), _made_anew(its), strict=True)
    seen, found = {(id(a), id(b)): (a, b, "made anew") for a, b in anew}, list[str]()
    _compare(one, its, "", seen, found)
    return found


def _made_anew(allocator: Any) -> Sequence[object]:
    names = "ledger", "memory", "pool_memory", "affinity", "standing", "idle", "pinner"
    parts = [getattr(allocator.books, one) for one in names]
    return allocator.books, allocator.classifier, *parts


def told(engine: Engine) -> object:
    """What a snapshot does not show of the books: the pinnings yet to be told, kept and stuck."""
    books = vars(engine)["_allocator"].books
    return books.pinner.told_so_far(), [*books.ledger.left.items()], books.ledger.narrowed.stuck


def _compare(
    one: Any, other: Any, path: str, seen: dict[tuple[int, int], Any], found: list[str]
) -> None:
    # Whoever is compared goes on living: else another one may have its id.
    if one is other or seen.setdefault((id(one), id(other)), (one, other, path))[2] != path:
        return
    kind = _kind_of(one)
    mine: dict[str, Any] = getattr(one, "__dict__", {})
    its: dict[str, Any] = getattr(other, "__dict__", {})
    if kind is not _kind_of(other):
        found.append(path)
    elif issubclass(kind, dict):
        if [*one] != [*other] and not (path in UNORDERED and one.keys() == other.keys()):
            found.append(path)
        for key in one.keys() & other.keys():
            _compare(one[key], other[key], f"{path}[{key}]", seen, found)
    elif issubclass(kind, list | tuple):
        if len(one) != len(other):
            found.append(path)
        for place, (each, another) in enumerate(zip(one, other, strict=False)):
            _compare(each, another, f"{path}[{place}]", seen, found)
    elif issubclass(kind, partial):
        _compare((one.args, one.keywords), (other.args, other.keywords), path, seen, found)
    elif issubclass(kind, MethodType):
        _compare(one.__self__, other.__self__, path, seen, found)
    elif issubclass(kind, KeysView):
        if [*one] != [*other]:
            found.append(path)
    elif mine or its:
        for name in {**mine, **its}:
            _compare(mine.get(name), its.get(name), f"{path}.{name}", seen, found)
    elif one != other:
        found.append(path)


def _kind_of(value: object) -> type:
    return type(value)


class Faults:
    """Faults in the events of engines, each of which is undone."""

    def __init__(self, seed: int, patch: pytest.MonkeyPatch) -> None:
        self.random = random.Random(seed)
        self.is_on = False
        self.raised = self.probed = 0
        for name in EVENTS:
            real = getattr(Engine, name)
            patch.setattr(Engine, name, self._failing(real))

    def _failing(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def event(engine: Engine, *args: Any, **named: Any) -> Any:
            if self.is_on:
                self.is_on = False
                self.fail(engine, lambda one: real(one, *args, **named))
                self.is_on = True
            return real(engine, *args, **named)

        return event

    def fail(self, engine: Engine, event: Callable[[Engine], object]) -> None:
        work, others = partial(event, engine), (copied(engine), copied(engine))
        calls = Calls()
        before, known, first = held(engine.snapshot()), told(engine), copied(engine)
        assert not unlike(first, engine)
        self.undo(engine, work, calls)
        assert not differences(held(engine.snapshot()), before)
        if not calls.count:
            return
        self.undo(engine, work, Calls(self.random.randint(1, calls.count)))
        engine.check()
        assert not differences(held(engine.snapshot()), before)
        assert told(engine) == known
        assert not unlike(first, engine)
        self.raised += 1
        if engine.grants:
            self.probe(*others, event, calls.count)

    def probe(
        self, one: Engine, other: Engine, event: Callable[[Engine], object], count: int
    ) -> None:
        """Have an engine that keeps cpus, where some are stuck, go on like one without a fault."""
        draw = self.random
        held = sorted(one.grants)
        left, stuck = draw.choice(held), draw.choice(held)
        online = [*one.machine.online]
        cpus = CpuSet.collect(draw.sample(online, min(2, len(online))))
        again = [replace(known, id=f"{known.id}-p") for known in one.containers.values()]
        newcomer, gone = draw.choice(again), draw.choice(held)
        steps: tuple[Callable[[Engine], object], ...] = (
            Engine.check,
            event,
            lambda each: each.create(newcomer),
            lambda each: each.stop(gone),
            lambda each: each.left_cpus.let_go([left]),
            lambda each: each.widen(),
            lambda each: each.look_at_rules(),
        )
        for each in (one, other):
            before = replace(each.grants[left], exclusive=cpus)
            each.left_cpus.keep([before])
            each.stuck_containers.note({stuck: cpus})
        self.probed += bool(one.left)

        def lent() -> None:
            one.left_cpus.lend(left)
            event(one)

        self.undo(one, lent, Calls(draw.randint(1, count)))
        assert not unlike(one, other)
        for step in steps:
            step(one)
            step(other)
            assert not differences(decided(one.snapshot()), decided(other.snapshot()))
            assert told(one) == told(other)

    @staticmethod
    def undo(engine: Engine, work: Callable[[], object], calls: Calls) -> None:
        def raising() -> None:
            with engine.undone_on_fault():
                with calls.counted():
                    work()
                raise InjectedError

        with pytest.raises(InjectedError):
            raising()


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_an_event_in_which_something_raises_leaves_no_trace(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults(SEED, monkeypatch)
    plain, walk = KindsWalk(machine, SEED), KindsWalk(machine, SEED)
    for _ in range(STEPS):
        plain.step()
        faults.is_on = True
        walk.step()
        faults.is_on = False
        assert not differences(decided(walk.engine.snapshot()), decided(plain.engine.snapshot()))
    assert faults.raised > STEPS / 20
    # Two cpus are needed by all.
    assert faults.probed or len(machine.online) == 2
