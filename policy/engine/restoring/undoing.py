"""Undoing of events in which a fault of ours showed: nothing that they did is left."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from types import FunctionType, MethodType
from typing import Any, Final

from ...books.books import Books
from ...model.container import ContainerId
from ...pens.pen_planner import PenPlanner
from ...placing.classifier import Classifier
from ...placing.judging.judge import Judge
from ...placing.restart import RestartPlacer
from ...tuning.interrupts import Interrupt
from ..allocator import Allocator
from ..decision import Decision
from .restoration import restore, snapshot_of

_WORKERS: Final = (
    *(Books, Judge, RestartPlacer, PenPlanner, Classifier),
    *(FunctionType, MethodType, partial),
)
"""What notes nothing, or is in a snapshot."""
_CHANGING: Final = frozenset((dict, list, set))
_PLAIN: Final = frozenset((*_CHANGING, tuple, int, type(None)))


class EventUndoing:
    """An allocator as it is before an event, for the case that the event fails.

    Made by a few copies of tables, O(grants); all else is done where it is needed.
    """

    def __init__(
        self,
        allocator: Allocator,
        unread: Mapping[ContainerId, Exception],
        interrupts: Sequence[Interrupt],
    ) -> None:
        self._books = allocator.books
        self._interrupts = interrupts
        self._snapshot = snapshot_of(
            allocator.machine, allocator.config, allocator.books, allocator.roster, unread
        )
        self._told = allocator.books.pinner.told_so_far()
        self._notes = [_notes_of(one) for one in _noting(allocator)]

    def allocator(self) -> Allocator:
        """Another allocator that holds and knows all of it. O(everything)."""
        found = Allocator(self._books.emptied(), self._interrupts)
        restore(self._snapshot, found.books, found.roster, _carry_nothing)
        found.books.pinner.resume(self._told)
        for one, notes in zip(_noting(found), self._notes, strict=True):
            _note(one, notes)
        return found


def _carry_nothing(_: Decision) -> None:
    """What is to be carried over is among the notes."""


def _noting(allocator: Allocator) -> Sequence[object]:
    """The objects that note something beside the ledgers, always in the same order."""
    found: list[object] = [allocator.roster, allocator.homes, allocator.shares, allocator.unmet]
    found.append(allocator.pens)
    for one in found:
        found += [other for other in vars(one).values() if _is_news(other, found)]
    return [*found, allocator.books.idle]


def _is_news(value: object, found: Sequence[object]) -> bool:
    if not hasattr(value, "__dict__") or isinstance(value, _WORKERS):
        return False
    return not any([value is one for one in found])


def _notes_of(one: object) -> Mapping[str, Any]:
    """The plain values of an object, which nothing changes any more."""
    values = vars(one).items()
    return {name: _copied(value) for name, value in values if type(value) in _PLAIN}


def _copied(value: Any) -> Any:
    if _is_of(value, (tuple,)):
        return tuple(map(_copied, value))
    if not _is_of(value, _CHANGING):
        return value
    # All in one table are of the same kind.
    if _is_of(value, (dict,)) and _is_of(next(iter(value.values()), None), _CHANGING):
        return {key: one.copy() for key, one in value.items()}
    return value.copy()


def _is_of(value: object, kinds: Collection[type]) -> bool:
    return type(value) in kinds


def _note(one: object, notes: Mapping[str, Any]) -> None:
    for name, value in notes.items():
        held = vars(one)[name]
        if type(held) not in _CHANGING:
            setattr(one, name, value)
            continue
        # In place: others look into the same tables.
        held.clear()
        if isinstance(value, list):
            held.extend(value)
        else:
            held.update(value)
