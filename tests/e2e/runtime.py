"""The container runtimes of the tests, each unpacked from Debian once."""

import shutil
import tempfile
from pathlib import Path
from typing import Final

from tests.e2e import cache, image
from tests.e2e.containerd import Binaries
from tests.e2e.debian import Suite

# The oldest suite with an NRI in its containerd, and the newest suite there is. Their runc needs a
# newer C library than the stable suite's, so that one is taken from there.
CONTAINERD_SUITES: Final = ("trixie", "sid")
STABLE_SUITE: Final = "bookworm"


def unpacked(suite: str = CONTAINERD_SUITES[0]) -> Path:
    """The folder with this suite's containerd, runc, busybox and the image archive.

    Raises `DebianError` where the suite's packages cannot be had.
    """
    key = cache.digest(Path(__file__).read_text(), Path(image.__file__).read_text())

    def make(folder: Path) -> None:
        _make(suite, folder)

    return cache.kept(f"containerd-{suite}", key, make)


def _make(suite: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="pinfold-e2e-apt-") as scratch:
        Suite(suite, Path(scratch)).unpack(["containerd"], folder)
        Suite(STABLE_SUITE, Path(scratch)).unpack(["runc", "busybox-static"], folder)
    shutil.rmtree(folder / "usr/share")
    image.write_archive(binaries(folder).busybox, folder / "image.tar")


def binaries(folder: Path) -> Binaries:
    """The programs in a root file system that these packages are unpacked in."""
    return Binaries(
        containerd=folder / "usr/bin/containerd",
        ctr=folder / "usr/bin/ctr",
        runc=folder / "usr/bin/runc",
        busybox=folder / "usr/bin/busybox",
    )
