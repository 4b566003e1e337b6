"""Undoing of events in which a fault of ours showed: nothing that they did is left."""

from collections.abc import Collection
from operator import attrgetter
from typing import Any, Final

from ..allocator import Allocator
from .restoration import restore, snapshot_of

NOTES: Final = (
    *("roster.classified", "roster.decisions"),
    *("roster._instances", "roster._exited", "roster._last_places", "roster._unpacked"),
    "homes._homes",
    *("shares._due", "shares._beside_others"),
    *("shares.parted._due", "shares.parted._left_by_ended"),
    *("unmet._moved", "unmet._displaced", "unmet._shifted", "unmet._due", "unmet._postponed"),
    "unmet._lasting_looks",
    *("unmet._many._broken", "unmet._many._untold"),
    *("unmet._concerns._others", "unmet._concerns._resting", "unmet._concerns._few"),
    "unmet.lost._told",
    *(f"unmet.lost._companions.{one}" for one in ("_left", "_met", "_grown")),
    *(f"unmet.lost._counted.{one}" for one in ("_moving", "_moved", "_uneven")),
    "pens.bookings._last",
    "books.idle._users",
)
"""All that an allocator notes beside the ledgers, which are made anew from a snapshot. Each is a
table, or an immutable value, and what is in a table is one of these, too."""
TABLES: Final = (dict, list, set)
_read: Final = attrgetter(*NOTES)


class EventUndoing:
    """An allocator as it is before an event, for the case that the event fails.

    Made by a few copies of tables, O(grants); all else is done where it is needed.
    """

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._snapshot = snapshot_of(allocator.books, allocator.roster)
        self._told = allocator.books.pinner.told_so_far()
        self._notes = [*map(_copied, _read(allocator))]

    def allocator(self) -> Allocator:
        """Another allocator that holds and knows all of it. O(everything)."""
        found = self._allocator.anew()
        restore(self._snapshot, found.books, found.roster)
        found.books.pinner.resume(self._told)
        for path, value in zip(NOTES, self._notes, strict=True):
            holder, _, name = path.rpartition(".")
            _note(attrgetter(holder)(found), name, value)
        return found


def _copied(value: Any) -> Any:
    """A value that nothing changes any more."""
    if _is_of(value, (tuple,)):
        return tuple(map(_copied, value))
    # All in one table are of the same kind.
    if _is_of(value, (dict,)) and _is_of(next(iter(value.values()), None), TABLES):
        return {key: one.copy() for key, one in value.items()}
    return value.copy() if _is_of(value, TABLES) else value


def _is_of(value: object, kinds: Collection[type]) -> bool:
    return type(value) in kinds


def _note(holder: object, name: str, value: Any) -> None:
    held: Any = getattr(holder, name)
    if not _is_of(held, TABLES):
        setattr(holder, name, value)
        return
    # In place: others look into the same tables.
    held.clear()
    more = held.extend if isinstance(value, list) else held.update
    more(value)
