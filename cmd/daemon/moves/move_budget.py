"""Budgets of moves: how many are left of a limit for a period."""

from collections import deque


class MoveBudget:
    """The times of moves of the last period, in seconds that never go back."""

    def __init__(self, period_seconds: float) -> None:
        self._period = period_seconds
        self._moves: deque[float] = deque()

    def left(self, limit: int, now: float) -> int:
        """The moves that are left of a limit for a period."""
        while self._moves and self._moves[0] <= now - self._period:
            self._moves.popleft()
        return max(0, limit - len(self._moves))

    def spend(self, now: float) -> None:
        """Note a move."""
        self._moves.append(now)
