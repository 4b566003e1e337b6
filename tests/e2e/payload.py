"""The project's own code as the guest gets it: a plain archive, compiled for the guest's Python."""

import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from tests.e2e.guestfs import GuestFiles, compile_python

_ROOT: Final = Path(__file__).parents[2]
_ROOMS: Final = ("topology", "policy", "nri", "cmd")


def write_payload(files: GuestFiles, archive: Path) -> None:
    """Writes the archive of this checkout's code and of these tests."""
    ignore = shutil.ignore_patterns("__pycache__", "*.pyi", "*.proto")
    with tempfile.TemporaryDirectory(prefix="pinfold-e2e-payload-") as scratch:
        folder = Path(scratch)
        for room in _ROOMS:
            shutil.copytree(_ROOT / room, folder / "pinfold" / room, ignore=ignore)
        shutil.copytree(_ROOT / "tests/e2e", folder / "tests/e2e", ignore=ignore)
        compile_python(files.tree, folder, "/run/payload")
        with tarfile.open(archive, "w") as tar:
            for name in ("pinfold", "tests"):
                tar.add(folder / name, arcname=name)
