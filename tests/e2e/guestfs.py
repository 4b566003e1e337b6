"""The guest's kernel and its whole file system, built once from Debian packages and wheels.

The file system is one initramfs: a guest held in memory alone can be frozen and thawed as a whole.
"""

import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.e2e import cache, containerd, emulator, runtime
from tests.e2e.debian import Suite
from tests.e2e.runtime import STABLE_SUITE

_KERNEL: Final = "linux-image-cloud-amd64"
# libstdc++ is what grpcio's wheel links to; runc is unpacked with its own dependencies.
_PACKAGES: Final = ("python3", "runc", "busybox-static", "libstdc++6", "zlib1g")
_GUEST_PYTHON: Final = "3.11"
_MODULES: Final = (
    "drivers/virtio/virtio.ko",
    "drivers/virtio/virtio_ring.ko",
    "drivers/virtio/virtio_pci_legacy_dev.ko",
    "drivers/virtio/virtio_pci_modern_dev.ko",
    "drivers/virtio/virtio_pci.ko",
    "drivers/block/virtio_blk.ko",
)
_UNUSED: Final = (
    "usr/share",
    "usr/lib/dpkg",
    "usr/lib/python3.11/ensurepip",
    "usr/lib/python3.11/lib2to3",
    "usr/lib/python3.11/test",
    "usr/bin/containerd-shim",
    "usr/bin/containerd-shim-runc-v1",
    "var",
)
_HERE: Final = Path(__file__).parent
_GUEST_FILES: Final = _HERE / "guest"
# A change in one of these makes another guest.
_MADE_BY: Final = ("guestfs.py", "containerd.py", "runtime.py", "guest/init", "guest/agent.py")
# Emulation stretches the half second that a plugin may take at worst.
_PLUGIN_TIMEOUT_SECONDS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestFiles:
    """What a machine boots from, and the tree its initramfs was packed from."""

    kernel: Path
    initramfs: Path
    tree: Path
    key: str


def built() -> GuestFiles:
    """The guest's files, for the dependencies installed beside this process."""
    wheels = _dependencies()
    key = cache.digest(*wheels, *((_HERE / name).read_text() for name in _MADE_BY))
    folder = cache.kept("guest", key, lambda half: _make(half, wheels))
    return GuestFiles(
        kernel=folder / "vmlinuz",
        initramfs=folder / "initramfs.cpio",
        tree=folder / "tree",
        key=key,
    )


def _dependencies() -> list[str]:
    """The project's own dependencies and theirs, pinned to what is installed here."""
    pinned = dict[str, str]()
    waiting = ["pinfold"]
    while waiting:
        name = waiting.pop()
        for line in importlib.metadata.requires(name) or ():
            requirement, _, marker = line.partition(";")
            found = requirement.split("[")[0].strip()
            wanted = "".join(c if c.isalnum() or c in "-_." else " " for c in found).split()[0]
            if marker or wanted in pinned:
                continue
            pinned[wanted] = importlib.metadata.version(wanted)
            waiting.append(wanted)
    return sorted(f"{name}=={version}" for name, version in pinned.items())


def _make(folder: Path, wheels: list[str]) -> None:
    tree = folder / "tree"
    with tempfile.TemporaryDirectory(prefix="pinfold-e2e-apt-") as scratch:
        suite = Suite(STABLE_SUITE, Path(scratch))
        suite.unpack_closure(_PACKAGES, tree)
        kernel = Path(scratch) / "kernel"
        suite.unpack([suite.dependency(_KERNEL, r"linux-image-\S+")], kernel)
        shutil.copy(next(kernel.glob("boot/vmlinuz-*")), folder / "vmlinuz")
        (tree / "modules").mkdir()
        for module in _MODULES:
            shutil.copy(next(kernel.glob(f"usr/lib/modules/*/kernel/{module}")), tree / "modules")
    for unused in _UNUSED:
        path = tree / unused
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    _add_wheels(tree / "opt/site", wheels)
    _add_runtime(tree)
    compile_python(tree, tree / "opt/site", "/opt/site")
    compile_python(tree, tree / "usr/lib/python3.11", "/usr/lib/python3.11")
    _pack(tree, folder / "initramfs.cpio")


def _add_wheels(folder: Path, wheels: list[str]) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    # The guest's Python and C library, not this process's.
    command += ["--only-binary=:all:", "--python-version", _GUEST_PYTHON, "--implementation", "cp"]
    for platform in ("manylinux_2_34", "manylinux_2_28", "manylinux2014"):
        command += ["--platform", f"{platform}_x86_64"]
    done = subprocess.run(
        [*command, "--target", str(folder), *wheels], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"wheels for the guest: {done.stderr}")


def _add_runtime(tree: Path) -> None:
    unpacked = runtime.unpacked()
    for name in ("containerd", "ctr", "containerd-shim-runc-v2"):
        shutil.copy(unpacked / "usr/bin" / name, tree / "usr/bin" / name)
    shutil.copy(unpacked / "image.tar", tree / "image.tar")
    config = containerd.config_text(
        folder=Path("/run/node"),
        runc=Path("/usr/sbin/runc"),
        plugin_timeout_seconds=_PLUGIN_TIMEOUT_SECONDS,
    )
    (tree / "etc/containerd").mkdir(parents=True)
    (tree / "etc/containerd/config.toml").write_text(config)
    for name in ("init", "agent.py"):
        shutil.copy(_GUEST_FILES / name, tree / name)
    (tree / "init").chmod(0o755)
    for name in ("dev", "proc", "sys", "run", "tmp", "root", "var"):
        (tree / name).mkdir(exist_ok=True)
    # containerd copies these into each pod.
    for name in ("hosts", "resolv.conf", "hostname"):
        (tree / "etc" / name).touch()


def compile_python(tree: Path, folder: Path, guest_path: str) -> None:
    """Compiles a folder for the guest with the guest's own Python: emulated, it is slow to."""
    python = emulator.loaded(tree, "usr/bin/python3.11")
    options = ["-q", "--invalidation-mode", "unchecked-hash", "-s", str(folder), "-p", guest_path]
    subprocess.run(
        [*python, "-m", "compileall", *options, str(folder)],
        env={"PYTHONHOME": str(tree / "usr")},
        # Some libraries ship files for other Pythons, which do not compile.
        check=False,
        stdout=subprocess.DEVNULL,
    )


def _pack(tree: Path, archive: Path) -> None:
    """Packs a tree for the kernel to unpack at boot; busybox knows the format."""
    busybox = tree / "usr/bin/busybox"
    with archive.open("wb") as packed:
        subprocess.run(
            f"find . | {busybox} cpio -o -H newc -R 0:0",
            shell=True,
            check=True,
            cwd=tree,
            stdout=packed,
            stderr=subprocess.DEVNULL,
        )
