"""The thread of what keeps something of a front in a folder, soon after something happened."""

import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path

from ...nri.dispatch.front import Front
from .state_folder import StateFolderError


class Keeper(ABC):
    """Keeps in a thread of its own, and not too often; what fails is tried again."""

    def __init__(
        self, name: str, folder: Path, log: logging.Logger, again_seconds: float, lost: str
    ) -> None:
        """`again_seconds`: after a fault it is tried again so soon, although nothing happens.

        `lost`: what is said of a fault.
        """
        self._name = name
        self._folder = folder
        self._log = log
        self._again_seconds = again_seconds
        self._lost = lost
        self._is_changed = threading.Event()
        """Something happened, or it is time to stop."""
        self._is_stopping = threading.Event()
        self._complaint = ""
        self._cost_seconds = 0.0
        """Of processor time, what the last keeping took."""
        self._kept_at = -math.inf
        """On the monotonic clock, when that was over."""
        self._thread: threading.Thread | None = None

    def fault(self) -> str:
        """The fault for which the last keeping failed; empty where it did not."""
        return self._complaint

    def start(self, front: Front) -> None:
        """Begin to keep what `front` has."""
        self._thread = threading.Thread(
            target=self._run, args=(front,), name=self._name, daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Keep what happened last; needed before the front's policy ends."""
        self._is_stopping.set()
        self._is_changed.set()
        if self._thread is not None:
            self._thread.join()

    @abstractmethod
    def _pause_seconds_left(self) -> float:
        """For which more is waited for, from the first thing that happened."""

    def _idle_seconds(self) -> float | None:
        """After which it is looked although nothing happens; None: never."""
        return self._again_seconds if self._complaint else None

    def _is_due(self) -> bool:
        """Whether there is anything to keep."""
        return True

    @abstractmethod
    def _keep(self, front: Front, *, is_last: bool) -> None:
        """Keep it. Raises `OSError` and `StateFolderError`."""

    def _run(self, front: Front) -> None:
        is_last = False
        while not is_last:
            self._is_changed.wait(self._idle_seconds())
            self._is_stopping.wait(self._pause_seconds_left())
            # In this order: an end that comes in between is seen, or sets the event anew.
            self._is_changed.clear()
            is_last = self._is_stopping.is_set()
            if self._is_due():
                begun = time.thread_time()
                try:
                    self._attempt(front, is_last=is_last)
                except Exception:
                    # Whatever cannot be kept of one moment, the next one may be.
                    self._complaint = f"{self._folder}: a fault of ours — {self._lost}"
                    self._log.exception("%s", self._complaint)
                self._cost_seconds = time.thread_time() - begun
                self._kept_at = time.monotonic()

    def _attempt(self, front: Front, *, is_last: bool) -> None:
        try:
            self._keep(front, is_last=is_last)
        except OSError as error:  # a busy policy's timeout is one, too
            self._complain(f"{self._folder}: {error.strerror or error} — {self._lost}")
        except StateFolderError as error:
            self._complain(f"{error}; {self._lost}")
        else:
            self._complaint = ""

    def _complain(self, complaint: str) -> None:
        if complaint != self._complaint:
            self._log.error("%s", complaint)
        self._complaint = complaint
