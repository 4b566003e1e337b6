"""The project's own code as the guest gets it: a plain archive, compiled for the guest's Python."""

import importlib.metadata
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from tests.e2e.guest.driver import SCRIPT_FILE
from tests.e2e.guestfs import GuestFiles, compile_python

_ROOT: Final = Path(__file__).parents[2]
_ROOMS: Final = ("topology", "policy", "nri", "cmd")


def write_payload(files: GuestFiles, archive: Path, script: str) -> None:
    """Writes the archive of this checkout's code and of these tests.

    `script`: the module of the guest's folder that is to run.
    """
    ignore = shutil.ignore_patterns("__pycache__", "*.pyi", "*.proto")
    with tempfile.TemporaryDirectory(prefix="pinfold-e2e-payload-") as scratch:
        folder = Path(scratch)
        for room in _ROOMS:
            shutil.copytree(_ROOT / room, folder / "pinfold" / room, ignore=ignore)
        shutil.copytree(_ROOT / "tests/e2e", folder / "tests/e2e", ignore=ignore)
        (folder / SCRIPT_FILE).write_text(script)
        # As pip leaves it: metrics and support bundles tell the version.
        about = folder / "pinfold.dist-info"
        about.mkdir()
        version = importlib.metadata.version("pinfold")
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: pinfold\nVersion: {version}\n"
        )
        compile_python(files.tree, folder, "/run/payload")
        with tarfile.open(archive, "w") as tar:
            for name in ("pinfold", "pinfold.dist-info", "tests", SCRIPT_FILE):
                tar.add(folder / name, arcname=name)
