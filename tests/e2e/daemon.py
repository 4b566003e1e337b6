"""A pinfoldd of our own: its configuration, its process, and how it says that it is ready."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pinfold.topology.sets.cpuset import CpuSet

READY_WITHIN_SECONDS: Final = 60
END_WITHIN_SECONDS: Final = 20
RELOAD_WITHIN_SECONDS: Final = 20

CONFIG: Final = """\
reservedResources:
  cpu: 750m
pinCPU: true
pinMemory: true
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """The cpus on which the daemon says that a container runs, and those that it has alone."""

    cpus: CpuSet
    exclusive: CpuSet


class Daemon:
    """A pinfoldd process that is an external plugin of one containerd, or a proxy before it."""

    def __init__(
        self,
        folder: Path,
        nri_socket: Path,
        cri_socket: Path,
        prefix: Sequence[str] = (),
        cri_listen: Path | None = None,
    ) -> None:
        """`prefix`: what stands before its command, at the next start.

        `cri_listen`: where it serves the kubelet as a proxy; without, it is an NRI plugin.
        """
        self.prefix = prefix
        self.log = folder / "pinfoldd.log"
        self._folder = folder
        self._nri_socket = nri_socket
        self._cri_socket = cri_socket
        self._cri_listen = cri_listen
        self._process: subprocess.Popen[bytes] | None = None
        self._state_folder = folder / "state"
        self._state_folder.mkdir(mode=0o700, exist_ok=True)
        (folder / "pinfold.yaml").write_text(CONFIG)

    @property
    def control(self) -> Path:
        """Its control socket."""
        return self._folder / "control.sock"

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
                [*self.prefix, *self._command()],
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

    def _command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "pinfold.cmd.daemon_start"),
            *("--config", str(self._folder / "pinfold.yaml")),
            *self._front(),
            *("--cri-socket", str(self._cri_socket)),
            *("--state-dir", str(self._state_folder)),
            *("--control", str(self.control)),
        ]

    def _front(self) -> list[str]:
        if self._cri_listen is None:
            return ["--runtime", "nri", "--nri-socket", str(self._nri_socket)]
        return ["--runtime", "cri", "--cri-listen", str(self._cri_listen)]

    def preinstall(self, plugins: Path) -> Path:
        """Leaves the start to the runtime: returns an executable among its own plugins.

        The runtime hands on neither a search path nor standard error.
        """
        path = plugins / "90-pinfold"
        command = " ".join(map(shlex.quote, self._command()))
        path.write_text(f"#!/bin/sh\nexec {command} 2>>{shlex.quote(str(self.log))}\n")
        path.chmod(0o755)
        return path

    def reload(self, config: str) -> None:
        """Puts another configuration in force; it has to differ from the one that is.

        Raises `TimeoutError` if the daemon does not say in time that it has it.
        """
        before = self._reloads()
        written = self._folder / "pinfold.yaml.new"
        written.write_text(config)
        written.rename(self._folder / "pinfold.yaml")
        assert self._process is not None, "the daemon was not started"
        self._process.send_signal(signal.SIGHUP)
        until = time.monotonic() + RELOAD_WITHIN_SECONDS
        while self._reloads() == before:
            if time.monotonic() > until:
                raise TimeoutError(f"pinfoldd did not reload:\n{self.log_tail()}")
            time.sleep(0.02)

    def _reloads(self) -> int:
        return len(re.findall(r"event=reconfigured$", self.log.read_text(), re.MULTILINE))

    def beliefs(self) -> Mapping[str, Belief]:
        """What the daemon believes of each container, by id: its state file, saved soon after."""
        try:
            saved = json.loads((self._state_folder / "state.json").read_bytes())
        except FileNotFoundError:
            return {}
        return {
            one["id"]: Belief(
                cpus=CpuSet.parse(one.get("cpus") or ""),
                exclusive=CpuSet.parse(one.get("exclusive") or ""),
            )
            for pod in saved["state"]["pods"]
            for one in pod.get("containers", ())
        }

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
