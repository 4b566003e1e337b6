"""The runtime's end of a connection to the plugin: it calls, and waits for each answer."""

import socket
import threading
from collections.abc import Iterable
from typing import Final

from google.protobuf.message import Message

from pinfold.nri.api import nri_pb2
from pinfold.nri.dispatch.report import Report
from pinfold.nri.plugin.plugin import Plugin, RuntimeLink
from pinfold.nri.plugin.service import PLUGIN_SERVICE
from pinfold.nri.wire.connection import BadCall, Call, Connection, Reply, Role
from pinfold.policy.engine.engine import Engine

_CHUNK_BYTES: Final = 256 * 1024
_PATIENCE_MILLISECONDS: Final = 600_000
"""So long that no answer is given up: it is to be measured, however long it takes."""


class Peer:
    """A configured plugin in threads of its own, over a socketpair.

    There is no thread on this side, so that nothing but the plugin is waited for.
    """

    def __init__(self, engine: Engine, memory_bytes: int, report: Report) -> None:
        """Returns when the plugin is configured; `synchronize` has to come next."""
        self._socket, theirs = socket.socketpair()
        self._connection = Connection(Role.RUNTIME)
        self._is_registered = False
        self._plugin = Plugin(
            engine,
            RuntimeLink(
                connect=lambda: theirs,
                # A kernel that has what it was told.
                read_back=lambda container_id, _pid, _likely: engine.pinning(container_id),
            ),
            report,
            machine_memory_bytes=memory_bytes,
        )
        self._thread = threading.Thread(target=self._plugin.run, name="plugin", daemon=True)
        self._thread.start()
        while not self._is_registered:
            self._receive()
        configure = nri_pb2.ConfigureRequest(
            runtime_name="bench", runtime_version="v0", request_timeout=_PATIENCE_MILLISECONDS
        )
        self.call("Configure", configure.SerializeToString())

    def synchronize(self, pieces: Iterable[bytes]) -> nri_pb2.SynchronizeResponse:
        """What the plugin says to the last piece of a Synchronize."""
        answer = b""
        for piece in pieces:
            answer = self.call("Synchronize", piece)
        return nri_pb2.SynchronizeResponse.FromString(answer)

    def call(self, method: str, payload: bytes) -> bytes:
        """The plugin's answer to one call. Raises `RuntimeError` where it is an error."""
        stream_id, data = self._connection.request(PLUGIN_SERVICE, method, payload)
        self._socket.sendall(data)
        while True:
            for reply in self._receive():
                if reply.stream_id == stream_id:
                    if reply.code:
                        raise RuntimeError(f"{method}: {reply.message}")
                    return reply.payload

    def close(self) -> None:
        """End the plugin and the connection."""
        self._plugin.stop()
        self._thread.join()
        self._socket.close()

    def _receive(self) -> list[Reply]:
        chunk = self._socket.recv(_CHUNK_BYTES)
        if not chunk:
            raise RuntimeError("the plugin closed the connection")
        replies: list[Reply] = []
        for event in self._connection.receive(chunk):
            match event:
                case Call(method="RegisterPlugin"):
                    self._is_registered = True
                    self._respond(event.stream_id, nri_pb2.Empty())
                case Call() | BadCall():
                    self._respond(event.stream_id, nri_pb2.UpdateContainersResponse())
                case Reply():
                    replies.append(event)
        return replies

    def _respond(self, stream_id: int, message: Message) -> None:
        self._socket.sendall(self._connection.respond(stream_id, message.SerializeToString()))
