"""QEMU and what it needs, unpacked from Debian once and run from there: nothing is installed."""

import shutil
import tempfile
from pathlib import Path
from typing import Final

from tests.e2e import cache
from tests.e2e.debian import Suite
from tests.e2e.runtime import STABLE_SUITE

_PACKAGES: Final = ("qemu-system-x86",)
_LIBRARIES: Final = Path("usr/lib/x86_64-linux-gnu")
_LOADER: Final = _LIBRARIES / "ld-linux-x86-64.so.2"
# QEMU looks for its modules and firmware from the folder of the running program, which is the
# loader here: a copy of it stands where QEMU's own program does.
_QEMU_LOADER: Final = Path("usr/bin/loader")


def command() -> list[str]:
    """How QEMU is called, up to its first option.

    Its own loader and C library are used, so it runs on any x86-64 Linux.
    """
    tree = cache.kept("emulator", cache.digest(Path(__file__).read_text()), _make)
    return loaded(tree, "usr/bin/qemu-system-x86_64", _QEMU_LOADER)


def loaded(tree: Path, program: str, loader: Path = _LOADER) -> list[str]:
    """How a program of an unpacked root file system is called with that tree's own libraries."""
    return [str(tree / loader), "--library-path", str(tree / _LIBRARIES), str(tree / program)]


def _make(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="pinfold-e2e-apt-") as scratch:
        Suite(STABLE_SUITE, Path(scratch)).unpack_closure(_PACKAGES, folder)
    for unused in ("usr/share/doc", "usr/share/man", "usr/share/locale"):
        shutil.rmtree(folder / unused, ignore_errors=True)
    shutil.copy(folder / _LOADER, folder / _QEMU_LOADER)
