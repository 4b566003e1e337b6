"""The floor: the least a plugin can do on the project's wire, as a process of its own.

One thread reads the socket and writes the answers, which are always the same and were made before
the first call came. No request is decoded further than to the method it names.
"""

import socket
import sys
from collections.abc import Mapping
from typing import Final

from pinfold.nri.api import nri_pb2
from pinfold.nri.wire.connection import BadCall, Call, Connection, Rejection, Reply, Role

_RUNTIME_SERVICE: Final = "nri.pkg.api.v1alpha1.Runtime"
_CHUNK_BYTES: Final = 256 * 1024

# What a plugin has to know to place containers and to let go of them. Its own list: the floor does
# not sink or rise with the events that Pinfold asks for.
_EVENTS: Final = (
    nri_pb2.RUN_POD_SANDBOX,
    nri_pb2.STOP_POD_SANDBOX,
    nri_pb2.REMOVE_POD_SANDBOX,
    nri_pb2.CREATE_CONTAINER,
    nri_pb2.POST_START_CONTAINER,
    nri_pb2.UPDATE_CONTAINER,
    nri_pb2.STOP_CONTAINER,
    nri_pb2.REMOVE_CONTAINER,
)


def constant_answers() -> Mapping[str, bytes]:
    """The answers by method; those of all other methods are empty messages."""
    adjustment = nri_pb2.CreateContainerResponse()
    adjustment.adjust.linux.resources.cpu.cpus = "0-3"
    adjustment.adjust.linux.resources.cpu.mems = "0"
    events = sum(1 << (int(event) - 1) for event in _EVENTS)
    return {
        "Configure": nri_pb2.ConfigureResponse(events=events).SerializeToString(),
        "CreateContainer": adjustment.SerializeToString(),
    }


def serve(sock: socket.socket) -> None:
    """Register, and answer until the runtime closes the connection."""
    connection = Connection(Role.PLUGIN)
    answers = constant_answers()
    request = nri_pb2.RegisterPluginRequest(plugin_name="floor", plugin_idx="90")
    _, data = connection.request(_RUNTIME_SERVICE, "RegisterPlugin", request.SerializeToString())
    sock.sendall(data)
    while chunk := sock.recv(_CHUNK_BYTES):
        for event in connection.receive(chunk):
            match event:
                case Call(method=method, stream_id=stream_id):
                    sock.sendall(connection.respond(stream_id, answers.get(method, b"")))
                case BadCall(stream_id=stream_id, code=code, message=message):
                    sock.sendall(connection.respond(stream_id, Rejection(code, message)))
                case Reply():
                    pass


def main() -> None:
    """Serve the runtime that listens at the path in the first argument."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(sys.argv[1])
        serve(sock)


if __name__ == "__main__":
    main()
