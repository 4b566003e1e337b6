"""The client of the control API: asks a running daemon, and says why it cannot."""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from ...topology.sets.base_errors import PinfoldError, os_reason
from ..report.escaped_text import escaped
from .control_socket import USUAL_PLACES
from .documents import (
    AuditDocument,
    ContainersDocument,
    ExplainDocument,
    FollowedDocument,
    MoveDocument,
    PlannedMoveDocument,
    StatusDocument,
)
from .grpc_client.grpc_messages import MessageError, content, request_bytes

if TYPE_CHECKING:
    from ..state.state_file import State

_SERVICE: Final = "/pinfold.control.v1.Control"
_SECONDS: Final = 20.0
_PROBE_SECONDS_MAX: Final = 5.0
_LEAST_SECONDS: Final = 0.001
_ANSWER_BYTES_MAX: Final = 1 << 26
_PROMISE_BYTES_MAX: Final = 1 << 15
"""Of a promise. Where it is longer, the rules that it mends are left out: strangers write them."""
_CHUNK_BYTES: Final = 1 << 16
_INVALID_ARGUMENT, _DEADLINE_EXCEEDED, _UNIMPLEMENTED, _UNAVAILABLE = 3, 4, 12, 14
"""Source: gRPC, "Status codes and their use"."""

_Kind = TypeVar("_Kind", bound=msgspec.Struct)

_REMEDIES: Final = {
    errno.ENOENT: "start pinfoldd, or name its socket with --control",
    errno.ECONNREFUSED: "nobody listens there any more: start pinfoldd",
    errno.EACCES: "ask as root, or as a member of the group in control.group",
    errno.EPERM: "ask as root, or as a member of the group in control.group",
}


class ControlError(PinfoldError):
    """The daemon did not answer, or refuses the question."""


