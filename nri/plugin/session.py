"""One connection to a runtime, from registration to its end."""

import select
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import Message

from ..api import nri_pb2
from ..wire.connection import BadCall, Call, Connection, Event, Reply, Role
from ..wire.wire_error import WireError
from .runtime_versions import OUR_NRI_VERSION
from .service import RUNTIME_SERVICE, Rejection, Service

_CHUNK_BYTES: Final = 256 * 1024
_SEND_SECONDS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """How we present ourselves; runtimes call plugins in the order of their index."""

    name: str = "pinfold"
    index: str = "90"
    """Exactly two digits."""
    is_preinstalled: bool = False
    """Whether the runtime started us; containerd 1.7 then never sends Synchronize."""


class Session:
    """A plugin's end of one connected socket; `run` serves it in the calling thread."""

    def __init__(
        self,
        sock: socket.socket,
        service: Service,
        identity: Identity,
        clock: Callable[[], float],
        ready: Callable[[], None],
        handshake_seconds: float = 10.0,
    ) -> None:
        self._socket = sock
        self._service = service
        self._identity = identity
        self._clock = clock
        self._ready = ready
        self._handshake_seconds = handshake_seconds
        self._connection = Connection(Role.PLUGIN)
        self._lock = threading.Lock()
        self._replies: dict[int, Future[Reply]] = {}
        self._is_ready = False
        # A runtime that does not read must not hold us for ever.
        timeout = struct.pack("ll", _SEND_SECONDS, 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)

    def run(self) -> str:
        """Register and serve until the connection is over; returns why it is."""
        started = self._clock()
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        try:
            registered = self._register()
            while True:
                left = None
                if not self._is_ready:
                    left = max(0.0, started + self._handshake_seconds - self._clock()) * 1000
                if not poller.poll(left):
                    return "the runtime did not finish the handshake"
                chunk = self._socket.recv(_CHUNK_BYTES)
                if not chunk:
                    return "the runtime closed the connection"
                with self._lock:
                    events = self._connection.receive(chunk)
                for event in events:
                    self._handle(event)
                self._connection.check()
                if registered.done() and (reply := registered.result()).code:
                    return f"registration refused: {reply.message}"
                if self._service.forgotten:
                    return self._service.forgotten
                if self._is_left_in_the_dark():
                    return (
                        f"{self._service.runtime_name} {self._service.runtime_version} does not"
                        " tell pre-installed plugins what runs already, so CPUs of running"
                        " containers would be given away — take pinfoldd out of the runtime's"
                        " plugin folder and run it as a service"
                    )
                self._watch_readiness()
        except WireError as error:
            return str(error)
        except OSError as error:
            return error.strerror or str(error)
        finally:
            self._end()

    def request(self, method: str, message: Message, seconds: float) -> Reply | None:
        """The runtime's answer to a call of ours; None where it does not come in time.

        Never for use while a call of the runtime is being answered: it holds a lock meanwhile that
        ours would wait for.
        """
        try:
            return self._send_request(method, message).result(seconds)
        except OSError:  # a timeout is one, too
            return None

    def close(self) -> None:
        """End `run` from another thread."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the peer was faster

    def _register(self) -> Future[Reply]:
        request = nri_pb2.RegisterPluginRequest(
            plugin_name=self._identity.name,
            plugin_idx=self._identity.index,
            NRI_version=OUR_NRI_VERSION,
        )
        return self._send_request("RegisterPlugin", request)

    def _handle(self, event: Event) -> None:
        match event:
            case Call(stream_id=stream_id):
                answer = self._service.serve(event)
                with self._lock:
                    if isinstance(answer, Rejection):
                        data = self._connection.fail(stream_id, answer.code, answer.message)
                    else:
                        data = self._connection.respond(stream_id, answer)
                    self._socket.sendall(data)
            case BadCall(stream_id=stream_id, code=code, message=message):
                with self._lock:
                    self._socket.sendall(self._connection.fail(stream_id, code, message))
            case Reply(stream_id=stream_id):
                with self._lock:
                    waiting = self._replies.pop(stream_id, None)
                if waiting is not None:
                    waiting.set_result(event)

    def _send_request(self, method: str, message: Message) -> Future[Reply]:
        future: Future[Reply] = Future()
        with self._lock:
            stream_id, data = self._connection.request(
                RUNTIME_SERVICE, method, message.SerializeToString()
            )
            self._replies[stream_id] = future
            try:
                self._socket.sendall(data)
            except OSError:
                # Half a message may be out: nothing can follow it.
                self.close()
                raise
        return future

    def _watch_readiness(self) -> None:
        """Notice once that everything that runs is known."""
        if not self._is_ready and self._service.is_synchronized:
            self._is_ready = True
            self._ready()

    def _is_left_in_the_dark(self) -> bool:
        """Whether the runtime started us and will not tell what runs."""
        can = self._service.abilities
        return self._identity.is_preinstalled and not (can is None or can.synchronizes_preinstalled)

    def _end(self) -> None:
        self._socket.close()
        with self._lock:
            waiting, self._replies = self._replies, {}
        for future in waiting.values():
            future.set_exception(ConnectionError("the connection is over"))
