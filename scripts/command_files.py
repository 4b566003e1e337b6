"""Manual pages and completions of a version: written when it is built, linked to when installed."""

import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

from .targets import Targets
from .versions import link

_FOLDERS: Final = (
    "man/man1",
    "man/man8",
    "bash-completion/completions",
    "zsh/site-functions",
    "fish/vendor_completions.d",
)
_CURRENT: Final = "lib/pinfold/current/share/"


def write_command_files(share: Path) -> None:
    """Write them below a folder; the packages of the version have to be importable."""
    # Only where a version is built: an installer's Python has none of the packages.
    from .completions import completions
    from .manual_pages import manual_pages

    pages = manual_pages(version("pinfold"))
    texts = {f"man/man{name[-1]}/{name}": text for name, text in pages.items()}
    for place, text in {**texts, **completions()}.items():
        path = share / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def link_command_files(targets: Targets, version_folder: Path) -> None:
    """Let the folders that shells and man look into have what a version has, and no more."""
    source = version_folder / "share"
    places = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    for place in sorted(places):
        path = targets.share / place
        path.parent.mkdir(parents=True, exist_ok=True)
        upwards = "../" * (len(place.parts))
        link(path, Path(f"{upwards}{_CURRENT}{place}"))
    _unlink(targets, keep={targets.share / place for place in places})


def unlink_command_files(targets: Targets) -> None:
    """Remove what was linked, of whichever version."""
    _unlink(targets, keep=set())


def _unlink(targets: Targets, keep: set[Path]) -> None:
    for folder in _FOLDERS:
        for path in (targets.share / folder).glob("*pinfold*"):
            if path not in keep and path.is_symlink() and _CURRENT in os.readlink(path):
                path.unlink()


if __name__ == "__main__":
    write_command_files(Path(sys.argv[1]))
