"""Support bundles as archives: a machine's topology, and beside it what its daemon has.

The machine's files are where a snapshot has them, so `--sysfs-root` reads a bundle, too.
"""

import gzip
import lzma
import re
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from ....topology.made.snapshot import SUFFIXES, SysfsSnapshot, pack
from ....topology.sets.base_errors import PinfoldError, os_reason

STATE: Final = "state.json"
EXPLANATIONS: Final = "explanations.json"
_FOLDER: Final = "pinfold/"
_FILE_BYTES_MAX: Final = 1 << 26
_DAMAGES: Final = (tarfile.TarError, lzma.LZMAError, EOFError, zlib.error, gzip.BadGzipFile)
_CREDENTIALS: Final = re.compile(r"//[^/@\s\"']+@")


class BundleError(PinfoldError):
    """A support bundle cannot be read, or has not what it is asked for."""


def is_bundle(path: Path) -> bool:
    """Whether a path is called as an archive is."""
    return path.name.endswith(SUFFIXES)


def pack_bundle(machine: SysfsSnapshot, texts: Mapping[str, str], name: str) -> bytes:
    """The archive of a machine and of texts by file name. Raises `TopologyError` for the name."""
    ours = {f"{_FOLDER}{file}": without_credentials(text) for file, text in texts.items()}
    return pack(replace(machine, files={**machine.files, **ours}), name)


def without_credentials(text: str) -> str:
    """A text without users and passwords in its addresses.

    >>> without_credentials("http://user:secret@example:4318/v1")
    'http://***@example:4318/v1'
    """
    return _CREDENTIALS.sub("//***@", text)


def read_bundle(path: Path, file: str) -> bytes:
    """The content of a file of ours in a bundle. Raises `BundleError`."""
    try:
        with tarfile.open(path) as archive:
            member = archive.getmember(f"{_FOLDER}{file}")
            found = archive.extractfile(member) if member.isreg() else None
            if found is not None and member.size <= _FILE_BYTES_MAX:
                return found.read()
    except KeyError:
        pass
    except OSError as error:
        raise BundleError(
            f"{path}: {os_reason(error)} — name a bundle that 'pinfold gather' wrote"
        ) from error
    except _DAMAGES as error:
        # Of a file that may be packed in several ways there is a line for each.
        reason = (str(error).splitlines() or [""])[0].rstrip(":")
        raise BundleError(f"{path}: not a readable archive ({reason}) — gather it anew") from error
    raise BundleError(f"{path}: has no {file} — name a bundle that 'pinfold gather' wrote")
