import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("topology", "policy", "nri", "cmd")
MODULES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
GENERATED = (ROOT / "nri" / "api", ROOT / "cmd" / "control" / "api")
WRITTEN = [path for path in MODULES if path.parent not in GENERATED]
LINES_MAX = 400
FOLDER_MODULES_MAX = 20
FUNCTION_LINES_MAX = 80

FOLDERS = {
    "topology": ("sets", "model", "sysfs", "made", "drawing"),
    "policy": (
        "text",
        "model",
        "cpus",
        "configuration",
        "pools",
        "annotations",
        "rules",
        "manifests",
        "hints",
        "memory",
        "tuning",
        "books",
        "placing",
        "pens",
        "engine",
        "inquiry",
        "scenarios",
    ),
    "nri": ("api", "wire", "dispatch", "hints", "plugin", "cri", "embedded"),
    "cmd": ("web", "state", "kernel", "report", "daemon", "metrics", "control", "commands"),
}
"""Each room's folders; one imports those before it alone."""

LEDGERS = {
    "books/books.py",
    "books/cpu_ledger.py",
    "memory/holdings.py",
    "memory/memory_ledger.py",
    "memory/memory_zones.py",
    "memory/zone_search.py",
    "engine/allocator.py",
    "engine/roster.py",
}
"""What an engine keeps to itself, in the policy; all others are shown a snapshot."""

KEEPERS = (
    "memory",
    "books",
    "placing",
    "placing/judging",
    "placing/openings",
    "pens",
    "engine",
    "engine/adoption",
    "engine/replacing",
    "engine/restoring",
    "engine/unmet",
)
"""The folders of the policy whose modules keep, read and change the ledgers."""

# What would let the outside world into a pure function or into protocol code.
IMPURE = {
    "asyncio",
    "datetime",
    "glob",
    "http",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "random",
    "secrets",
    "select",
    "selectors",
    "shutil",
    "signal",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "urllib",
}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path) -> Iterator[str]:
    """Every module a file imports, as an absolute name."""
    package = ("pinfold", *path.relative_to(ROOT).parent.parts)
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *(node.module.split(".") if node.module else ())))
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def roots(path: Path) -> set[str]:
    """The packages a file imports from."""
    return {module.split(".")[0] for module in imported(path)}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_imports_point_inward(path: Path) -> None:
    rank = ROOMS.index(path.relative_to(ROOT).parts[0])
    for module in imported(path):
        parts = module.split(".")
        if parts[0] == "pinfold" and len(parts) > 1 and parts[1] in ROOMS:
            assert ROOMS.index(parts[1]) <= rank, f"{name(path)} imports {module}"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_folders_import_those_before_them(path: Path) -> None:
    room, *inside = path.relative_to(ROOT).parent.parts
    for module in imported(path) if inside else ():
        parts = module.split(".")
        if parts[:2] == ["pinfold", room] and len(parts) > 2 and parts[2] in FOLDERS[room]:
            order = FOLDERS[room].index
            assert order(parts[2]) <= order(inside[0]), f"{name(path)} imports {module}"


