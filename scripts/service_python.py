"""The Python that the installed programs run with, the daemon as a service included."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from .targets import is_hidden_from_service

_CANDIDATES: Final = ("python3.11", "python3", "python3.12", "python3.13", "python3.14")
_SYSTEM_FOLDERS: Final = ("/usr/local/bin", "/usr/bin")
_SHEBANG_BYTES_MAX: Final = 120
"""Room for "#!" and " -I" in the 128 bytes that older kernels read, execve(2)."""
_QUESTION: Final = """
import sys
assert sys.version_info >= (3, 11), "older than 3.11"
import ensurepip, json, os, venv
print(json.dumps([os.path.realpath(sys._base_executable), sys.base_prefix, os.__file__]))
"""


class PythonError(Exception):
    """No Python can run the service, for the reasons given."""


def find_python(named: str, environment: Mapping[str, str]) -> Path:
    """The executable of a Python: the one that is named, or the first that the service can use."""
    if named:
        return _usable(named, environment)
    reasons: dict[str, None] = {}
    search = environment.get("PATH", "").split(":")
    for folder in (*search, *_SYSTEM_FOLDERS):
        for candidate in _CANDIDATES:
            path = shutil.which(candidate, path=folder)
            if path is None:
                continue
            try:
                return _usable(path, environment)
            except PythonError as error:
                reasons[str(error)] = None
    raise PythonError("\n".join(reasons) or "no Python — apt-get install python3 python3-venv")


def _usable(named: str, environment: Mapping[str, str]) -> Path:
    """The executable behind a name, virtual environments looked through. Raises `PythonError`."""
    try:
        done = subprocess.run(
            [named, "-I", "-c", _QUESTION],
            capture_output=True,
            text=True,
            check=False,
            env=dict(environment),
        )
    except OSError as error:
        raise PythonError(f"{named}: {error.strerror} — name a Python with PYTHON=") from error
    if done.returncode:
        reason = (done.stderr.strip() or "it ended").splitlines()[-1]
        raise PythonError(
            f"{named}: {reason} — Python 3.11 or newer with its venv module is needed:"
            " apt-get install python3 python3-venv"
        )
    executable, *others = json.loads(done.stdout)
    for path in (executable, *others):
        if is_hidden_from_service(Path(path)):
            raise PythonError(
                f"{named}: {path} is in a folder that the unit hides from the daemon (ProtectHome,"
                " PrivateTmp) — name another Python: make install PYTHON=/usr/bin/python3"
            )
    if " " in executable or len(executable.encode()) > _SHEBANG_BYTES_MAX:
        raise PythonError(
            f"{named}: {executable!r} cannot stand in the first line of a program"
            " — name another Python: make install PYTHON=/usr/bin/python3"
        )
    return Path(executable)
