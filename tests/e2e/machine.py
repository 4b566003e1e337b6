"""The emulated machine: booted once, frozen where it waits for work, thawed for every run."""

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.e2e import cache, emulator
from tests.e2e.guestfs import GuestFiles
from tests.e2e.leash import LEASH
from tests.e2e.qmp import Monitor

DISK_BYTES: Final = 16 << 20
NUMA_NODES: Final = 4
# A pod takes some 30 MB of it, most of them for its shim and its copies of the image.
NODE_MEMORY: Final = "1G"
BOOT_WITHIN_SECONDS: Final = 240
THAW_WITHIN_SECONDS: Final = 45

# 2 sockets x 2 NUMA nodes x 2 cores x 2 threads; near is the other node of the socket. QEMU knows
# no NUMA node inside a socket, so a die stands for it.
_SHAPE: Final = (
    *("-smp", "16,sockets=2,dies=2,cores=2,threads=2"),
    *("-numa", "node,nodeid=0,memdev=m0,cpus=0-3", "-numa", "node,nodeid=1,memdev=m1,cpus=4-7"),
    *("-numa", "node,nodeid=2,memdev=m2,cpus=8-11", "-numa", "node,nodeid=3,memdev=m3,cpus=12-15"),
    *("-numa", "dist,src=0,dst=1,val=11", "-numa", "dist,src=2,dst=3,val=11"),
    *("-numa", "dist,src=0,dst=2,val=21", "-numa", "dist,src=0,dst=3,val=21"),
    *("-numa", "dist,src=1,dst=2,val=21", "-numa", "dist,src=1,dst=3,val=21"),
)
# One thread for all emulated cpus: with one for each, an interrupt between two of them was seen to
# get lost, and on two host cpus it is no slower.
_ACCELERATOR: Final = "tcg,thread=single"
# Two host cpus run sixteen emulated ones: expedited grace periods and a trusted clock spare waits.
_KERNEL_LINE: Final = (
    "console=ttyS0 quiet panic=-1 rcupdate.rcu_expedited=1 tsc=reliable mitigations=off nokaslr "
    "audit=0 nowatchdog"
)
# An emulated cpu that lost an interrupt, as its kernel sees it.
_STUCK: Final = r"rcu: INFO: \S+ (self-)?detected stall|blocked for more than|Kernel panic"
_IGNORE_SHARED: Final = [{"capability": "x-ignore-shared", "state": True}]


