"""The state file, kept over a restart: advice for re-adoption, never the truth.

The runtime's list of containers is the truth. The file tells apart what looks the same there (which
of a container's cpus are its own, and which pool it was placed in), so a lost, old or broken file
costs nothing but that. And it tells `pinfold config plan` what runs.
"""

import logging
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from ...policy.configuration.config import Config
from ...policy.engine.advice import Advice
from ...policy.model.container import Container, ContainerId
from ...topology.sets.base_errors import PinfoldError, os_reason
from ...topology.sets.cpuset import NO_CPUS, CpuSet, IdListError
from .own_file import ForeignFileError, OwnFile, read_bounded_file
from .saved_container import SavedContainer, SavedPod

STATE_NAME: Final = "state.json"
VERSION: Final = 4
_SLOW_VERSION: Final = 3
"""A version whose checksum is SHA-256, as that of the one before."""
_FLAT_VERSION: Final = 2
"""A version in which every container had its pod with it."""
_VERSIONS: Final = (_FLAT_VERSION, _SLOW_VERSION, VERSION)
_SHA256_DIGITS: Final = 64
_BEFORE_MARK: Final = f'{{"version":{VERSION},"is_final":'.encode()
_FINAL: Final = b"true "
_NOT_FINAL: Final = b"false"
"""Marks of one length, each of which can be written over the other one: that needs no room on a
full disk, and whoever is killed at it leaves one or the other."""


class StateFileError(PinfoldError):
    """A state file is not what this program wrote."""


class SavedMachine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine that a state is of: a summary for people, a fingerprint to compare."""

    summary: str = ""
    fingerprint: str = ""
    spec: str = ""
    """The line that it was made of; empty for a machine that was read."""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Placed pods with their containers, and the machine and configuration they were placed under.

    No two pods have one id.
    """

    machine: SavedMachine = SavedMachine()
    config: Mapping[str, object] = msgspec.field(default_factory=dict[str, object])
    """The configuration in force, every field of it, by the names of files."""
    usable: str | None = None
    """The cpus that were usable, reserved ones left out, in the kernel's list format."""
    reserved: str | None = None
    """The cpus that were reserved, likewise."""
    knows_beside: bool = False
    """Whether it tells of cpus that are kept shared: earlier versions did not."""
    stuck: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """The cpus, likewise, on which the kernel has containers that are stuck, by their ids."""
    pods: tuple[SavedPod, ...] = ()

    def advice(
        self, config: Config | None = None, *, is_final: bool = False
    ) -> Mapping[ContainerId, Advice]:
        """Advice for the policy's start, by container id. Raises `IdListError`.

        `config`: the configuration that it starts with; None: that of the state. `is_final`:
        whether nobody was told anything after it was saved.
        """
        knows_beside = self.knows_beside and (config is None or self._is_under(config))
        # Who is not pinned any more runs where the kernel says, and is not led back.
        pins = config is None or config.pin_cpu
        is_final = is_final and pins
        usable = None if self.usable is None else CpuSet.parse(self.usable)
        reserved = None if self.reserved is None else CpuSet.parse(self.reserved)
        found: dict[ContainerId, Advice] = {}
        for pod in self.pods:
            labels, pens = None if pod.is_cut else pod.labels, pod.pens()
            for one in pod.containers:
                # Of a pen whose cpus others share, too, neither is told: it has none of its own.
                has_some = one.is_penned and (one.exclusive or one.rest)
                pen = pens[one.rest] if has_some else NO_CPUS
                found[ContainerId(one.id)] = one.advice(
                    *(labels, usable, reserved),
                    pen=pen,
                    knows_beside=knows_beside,
                    is_final=is_final,
                    stuck=CpuSet.parse(self.stuck.get(one.id, "") if pins else ""),
                )
        return found

    def _is_under(self, config: Config) -> bool:
        return _sorted_json(self.config) == _sorted_json(msgspec.to_builtins(config))

    def running(self) -> tuple[Container, ...]:
        """The containers as a runtime would list them. Raises `IdListError`."""
        return tuple(one for pod in self.pods for one in pod.running())


class _FlatContainer(SavedContainer, frozen=True, kw_only=True):
    pod: SavedPod


class _FlatState(msgspec.Struct, frozen=True, kw_only=True):
    """A state of version 2."""

    machine: SavedMachine = SavedMachine()
    config: Mapping[str, object] = msgspec.field(default_factory=dict[str, object])
    containers: tuple[_FlatContainer, ...] = ()

    def state(self) -> State:
        groups: dict[str, list[_FlatContainer]] = {}
        for one in self.containers:
            groups.setdefault(one.pod.id, []).append(one)
        pods = (
            msgspec.structs.replace(
                group[0].pod,
                containers=msgspec.convert(msgspec.to_builtins(group), tuple[SavedContainer, ...]),
            )
            for group in groups.values()
        )
        return State(machine=self.machine, config=self.config, pods=tuple(pods))


class _File(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    checksum: str = ""
    """Of the bytes of `state`: it finds damage, and keeps nobody from writing what they like."""
    state: msgspec.Raw = msgspec.Raw(b"{}")


def load_state(path: Path) -> State:
    """The state in a file, whose ever it is. Raises `StateFileError` and `OSError`."""
    try:
        state = _parse(path, read_bounded_file(path))
        state.running()
    except (ForeignFileError, IdListError) as error:
        raise StateFileError(str(error)) from error
    return state


def parse_state(name: Path, data: bytes) -> State:
    """The state in the JSON of a state alone, without version and checksum.

    Raises `StateFileError`.
    """
    try:
        state = msgspec.json.decode(data, type=State)
        state.advice()
        state.running()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, IdListError) as error:
        raise StateFileError(f"{name}: {error}") from error
    return state


