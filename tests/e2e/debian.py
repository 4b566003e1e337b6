"""Debian packages, unpacked into folders: nothing is installed, apt's own state stays as it is."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_APT: Final = Path("/etc/apt")
_DEFAULT_KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"
# The links of a merged /usr, without which a package's ./bin would become a folder of its own.
_MERGED: Final = ("bin", "sbin", "lib", "lib64")


class DebianError(Exception):
    """Packages cannot be had on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """Where this machine gets its Debian packages from."""

    uri: str
    keyring: str


def read_mirror() -> Mirror:
    """The first mirror with a suite's main section named in apt's own configuration.

    Raises `DebianError` where there is none. Source: sources.list(5), both formats.
    """
    for path in (*sorted((_APT / "sources.list.d").glob("*.sources")), _APT / "sources.list"):
        text = path.read_text() if path.is_file() else ""
        for stanza in text.split("\n\n"):
            uris = re.search(r"^URIs:\s*(\S+)", stanza, re.MULTILINE)
            if uris and re.search(r"^Suites:.*\b(bookworm|trixie|sid|forky)", stanza, re.MULTILINE):
                signed = re.search(r"^Signed-By:\s*(/\S+)", stanza, re.MULTILINE)
                return Mirror(uri=uris[1], keyring=signed[1] if signed else _DEFAULT_KEYRING)
            one_line = re.search(
                r"^deb\s+(?:\[.*?\]\s+)?(\S+)\s+\S+\s+main\b", stanza, re.MULTILINE
            )
            if one_line:
                return Mirror(uri=one_line[1], keyring=_DEFAULT_KEYRING)
    raise DebianError("/etc/apt: no Debian mirror is configured")


class Suite:
    """One suite of the archive, looked at through a private apt state under `scratch`."""

    def __init__(self, name: str, scratch: Path) -> None:
        self.name = name
        self._scratch = scratch / name
        for folder in ("state/lists/partial", "cache/archives/partial", "packages"):
            (self._scratch / folder).mkdir(parents=True, exist_ok=True)
        # An empty status file: no package counts as installed, so a closure is complete.
        (self._scratch / "status").touch()
        mirror = read_mirror()
        line = f"deb [signed-by={mirror.keyring}] {mirror.uri} {name} main\n"
        (self._scratch / "sources.list").write_text(line)
        self._run("apt-get", "update", "-qq")

    def unpack(self, packages: Sequence[str], into: Path) -> None:
        """Unpacks these packages alone."""
        folder = self._scratch / "packages"
        self._run("apt-get", "download", "-qq", *packages, cwd=folder)
        _extract(folder, into)

    def unpack_closure(self, packages: Sequence[str], into: Path) -> None:
        """Unpacks these packages and all they depend on; no maintainer script runs."""
        command = ("install", "-y", "-qq", "--no-install-recommends", "--download-only")
        self._run("apt-get", *command, *packages)
        _extract(self._scratch / "cache/archives", into)

    def dependency(self, package: str, pattern: str) -> str:
        """The name of the one package that `package` depends on and that matches."""
        shown = self._run("apt-cache", "depends", "--important", package)
        found = re.search(rf"^\s*Depends: ({pattern})$", shown, re.MULTILINE)
        if not found:
            raise DebianError(f"{package} in {self.name}: no dependency matches {pattern!r}")
        return found[1]

    def _run(self, tool: str, *arguments: str, cwd: Path | None = None) -> str:
        here = self._scratch
        options = (
            f"Dir::State={here / 'state'}",
            f"Dir::State::status={here / 'status'}",
            f"Dir::Cache={here / 'cache'}",
            f"Dir::Etc::sourcelist={here / 'sources.list'}",
            "Dir::Etc::sourceparts=-",
            # The unprivileged user of apt's downloads cannot write here.
            "APT::Sandbox::User=root",
            "Acquire::Retries=3",
        )
        command = [tool, *(part for option in options for part in ("-o", option)), *arguments]
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise DebianError(f"{' '.join(arguments)} in {self.name}: {done.stderr.strip()}")
        return done.stdout


def _extract(folder: Path, into: Path) -> None:
    """Unpacks the packages of a folder and removes them."""
    for name in _MERGED:
        (into / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (into / name).is_symlink():
            (into / name).symlink_to(f"usr/{name}")
    for package in sorted(folder.glob("*.deb")):
        with subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE
        ) as opened:
            subprocess.run(
                ["tar", "-C", into, "-x", "--keep-directory-symlink", "--no-same-owner"],
                stdin=opened.stdout,
                check=True,
            )
        if opened.returncode != 0:
            raise DebianError(f"{package.name}: cannot be unpacked")
        package.unlink()


def missing() -> str:
    """Why packages cannot be had on this machine; empty where they can."""
    for tool in ("apt-get", "apt-cache", "dpkg-deb", "tar"):
        if shutil.which(tool) is None:
            return f"{tool} is not on this machine"
    try:
        read_mirror()
    except DebianError as error:
        return str(error)
    return ""
