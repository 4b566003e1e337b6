"""Saves the state soon after something happened, in a thread of its own."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from ...nri.dispatch.report import (
    Adjusted,
    Decided,
    Happening,
    Reconfigured,
    Released,
    Synchronized,
)
from ...nri.plugin.plugin import Plugin
from ...policy.configuration.config import Config
from ...policy.engine.adoption import Advice
from ...policy.engine.engine import Engine
from ...policy.model.container import Container, ContainerId
from ...topology.drawing.fingerprint import machine_fingerprint, machine_summary
from ...topology.model.machine import Machine
from .saved_pods import SavedPods
from .state_file import SavedMachine, State, write_state

_PAUSE_SECONDS: Final = 0.5
_BUSY_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What the policy holds at one moment; values that stay as they are while it goes on."""

    machine: Machine
    config: Config
    running: tuple[Container, ...]
    advice: Mapping[ContainerId, Advice]

    @classmethod
    def of(cls, policy: Engine) -> "Moment":
        """The present one; only for the policy's thread. O(containers)."""
        return cls(
            machine=policy.machine,
            config=policy.config,
            running=policy.running(),
            advice=policy.advice(),
        )

    def state(self, machine: SavedMachine, pods: SavedPods | None = None) -> State:
        """The moment as it is saved; `machine` is its machine, whose hash takes a while.

        `pods`: remembers what it read of them for the next moment.
        """
        return State(
            machine=machine,
            config=msgspec.to_builtins(self.config),
            pods=(pods or SavedPods()).collect(self.running, self.advice),
        )


def saved_machine(machine: Machine) -> SavedMachine:
    """What is saved of a machine."""
    return SavedMachine(summary=machine_summary(machine), fingerprint=machine_fingerprint(machine))


class StateKeeper:
    """A report: call it with every happening, from any thread."""

    def __init__(
        self, folder: Path, log: logging.Logger, pause_seconds: float = _PAUSE_SECONDS
    ) -> None:
        self._folder = folder
        self._log = log
        self._pause_seconds = pause_seconds
        self._is_changed = threading.Event()
        """Something happened, or it is time to stop."""
        self._is_dirty = False
        self._has_seen = False
        """Whether the runtime told us what runs: before that the file knows more than we do."""
        self._is_stopping = threading.Event()
        self._machine: tuple[Machine, SavedMachine] | None = None
        self._pods = SavedPods()
        self._complaint = ""
        self._thread: threading.Thread | None = None

    def __call__(self, happening: Happening) -> None:
        """Note that there is something to save."""
        if isinstance(happening, Decided | Released | Synchronized):
            self._has_seen = True
        elif not (self._has_seen and isinstance(happening, Reconfigured | Adjusted)):
            return
        self._is_dirty = True
        self._is_changed.set()

    def start(self, plugin: Plugin) -> None:
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

    def _run(self, save: Callable[[], None]) -> None:
        is_last = False
        while not is_last:
            self._is_changed.wait()
            # Many containers start at once: one file for all of them.
            self._is_stopping.wait(self._pause_seconds)
            is_last = self._is_stopping.is_set()
            self._is_changed.clear()
            if self._is_dirty:
                self._is_dirty = False
                try:
                    save()
                except Exception:
                    # Whatever cannot be saved of one moment, the next one may be.
                    self._log.exception(
                        "%s: a fault of ours — the state is not saved", self._folder
                    )

    def _save(self, plugin: Plugin) -> None:
        try:
            moment = plugin.owner.ask(
                "remember", lambda: Moment.of(plugin.events.policy), _BUSY_SECONDS
            )
            if self._machine is None or self._machine[0] is not moment.machine:
                self._machine = (moment.machine, saved_machine(moment.machine))
            state = moment.state(self._machine[1], self._pods)
            write_state(self._folder, state, self._log)
        except OSError as error:  # a busy policy's timeout is one, too
            complaint = error.strerror or str(error)
            if complaint != self._complaint:
                self._log.error("%s: %s — the state is not saved", self._folder, complaint)
            self._complaint = complaint
        else:
            self._complaint = ""
