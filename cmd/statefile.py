"""What is remembered over a restart: advice for re-adoption, never the truth.

The runtime's list of containers is the truth. The file tells apart what looks the same there (which
of a container's cpus are its own, and which pool it was placed in), so a lost, old or broken file
costs nothing but that. And it tells `pinfold config plan` what runs.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from ..policy.adoption import Advice
from ..policy.container import Container, ContainerId
from ..topology.cpuset import IdListError
from ..topology.errors import PinfoldError
from .ownfile import ForeignFileError, put_aside, read_own, replace_own
from .savedcontainer import SavedContainer

STATE_NAME: Final = "state.json"
VERSION: Final = 2


class StateFileError(PinfoldError):
    """A state file is not what this program wrote."""


class SavedMachine(msgspec.Struct, frozen=True, kw_only=True):
    """Which machine the state is of: for people, and for comparing."""

    summary: str = ""
    fingerprint: str = ""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Everything placed, by id, and what it was placed under."""

    machine: SavedMachine = SavedMachine()
    config: Mapping[str, object] = msgspec.field(default_factory=dict[str, object])
    """The configuration in force, every field of it, by the names of files."""
    containers: tuple[SavedContainer, ...] = ()

    def advice(self) -> Mapping[ContainerId, Advice]:
        """What the policy is told at a start. Raises `IdListError`."""
        return {ContainerId(one.id): one.advice() for one in self.containers}

    def running(self) -> tuple[Container, ...]:
        """The containers as a runtime would list them. Raises `IdListError`."""
        return tuple(one.container() for one in self.containers)


class _File(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    checksum: str = ""
    """SHA-256 of the bytes of `state`."""
    state: msgspec.Raw = msgspec.Raw(b"{}")


def load_state(path: Path) -> State:
    """The state in a file. Raises `StateFileError` and `OSError`."""
    try:
        file = msgspec.json.decode(read_own(path), type=_File)
        if file.version != VERSION:
            raise StateFileError(f"{path}: version {file.version} is not {VERSION}")
        if file.checksum != _checksum(bytes(file.state)):
            raise StateFileError(f"{path}: the checksum is not that of its content")
        state = msgspec.json.decode(file.state, type=State)
        state.advice()
        state.running()
    except ForeignFileError as error:
        raise StateFileError(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, IdListError) as error:
        raise StateFileError(f"{path}: {error}") from error
    return state


def read_state(folder: Path, log: logging.Logger, clock: Callable[[], float] = time.time) -> State:
    """What was remembered; nothing where there is no file. A broken one is put aside and kept.

    `clock`: seconds since 1970.
    """
    path = folder / STATE_NAME
    try:
        return load_state(path)
    except FileNotFoundError:
        return State()
    except OSError as error:
        put_aside(path, f"{path}: {(error.strerror or str(error)).lower()}", log, clock)
    except StateFileError as error:
        put_aside(path, str(error), log, clock)
    return State()


def write_state(folder: Path, state: State) -> None:
    """Replace the file in one step: a crash leaves the old or the new one. Raises `OSError`."""
    path = folder / STATE_NAME
    # Page sizes and an operator's free mappings may have numbers for keys, which cannot be sorted.
    content = msgspec.json.encode(msgspec.to_builtins(state, str_keys=True), order="sorted")
    file = _File(version=VERSION, checksum=_checksum(content), state=msgspec.Raw(content))
    replace_own(path, msgspec.json.encode(file))


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
