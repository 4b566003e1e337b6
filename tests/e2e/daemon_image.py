"""The daemon's own image, built of this checkout as its Containerfile says.

No registry of images is asked: the base is made of Debian's packages, under the name of the image
that the Containerfile begins with.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from pinfold.cmd.report.version import VERSION
from tests.e2e import cache
from tests.e2e.debian import read_mirror

ROOT: Final = Path(__file__).parents[2]
NAME: Final = f"localhost/pinfold:{VERSION}"
BASE: Final = "docker.io/library/debian:trixie-slim"
_SUITE: Final = "trixie"
_TOOLS: Final = ("buildah", "mmdebstrap")
_CERTIFICATES: Final = "/etc/ssl/certs"


class ImageError(Exception):
    """A step of the build failed."""


def missing() -> str:
    """Why images cannot be built on this machine; empty where they can."""
    gone = [tool for tool in _TOOLS if shutil.which(tool) is None]
    return f"{', '.join(gone)}: not installed" if gone else ""


def write_archive(archive: Path) -> None:
    """Builds the image and writes it as an OCI archive, under its name. Two minutes at first."""
    base = cache.kept(
        "debian-base", cache.digest(Path(__file__).read_text(), read_mirror().uri), _make_base
    )
    with tempfile.TemporaryDirectory(prefix="pinfold-e2e-image-") as scratch:
        image = _Buildah(Path(scratch))
        container = image.run("from", "scratch").strip()
        image.run("add", container, base / "base.tar", "/")
        image.run("commit", "--rm", container, BASE)
        # In this machine's own network, and with its certificates for the registry of packages.
        image.run(
            *("build", "--isolation", "chroot", "--network", "host", "--pull-never"),
            *("--volume", f"{_CERTIFICATES}:{_CERTIFICATES}:ro", "--tag", NAME, ROOT),
        )
        image.run("push", NAME, f"oci-archive:{archive}:{NAME}")


def _make_base(folder: Path) -> None:
    mirror = read_mirror()
    line = f"deb [signed-by={mirror.keyring}] {mirror.uri} {_SUITE} main"
    # Certificates are there already: their package cannot be set up below those of this machine.
    options = ("--quiet", "--variant=minbase", "--include=ca-certificates")
    _run("mmdebstrap", *options, _SUITE, folder / "base.tar", line)


class _Buildah:
    """The builder of images with all that it keeps in one folder."""

    def __init__(self, scratch: Path) -> None:
        self._options = (
            *("--root", scratch / "images", "--runroot", scratch / "run"),
            # Overlays cannot be stacked on every file system.
            *("--storage-driver", "vfs"),
        )

    def run(self, *arguments: str | Path) -> str:
        return _run("buildah", *self._options, *arguments)


def _run(*command: str | Path) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
    )
    if done.returncode != 0:
        words = " ".join(map(str, command))
        raise ImageError(f"{words}: {done.stderr[-4000:]}")
    return done.stdout