def test_of_the_rules_the_central_ones_alone_look_into_the_folders_inside() -> None:
    """They check whatever annotation the configuration gives, rules of all kinds among them."""
    rules = ROOT / "policy" / "rules"
    inside = tuple(f"pinfold.policy.rules.{one}." for one in ("podaffinity", "review"))
    looking = {
        path.name
        for path in rules.glob("*.py")
        if any(one.startswith(inside) for one in imported(path))
    }
    assert looking == {"central_rules.py"}
    for path in (rules / "podaffinity").glob("*.py"):
        assert not any(one.startswith(inside[1]) for one in imported(path)), name(path)


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions, and those for type checkers alone, count like all others."""
    by_name = {
        ".".join(("pinfold", *path.relative_to(ROOT).with_suffix("").parts)): path
        for path in WRITTEN
        if path.name != "__init__.py"
    }
    imports = {
        module: {one for one in imported(path) if one in by_name}
        for module, path in by_name.items()
    }
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in MODULES
        if path.parent not in [ROOT / "policy" / keeper for keeper in KEEPERS]
    ],
    ids=name,
)
def test_ledgers_are_the_engines_own(path: Path) -> None:
    ledgers = {f"pinfold.policy.{one.removesuffix('.py').replace('/', '.')}" for one in LEDGERS}
    reached = ledgers.intersection(imported(path))
    assert not reached, f"{name(path)} imports {sorted(reached)}: take a snapshot"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_an_engine_looks_into_itself_alone(path: Path) -> None:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute) and node.attr == "_allocator":
            assert ast.unparse(node.value) == "self", f"{name(path)} uses {ast.unparse(node)}"


def test_one_module_draws_with_rich_and_only_commands_draw() -> None:
    console = "pinfold.cmd.report.console"
    importers = {name(path) for path in WRITTEN if "rich" in roots(path)}
    assert importers == {"cmd/report/console.py"}
    drawing = {path.parent for path in WRITTEN if console in imported(path)}
    commands = ROOT / "cmd" / "commands"
    assert drawing == {commands, commands / "node"}


def test_every_folder_of_a_room_has_its_place_and_is_small() -> None:
    for room, folders in FOLDERS.items():
        found = {path.relative_to(ROOT / room).parts[0] for path in (ROOT / room).glob("*/*.py")}
        assert found == set(folders)
    for folder in {path.parent for path in WRITTEN}:
        assert len(list(folder.glob("*.py"))) <= FOLDER_MODULES_MAX, name(folder)


def test_no_two_public_types_have_one_name() -> None:
    modules: dict[str, list[str]] = {}
    for path in WRITTEN:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules.setdefault(node.name, []).append(name(path))
    assert not {one: paths for one, paths in modules.items() if len(paths) > 1}


@pytest.mark.parametrize("path", WRITTEN, ids=name)
def test_our_own_modules_are_imported_relatively(path: Path) -> None:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and not node.level:
            module = node.module or ""
            is_generated = module.startswith(("pinfold.nri.api", "pinfold.cmd.control.api"))
            assert is_generated or module.split(".")[0] != "pinfold", f"imports {module}"


@pytest.mark.parametrize(
    "path",
    [*(ROOT / "policy").rglob("*.py"), *(ROOT / "nri" / "wire").rglob("*.py")],
    ids=name,
)
def test_the_policy_and_the_wire_know_nothing_of_the_world(path: Path) -> None:
    impure = {module.split(".")[0] for module in imported(path)} & IMPURE
    assert not impure, f"{name(path)} imports {sorted(impure)}"
    for node in ast.walk(tree(path)):
        is_open = isinstance(node, ast.Name) and node.id in ("open", "print", "input")
        assert not is_open, f"{name(path)} uses {ast.unparse(node)}"


@pytest.mark.parametrize("path", WRITTEN, ids=name)
def test_modules_and_functions_stay_small(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LINES_MAX, f"{name(path)} has {lines} lines: which two nouns live here?"
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{name(path)}: {node.name} has {length} lines"


def test_every_package_is_listed() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {path.parent.relative_to(ROOT) for path in MODULES}
    assert set(setuptools["packages"]) == {
        ".".join(("pinfold", *folder.parts)) for folder in folders
    }
    assert setuptools["package-dir"] == {f"pinfold.{room}": room for room in ROOMS}


def test_the_design_names_every_folder_and_only_modules_and_types_that_there_are() -> None:
    named = set(re.findall(r"`([^`\n]+)`", (ROOT / "docs" / "design.md").read_text()))
    folders = {f"{name(path.parent)}/" for path in MODULES}
    assert not folders - named
    paths = {one for one in named if one.startswith(tuple(f"{room}/" for room in ROOMS))}
    assert not [one for one in paths if not (ROOT / one).exists()]
    types = {
        node.name for path in WRITTEN for node in tree(path).body if isinstance(node, ast.ClassDef)
    }
    of_others = {"UpdateContainers"}
    told = {one for one in named if re.fullmatch(r"(?:[A-Z][a-z]+)+", one)}
    assert not told - types - of_others


def test_packages_have_a_docstring_and_nothing_else() -> None:
    for folder in sorted({path.parent for path in WRITTEN}):
        if folder == ROOT / "cmd":
            continue
        body = tree(folder / "__init__.py").body
        assert len(body) == 1, f"{name(folder)}/__init__.py holds code"
        assert isinstance(body[0], ast.Expr), f"{name(folder)}/__init__.py has no docstring"


def test_the_standard_librarys_cmd_is_not_shadowed() -> None:
    assert not (ROOT / "cmd" / "__init__.py").exists()
    run = subprocess.run([sys.executable, "-c", "import cmd; cmd.Cmd"], cwd=ROOT, check=False)
    assert run.returncode == 0


def test_type_checkers_see_the_root_as_the_package() -> None:
    link = ROOT / ".typing" / "pinfold"
    assert link.is_symlink()
    assert link.readlink() == Path("..")


def test_tests_are_no_packages() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_showing_a_topology_does_not_load_grpc() -> None:
    if not (ROOT / "cmd" / "pinfold.py").exists():
        pytest.skip("the command line is not there")
    program = (
        "import sys\n"
        "sys.argv = ['pinfold', 'topology', '--machine', 'socket:1 numa:1 core:2 mem:1G']\n"
        "from pinfold.cmd.pinfold import main\n"
        "try:\n    status = main()\nexcept SystemExit as exit:\n    status = exit.code\n"
        "print('heavy:', [name for name in ('grpc', 'google.protobuf', 'prometheus_client')"
        " if name in sys.modules])\n"
        "sys.exit(status)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "heavy: []"


def test_continuous_integration_can_start() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0


def test_continuous_integration_runs_the_two_commands_in_an_empty_environment() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = readme.split("## Two commands")[1].split("```console\n")[1].split("```")[0]
    commands = [line.removeprefix("$ ") for line in block.splitlines()]
    assert commands == ["make run", "make test"]
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert '\tenv -i HOME="$HOME" PATH=/usr/bin:/bin LANG=C.UTF-8 "$@"\n' in script
    assert re.findall(r"^bare (make \S+)", script, re.MULTILINE) == commands
