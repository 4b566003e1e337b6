"""Locking what Pinfold is installed with: `make lock`.

The files in requirements/ name one version of every package and what its files hash to, for all
platforms, and no place to get them from: that is pip's configuration. pip takes nothing else.
"""

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
LOCKS: Final = ROOT / "requirements"
BUILD: Final = LOCKS / "build.lock"
RUN: Final = LOCKS / "run.lock"
DEV: Final = LOCKS / "dev.lock"
PYTHONS: Final = ("3.11", "3.12", "3.13")
MACHINES: Final = ("x86_64", "aarch64")
# What wheels of a distribution from 2018 on may be built for: glibc 2.28 and below.
_GLIBCS: Final = ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "manylinux_2_12")
_HEAD: Final = "# {what}, as locked by `make lock`; pip takes these files and no others."


def main(arguments: list[str]) -> int:
    """Write the three locks. `--upgrade`: the newest versions, whatever was locked before."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)
    run = project["project"]["dependencies"]
    LOCKS.mkdir(exist_ok=True)
    try:
        build = project["build-system"]["requires"]
        compile_lock(BUILD, build, "What Pinfold is built with", arguments)
        compile_lock(RUN, run, "What Pinfold runs with", arguments)
        dev = [*run, *project["dependency-groups"]["dev"]]
        compile_lock(DEV, dev, "What Pinfold is run and tested with", arguments, RUN)
        with tempfile.TemporaryDirectory(prefix="pinfold-lock-") as scratch:
            for lock in (BUILD, RUN):
                try_lock(lock, Path(scratch))
    except subprocess.CalledProcessError as error:
        print(f"make lock: {' '.join(map(str, error.cmd))}: it failed, see above", file=sys.stderr)
        return 2
    return 0


def compile_lock(
    lock: Path, wanted: list[str], what: str, options: list[str], within: Path | None = None
) -> None:
    """Write the lock of what is wanted, `within` the versions of another lock."""
    with tempfile.TemporaryDirectory(prefix="pinfold-lock-") as scratch:
        source = Path(scratch) / "wanted.in"
        constraint = [] if within is None else [f"--constraint {within}"]
        source.write_text("".join(f"{line}\n" for line in (*constraint, *wanted)))
        pip_compile = [sys.executable, "-m", "piptools", "compile", "--quiet", "--no-config"]
        subprocess.run(
            [
                *pip_compile,
                *options,
                "--generate-hashes",
                "--allow-unsafe",
                "--strip-extras",
                # A lock is for everybody: neither hosts nor this machine's folders are named in it.
                "--no-emit-options",
                "--no-annotate",
                "--no-header",
                f"--output-file={lock}",
                str(source),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    kept = [line for line in lock.read_text().splitlines() if line and not line.startswith("#")]
    lock.write_text("\n".join([_HEAD.format(what=what), *kept, ""]))


def try_lock(lock: Path, scratch: Path) -> None:
    """Let pip choose wheels by a lock for each Python and machine that Pinfold is installed on."""
    for python in PYTHONS:
        for machine in MACHINES:
            platforms = [f"--platform={glibc}_{machine}" for glibc in _GLIBCS]
            subprocess.run(
                [
                    *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"),
                    *("--ignore-installed", "--no-deps", "--only-binary=:all:"),
                    *("--target", str(scratch), "--require-hashes"),
                    *(f"--python-version={python}", *platforms, f"--requirement={lock}"),
                ],
                check=True,
            )


def locked(lock: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Version and hashes of each package in a lock, by name."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for entry in lock.read_text().replace("\\\n", " ").splitlines():
        if entry and not entry.startswith("#"):
            requirement, *hashes = entry.split()
            name, _, version = requirement.partition("==")
            found[name] = version, tuple(one.removeprefix("--hash=") for one in hashes)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
