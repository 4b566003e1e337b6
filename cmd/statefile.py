"""What is remembered over a restart: advice for re-adoption, never the truth.

The runtime's list of containers is the truth. The file only tells apart what looks the same there:
which of a container's cpus are its own, and which pool it was placed in. So a lost, old or broken
file costs nothing but that.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from ..nri.happening import Decided, Happening, Released, Synchronized
from ..nri.plugin import Plugin
from ..policy.adoption import Advice
from ..policy.container import ContainerId
from ..topology.cpuset import CpuSet, IdListError

_NAME: Final = "state.json"
_VERSION: Final = 1
_PAUSE_SECONDS: Final = 0.5
_BUSY_SECONDS: Final = 10.0


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """One container; sets of cpus in the kernel's list format."""

    pool: str
    exclusive: str = ""
    grown: tuple[str, ...] = ()


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The file's content."""

    version: int = _VERSION
    containers: Mapping[str, Remembered] = msgspec.field(default_factory=dict[str, Remembered])

    def advice(self) -> Mapping[ContainerId, Advice]:
        """What the policy is told. Raises `IdListError`."""
        return {
            ContainerId(container_id): Advice(
                pool=one.pool,
                exclusive=CpuSet.parse(one.exclusive),
                grown=tuple(map(CpuSet.parse, one.grown)),
            )
            for container_id, one in self.containers.items()
        }


def read_state(folder: Path, log: logging.Logger) -> State:
    """What was remembered; nothing where there is no file. A broken one is put aside and kept."""
    path = folder / _NAME
    try:
        state = msgspec.json.decode(path.read_bytes(), type=State)
        state.advice()
    except FileNotFoundError:
        return State()
    except OSError as error:
        log.error("%s: %s — going on without what was remembered", path, error.strerror)
        return State()
    except (msgspec.DecodeError, IdListError) as error:
        return _put_aside(path, str(error), log)
    if state.version != _VERSION:
        return _put_aside(path, f"version {state.version} is not {_VERSION}", log)
    return state


def write_state(folder: Path, state: State) -> None:
    """Replace the file in one step: a crash leaves the old or the new one. Raises `OSError`."""
    path = folder / _NAME
    fresh = path.with_suffix(".new")
    data = msgspec.json.encode(state, order="sorted")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def present_state(plugin: Plugin) -> State:
    """What is to be remembered; only for the policy's thread."""
    return State(
        containers={
            container_id: Remembered(
                pool=one.pool,
                exclusive=str(one.exclusive),
                grown=tuple(map(str, one.grown)),
            )
            for container_id, one in plugin.events.policy.advice().items()
        }
    )


class StateKeeper:
    """Saves the state soon after something happened, in a thread of its own.

    Call it with every happening, from any thread.
    """

    def __init__(
        self, folder: Path, log: logging.Logger, pause_seconds: float = _PAUSE_SECONDS
    ) -> None:
        self._folder = folder
        self._log = log
        self._pause_seconds = pause_seconds
        self._is_changed = threading.Event()
        """Something happened, or it is time to stop."""
        self._is_dirty = False
        self._is_stopping = threading.Event()
        self._complaint = ""
        self._thread: threading.Thread | None = None

    def __call__(self, happening: Happening) -> None:
        """Note that there is something to save."""
        if isinstance(happening, Decided | Released | Synchronized):
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
            # Before the runtime told us what runs, the file knows more than we do.
            if self._is_dirty:
                self._is_dirty = False
                save()

    def _save(self, plugin: Plugin) -> None:
        try:
            state = plugin.owner.ask("remember", lambda: present_state(plugin), _BUSY_SECONDS)
            write_state(self._folder, state)
        except OSError as error:  # a busy policy's timeout is one, too
            complaint = error.strerror or str(error)
            if complaint != self._complaint:
                self._log.error("%s: %s — the state is not saved", self._folder, complaint)
            self._complaint = complaint
        else:
            self._complaint = ""


def _put_aside(path: Path, reason: str, log: logging.Logger) -> State:
    aside = path.with_name(f"{path.name}.corrupt-{int(time.time())}")
    try:
        path.replace(aside)
    except OSError as error:
        log.error("%s: %s; cannot be put aside: %s", path, reason, error.strerror)
    else:
        log.warning("%s: %s — put aside as %s; nothing is remembered", path, reason, aside.name)
    return State()
