"""A containerd of our own: its configuration, its process, its end."""

import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import psutil

from tests.e2e import image
from tests.e2e.cri import Cri
from tests.e2e.leash import LEASH

READY_WITHIN_SECONDS: Final = 60
IMPORTED_WITHIN_SECONDS: Final = 120
"""An image with a Python in it takes five on a quiet machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """Where containerd's programs, runc and busybox are."""

    containerd: Path
    ctr: Path
    runc: Path
    busybox: Path


def config_text(
    *, folder: Path, runc: Path, plugin_timeout_seconds: int = 2, has_nri: bool = True
) -> str:
    """The configuration of a containerd that keeps everything under `folder`.

    The snapshotter is "native" as overlayfs cannot be stacked on every file system, and
    `restrict_oom_score_adj` is on as not every root may lower a score. Pods use the host's
    network, so the network plugin folders stay empty.
    """
    cri, nri = 'plugins."io.containerd.grpc.v1.cri"', 'plugins."io.containerd.nri.v1.nri"'
    return f"""\
version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.overlayfs",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.internal.v1.tracing",
]
[grpc]
address = "{folder}/containerd.sock"
[{cri}]
sandbox_image = "{image.NAME}"
restrict_oom_score_adj = true
[{cri}.cni]
bin_dir = "{folder}/cni/bin"
conf_dir = "{folder}/cni/conf"
[{cri}.containerd]
snapshotter = "native"
[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{cri}.containerd.runtimes.runc.options]
BinaryName = "{runc}"
Root = "{folder}/runc"
SystemdCgroup = false
[[plugins."io.containerd.transfer.v1.local".unpack_config]]
platform = "linux/amd64"
snapshotter = "native"
[{nri}]
disable = {"false" if has_nri else "true"}
socket_path = "{folder}/nri.sock"
plugin_path = "{folder}/nri/plugins"
plugin_config_path = "{folder}/nri/conf.d"
plugin_registration_timeout = "{max(5, plugin_timeout_seconds)}s"
plugin_request_timeout = "{plugin_timeout_seconds}s"
"""


class Containerd:
    """A containerd process under `folder`. Its containers outlive it, as they do on a node."""

    def __init__(self, binaries: Binaries, folder: Path, *, has_nri: bool = True) -> None:
        """Without NRI the kubelet's socket is that of a proxy."""
        self.has_nri = has_nri
        self.folder = folder
        self.socket = folder / "containerd.sock"
        self.kubelet_socket = self.socket if has_nri else folder / "proxy/cri.sock"
        self.nri_socket = folder / "nri.sock"
        self.plugins = folder / "nri/plugins"
        self.plugins.mkdir(parents=True)
        self.log = folder / "containerd.log"
        self._binaries = binaries
        self._process: subprocess.Popen[bytes] | None = None
        text = config_text(folder=folder, runc=binaries.runc, has_nri=has_nri)
        (folder / "config.toml").write_text(text)

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Returns when containerd answers.

        Raises `TimeoutError` with the end of its log if it does not in time.
        """
        # The shim is found through PATH.
        path = f"{self._binaries.containerd.parent}:{os.environ['PATH']}"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*LEASH, self._binaries.containerd, "--config", self.folder / "config.toml"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PATH": path},
            )
        until = time.monotonic() + READY_WITHIN_SECONDS
        while not self._answers():
            if time.monotonic() > until or not self.is_running:
                self.kill()
                raise TimeoutError(f"containerd did not come up:\n{self.log_tail()}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        """Whether pods can be started: newer releases answer other questions before."""
        cri = Cri(self.socket, timeout_seconds=1)
        try:
            cri.pods()
        except grpc.RpcError:
            return False
        finally:
            cri.close()
        return True

    def ctr(
        self, *arguments: str | Path, socket: Path | None = None, seconds: int = 5
    ) -> subprocess.CompletedProcess[str]:
        """What containerd's own client makes of this, at its socket or at another one."""
        address = socket or self.socket
        command = [self._binaries.ctr, "--address", address, "--timeout", f"{seconds}s", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def version(self) -> tuple[int, ...]:
        """The runtime's version, as in (2, 1, 9)."""
        said = subprocess.run(
            [self._binaries.containerd, "--version"], capture_output=True, text=True, check=True
        ).stdout
        found = re.search(r" v?(\d+)\.(\d+)\.(\d+)", said)
        if found is None:
            raise LookupError(f"{self._binaries.containerd}: no version in {said!r}")
        return tuple(map(int, found.groups()))

    def import_image(self, archive: Path) -> None:
        """Makes an image archive known to the pods' namespace."""
        # Older ones know no other place.
        local = ("--local",) if self.version() >= (1, 7) else ()
        order = ("-n", "k8s.io", "images", "import", *local, "--snapshotter", "native", archive)
        done = self.ctr(*order, seconds=IMPORTED_WITHIN_SECONDS)
        if done.returncode != 0:
            raise RuntimeError(f"{archive}: cannot be imported: {done.stderr}")

    def kill(self) -> None:
        """Ends containerd as a crash does; containers and their shims go on."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends containerd as a service manager does; containers and their shims go on."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(number)
            process.wait(timeout=READY_WITHIN_SECONDS)

    def end_shims(self) -> None:
        """Ends what is left of this containerd's containers: the shims that name its socket."""
        for process in psutil.process_iter():
            try:
                if str(self.socket) in process.cmdline():
                    left = [*process.children(recursive=True), process]
                    for one in left:
                        one.kill()
                    psutil.wait_procs(left, timeout=10)
            except psutil.NoSuchProcess:
                continue

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
