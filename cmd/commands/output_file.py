"""Files that commands write where they are told to."""

import contextlib
import os
from pathlib import Path

from ...topology.sets.base_errors import PinfoldError, os_reason


def write_whole(file: Path, content: bytes) -> None:
    """Write a whole file or none: no half of one stays behind. Raises `PinfoldError`."""
    fix = "name a file in a folder you can write"
    if not file.name:
        raise PinfoldError(f"{file}: has no name — {fix}")
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        partial.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise PinfoldError(f"{file}: {os_reason(error)} — {fix}") from error
