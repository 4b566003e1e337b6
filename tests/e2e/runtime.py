"""The container runtime of the tests, unpacked from Debian once."""

import shutil
import tempfile
from pathlib import Path
from typing import Final

from tests.e2e import cache, image
from tests.e2e.containerd import Binaries
from tests.e2e.debian import Suite

# The oldest suite with an NRI in its containerd; its runc needs a newer C library than the
# stable suite's, so that one is taken from there.
CONTAINERD_SUITE: Final = "trixie"
STABLE_SUITE: Final = "bookworm"


def unpacked() -> Path:
    """The folder with containerd, runc, busybox and the image archive."""
    key = cache.digest(Path(__file__).read_text(), Path(image.__file__).read_text())
    return cache.kept("runtime", key, _make)


def _make(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="pinfold-e2e-apt-") as scratch:
        Suite(CONTAINERD_SUITE, Path(scratch)).unpack(["containerd"], folder)
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
