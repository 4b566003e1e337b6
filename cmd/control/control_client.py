"""The client of the control API: asks a running daemon, and says why it cannot."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast

import msgspec

from ...topology.sets.base_errors import PinfoldError
from ..report.escaped_text import escaped
from .control_socket import USUAL_PLACES
from .documents import (
    AuditDocument,
    ContainersDocument,
    ExplainDocument,
    FollowedDocument,
    MoveDocument,
    StatusDocument,
)
from .plain_messages import MessageError, content, request_bytes

if TYPE_CHECKING:
    import grpc

    from ..state.state_file import State

_SERVICE: Final = "/pinfold.control.v1.Control"
_SECONDS: Final = 20.0
_PROBE_SECONDS_MAX: Final = 5.0
_ANSWER_BYTES_MAX: Final = 1 << 26

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
        """The content of the daemon's state file, as it would be by now."""
        from ..state.state_file import State

        return self._ask("State", {}, State)

    def move(self, container_id: str, from_pool: str, to_pool: str) -> MoveDocument:
        """One container moved to another pool, or why it was not."""
        return self._ask("Move", {1: container_id, 2: from_pool, 3: to_pool}, MoveDocument)

    def capture(self, name: str) -> bytes:
        """The topology files of the daemon's machine, as an archive for a file of this name."""
        return self._content("Capture", {1: name})

    def follow(self) -> Iterator[FollowedDocument]:
        """Decisions from now on, as they are made; signs of life are among them."""
        with self._channel() as channel:
            import grpc

            call = cast(
                "grpc.UnaryStreamMultiCallable[bytes, bytes]",
                # The stubs leave the serializers' types open.
                channel.unary_stream(f"{_SERVICE}/Follow", None, None),  # pyright: ignore[reportUnknownMemberType]
            )
            try:
                for answer in cast("Iterator[bytes]", call(b"")):
                    yield self._decoded(self._read(answer), FollowedDocument)
            except grpc.RpcError as error:
                raise self._refused(error) from error

    def _ask(self, method: str, fields: dict[int, str | int], kind: type[_Kind]) -> _Kind:
        return self._decoded(self._content(method, fields), kind)

    def _content(self, method: str, fields: dict[int, str | int]) -> bytes:
        with self._channel() as channel:
            import grpc

            call = cast(
                "grpc.UnaryUnaryMultiCallable[bytes, bytes]",
                # The stubs leave the serializers' types open.
                channel.unary_unary(f"{_SERVICE}/{method}", None, None),  # pyright: ignore[reportUnknownMemberType]
            )
            try:
                answer = call(request_bytes(fields), timeout=self._seconds)
            except grpc.RpcError as error:
                raise self._refused(error) from error
        return self._read(answer)

    def _channel(self) -> grpc.Channel:
        """A connection of its own to a daemon that listens."""
        self._knock()
        import grpc

        options = [
            ("grpc.max_receive_message_length", _ANSWER_BYTES_MAX),
            # A socket has no proxy, whatever the environment says.
            ("grpc.enable_http_proxy", 0),
            # Else questions of several threads share a connection, which the first one closes.
            ("grpc.use_local_subchannel_pool", 1),
        ]
        return grpc.insecure_channel(f"unix:{self._path}", options)

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

    def _other_version(self, error: Exception) -> ControlError:
        return ControlError(
            f"{self._path}: an answer of another version ({error}) — use the pinfold of the"
            " daemon's own version"
        )

    def _knock(self) -> None:
        """See whether somebody listens: gRPC does not tell why it cannot connect."""
        with socket.socket(socket.AF_UNIX) as probe:
            # Blocking, and with an end: with a time limit of its own, the kernel's answer to many
            # others that wait is an error at once.
            seconds = min(self._seconds, _PROBE_SECONDS_MAX)
            # Source: socket(7), SO_SNDTIMEO; unix(7) has it for `connect`.
            patience = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
            try:
                probe.connect(os.fspath(self._path))
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                remedy = _REMEDIES.get(error.errno or 0, "is pinfoldd well? look at its log")
                raise ControlError(f"{self._path}: {reason} — {remedy}") from error

    def _refused(self, error: grpc.RpcError) -> ControlError:
        code, details = error.code().name, error.details() or ""
        if code == "INVALID_ARGUMENT":
            # It names containers, as strangers called them.
            return ControlError(escaped(details))
        if code == "UNAVAILABLE" and "—" not in details:
            details = (
                f"the daemon closed the connection ({details}) — may this user ask? see its log"
            )
        if code == "DEADLINE_EXCEEDED":
            details = f"no answer in {self._seconds:g} s — is pinfoldd well? look at its log"
        return ControlError(f"{self._path}: {details or code.lower()}")


def usual_path(places: Sequence[Path]) -> Path:
    """The first place where there is a socket; the first of all where there is none."""
    return next((one for one in places if one.exists()), places[0])
