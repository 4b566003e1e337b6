"""Updates over the runtime's CRI socket, as the kubelet's own CPU manager makes them.

They take the runtime's locks in the order of every other call of the kubelet, so they cannot make
it hang. Each raises an UpdateContainer at the NRI plugin itself.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeVar, cast

from google.protobuf.message import Message

from ...policy.model.container import ContainerId
from ...policy.model.pinning import Pinning
from .update_sender import NoAnswerError

if TYPE_CHECKING:
    import grpc

_Reply = TypeVar("_Reply", bound=Message)

_ANSWER_SECONDS: Final = 60.0
_VERSION_SECONDS: Final = 10.0
_SERVICE: Final = "/runtime.v1.RuntimeService"


class CriSocket:
    """One runtime's CRI socket, connected at the first update. One `send` at a time.

    `runtime`: the name that the runtime told over NRI; another one at the socket gets nothing.
    """

    raises_events: bool = True
    """Whether events ask about each update: they do, as about any caller's."""

    def __init__(self, path: str, runtime: str) -> None:
        self._path = path
        self._runtime = runtime
        self._lock = threading.Lock()
        self._channel: grpc.Channel | None = None
        self._is_closed = False

    def send(self, updates: Mapping[ContainerId, Pinning]) -> Mapping[ContainerId, str]:
        """Set cpus and memory nodes; nothing else of a container is touched. See `UpdateSender`."""
        try:
            error = self._connect()
            if error:
                return dict.fromkeys(updates, error)
            failed = {one: self._update(one, pinning) for one, pinning in updates.items()}
        except ValueError as error:  # what a channel raises that was closed meanwhile
            raise NoAnswerError(f"{self._path}: closed") from error
        return {one: reason for one, reason in failed.items() if reason}

    def close(self) -> None:
        """End the connection and what is under way."""
        with self._lock:
            self._is_closed = True
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _connect(self) -> str:
        """Open the connection once; returns why that cannot be, if so."""
        if self._channel is not None:
            return ""
        # Imported here: it takes as long to load as everything else, and most updates go another
        # way.
        import grpc

        from ..api import cri_proxy_pb2 as cri

        with self._lock:
            if self._is_closed:
                return "the connection is over"
            # A proxy named in the environment is for other hosts.
            self._channel = grpc.insecure_channel(
                f"unix:{self._path}", options=[("grpc.enable_http_proxy", 0)]
            )
        try:
            reply = self._call("Version", cri.Empty(), cri.VersionResponse, _VERSION_SECONDS)
        except grpc.RpcError as error:
            self._forget_channel()
            if _is_silence(error):
                raise NoAnswerError(f"{self._path}: {_reason(error)}") from error
            return f"{self._path}: {_reason(error)} — name the runtime's socket with --cri-socket"
        if reply.runtime_name != self._runtime:
            self._forget_channel()
            return (
                f"{self._path}: here is {reply.runtime_name!r}, not {self._runtime!r} — name the"
                " runtime's socket with --cri-socket"
            )
        return ""

    def _update(self, container_id: ContainerId, pinning: Pinning) -> str:
        import grpc

        from ..api import cri_proxy_pb2 as cri

        cpus = str(pinning.cpus) if pinning.cpus else ""
        mems = str(pinning.mems) if pinning.mems else ""
        if not container_id or not (cpus or mems):
            return ""
        resources = cri.Resources(cpuset_cpus=cpus, cpuset_mems=mems)
        request = cri.UpdateRequest(container_id=container_id, linux=resources)
        try:
            self._call("UpdateContainerResources", request, cri.Empty, _ANSWER_SECONDS)
        except grpc.RpcError as error:
            if _is_silence(error):
                raise NoAnswerError(f"{self._path}: {_reason(error)}") from error
            return _reason(error)
        return ""

    def _call(self, method: str, request: Message, kind: type[_Reply], seconds: float) -> _Reply:
        channel = self._channel
        if channel is None:
            raise NoAnswerError(f"{self._path}: closed")
        return unary_reply(channel, f"{_SERVICE}/{method}", request, kind, seconds)

    def _forget_channel(self) -> None:
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()


def unary_reply(
    channel: grpc.Channel,
    method: str,
    request: Message,
    kind: type[_Reply],
    seconds: float,
    *,
    waits_for_ready: bool | None = None,
) -> _Reply:
    """The reply to a call of a method that is given by its whole name. Raises `grpc.RpcError`.

    `waits_for_ready`: for a connection, which may take as long as the reply; else it fails at once.
    """
    call = cast(
        "grpc.UnaryUnaryMultiCallable[Message, _Reply]",
        # The stubs leave the serializers' types open.
        channel.unary_unary(  # pyright: ignore[reportUnknownMemberType]
            method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=kind.FromString,
        ),
    )
    return call(request, timeout=seconds, wait_for_ready=waits_for_ready)


def _is_silence(error: grpc.RpcError) -> bool:
    """Whether there was no answer at all."""
    code = cast("grpc.Call", error).code()
    # By name: grpc is not loaded with this module.
    return code.name in ("DEADLINE_EXCEEDED", "CANCELLED")


def _reason(error: grpc.RpcError) -> str:
    call = cast("grpc.Call", error)
    return f"{call.code().name}: {call.details() or 'no details'}"
