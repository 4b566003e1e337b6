"""The embedded runtime behind a CRI proxy: its own CRI socket, and the kubelet's."""

import os
from pathlib import Path

from ...policy.model.memory_qos import MemoryQos
from ..cri.cri_link import CriLink
from ..cri.listen_place import ListenPlace
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
        self._runtime_socket = str(folder / "runtime.sock")
        self._socket = str(folder / "proxy" / "cri.sock")
        self.server.start(self._runtime_socket)
        driver = ClaimDriver(folder / "cdi")
        self.kubelet = CriKubelet(self._socket, machine_memory_bytes, memory_qos, driver)
        """By way of the proxy."""
        self.direct = CriKubelet(self._runtime_socket, machine_memory_bytes, memory_qos, driver)

    def link(self) -> CriLink:
        """The link for a proxy, which may be another one each time."""
        return CriLink(
            place=ListenPlace(self._socket, self._runtime_socket),
            socket=self._runtime_socket,
            read_back=kernel_reader(self._runtime),
            cdi_folders=self._cdi_folders,
        )

    def restart(self) -> None:
        """Serve the runtime's socket again, which was stopped."""
        self.server.start(self._runtime_socket)

    def close(self) -> None:
        """End the runtime's socket, and remove it."""
        self.kubelet.close()
        self.direct.close()
        self.server.stop()
        if os.path.exists(self._runtime_socket):
            os.unlink(self._runtime_socket)