class MachineError(Exception):
    """A machine did not come up, or its emulated kernel got stuck: that says nothing of pinning."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """A machine at rest: its memory and its state, in a folder of the cache."""

    folder: Path

    @property
    def state(self) -> Path:
        """All but the memory."""
        return self.folder / "state"


class Machine:
    """One QEMU process with its two disks: the payload in, the results out."""

    def __init__(self, files: GuestFiles, folder: Path, payload: Path | None = None) -> None:
        self._files = files
        self._folder = folder
        self.console = folder / "console.log"
        self.results = folder / "results.disk"
        self.results.write_bytes(b"")
        disk = folder / "payload.disk"
        if payload is None:
            disk.write_bytes(b"")
        else:
            shutil.copy(payload, disk)
        for path in (disk, self.results):
            if path.stat().st_size > DISK_BYTES:
                raise ValueError(f"{path}: is larger than the {DISK_BYTES} bytes of its disk")
            with path.open("r+b") as handle:
                handle.truncate(DISK_BYTES)
        self._process: subprocess.Popen[bytes] | None = None

    def boot(self, memory: Path, *, is_shared: bool) -> None:
        """Starts the machine from its kernel; `is_shared` memory files keep what is written."""
        kernel = ["-kernel", str(self._files.kernel), "-initrd", str(self._files.initramfs)]
        self._start(memory, [*kernel, "-append", _KERNEL_LINE], is_shared=is_shared)

    def thaw(self, frozen: Frozen) -> None:
        """Goes on where a machine was frozen, on a private copy of its memory.

        Raises `MachineError` if QEMU refuses.
        """
        self._start(frozen.folder, ["-incoming", "defer"], is_shared=False)
        try:
            with Monitor(self._folder / "monitor") as monitor:
                monitor.run("migrate-set-capabilities", capabilities=_IGNORE_SHARED)
                monitor.run("migrate-incoming", uri=f"exec:cat '{frozen.state}'")
                monitor.wait_for_migration()
                monitor.run("cont")
        except (OSError, RuntimeError) as error:
            raise MachineError(f"the frozen machine does not thaw: {error}") from error

    def freeze(self, state: Path) -> None:
        """Stops the machine and writes all but its memory, which is in its files already."""
        with Monitor(self._folder / "monitor") as monitor:
            monitor.run("stop")
            monitor.run("migrate-set-capabilities", capabilities=_IGNORE_SHARED)
            monitor.run("migrate", uri=f"exec:cat > '{state}'")
            monitor.wait_for_migration()

    def wait_for(self, text: str, within_seconds: float) -> None:
        """Returns when the guest has said this on its console.

        Raises `MachineError` with the end of the console when it does not in time or QEMU ends.
        """
        until = time.monotonic() + within_seconds
        while not re.search(text, self.console_text()):
            if self._process is None or self._process.poll() is not None:
                raise MachineError(f"QEMU ended before {text!r}:\n{self.console_tail()}")
            if time.monotonic() > until:
                raise MachineError(f"no {text!r} in {within_seconds} s:\n{self.console_tail()}")
            time.sleep(0.1)

    def wait_for_end(self, within_seconds: float) -> None:
        """Returns when the machine has gone off.

        Raises `TimeoutError` if it does not in time, `MachineError` if its kernel complains.
        """
        until = time.monotonic() + within_seconds
        while self._process is not None and self._process.poll() is None:
            if re.search(_STUCK, self.console_text()):
                raise MachineError(f"the guest's kernel is stuck:\n{self.console_tail()}")
            if time.monotonic() > until:
                text = f"the guest did not finish in {within_seconds} s:\n{self.console_tail()}"
                raise TimeoutError(text)
            time.sleep(0.1)

    def end(self) -> None:
        """Ends QEMU by a signal: its monitor's own quit can be lost with the connection."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def console_text(self) -> str:
        """All that came over the console, and QEMU's own complaints."""
        return self.console.read_text(errors="replace") if self.console.exists() else ""

    def console_tail(self) -> str:
        """The last lines of the console."""
        return "\n".join(self.console_text().splitlines()[-40:])

    def _start(self, memory: Path, options: Sequence[str], *, is_shared: bool) -> None:
        share = "on" if is_shared else "off"
        backends = [
            part
            for node in range(NUMA_NODES)
            for part in (
                "-object",
                f"memory-backend-file,id=m{node},mem-path={memory}/m{node},size={NODE_MEMORY},"
                f"share={share}",
            )
        ]
        disks = [
            part
            for name in ("payload", "results")
            for part in (
                *("-drive", f"file={self._folder}/{name}.disk,if=none,id={name},format=raw"),
                *("-device", f"virtio-blk-pci,drive={name}"),
            )
        ]
        command = [
            *LEASH,
            *emulator.command(),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-machine", "q35", "-accel", _ACCELERATOR, "-cpu", "Nehalem", "-m", "4G"),
            *backends,
            *_SHAPE,
            *disks,
            *("-serial", f"file:{self.console}"),
            *("-qmp", f"unix:{self._folder}/monitor,server=on,wait=off"),
            *options,
        ]
        with (self._folder / "qemu.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )


def frozen_machine(files: GuestFiles, say: Callable[[str], None]) -> Frozen:
    """A machine frozen where it waits for work, booted now if the cache has none.

    A machine that does not boot in time is tried once more.
    """
    key = cache.digest(files.key, Path(__file__).read_text(), *emulator.command())

    def make(folder: Path) -> None:
        try:
            _freeze(files, folder)
        except MachineError as error:
            say(f"the machine did not boot, tried once more: {error}")
            _freeze(files, folder)

    return Frozen(cache.kept("frozen", key, make))


def _freeze(files: GuestFiles, folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="pinfold-e2e-vm-") as scratch:
        machine = Machine(files, Path(scratch))
        try:
            machine.boot(folder, is_shared=True)
            machine.wait_for("guest: waiting", BOOT_WITHIN_SECONDS)
            # The line is printed before the guest's first look at the disk.
            time.sleep(1)
            machine.freeze(folder / "state")
        finally:
            machine.end()
