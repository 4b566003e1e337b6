"""Saves the state as soon as something happened, in a thread of its own, and not too often."""

import logging
import os
import time
from collections.abc import Mapping
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
from .keeper import Keeper
from .saved_states import SavedStates
from .state_file import StateFile
from .state_folder import claim_folder

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


class StateKeeper(Keeper):
    """A report: call it with every happening, from any thread."""

    takes = (Decided, Identified, Released, Synchronized, Reconfigured, Adjusted, Unmoved)

    def __init__(
        self,
        folder: Path,
        log: logging.Logger,
        pause_seconds: float = _PAUSE_SECONDS,
        again_seconds: float = _AGAIN_SECONDS,
    ) -> None:
        super().__init__("state", folder, log, again_seconds, "the state is not saved")
        self._marks = _marks(folder)
        self._pause_seconds = pause_seconds
        self._is_dirty = False
        self._has_seen = False
        """Whether the runtime told us what runs: before that the file knows more than we do."""
        self._states = SavedStates()
        self._file = StateFile(folder, log)
        self._has_landed = True
        """Whether nobody was on cpus any more, as was saved, that are not its own by now."""

    def __call__(self, happening: Happening) -> None:
        """Note that there is something to save."""
        if isinstance(happening, Decided | Identified | Released | Synchronized):
            self._has_seen = True
        elif not (self._has_seen and isinstance(happening, Reconfigured | Adjusted | Unmoved)):
            return
        if not self._is_dirty:
            self._is_dirty = True
            self._is_changed.set()

    def recall(self, config: Config) -> Mapping[ContainerId, Advice]:
        """Advice that an earlier daemon left; to be asked before anybody is told anything.

        `config`: the configuration that the policy begins with.
        """
        state, is_final = self._file.recall()
        return state.advice(config, is_final=is_final)

    def seal(self, front: Front) -> None:
        """Save the last word: what happened behind `stop`, and that nothing comes after it.

        For when `front` is over and tells nobody anything more. Where no runtime was there what
        an earlier daemon left is still its last word.
        """
        try:
            if self._has_seen:
                self._attempt(front, is_last=True)
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

    def _pause_seconds_left(self) -> float:
        # Many containers start at once: one file for the first ones, and one for all others.
        gathering = min(_GATHERING_SECONDS, self._pause_seconds)
        pause = max(self._pause_seconds, _PAUSES * self._cost_seconds)
        return max(gathering, self._kept_at + pause - time.monotonic())

    def _is_due(self) -> bool:
        if not (self._is_dirty or self._complaint):
            # Left as it is: something may happen just now, in another thread.
            return False
        self._is_dirty = False
        return True

    def _keep(self, front: Front, *, is_last: bool) -> None:
        del is_last
        snapshot = take_snapshot(front, "remember", _BUSY_SECONDS)
        self._make_again()
        self._has_landed = snapshot.has_landed
        self._file.write(self._states.of(snapshot, front.owner.pacer))

    def _make_again(self) -> None:
        """Make and claim the folder anew where somebody deleted it: the claim went with it."""
        if self._marks is None or _marks(self._folder) == self._marks:
            return
        claim_folder(self._folder)
        self._marks = _marks(self._folder)
        self._log.warning("%s: the state directory was gone, and is made anew", self._folder)


def _marks(folder: Path) -> tuple[int, int] | None:
    """Device and inode of a folder; None where it is not there, or cannot be looked at."""
    try:
        found = os.stat(folder)
    except (OSError, ValueError):  # a name that none can have
        return None
    return found.st_dev, found.st_ino
