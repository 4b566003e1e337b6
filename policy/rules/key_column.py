"""The values that one key has over all containers."""

from bisect import bisect_left, insort


class KeyColumn:
    """Values and, as a bit set of places, the containers that have each.

    Orders of the values are made when first asked for, and kept up from then on.
    """

    __slots__ = ("_backward", "_forward", "by_value", "characters", "places")

    def __init__(self) -> None:
        self.by_value: dict[str, int] = {}
        self.places = 0
        """Every container with a value."""
        self.characters = 0
        """Of the values of all containers."""
        self._forward: list[str] | None = None
        self._backward: list[str] | None = None

    def add(self, value: str, bit: int) -> None:
        """A container has a value."""
        self.places |= bit
        self.characters += len(value)
        before = self.by_value.get(value)
        if before is not None:
            self.by_value[value] = before | bit
            return
        self.by_value[value] = bit
        if self._forward is not None:
            insort(self._forward, value)
        if self._backward is not None:
            insort(self._backward, value[::-1])

    def discard(self, value: str, bit: int) -> None:
        """A container that had a value is gone."""
        self.places &= ~bit
        self.characters -= len(value)
        left = self.by_value[value] & ~bit
        if left:
            self.by_value[value] = left
            return
        del self.by_value[value]
        if self._forward is not None:
            del self._forward[bisect_left(self._forward, value)]
        if self._backward is not None:
            del self._backward[bisect_left(self._backward, value[::-1])]

    def beginning(self, head: str) -> list[str]:
        """The values that begin with a text. O(log values + those found)."""
        if self._forward is None:
            self._forward = sorted(self.by_value)
        return _after(self._forward, head)

    def ending(self, tail: str) -> list[str]:
        """The values that end with a text. O(log values + those found)."""
        if self._backward is None:
            self._backward = sorted(value[::-1] for value in self.by_value)
        return [value[::-1] for value in _after(self._backward, tail[::-1])]


def _after(order: list[str], head: str) -> list[str]:
    start = end = bisect_left(order, head)
    while end < len(order) and order[end].startswith(head):
        end += 1
    return order[start:end]
