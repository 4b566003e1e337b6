"""`make install` itself, with real packages, staged below a folder."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Variables of the make that runs the tests would be those of this one too.
KEPT = {
    name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
}
UNREACHABLE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/absent", "PIP_CONFIG_FILE": os.devnull}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed"),
]


@dataclass(frozen=True, slots=True)
class Stage:
    folder: Path

    @property
    def prefix(self) -> Path:
        return self.folder / "opt" / "a b"

    def make(
        self, target: str, *, umask: int = 0o022, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["make", target, "PREFIX=/opt/a b", "SYSCONFDIR=/srv/etc", f"DESTDIR={self.folder}"],
            cwd=ROOT,
            env={**KEPT, **(environment or {})},
            umask=umask,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    def run(self, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [str(self.prefix / "bin" / program), *arguments],
            cwd="/",
            env={},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def content(self) -> dict[str, str | int]:
        """Every path below the folder, with where a link leads to and how long a file is."""
        return {
            str(path.relative_to(self.folder)): (
                str(path.readlink()) if path.is_symlink() else path.stat().st_size
            )
            for path in self.folder.rglob("*")
        }


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    stage = Stage(tmp_path_factory.mktemp("stage"))
    done = stage.make("install", umask=0o077)
    cannot = ("can the registry be reached?", "the unit hides from the daemon")
    if any(reason in done.stderr for reason in cannot) and "CI" not in os.environ:
        pytest.skip(done.stderr.strip().splitlines()[-2])
    assert done.returncode == 0, done.stderr
    return stage


def test_both_commands_run(stage: Stage) -> None:
    assert stage.run("pinfold", "--version").startswith("pinfold ")
    assert stage.run("pinfoldd", "--version").startswith("pinfoldd ")
    assert "cpus" in stage.run("pinfold", "topology", "--machine", "core:2")


def test_whatever_the_umask_everybody_can_read_and_run_it(stage: Stage) -> None:
    for path in stage.folder.rglob("*"):
        mode = path.lstat().st_mode & 0o777
        assert path.is_symlink() or mode in ((0o755,) if path.is_dir() else (0o644, 0o755)), path
    for name in ("pinfold", "pinfoldd"):
        assert (stage.prefix / "bin" / name).stat().st_mode & 0o777 == 0o755


def test_unit_and_configuration_are_where_they_are_looked_for(stage: Stage) -> None:
    unit = (stage.prefix / "lib" / "systemd" / "system" / "pinfoldd.service").read_text()
    assert '\nExecStart="/opt/a b/bin/pinfoldd"\n' in unit
    config = stage.folder / "srv" / "etc" / "pinfold"
    assert (config / "pinfold.yaml").is_file()
    assert (config / "conf.d").is_dir()
    assert not (stage.folder / "etc").exists()
    (packages,) = stage.prefix.glob("lib/pinfold/versions/*/packages")
    python = (stage.prefix / "bin" / "pinfold").read_text().splitlines()[0][2:].split()[0]
    program = (
        f"import sys; sys.path.insert(0, {str(packages)!r});"
        "from pinfold.cmd.daemon.config_file import DEFAULT_DROP_INS, DEFAULT_PATH;"
        "print(DEFAULT_PATH, DEFAULT_DROP_INS)"
    )
    done = subprocess.run([python, "-Ic", program], capture_output=True, text=True, check=True)
    assert done.stdout == "/srv/etc/pinfold/pinfold.yaml /srv/etc/pinfold/conf.d\n"


def test_manual_pages_and_completions_are_where_they_are_looked_for(stage: Stage) -> None:
    share = stage.prefix / "share"
    page = (share / "man" / "man8" / "pinfoldd.8").read_text()
    assert page.startswith('.TH "PINFOLDD" "8" "" "Pinfold ')
    assert "/srv/etc/pinfold/pinfold.yaml" in page
    assert "pinfold simulate" in (share / "man" / "man1" / "pinfold-simulate.1").read_text()
    for place in ("bash-completion/completions/", "zsh/site-functions/_"):
        assert "_PINFOLD_COMPLETE" in (share / f"{place}pinfold").read_text()
    assert (share / "fish" / "vendor_completions.d" / "pinfoldd.fish").is_file()


def test_an_upgrade_without_a_registry_leaves_everything_as_it_is(stage: Stage) -> None:
    before = stage.content()
    done = stage.make("install", environment=UNREACHABLE)
    assert done.returncode == 2
    assert "make install: no packages; can the registry be reached?" in done.stderr
    assert stage.content() == before
    assert stage.run("pinfold", "--version").startswith("pinfold ")


def test_the_same_sources_make_the_same_version(stage: Stage) -> None:
    before = stage.content()
    done = stage.make("install")
    assert done.returncode == 0, done.stderr
    assert "is installed already" in done.stdout
    assert stage.content() == before


def test_uninstalling_leaves_the_configuration(stage: Stage, tmp_path: Path) -> None:
    copy = Stage(tmp_path / "copy")
    shutil.copytree(stage.folder, copy.folder, symlinks=True)
    done = copy.make("uninstall")
    assert done.returncode == 0, done.stderr
    files = {path.relative_to(copy.folder) for path in copy.folder.rglob("*") if path.is_file()}
    assert files == {Path("srv/etc/pinfold/pinfold.yaml")}


def test_a_python_that_is_not_there_is_refused_in_one_line() -> None:
    done = subprocess.run(
        ["make", "install", "PYTHON=/absent/python3"],
        cwd=ROOT,
        env=KEPT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    told, _made = done.stderr.splitlines()
    assert told == "make: PYTHON: '/absent/python3' is no program — name one that is there"


def test_a_virtual_environment_of_another_python_is_made_anew(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    # Python finds its modules by where this leads.
    for name in ("python", "python3", "python3.11"):
        (programs / name).symlink_to("/absent/python")
    subprocess.run(
        ["make", ".venv/installed"],
        cwd=tmp_path,
        env={**KEPT, **UNREACHABLE},
        capture_output=True,
        check=False,
        timeout=600,
    )
    subprocess.run([programs / "python", "-c", "import math, pip"], check=True)
