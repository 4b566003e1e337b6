"""Saves the state as soon as something happened, in a thread of its own, and not too often."""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ...nri.dispatch.front import Front, take_snapshot
from ...nri.dispatch.report import (
    Adjusted,
    Decided,
    Happening,
    Identified,
    Reconfigured,
    Released,
    Synchronized,
    Unmoved,
)
from ...policy.configuration.config import Config
from ...policy.engine.advice import Advice
from ...policy.model.container import ContainerId
from ...topology.sets.base_errors import os_reason
from .saved_states import SavedStates
from .state_file import StateFile
from .state_folder import StateFolderError, claim_folder

_PAUSE_SECONDS: Final = 0.95
"""At least so long between two savings, however much happens: a crash may cost, of the last second,
what the cpus in the runtime's list do not tell."""
_GATHERING_SECONDS: Final = 0.03
"""What happens after a while of quiet is saved so soon: a pod's next container may be in it."""
_PAUSES: Final = 250
"""A pause is so many times as long as the saving before it took: 0.4 % of a processor, and a state
every two seconds on a node with a thousand containers that come and go."""
_BUSY_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 10.0
"""What could not be saved is saved after so long although nothing happens: a disk has room again.
"""


class StateKeeper:
    """A report: call it with every happening, from any thread."""

    takes = (Decided, Identified, Released, Synchronized, Reconfigured, Adjusted, Unmoved)

    def __init__(
        self,
        folder: Path,
        log: logging.Logger,
        pause_seconds: float = _PAUSE_SECONDS,
        again_seconds: float = _AGAIN_SECONDS,
    ) -> None:
        self._folder = folder
        self._marks = _marks(folder)
        self._log = log
        self._pause_seconds = pause_seconds
        self._again_seconds = again_seconds
        self._is_changed = threading.Event()
        """Something happened, or it is time to stop."""
        self._is_dirty = False
        self._has_seen = False
        """Whether the runtime told us what runs: before that the file knows more than we do."""
        self._is_stopping = threading.Event()
        self._states = SavedStates()
        self._file = StateFile(folder, log)
        self._has_landed = True
        """Whether nobody was on cpus any more, as was saved, that are not its own by now."""
        self._complaint = ""
        self._free_from = 0.0
        """On the monotonic clock, when the pause after the last saving is over."""
        self._thread: threading.Thread | None = None

    def __call__(self, happening: Happening) -> None:
        """Note that there is something to save."""
        if isinstance(happening, Decided | Identified | Released | Synchronized):
            self._has_seen = True
        elif not (self._has_seen and isinstance(happening, Reconfigured | Adjusted | Unmoved)):
            return
        self._is_dirty = True
        if not self._is_changed.is_set():
            self._is_changed.set()

    def fault(self) -> str:
        """The fault that kept the state from being saved last; empty where it was saved."""
        return self._complaint

    def recall(self, config: Config) -> Mapping[ContainerId, Advice]:
        """Advice that an earlier daemon left; to be asked before anybody is told anything.

        `config`: the configuration that the policy begins with.
        """
        state, is_final = self._file.recall()
        return state.advice(config, is_final=is_final)

    def start(self, plugin: Front) -> None:
        """Begin to save what `plugin` has."""
        self._thread = threading.Thread(
            target=self._run, args=(lambda: self._save(plugin),), name="state", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Save what changed last; needed before the plugin's policy ends."""
        self._is_stopping.set()
        self._is_changed.set()
        if self._thread is not None:
            self._thread.join()

    def seal(self, plugin: Front) -> None:
        """Save the last word: what happened behind `stop`, and that nothing comes after it.

        For when `plugin` is over and tells nobody anything more. Where no runtime was there what
        an earlier daemon left is still its last word.
        """
        try:
            if self._has_seen:
                self._save(plugin)
            # What a runtime did not do yet, or would not, it may never do.
            if self._has_landed and not self._complaint:
                self._file.seal()
        except OSError as error:
            self._log.warning(
                "%s: %s — it cannot be noted that nobody is told anything more:"
                " where containers run counts more",
                *(self._folder, os_reason(error)),
            )
        except Exception:
            self._log.exception("%s: a fault of ours at the end", self._folder)

    def _run(self, save: Callable[[], None]) -> None:
        is_last = False
        while not is_last:
            has_failed = bool(self._complaint)
            self._is_changed.wait(self._again_seconds if has_failed else None)
            # Many containers start at once: one file for the first ones, and one for all others.
            gathering = min(_GATHERING_SECONDS, self._pause_seconds)
            self._is_stopping.wait(max(gathering, self._free_from - time.monotonic()))
            # In this order: an end that comes in between is seen, or sets the event anew.
            self._is_changed.clear()
            is_last = self._is_stopping.is_set()
            if self._is_dirty or has_failed:
                self._is_dirty = False
                begun = time.thread_time()
                try:
                    save()
                except Exception:
                    # Whatever cannot be saved of one moment, the next one may be.
                    self._complaint = f"{self._folder}: a fault of ours — the state is not saved"
                    self._log.exception("%s", self._complaint)
                cost_seconds = time.thread_time() - begun
                pause = max(self._pause_seconds, _PAUSES * cost_seconds)
                self._free_from = time.monotonic() + pause

    def _save(self, plugin: Front) -> None:
        try:
            snapshot = take_snapshot(plugin, "remember", _BUSY_SECONDS)
            self._make_again()
            self._has_landed = snapshot.has_landed
            self._file.write(self._states.of(snapshot, plugin.owner.pacer))
        except OSError as error:  # a busy policy's timeout is one, too
            self._complain(f"{self._folder}: {error.strerror or error} — the state is not saved")
        except StateFolderError as error:
            self._complain(f"{error}; the state is not saved")
        else:
            self._complaint = ""

    def _make_again(self) -> None:
        """Make and claim the folder anew where somebody deleted it: the claim went with it."""
        if self._marks is None or _marks(self._folder) == self._marks:
            return
        claim_folder(self._folder)
        self._marks = _marks(self._folder)
        self._log.warning("%s: the state directory was gone, and is made anew", self._folder)

    def _complain(self, complaint: str) -> None:
        if complaint != self._complaint:
            self._log.error("%s", complaint)
        self._complaint = complaint


def _marks(folder: Path) -> tuple[int, int] | None:
    """Device and inode of a folder; None where it is not there, or cannot be looked at."""
    try:
        found = os.stat(folder)
    except (OSError, ValueError):  # a name that none can have
        return None
    return found.st_dev, found.st_ino
