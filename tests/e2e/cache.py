"""The folder where what is slow to fetch or build is kept between runs."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path


def root() -> Path:
    """The cache folder, outside every checkout so that a fresh clone finds it filled."""
    named = os.environ.get("PINFOLD_CACHE")
    if named:
        return Path(named).resolve()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pinfold-e2e"


def digest(*parts: str | bytes) -> str:
    """A short name for these inputs: another input, another name."""
    total = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        total.update(len(raw).to_bytes(8, "big") + raw)
    return total.hexdigest()[:12]


def kept(name: str, key: str, make: Callable[[Path], None]) -> Path:
    """The folder `name` made from the inputs `key`; `make` fills it if it is not there.

    A half-made folder is never seen: it gets its name when it is complete. Folders of the same
    name made from other inputs, or left half-made, are removed.
    """
    folder = root() / f"{name}-{key}"
    root().mkdir(parents=True, exist_ok=True)
    with _locked(root() / f".{name}.lock"):
        if not folder.is_dir():
            for stale in (*root().glob(f"{name}-*"), *root().glob(f".{name}-*")):
                shutil.rmtree(stale)
            half = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=root()))
            try:
                make(half)
                half.chmod(0o755)
                half.rename(folder)
            finally:
                shutil.rmtree(half, ignore_errors=True)
    return folder


@contextlib.contextmanager
def _locked(path: Path) -> Generator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
