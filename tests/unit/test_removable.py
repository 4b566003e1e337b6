"""Speed Select, which few machines have, can be taken out: a folder and its door in each room."""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("topology", "policy", "nri", "cmd")
DOORS = {
    "topology/sysfs/speed_select": "topology/sysfs/speed_select_source.py",
    "policy/tuning/speed_select": "policy/tuning/speed_select_plan.py",
    "cmd/kernel/speed_select": "cmd/kernel/speed_select_access.py",
}
"""The folders and the one module outside of them that imports each."""

PROGRAM = """
import importlib, sys
import click.testing
import pinfold
from pinfold.cmd.pinfold import main

assert pinfold.__file__, "the installed one"
for name in sys.argv[3:]:
    importlib.import_module(name)
for arguments in (["topology"], ["pools"], ["simulate", sys.argv[1]]):
    run = click.testing.CliRunner().invoke(main, [*arguments, "--machine", sys.argv[2]])
    print(run.output)
    assert run.exit_code == 0, run.output
"""


def outside(folder: str) -> list[Path]:
    """The modules of the project that are in none of the folders."""
    return [
        path for path in sorted((ROOT / folder).rglob("*.py")) if path.parent.name != "speed_select"
    ]


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """The modules a file imports as absolute names, and how deep in it."""
    package = path.relative_to(ROOT).parent.parts
    module = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            name = ".".join((*base, *(node.module or "").split(".")))
            yield name, node.col_offset
            yield from ((f"{name}.{alias.name}", node.col_offset) for alias in node.names)


@pytest.mark.parametrize("folder", DOORS)
def test_one_module_outside_of_a_folder_imports_it_and_only_when_it_is_needed(folder: str) -> None:
    package = folder.replace("/", ".")
    importers = {
        (str(path.relative_to(ROOT)), is_inside > 0)
        for room in ROOMS
        for path in outside(room)
        for name, is_inside in imported(path)
        if name == package or name.startswith(f"{package}.")
    }
    assert importers == {(DOORS[folder], True)}


def test_everything_else_works_without_the_folders(tmp_path: Path) -> None:
    copy = tmp_path / "pinfold"
    for room in ROOMS:
        shutil.copytree(
            ROOT / room, copy / room, ignore=shutil.ignore_patterns("speed_select", "__pycache__")
        )
    # A package with a file comes before the one that is installed.
    (copy / "__init__.py").touch()
    names = [
        ".".join(("pinfold", *path.relative_to(ROOT).with_suffix("").parts))
        for room in ROOMS
        for path in outside(room)
        if path.name != "__init__.py"
    ]
    pods = ROOT / "configs" / "pods" / "peter-sheep-wolf.yaml"
    spec = "socket:2 numa:2 core:2 thread:2 mem:2G"
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, pods, spec, *names],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "peter" in run.stdout
