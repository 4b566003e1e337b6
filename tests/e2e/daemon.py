"""A pinfoldd of our own: its configuration, its process, and how it says that it is ready."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

READY_WITHIN_SECONDS: Final = 60
END_WITHIN_SECONDS: Final = 20

CONFIG: Final = """\
reservedResources:
  cpu: 750m
pinCPU: true
pinMemory: true
"""


class Daemon:
    """A pinfoldd process that is an external plugin of one containerd."""

    def __init__(self, folder: Path, nri_socket: Path, prefix: Sequence[str] = ()) -> None:
        self._prefix = prefix
        self.log = folder / "pinfoldd.log"
        self._folder = folder
        self._nri_socket = nri_socket
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "pinfold.yaml").write_text(CONFIG)

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def start(self, ready_within_seconds: float = READY_WITHIN_SECONDS) -> None:
        """Returns when the daemon has synchronised with the runtime and told its supervisor.

        Raises `TimeoutError` with the end of its log if that does not come in time.
        """
        with _NotifySocket(self._folder / "notify") as notify, self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._prefix, sys.executable, "-m", "pinfold.cmd.pinfoldd", *self._options()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**_environment(), "NOTIFY_SOCKET": str(notify.path)},
            )
            until = time.monotonic() + ready_within_seconds
            while not notify.is_ready():
                if time.monotonic() > until or self._process.poll() is not None:
                    self.kill()
                    raise TimeoutError(f"pinfoldd did not become ready:\n{self.log_tail()}")

    def _options(self) -> list[str]:
        return [
            *("--config", str(self._folder / "pinfold.yaml")),
            *("--runtime", "nri"),
            *("--nri-socket", str(self._nri_socket)),
        ]

    def kill(self) -> None:
        """Ends the daemon as a crash does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends the daemon as its service manager does."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(number)
            process.wait(timeout=END_WITHIN_SECONDS)

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def _environment() -> dict[str, str]:
    """This process's environment without what the daemon would take for its configuration."""
    return {name: one for name, one in os.environ.items() if not name.startswith("PINFOLD_")}


class _NotifySocket:
    """The supervisor's end of sd_notify(3)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(0.1)

    def __enter__(self) -> "_NotifySocket":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def is_ready(self) -> bool:
        """Whether READY=1 came within a tenth of a second."""
        try:
            return b"READY=1" in self._socket.recv(4096).split(b"\n")
        except TimeoutError:
            return False
