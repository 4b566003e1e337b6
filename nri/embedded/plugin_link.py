"""The runtime's end of one connection to a plugin, for the embedded runtime."""

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import TypeVar

from google.protobuf.message import Message

from ..plugin.service import PLUGIN_SERVICE
from ..plugin.wire_socket import WireSocket
from ..wire.connection import Call, Event, Rejection, Reply, Role
from ..wire.mux import WireError
from ..wire.ttrpc import Code

M = TypeVar("M", bound=Message)


class CallError(Exception):
    """The plugin answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class PluginLink:
    """Calls the plugin and takes its calls, each in a thread of its own.

    `answer` and `ended` get the link itself: a call must be answered on the connection it came
    from.
    """

    def __init__(
        self,
        sock: socket.socket,
        answer: Callable[["PluginLink", Call], None],
        ended: Callable[["PluginLink"], None] = lambda _: None,
    ) -> None:
        self._wire = WireSocket(sock, Role.RUNTIME, PLUGIN_SERVICE)
        self._answer = answer
        self._ended = ended
        self._reader = threading.Thread(target=self._read, name="link", daemon=True)

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
        return self._wire.request(method, payload, int(seconds * 1e9)).result(seconds)

    def respond(self, stream_id: int, message: Message) -> None:
        """Answer a call of the plugin; one that is gone does not care."""
        with contextlib.suppress(OSError):
            self._wire.respond(stream_id, message.SerializeToString())

    def fail(self, stream_id: int, code: Code, text: str) -> None:
        """Answer a call of the plugin with an error."""
        with contextlib.suppress(OSError):
            self._wire.respond(stream_id, Rejection(code, text))

    def close(self) -> None:
        """End the connection; calls under way fail."""
        self._wire.close()

    def _read(self) -> None:
        try:
            while not self._wire.fault and (chunk := self._wire.read()):
                for event in self._wire.events(chunk):
                    self._handle(event)
        except (OSError, WireError):
            pass  # ends like a connection that was closed
        finally:
            self._wire.release()
            self._ended(self)

    def _handle(self, event: Event) -> None:
        if isinstance(event, Call):
            threading.Thread(
                target=self._answer, args=(self, event), name=event.method, daemon=True
            ).start()
        else:
            self._wire.attend(event)
