"""Debian packages, unpacked into folders: nothing is installed, apt's own state stays as it is."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_APT: Final = Path("/etc/apt")
_DEFAULT_KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Names by which a mirror is known to hold Debian's archive, and not its security updates alone.
_SUITES: Final = {"bookworm", "trixie", "forky", "sid", "oldstable", "stable", "testing"}
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
    """The first mirror of the whole archive that apt is configured with.

    Raises `DebianError` where there is none.
    """
    for path in (*sorted((_APT / "sources.list.d").glob("*.sources")), _APT / "sources.list"):
        text = path.read_text() if path.is_file() else ""
        for uri, suites, keyring in (*_stanzas(text), *_lines(text)):
            if not _SUITES.isdisjoint(suites.split()):
                return Mirror(uri=uri, keyring=keyring or _DEFAULT_KEYRING)
    raise DebianError("/etc/apt: no mirror of Debian is configured")


def _stanzas(text: str) -> Iterator[tuple[str, str, str]]:
    """Uri, suites and keyring of each stanza. Source: sources.list(5), deb822-style format."""
    for stanza in text.split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+):[ \t]*(.*)$", stanza, re.MULTILINE))
        if "URIs" in fields and "Suites" in fields:
            # Signed-By may hold a key itself, on lines of its own.
            keyring = fields.get("Signed-By", "")
            yield fields["URIs"].split()[0], fields["Suites"], keyring if "/" in keyring else ""


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    """Uri, suite and keyring of each line. Source: sources.list(5), one-line-style format."""
    pattern = r"^deb[ \t]+(?:\[(.*?)\][ \t]+)?(\S+)[ \t]+(\S+)[ \t]+\S"
    for options, uri, suite in re.findall(pattern, text, re.MULTILINE):
        signed = re.search(r"signed-by=(\S+)", options)
        yield uri, suite, signed[1] if signed else ""


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
