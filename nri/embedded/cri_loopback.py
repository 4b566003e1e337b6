"""The embedded runtime behind a CRI proxy: its own CRI socket, and the kubelet's."""

import os
from pathlib import Path

from ...policy.model.memory_qos import MemoryQos
from ..cri.cri_link import CriLink, ListenPlace
from .claim_driver import ClaimDriver
from .cri_kubelet import CriKubelet
from .cri_server import EmbeddedCriServer
from .embedded_runtime import EmbeddedRuntime
from .embedded_updates import kernel_reader


class CriLoopback:
    """Both sockets in one folder, from the making until `close`; the proxy is the caller's."""

    def __init__(
        self,
        runtime: EmbeddedRuntime,
        folder: Path,
        machine_memory_bytes: int | None,
        memory_qos: MemoryQos = MemoryQos.OFF,
    ) -> None:
        self._cdi_folders = (folder / "cdi",)
        self.server = EmbeddedCriServer(runtime, self._cdi_folders)
        self._runtime = runtime
        self.runtime_socket = str(folder / "runtime.sock")
        self.socket = str(folder / "proxy" / "cri.sock")
        self.server.start(self.runtime_socket)
        driver = ClaimDriver(folder / "cdi")
        self.kubelet = CriKubelet(self.socket, machine_memory_bytes, memory_qos, driver)
        """By way of the proxy."""

    def link(self) -> CriLink:
        """The link for a proxy, which may be another one each time."""
        return CriLink(
            place=ListenPlace(self.socket, self.runtime_socket),
            socket=self.runtime_socket,
            read_back=kernel_reader(self._runtime),
            cdi_folders=self._cdi_folders,
        )

    def close(self) -> None:
        """End the runtime's socket, and remove it."""
        self.kubelet.close()
        self.server.stop()
        if os.path.exists(self.runtime_socket):
            os.unlink(self.runtime_socket)
