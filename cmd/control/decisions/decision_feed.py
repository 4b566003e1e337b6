"""The feed of decisions from now on, for everybody who follows them."""

import contextlib
import queue
import threading
from collections.abc import Generator
from typing import Final

from msgspec import Struct

from ....nri.dispatch.report import Decided, Released

WAITING_MAX: Final = 1024
"""Happenings that wait for one follower; what comes then is dropped, and counted."""


class FedDecision(Struct, frozen=True):
    """A decision, or the end of a container, with its time in seconds since 1970."""

    at: float
    happening: Decided | Released


class DecisionFollower:
    """A follower of decisions, until the end of `DecisionFeed.following`."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[FedDecision] = queue.Queue(WAITING_MAX)
        self.dropped = 0
        """What was not taken in time."""

    def give(self, fed: FedDecision) -> None:
        """Have it taken; waits for nobody."""
        try:
            self._waiting.put_nowait(fed)
        except queue.Full:
            self.dropped += 1

    def take(self, seconds: float) -> FedDecision | None:
        """The next one; None where none comes in time."""
        try:
            return self._waiting.get(timeout=seconds)
        except queue.Empty:
            return None


class DecisionFeed:
    """A feed of decisions for all who follow. For several threads; nothing is kept for nobody."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._followers: tuple[DecisionFollower, ...] = ()

    def give(self, at: float, happening: Decided | Released) -> None:
        """Hand it to those who follow at present."""
        followers = self._followers
        if followers:
            fed = FedDecision(at, happening)
            for one in followers:
                one.give(fed)

    @contextlib.contextmanager
    def following(self) -> Generator[DecisionFollower]:
        """A follower of what comes until the end of the block."""
        follower = DecisionFollower()
        with self._changing:
            self._followers = (*self._followers, follower)
        try:
            yield follower
        finally:
            with self._changing:
                self._followers = tuple(one for one in self._followers if one is not follower)
