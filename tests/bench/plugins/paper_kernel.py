"""The cgroups of containers on paper, as files for plugins that read back what the kernel has."""

import os
import shutil
from pathlib import Path

from pinfold.nri.api import nri_pb2


class PaperKernel:
    """Cgroup files of containers below a made-up machine's root, and the processes in them.

    `name`: the plugin's, so that several can have one machine and their own containers on it.
    """

    def __init__(self, root: Path, name: str) -> None:
        self._proc = root / "proc"
        self._cgroups = root / "sys/fs/cgroup"
        self._parent = f"kubepods/{name}"

    def begin(self, container_id: str, pid: int, cpu: nri_pb2.LinuxCPU) -> None:
        """A container's process runs."""
        folder = self._folder(container_id)
        folder.mkdir(parents=True)
        self.write(container_id, cpu)
        (self._proc / str(pid)).mkdir(parents=True)
        cgroup = f"0::/{self._parent}/{container_id}\n"
        (self._proc / str(pid) / "cgroup").write_text(cgroup, encoding="ascii")

    def write(self, container_id: str, cpu: nri_pb2.LinuxCPU) -> None:
        """A container is given other cpus or memory nodes."""
        folder = self._folder(container_id)
        _write(folder / "cpuset.cpus", cpu.cpus)
        _write(folder / "cpuset.mems", cpu.mems)

    def end(self, container_id: str, pid: int) -> None:
        """A container's process is gone."""
        shutil.rmtree(self._folder(container_id))
        shutil.rmtree(self._proc / str(pid))

    def _folder(self, container_id: str) -> Path:
        return self._cgroups / self._parent / container_id


def _write(path: Path, text: str) -> None:
    """In one call and over what is there: as in the kernel, readers see no file half written."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        os.pwrite(descriptor, f"{text}\n".ljust(size, "\n").encode(), 0)
    finally:
        os.close(descriptor)
