"""QEMU's monitor: one JSON object a line, over a unix socket."""

import json
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

CONNECT_WITHIN_SECONDS: Final = 20
ANSWER_WITHIN_SECONDS: Final = 120


class Monitor:
    """A connection to the monitor of one QEMU process.

    Source: docs/interop/qmp-spec.rst of QEMU.
    """

    def __init__(self, path: Path) -> None:
        self._socket = _connect(path)
        self._socket.settimeout(ANSWER_WITHIN_SECONDS)
        self._lines = self._socket.makefile("rb")
        self._lines.readline()  # The greeting; commands are only taken after it is acknowledged.
        self.run("qmp_capabilities")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lines.close()
        self._socket.close()

    def run(self, command: str, **arguments: object) -> Any:
        """The answer to a command; events that come first are passed over.

        Raises `RuntimeError` for a refused command.
        """
        request = {"execute": command, "arguments": arguments}
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        while line := self._lines.readline():
            answer = json.loads(line)
            if "error" in answer:
                raise RuntimeError(f"QEMU: {command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]
        raise RuntimeError(f"QEMU: {command}: the monitor was closed")

    def wait_for_migration(self) -> None:
        """Returns when the migration under way is complete; raises `RuntimeError` if it fails."""
        until = time.monotonic() + ANSWER_WITHIN_SECONDS
        while (state := self.run("query-migrate")).get("status") != "completed":
            if state.get("status") == "failed" or time.monotonic() > until:
                raise RuntimeError(f"QEMU: migration: {state}")
            time.sleep(0.05)


def _connect(path: Path) -> socket.socket:
    until = time.monotonic() + CONNECT_WITHIN_SECONDS
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(path))
        except OSError:
            connection.close()
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return connection