class ControlClient:
    """Questions to one daemon, each over a connection of its own."""

    def __init__(self, path: Path | None, seconds: float = _SECONDS) -> None:
        """`path`: its control socket; None for the first one in the usual places.

        `seconds`: how long an answer may take.
        """
        self._path = path or usual_path(USUAL_PLACES)
        self._seconds = seconds

    def status(self) -> StatusDocument:
        """The status of the node. Raises `ControlError`, as all do."""
        return self._ask("Status", {}, StatusDocument)

    def containers(self, name: str = "") -> ContainersDocument:
        """The containers of a name, or of a pod's name; all without one."""
        return self._ask("Containers", {1: name}, ContainersDocument)

    def explain(self, container: str) -> ExplainDocument:
        """The reason of a container's place."""
        return self._ask("Explain", {1: container}, ExplainDocument)

    def audit(self, *, repair: bool) -> AuditDocument:
        """The containers that the kernel has elsewhere; `repair`: told again first."""
        return self._ask("Audit", {1: repair}, AuditDocument)

    def state(self) -> State:
        """The content of the daemon's state file, as it would be at present."""
        from ..state.state_file import State

        return self._ask("State", {}, State)

    def move(
        self,
        container_id: str,
        from_pool: str,
        to_pool: str,
        *,
        moves_exclusive: bool = False,
        promised: Sequence[PlannedMoveDocument] = (),
    ) -> MoveDocument:
        """One container moved to another pool, or why it was not.

        `promised`: the step of a plan that this is, and those for the sake of which it is made.
        """
        told = _promise(promised)
        fields: dict[int, str | int] = {1: container_id, 2: from_pool, 3: to_pool}
        fields |= {4: moves_exclusive, 5: told}
        return self._ask("Move", fields, MoveDocument)

    def capture(self, name: str) -> bytes:
        """The topology files of the daemon's machine, as an archive for a file of this name."""
        return self._content("Capture", {1: name})

    def follow(self) -> Iterator[FollowedDocument]:
        """Decisions from now on, as they are made; signs of life are among them."""
        for answer in self._answers("Follow", b"", None):
            yield self._decoded(self._read(answer), FollowedDocument)

    def _ask(self, method: str, fields: dict[int, str | int], kind: type[_Kind]) -> _Kind:
        return self._decoded(self._content(method, fields), kind)

    def _content(self, method: str, fields: dict[int, str | int]) -> bytes:
        answers = list(self._answers(method, request_bytes(fields), self._seconds))
        if len(answers) != 1:
            raise self._other_version(f"{len(answers)} messages")
        return self._read(answers[0])

    def _answers(self, method: str, request: bytes, seconds: float | None) -> Iterator[bytes]:
        """The messages of an answer; `seconds`: how long it may take."""
        # It loads h2, which a command that asks nothing does without.
        from .grpc_client.grpc_call import OK, AnswerError, GrpcCall

        try:
            call = GrpcCall(f"{_SERVICE}/{method}", request, seconds, _ANSWER_BYTES_MAX)
        except AnswerError as error:
            raise ControlError(f"{method.lower()}: {error} — ask for less") from error
        until = None if seconds is None else time.monotonic() + seconds
        with self._connection() as connection:
            while call.status is None:
                try:
                    data = _exchanged(connection, call.to_send(), until)
                    if not data:
                        raise self._left("it was closed")
                    yield from call.receive(data)
                except TimeoutError as error:
                    raise self._late() from error
                except OSError as error:
                    raise self._left(os_reason(error)) from error
                except AnswerError as error:
                    raise self._other_version(error) from error
        if call.status != OK:
            raise self._refused(call.status, call.details)

    def _connection(self) -> socket.socket:
        """A connection of its own to a daemon that listens."""
        connection = socket.socket(socket.AF_UNIX)
        # Blocking, and with an end: with a time limit of its own, the kernel's answer to many
        # others that wait is an error at once.
        seconds = min(self._seconds, _PROBE_SECONDS_MAX)
        # Source: socket(7), SO_SNDTIMEO; unix(7) has it for `connect`.
        patience = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
        try:
            connection.connect(os.fspath(self._path))
        except OSError as error:
            connection.close()
            reason = os_reason(error)
            remedy = _REMEDIES.get(error.errno or 0, "is pinfoldd well? look at its log")
            if _is_something_else(self._path):
                reason, remedy = "no socket", "name that of pinfoldd with --control"
            raise ControlError(f"{self._path}: {reason} — {remedy}") from error
        return connection

    def _read(self, answer: bytes) -> bytes:
        try:
            return content(answer)
        except MessageError as error:
            raise self._other_version(error) from error

    def _decoded(self, text: bytes, kind: type[_Kind]) -> _Kind:
        try:
            return msgspec.json.decode(text, type=kind)
        except msgspec.DecodeError as error:
            raise self._other_version(error) from error

    def _other_version(self, error: object) -> ControlError:
        return ControlError(
            f"{self._path}: an answer of another version ({error}) — use the pinfold of the"
            " daemon's own version"
        )

    def _left(self, reason: str) -> ControlError:
        return ControlError(
            f"{self._path}: the daemon closed the connection ({reason}) — does it still run, and"
            " may this user ask? see its log"
        )

    def _late(self) -> ControlError:
        return ControlError(
            f"{self._path}: no answer in {self._seconds:g} s — is pinfoldd well? look at its log"
        )

    def _refused(self, status: int, details: str) -> ControlError:
        # It names containers, as strangers called them.
        said = escaped(details)
        if status == _INVALID_ARGUMENT:
            return ControlError(said)
        if status == _DEADLINE_EXCEEDED:
            return self._late()
        if status == _UNIMPLEMENTED:
            return ControlError(
                f"{self._path}: another program answers there, or a pinfoldd of another version"
                " — name the socket of pinfoldd with --control, and use its own pinfold"
            )
        if status == _UNAVAILABLE and "—" not in said:
            return self._left(said)
        return ControlError(f"{self._path}: {said or f'status {status}'}")


def _exchanged(connection: socket.socket, said: bytes, until: float | None) -> bytes:
    """What came after something was said; nothing at the end. Raises `OSError`."""
    if until is not None:
        # 0 would be a socket that never waits.
        connection.settimeout(max(_LEAST_SECONDS, until - time.monotonic()))
    if said:
        connection.sendall(said)
    return connection.recv(_CHUNK_BYTES)


def _is_something_else(path: Path) -> bool:
    """Whether there is a file that is no socket; False where nobody may look."""
    try:
        return not stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False


def _promise(steps: Sequence[PlannedMoveDocument]) -> str:
    if not steps:
        return ""
    told = msgspec.json.encode(steps)
    if len(told) > _PROMISE_BYTES_MAX:
        told = msgspec.json.encode([msgspec.structs.replace(one, mends=()) for one in steps])
    return told.decode()


def usual_path(places: Sequence[Path]) -> Path:
    """The first place where there is a socket; the first of all where there is none."""
    # What is in a folder that may not be looked into is left out: pathlib would raise.
    return next((one for one in places if os.path.exists(one)), places[0])
