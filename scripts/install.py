"""Installing Pinfold on a node: `make install`, `make rollback` and `make uninstall`.

A version is built and tried beside the one that runs, and switched to when it is complete; until
then nothing is changed, whatever fails. See docs/operating.md, Install.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .command_files import link_command_files, unlink_command_files
from .lock import BUILD, RUN
from .service_python import PythonError, find_python
from .targets import Targets, TargetsError, is_hidden_from_service, read_targets
from .versions import Versions, VersionsError, link, write

ROOT = Path(__file__).parents[1]
PROGRAMS = {"pinfold": "command_start", "pinfoldd": "daemon_start"}
"""The module of `cmd` that each program begins with, as in pyproject.toml."""
UNIT = "pinfoldd.service"
PROXY_UNIT = "pinfoldd-cri.service"
"""The unit of the daemon as a CRI proxy; older versions have none."""
CONFIG_FOLDER_LINE = 'CONFIG_FOLDER: Final = Path("/etc/pinfold")'


class InstallError(Exception):
    """The installation stays as it is, for the reason given."""


def main(arguments: list[str], environment: Mapping[str, str]) -> int:
    """Do what one argument says: install, rollback or uninstall. Returns the exit status."""
    # Everybody may run and read what is installed, whatever the caller's files are like.
    os.umask(0o022)
    (order,) = arguments
    try:
        targets = read_targets(environment)
        match order:
            case "install":
                install(targets, find_python(environment.get("PYTHON_NAMED", ""), environment))
            case "rollback":
                roll_back(targets)
            case _:
                uninstall(targets)
    except (InstallError, PythonError, TargetsError, VersionsError) as error:
        print(f"make {order}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        where = error.filename2 or error.filename or "files"
        remedy = " — run it as root" if isinstance(error, PermissionError) else ""
        print(f"make {order}: {where}: {error.strerror or error}{remedy}", file=sys.stderr)
        return 2
    return 0


def install(targets: Targets, python: Path) -> None:
    """Build a version, try it, and switch to it."""
    with tempfile.TemporaryDirectory(prefix="pinfold-build-") as scratch:
        built = Path(scratch) / "version"
        build(built, Path(scratch), targets, python)
        place(targets, built, built_version(built))
    for folder in (targets.prefix, targets.sysconfdir):
        if is_hidden_from_service(folder):
            print(
                f"warning: {folder}: the unit hides it from the service — choose another folder",
                file=sys.stderr,
            )


def place(targets: Targets, built: Path, version: str) -> None:
    """Copy a version that was built to where it will lie, try it there, and switch to it."""
    versions = Versions(targets.library)
    with versions.locked(), versions.unfinished() as unfinished:
        shutil.copytree(built, unfinished, dirs_exist_ok=True)
        give_to_everybody(unfinished)
        try_out(unfinished)
        make_folders(targets, unfinished)
        before = versions.current()
        fresh = versions.add(unfinished, version)
        if fresh != before:
            versions.remove_old(but=fresh)
        versions.switch(fresh)
        put_in_place(targets, fresh)
    what = "is installed already" if fresh == before else "is installed"
    print(f"{fresh.name} {what} in {targets.place}")


def roll_back(targets: Targets) -> None:
    """Switch to the version that ran before; a second time, back again."""
    versions = Versions(targets.library)
    previous = versions.previous()
    if previous is None:
        raise InstallError(f"{targets.library}: no version to go back to — name the PREFIX of one")
    with versions.locked():
        versions.switch(previous)
        put_in_place(targets, previous)
    print(f"{previous.name} is back in {targets.place}")


def uninstall(targets: Targets) -> None:
    """Remove what was installed; configuration and state stay."""
    if not targets.library.is_dir():
        raise InstallError(
            f"{targets.library}: nothing is installed there — name the PREFIX of the installation"
        )
    with Versions(targets.library).locked():
        # The commands first: what they are made of is gone last.
        units = (targets.units / UNIT, targets.units / PROXY_UNIT)
        for path in (*(targets.programs / name for name in PROGRAMS), *units):
            path.unlink(missing_ok=True)
        unlink_command_files(targets)
        if targets.examples.is_symlink():
            targets.examples.unlink()
        shutil.rmtree(targets.examples.parent, ignore_errors=True)
        shutil.rmtree(targets.library)
    print(f"removed from {targets.place}; {targets.config_folder} stays")


def build(version: Path, scratch: Path, targets: Targets, python: Path) -> None:
    """Fill the folder of a version: programs, packages, manuals, unit, example configurations."""
    source = copy_of_source(scratch / "source", targets)
    # Debian's own Python comes without pip; that of a virtual environment is always there.
    run([str(python), "-m", "venv", str(scratch / "venv")], "virtual environment")
    pip = [str(scratch / "venv" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    packages = version / "packages"
    # What is locked and nothing else, so that two nodes have the same.
    locked = [*pip, "install", "--quiet", "--require-hashes", "--requirement"]
    run([*locked, str(BUILD)], "packages; can the registry be reached?")
    run(
        [*locked, str(RUN), "--target", str(packages)],
        "packages; can the registry be reached?",
    )
    own = [*pip, "install", "--quiet", "--no-deps", "--no-build-isolation"]
    run([*own, "--target", str(packages), "--upgrade", str(source)], "package of Pinfold")
    shutil.rmtree(packages / "bin", ignore_errors=True)
    # It holds the path of the copy, and would make every build another version.
    for path in packages.glob("pinfold-*.dist-info/direct_url.json"):
        path.unlink()
    writer = [str(scratch / "venv" / "bin" / "python"), "-B", "-m", "scripts.command_files"]
    run([*writer, str(version / "share")], "manual pages", {"PYTHONPATH": str(packages)})
    (version / "bin").mkdir()
    for name in PROGRAMS:
        write(version / "bin" / name, program_text(name, python), 0o755)
    for name in (UNIT, PROXY_UNIT):
        unit = (ROOT / "systemd" / name).read_text(encoding="utf-8")
        write(version / name, unit_text(unit, targets.prefix))
    shutil.copytree(ROOT / "configs", version / "configs")


def built_version(version: Path) -> str:
    """The version that the package in a folder says it is."""
    (folder,) = (version / "packages").glob("pinfold-*.dist-info")
    return folder.name.removeprefix("pinfold-").removesuffix(".dist-info")


def copy_of_source(folder: Path, targets: Targets) -> Path:
    """A copy of what packages are built from: a build leaves files of root's in its folder."""
    settings = project()
    folder.mkdir()
    for name in ("pyproject.toml", settings["project"]["readme"], "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    for room in settings["tool"]["setuptools"]["package-dir"].values():
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    set_config_folder(folder, targets.config_folder_on_node)
    return folder


def project() -> dict[str, Any]:
    """The project's table of pyproject.toml."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        return tomllib.load(file)


def set_config_folder(source: Path, config_folder: Path) -> None:
    """Let the programs look for their configuration in a folder."""
    found = [
        path
        for path in source.rglob("*.py")
        if CONFIG_FOLDER_LINE in path.read_text(encoding="utf-8").splitlines()
    ]
    if len(found) != 1:
        raise InstallError(f"{len(found)} modules, not 1, have the line {CONFIG_FOLDER_LINE!r}")
    text = found[0].read_text(encoding="utf-8")
    line = f"CONFIG_FOLDER: Final = Path({str(config_folder)!r})"
    found[0].write_text(text.replace(CONFIG_FOLDER_LINE, line), encoding="utf-8")


def program_text(name: str, python: Path) -> str:
    """A program that finds its packages by its own place, and so may be staged or linked to.

    It looks through the links once, when it starts: what it imports later is of the same version.
    """
    return "\n".join(
        [
            f"#!{python} -I",
            "import os.path",
            "import sys",
            "",
            "version = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))",
            'sys.path.insert(0, os.path.join(version, "packages"))',
            # What the operator adds stays over upgrades, and stands behind what was tested.
            'sys.path.append(os.path.join(version, "..", "..", "extras"))',
            f"from pinfold.cmd.{PROGRAMS[name]} import main",
            "",
            "sys.exit(main())",
            "",
        ]
    )


def unit_text(unit: str, prefix: Path) -> str:
    """The unit with the daemon's path below the prefix, in quotes where it has a space."""
    program = str(prefix / "bin" / "pinfoldd")
    return unit.replace("/usr/bin/pinfoldd", f'"{program}"' if " " in program else program)


def give_to_everybody(folder: Path) -> None:
    """Let everybody read what is below a folder, and only its owner change it."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            is_executable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if is_executable else 0o644)


def try_out(version: Path) -> None:
    """Run the programs of a version where it lies."""
    for command in (["pinfoldd", "--version"], ["pinfold", "demo", "--machine", "core:4"]):
        program = str(version / "bin" / command[0])
        done = subprocess.run(
            [program, *command[1:]],
            env={"LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if done.returncode:
            raise InstallError(
                f"the new version does not run: {' '.join(command)}: {done.stderr.strip()}"
                " — nothing was changed"
            )


def make_folders(targets: Targets, version: Path) -> None:
    """The folders outside the library, and a configuration unless there is one."""
    for folder in (
        targets.programs,
        targets.units,
        targets.examples.parent,
        targets.config_folder / "conf.d",
    ):
        folder.mkdir(parents=True, exist_ok=True)
    config = targets.config_folder / "pinfold.yaml"
    if not config.is_symlink() and not config.exists():
        write(config, (version / "configs" / "pinfold.yaml").read_text(encoding="utf-8"))


def put_in_place(targets: Targets, version: Path) -> None:
    """The units of a version, and links to the current one, the same for every version."""
    for name in PROGRAMS:
        link(targets.programs / name, Path("../lib/pinfold/current/bin") / name)
    link(targets.examples, Path("../../lib/pinfold/current/configs"))
    link_command_files(targets, version)
    # A copy, since systemd takes a link that leads out of its folders for something else.
    for name in (UNIT, PROXY_UNIT):
        if (version / name).exists():
            write(targets.units / name, (version / name).read_text(encoding="utf-8"))
        else:
            (targets.units / name).unlink(missing_ok=True)


def run(command: list[str], what: str, environment: Mapping[str, str] | None = None) -> None:
    """Run a command that makes something. Raises `InstallError`."""
    settings = {**os.environ, **(environment or {})}
    if subprocess.run(command, cwd=ROOT, env=settings, check=False).returncode:
        raise InstallError(f"no {what} — nothing was changed, see the messages above")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