def read_state(folder: Path, log: logging.Logger, clock: Callable[[], float] = time.time) -> State:
    """The state in a folder's file; empty where there is none.

    A broken file, or one that others could have written, is put aside and kept. Only advice is
    taken from it, so whether it could tell what runs is not asked: that takes longest.
    `clock`: seconds since 1970.
    """
    return _read(OwnFile(folder / STATE_NAME, log, clock))[0]


def _read(own: OwnFile) -> tuple[State, bytes]:
    """The state in a file, and its bytes; none where it cannot be believed."""
    data = own.read()
    if data is None:
        return State(), b""
    try:
        return _parse(own.path, data), data
    except StateFileError as error:
        own.disbelieve(str(error))
        return State(), b""


class StateFile:
    """The file of a state. What it wrote of pods is kept for the next time. For one thread.

    A mark in it says whether it is the last word of its daemon: then nobody was told anything
    since. It stands before the state, whose checksum is the same with it.
    """

    def __init__(self, folder: Path, log: logging.Logger) -> None:
        self._log = log
        self._own = OwnFile(folder / STATE_NAME, log)
        self._config: tuple[object, bytes] | None = None
        self._pods: dict[str, tuple[SavedPod, bytes]] = {}
        """The JSON of each pod behind a comma, which would be one more piece."""
        self._checksum = ""

    def recall(self) -> tuple[State, bool]:
        """The state that lies there, see `read_state`, and whether it is the last word.

        Not any more for whoever reads it next: what happens from here on is not in it. Where that
        cannot be noted there, it is not taken for the last word here either.
        A crash of the whole machine may bring the mark back, when nothing runs any more that the
        state is about: so it is not waited for the disk.
        """
        state, data = _read(self._own)
        if not data.startswith(_BEFORE_MARK + _FINAL):
            return state, False
        try:
            self._own.patch(len(_BEFORE_MARK), _NOT_FINAL)
        except OSError as error:
            reason = os_reason(error)
            self._log.warning(
                "%s: %s — it cannot be noted that it gets old: where containers run counts more",
                *(self._own.path, reason),
            )
            return state, False
        return state, True

    def seal(self) -> None:
        """Mark what was recalled, or written last, as the last word. Raises `OSError`.

        Nothing is done where something else lies there.
        """
        if self._own.is_as_left():
            # Whatever is written after all, be it the same, takes the mark away.
            self._checksum = ""
            self._own.patch(len(_BEFORE_MARK), _FINAL)

    def write(self, state: State) -> None:
        """Replace the file in one step: a crash leaves the old or the new one. Raises `OSError`.

        Nothing is done where the same lies there. O(length of what is another object than before).
        """
        pieces = self._pieces(state)
        checksum = _checksum(pieces)
        if checksum != self._checksum or not self._own.is_as_left():
            head = _BEFORE_MARK + _NOT_FINAL + f',"checksum":"{checksum}","state":'.encode()
            self._own.replace([head, *pieces, b"}"])
            self._checksum = checksum

    def _pieces(self, state: State) -> list[bytes]:
        """The JSON of a state, never as a whole: its memory would hardly be had back."""
        if self._config is None or self._config[0] is not state.config:
            self._config = (state.config, _sorted_json(state.config))
        known, self._pods = self._pods, {}
        machine = msgspec.json.encode(state.machine, order="sorted")
        pieces = [b'{"config":', self._config[1]]
        pieces += b',"knows_beside":', msgspec.json.encode(state.knows_beside)
        pieces += b',"machine":', machine, b',"pods":['
        for pod in state.pods:
            before = known.get(pod.id)
            if before is None or before[0] is not pod:
                before = (pod, b"," + _sorted_json(pod))
            pieces.append(before[1] if self._pods else before[1][1:])
            self._pods[pod.id] = before
        pieces += b'],"reserved":', msgspec.json.encode(state.reserved)
        pieces += b',"stuck":', msgspec.json.encode(state.stuck, order="sorted")
        pieces += b',"usable":', msgspec.json.encode(state.usable), b"}"
        return pieces


def _sorted_json(value: object) -> bytes:
    try:
        return msgspec.json.encode(value, order="sorted")
    except TypeError:
        # Page sizes and an operator's free mappings may have numbers for keys, which cannot be
        # sorted; for all others that takes three times as long.
        return msgspec.json.encode(msgspec.to_builtins(value, str_keys=True), order="sorted")


def _parse(path: Path, data: bytes) -> State:
    """Raises `StateFileError`."""
    try:
        file = msgspec.json.decode(data, type=_File)
        if file.version not in _VERSIONS:
            known = f"{_FLAT_VERSION}, {_SLOW_VERSION} or {VERSION}"
            raise StateFileError(f"{path}: version {file.version} is not {known}")
        if not _is_intact(file):
            raise StateFileError(f"{path}: the checksum is not that of its content")
        if file.version == _FLAT_VERSION:
            state = msgspec.json.decode(file.state, type=_FlatState).state()
        else:
            state = msgspec.json.decode(file.state, type=State)
        state.advice()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, IdListError) as error:
        raise StateFileError(f"{path}: {error}") from error
    return state


def _is_intact(file: _File) -> bool:
    content = bytes(file.state)
    if len(file.checksum) < _SHA256_DIGITS:
        return file.checksum == _checksum([content])
    # As older daemons wrote it. Imported here: it loads OpenSSL, more than any other library.
    import hashlib

    return file.checksum == hashlib.sha256(content).hexdigest()


def _checksum(pieces: Iterable[bytes]) -> str:
    found = size = 0
    for piece in pieces:
        found = zlib.crc32(piece, found)
        size += len(piece)
    return f"{found:08x}-{size}"
