"""The runtime's end of one connection to a plugin, for the embedded runtime."""

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

from google.protobuf.message import Message

from ..plugin.service import PLUGIN_SERVICE
from ..wire.connection import BadCall, Call, Connection, Event, Reply, Role
from ..wire.ttrpc import Code
from ..wire.wire_error import WireError

M = TypeVar("M", bound=Message)

_CHUNK_BYTES: Final = 256 * 1024


class CallError(Exception):
    """The plugin answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Trunk:
    """Calls the plugin and takes its calls, each in a thread of its own.

    `answer` and `ended` get the trunk itself: a call must be answered on the connection it came
    from.
    """

    def __init__(
        self,
        sock: socket.socket,
        answer: Callable[["Trunk", Call], None],
        ended: Callable[["Trunk"], None] = lambda _: None,
    ) -> None:
        self._socket = sock
        self._answer = answer
        self._ended = ended
        self._connection = Connection(Role.RUNTIME)
        self._lock = threading.Lock()
        self._replies: dict[int, Future[Reply]] = {}
        self._reader = threading.Thread(target=self._read, name="trunk", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._reader.start()

    def call(self, method: str, request: Message, kind: type[M], seconds: float) -> M:
        """The plugin's answer. Raises `CallError`, or `OSError` where there is none in time."""
        reply = self.exchange(method, request.SerializeToString(), seconds)
        if reply.code:
            raise CallError(reply.code, reply.message)
        return kind.FromString(reply.payload)

    def exchange(self, method: str, payload: bytes, seconds: float) -> Reply:
        """The plugin's answer to a payload of any bytes; raises `OSError` as `call` does."""
        future: Future[Reply] = Future()
        with self._lock:
            stream_id, data = self._connection.request(
                PLUGIN_SERVICE, method, payload, int(seconds * 1e9)
            )
            self._replies[stream_id] = future
            self._socket.sendall(data)
        return future.result(seconds)

    def respond(self, stream_id: int, message: Message) -> None:
        """Answer a call of the plugin."""
        with self._lock:
            self._send(self._connection.respond(stream_id, message.SerializeToString()))

    def fail(self, stream_id: int, code: Code, text: str) -> None:
        """Answer a call of the plugin with an error."""
        with self._lock:
            self._send(self._connection.fail(stream_id, code, text))

    def close(self) -> None:
        """End the connection; calls under way fail."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the plugin was faster

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError:
            return  # the plugin is gone and does not care

    def _read(self) -> None:
        try:
            while chunk := self._socket.recv(_CHUNK_BYTES):
                with self._lock:
                    events = self._connection.receive(chunk)
                for event in events:
                    self._handle(event)
                self._connection.check()
        except (OSError, WireError):
            pass  # ends like a connection that was closed
        finally:
            self._socket.close()
            with self._lock:
                waiting, self._replies = self._replies, {}
            for future in waiting.values():
                future.set_exception(ConnectionError("ttrpc: closed"))
            self._ended(self)

    def _handle(self, event: Event) -> None:
        match event:
            case Reply(stream_id=stream_id):
                with self._lock:
                    waiting = self._replies.pop(stream_id, None)
                if waiting is not None:
                    waiting.set_result(event)
            case Call():
                threading.Thread(
                    target=self._answer, args=(self, event), name=event.method, daemon=True
                ).start()
            case BadCall(stream_id=stream_id, code=code, message=message):
                self.fail(stream_id, code, message)
