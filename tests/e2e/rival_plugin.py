"""Another NRI plugin: it sets the cpus of every new container and notes what comes of it."""

import socket
import threading
from pathlib import Path
from typing import Final

from google.protobuf.message import Message

from pinfold.nri.api import nri_pb2
from pinfold.nri.wire.connection import Call, Connection, Role

_RUNTIME_SERVICE: Final = "nri.pkg.api.v1alpha1.Runtime"
_CHUNK_BYTES: Final = 256 * 1024
_CONNECT_SECONDS: Final = 10
# Every event that the oldest runtime of the tests knows.
_EVENTS: Final = 0x7FF


class RivalPlugin:
    """A plugin that serves while it is entered; `index` is its place among all: two digits."""

    def __init__(self, nri_socket: Path, index: str, cpus: str) -> None:
        self.heard: list[tuple[str, str]] = []
        """What happened, and the id of the container, if any, in order."""
        self._index = index
        self._cpus = cpus
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(str(nri_socket))
        self._connection = Connection(Role.PLUGIN)
        self._is_synchronized = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="rival plugin", daemon=True)

    def __enter__(self) -> "RivalPlugin":
        request = nri_pb2.RegisterPluginRequest(plugin_name="rival", plugin_idx=self._index)
        _, data = self._connection.request(
            _RUNTIME_SERVICE, "RegisterPlugin", request.SerializeToString()
        )
        self._socket.sendall(data)
        self._thread.start()
        if not self._is_synchronized.wait(_CONNECT_SECONDS):
            raise TimeoutError("the runtime did not synchronize the rival plugin")
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while chunk := self._socket.recv(_CHUNK_BYTES):
            for event in self._connection.receive(chunk):
                if isinstance(event, Call):
                    answer = self._answer(event.method, event.payload).SerializeToString()
                    self._socket.sendall(self._connection.respond(event.stream_id, answer))
                    if event.method == "Synchronize":
                        self._is_synchronized.set()

    def _answer(self, method: str, payload: bytes) -> Message:
        match method:
            case "Configure":
                return nri_pb2.ConfigureResponse(events=_EVENTS)
            case "CreateContainer":
                created = nri_pb2.CreateContainerRequest.FromString(payload)
                self.heard.append((method, created.container.id))
                adjusted = nri_pb2.CreateContainerResponse()
                adjusted.adjust.linux.resources.cpu.cpus = self._cpus
                return adjusted
            case "StopContainer":
                stopped = nri_pb2.StopContainerRequest.FromString(payload)
                self.heard.append((method, stopped.container.id))
            case "StateChange":
                change = nri_pb2.StateChangeEvent.FromString(payload)
                self.heard.append((nri_pb2.Event.Name(change.event), change.container.id))
            case _:
                pass
        return nri_pb2.Empty()
