"""Values of containers as they were seen last, and whose are others by now."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, count
from operator import is_not
from typing import Final, Generic, TypeVar

from ...model.container import ContainerId

T = TypeVar("T")
_NOBODY: Final = object()


class SeenValues(Generic[T]):
    """Values by container as a table had them at the last look.

    Nobody need tell what was changed in it: the looks are compared. In C, as next to nothing is
    another one after a step.
    """

    def __init__(self) -> None:
        """Begin with an empty table."""
        self._ids: list[ContainerId] = []
        self._values: list[T] = []

    def changed(self, table: Mapping[ContainerId, T]) -> Mapping[ContainerId, T | None]:
        """The ids of which the table has another object by now, with the one before.

        Without one before, and without a value of None, it is None.
        """
        return self.renewed(table, table.values())

    def renewed(
        self, ids: Iterable[ContainerId], values: Iterable[T]
    ) -> Mapping[ContainerId, T | None]:
        """As `changed`, of the values of these ids in their order."""
        old_ids, old_values = self._ids, self._values
        self._ids, self._values = ids, values = [*ids], [*values]
        size = len(old_ids)
        if ids[:size] == old_ids and values[:size] == old_values:
            return dict.fromkeys(ids[size:])
        # All that changed lies between what is the same at the beginning and at the end.
        begin = min(_alike(ids, old_ids), _alike(values, old_values))
        most = min(len(ids), size) - begin
        end = min(most, _alike(ids[::-1], old_ids[::-1]), _alike(values[::-1], old_values[::-1]))
        before = dict(zip(old_ids[begin : size - end], old_values[begin : size - end], strict=True))
        last = len(ids) - end
        after = dict(zip(ids[begin:last], values[begin:last], strict=True))
        return {
            one: before.get(one)
            for one in {**before, **after}
            if before.get(one, _NOBODY) is not after.get(one, _NOBODY)
        }


def _alike(some: Sequence[object], others: Sequence[object]) -> int:
    """The number of first elements that are the same objects in both."""
    at = next(compress(count(), map(is_not, some, others)), None)
    return min(len(some), len(others)) if at is None else at
