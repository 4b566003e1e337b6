"""Notes for the undoing of events: of what the engine knows beside its books none is left out."""

from collections.abc import Iterator, KeysView
from functools import partial
from operator import attrgetter
from types import MethodType
from typing import Any

import pytest

from pinfold.policy.books.books import Books
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.allocator import Allocator
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.restoring.undoing import NOTES, TABLES, EventUndoing
from pinfold.policy.pens.pen_planner import PenPlanner
from pinfold.policy.placing.classifier import Classifier
from pinfold.policy.placing.judging.judge import Judge
from pinfold.policy.placing.placer import Placer
from pinfold.policy.placing.planner import Planner
from pinfold.policy.placing.restart import RestartPlacer
from pinfold.policy.tuning.interrupts import Interrupt
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import container_of, engine_of

WORKERS = (
    *(Books, Machine, Config, Classifier, Judge, Placer, Planner, PenPlanner, RestartPlacer),
    *(partial, MethodType),
)
"""What is made anew from a snapshot, or knows nothing of containers."""
SHOWN = frozenset(("roster.containers", "roster.pod_sizes", "roster._of_pod"))
"""Tables that are made anew from a snapshot, too."""
HANDED_ON: dict[str, Any] = {
    "interrupts": (Interrupt(number=4, description="eth0", affinity=CpuSet.of(0)),),
    "roster.unread": {"unread": ValueError()},
}
"""What one allocator hands on to the next, whoever makes that."""
VALUES: dict[type, Any] = {
    dict: {"one": {"of": "many"}},
    set: {"one"},
    list: ["one"],
    int: 7,
    type(None): ("one", {"of", "many"}),
}


@pytest.fixture(name="engine")
def fixture_engine() -> Engine:
    engine = engine_of("socket:1 numa:4 core:4 mem:4G")
    engine.create(container_of("owner", 2))
    return engine


def allocator_of(engine: Engine) -> Allocator:
    found: Allocator = vars(engine)["_allocator"]
    return found


def undoing_of(allocator: Allocator) -> EventUndoing:
    return EventUndoing(allocator)


def unnoted(allocator: Allocator) -> Iterator[str]:
    """Attributes that are neither noted nor looked into, by their first paths."""
    ledger = allocator.books.ledger
    seen = {id(allocator), id(ledger.grants), *(id(at(allocator, one)) for one in (*NOTES, *SHOWN))}
    pending = [("", allocator)]
    while pending:
        path, holder = pending.pop()
        for name, value in vars(holder).items():
            whole = f"{path}{name}"
            is_seen = whole in {*NOTES, *HANDED_ON} or (
                id(value) in seen and type(value) in (*TABLES, Allocator)
            )
            if is_seen or isinstance(value, (*WORKERS, KeysView)):
                continue
            is_looked_into = id(value) in seen
            seen.add(id(value))
            if type(value).__module__.startswith("pinfold.") and hasattr(value, "__dict__"):
                if not is_looked_into:
                    pending.append((f"{whole}.", value))
            else:
                yield whole


def at(allocator: Allocator, path: str) -> Any:
    return attrgetter(path)(allocator)


def test_all_that_an_engine_knows_beside_its_books_is_noted(engine: Engine) -> None:
    assert not [*unnoted(allocator_of(engine))]


@pytest.mark.parametrize("value", [True, "text", frozenset(("a",)), None, 7, {}, (1, 2), object()])
@pytest.mark.parametrize("holder", ["unmet.lost", "roster", "pens.bookings", "shares.parted"])
def test_an_attribute_that_nobody_notes_is_found(engine: Engine, holder: str, value: Any) -> None:
    allocator = allocator_of(engine)
    at(allocator, holder).__dict__["_anything"] = value
    # By whatever path its holder is come by first.
    [found] = unnoted(allocator)
    assert found.rpartition(".")[2] == "_anything"


@pytest.mark.parametrize("path", HANDED_ON)
def test_each_part_that_is_handed_on_is_the_same(engine: Engine, path: str) -> None:
    allocator, value = allocator_of(engine), HANDED_ON[path]
    holder, _, name = f".{path}".rpartition(".")
    setattr(at(allocator, holder[1:]) if holder else allocator, name, value)
    assert at(undoing_of(allocator).allocator(), path) is value


@pytest.mark.parametrize("path", NOTES)
def test_each_note_is_as_it_was(engine: Engine, path: str) -> None:
    allocator = allocator_of(engine)
    holder, _, name = path.rpartition(".")
    before: object = at(allocator, path)
    kind = type(before)
    noted, after = VALUES[kind], VALUES[kind]
    if kind in TABLES:
        noted = noted.copy()
        table = at(allocator, path)
        (table.extend if kind is list else table.update)(noted)
        after = table.copy()
    else:
        setattr(at(allocator, holder), name, noted)
    undoing = undoing_of(allocator)
    if kind in TABLES:
        at(allocator, path).clear()
    found = at(undoing.allocator(), path)
    assert found == after
    assert type(found) is type(after)
