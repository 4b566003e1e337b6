"""What the locks have, compared with what pyproject.toml wants and with what is installed."""

import importlib.metadata
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.lock import BUILD, DEV, LOCKS, RUN, locked

ROOT = Path(__file__).parents[2]
# With wheels for each Python of each machine: 3.11, 3.12 and 3.13, x86_64 and aarch64 at least.
COMPILED = ("grpcio", "msgspec", "pyyaml")
# With wheels for any Python of a machine.
ABI3 = ("protobuf", "psutil")
# pip-tools' own, which nothing here imports.
TOOLS = {"pip", "wheel"}


def project() -> dict[str, Any]:
    with open(ROOT / "pyproject.toml", "rb") as file:
        return tomllib.load(file)


def wanted(lock: Path) -> list[Requirement]:
    found = project()
    lines = found["build-system"]["requires"]
    if lock != BUILD:
        lines = found["project"]["dependencies"]
    if lock == DEV:
        lines = [*lines, *found["dependency-groups"]["dev"]]
    return [Requirement(line) for line in lines]


def with_theirs(waiting: list[Requirement]) -> Iterator[Requirement]:
    """Requirements and those of what is installed for them."""
    seen = set[str]()
    while waiting:
        one = waiting.pop()
        yield one
        if str(one) in seen:
            continue
        seen.add(str(one))
        for line in importlib.metadata.requires(one.name) or ():
            further = Requirement(line)
            extras = one.extras or {""}
            if further.marker is None or any(further.marker.evaluate({"extra": e}) for e in extras):
                waiting.append(further)


@pytest.mark.parametrize("lock", [BUILD, RUN, DEV], ids=lambda lock: lock.stem)
def test_a_lock_has_all_that_is_wanted_in_a_version_that_is_allowed(lock: Path) -> None:
    versions = {name: version for name, (version, _) in locked(lock).items()}
    needed = set[str]()
    for one in with_theirs(wanted(lock)):
        name = canonicalize_name(one.name)
        needed.add(name)
        assert versions[name] in one.specifier, f"{one}: make lock"
    assert set(versions) - TOOLS == needed - TOOLS, "nothing else is installed"


def test_tests_run_with_what_is_locked() -> None:
    run, dev = locked(RUN), locked(DEV)
    assert {name: dev[name] for name in run} == run
    for name, (version, _) in dev.items():
        if name not in TOOLS:
            assert importlib.metadata.version(name) == version, f"{name}: make .venv/dev-installed"


@pytest.mark.parametrize("lock", [BUILD, RUN, DEV], ids=lambda lock: lock.stem)
def test_a_lock_has_hashes_and_names_no_place(lock: Path) -> None:
    for name, (version, hashes) in locked(lock).items():
        assert re.fullmatch(r"[a-z0-9-]+", name)
        assert re.fullmatch(r"[0-9][0-9a-z.]*", version)
        assert hashes
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes)
        assert len(set(hashes)) == len(hashes)
    assert not re.search(r"://|--(index|extra|find|trusted)", lock.read_text())


def test_other_machines_and_pythons_have_their_files_too() -> None:
    """Which ones, `make lock` has pip try: a hash does not tell what it is of."""
    run = locked(RUN)
    for name in COMPILED:
        assert len(run[name][1]) >= 2 * 3, name
    for name in ABI3:
        assert len(run[name][1]) >= 2, name


def test_a_lower_bound_has_its_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    (block,) = re.findall(r"\ndependencies = \[\n(.*?)\]", text, re.DOTALL)
    for line in block.splitlines():
        assert re.fullmatch(r'    "[a-z0-9-]+>=[0-9.]+",  # \w.+', line), line


def test_every_lock_is_one_that_is_made() -> None:
    assert sorted(LOCKS.iterdir()) == sorted((BUILD, RUN, DEV))
