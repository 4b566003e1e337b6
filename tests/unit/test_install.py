"""Versions side by side, the one switch between them, and what an installation refuses."""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from scripts.install import (
    CONFIG_FOLDER_LINE,
    PROGRAMS,
    PROXY_UNIT,
    UNIT,
    InstallError,
    main,
    place,
    program_text,
    roll_back,
    set_config_folder,
    uninstall,
    unit_text,
)
from scripts.service_python import PythonError, find_python
from scripts.targets import Targets, TargetsError, read_targets
from scripts.versions import Versions, VersionsError

ROOT = Path(__file__).parents[2]
SCRIPTS = str(ROOT / "scripts")

PROGRAM = """
import sys
def main():
    if "--wait" in sys.argv:
        print("started", flush=True)
        sys.stdin.readline()
    if "--extra" in sys.argv:
        import tracer as late
    else:
        from . import late
    print(late.WORD)
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine on paper: a prefix with a space, and the programs below it that can be run."""

    folder: Path

    @property
    def targets(self) -> Targets:
        return read_targets({"PREFIX": "/opt/a b", "DESTDIR": str(self.folder / "root")})

    @property
    def program(self) -> Path:
        return self.folder / "root" / "opt" / "a b" / "bin" / "pinfold"

    @property
    def unit(self) -> str:
        return (self.targets.units / UNIT).read_text()

    def install(
        self, word: str, pages: tuple[str, ...] = ("pinfold.1",), *, has_proxy_unit: bool = False
    ) -> None:
        built = self.folder / "built"
        shutil.rmtree(built, ignore_errors=True)
        (built / "bin").mkdir(parents=True)
        for name, start in PROGRAMS.items():
            path = built / "bin" / name
            path.write_text(program_text(name, Path("/bin/true")))
            path.chmod(0o700)
            module = built / "packages" / "pinfold" / "cmd" / f"{start}.py"
            module.parent.mkdir(parents=True, exist_ok=True)
            module.write_text(PROGRAM)
        (built / "packages" / "pinfold" / "cmd" / "late.py").write_text(f"WORD = {word!r}")
        (built / UNIT).write_text(f"# {word}")
        if has_proxy_unit:
            (built / PROXY_UNIT).write_text(f"# {word}")
        (built / "configs").mkdir()
        (built / "configs" / "pinfold.yaml").write_text(f"# {word}")
        for page in pages:
            path = built / "share" / "man" / "man1" / page
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{page} of {word}")
        place(self.targets, built, "1.0")

    def pages(self) -> dict[str, str]:
        """The manual pages that man would find, with their texts."""
        folder = self.targets.share / "man" / "man1"
        return {path.name: path.read_text() for path in folder.iterdir()}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-I", str(self.program), *arguments]

    def word(self, *arguments: str) -> str:
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, check=True
        ).stdout.strip()

    def versions(self) -> int:
        return len(list((self.targets.library / "versions").iterdir()))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@contextmanager
def between_any_two_lines(look: Callable[[], None]) -> Generator[None]:
    """Look whenever a line of the scripts is about to run."""

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(SCRIPTS):
            return None
        if event == "line":
            sys.settrace(None)
            look()
            sys.settrace(trace)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def test_an_installed_program_runs_from_a_prefix_with_a_space(node: Node) -> None:
    node.install("one")
    assert node.word() == "one"
    assert node.unit == "# one"
    assert (node.targets.examples / "pinfold.yaml").read_text() == "# one"
    assert (node.targets.config_folder / "pinfold.yaml").read_text() == "# one"
    assert (node.targets.config_folder / "conf.d").is_dir()


def test_an_installed_program_starts_as_that_of_a_virtual_environment_does() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert {name: f"pinfold.cmd.{start}:main" for name, start in PROGRAMS.items()} == scripts


def test_packages_that_an_operator_adds_are_found_over_upgrades(node: Node) -> None:
    node.install("one")
    extras = node.targets.library / "extras"
    extras.mkdir()
    (extras / "tracer.py").write_text("WORD = 'traced'")
    # Of a package that a version has, too, that of the version counts.
    shadow = extras / "pinfold" / "cmd"
    shadow.mkdir(parents=True)
    (shadow / "late.py").write_text("WORD = 'of the operator'")
    node.install("two")
    assert node.word() == "two"
    assert node.word("--extra") == "traced"
    uninstall(node.targets)
    assert not extras.exists()


def test_the_proxys_unit_comes_and_goes_with_the_versions_that_have_one(node: Node) -> None:
    unit = node.targets.units / PROXY_UNIT
    node.install("one")
    assert not unit.exists()
    node.install("two", has_proxy_unit=True)
    assert unit.read_text() == "# two"
    roll_back(node.targets)
    assert not unit.exists()
    roll_back(node.targets)
    assert unit.exists()
    uninstall(node.targets)
    assert not unit.exists()


def test_an_upgrade_switches_everything_and_leaves_the_configuration(node: Node) -> None:
    node.install("one")
    (node.targets.config_folder / "pinfold.yaml").write_text("# of the operator")
    node.install("two")
    assert (node.word(), node.unit) == ("two", "# two")
    assert (node.targets.examples / "pinfold.yaml").read_text() == "# two"
    assert (node.targets.config_folder / "pinfold.yaml").read_text() == "# of the operator"


def test_manual_pages_are_those_of_the_version_in_use(node: Node) -> None:
    node.install("one", ("pinfold.1", "pinfold-old.1"))
    assert set(node.pages()) == {"pinfold.1", "pinfold-old.1"}
    node.install("two", ("pinfold.1", "pinfold-new.1"))
    assert node.pages() == {
        "pinfold.1": "pinfold.1 of two",
        "pinfold-new.1": "pinfold-new.1 of two",
    }
    roll_back(node.targets)
    assert node.pages() == {
        "pinfold.1": "pinfold.1 of one",
        "pinfold-old.1": "pinfold-old.1 of one",
    }


def test_manual_pages_of_others_stay(node: Node) -> None:
    node.install("one")
    others = node.targets.share / "man" / "man1" / "pinfold-of-others.1"
    others.write_text("of others")
    (others.parent / "ls.1").symlink_to(others)
    node.install("two", ())
    assert set(node.pages()) == {"pinfold-of-others.1", "ls.1"}
    node.install("three")
    uninstall(node.targets)
    assert set(node.pages()) == {"pinfold-of-others.1", "ls.1"}


def test_a_working_program_is_there_between_any_two_steps_of_an_upgrade(node: Node) -> None:
    node.install("one")
    seen: list[str] = []

    def look() -> None:
        version = node.program.resolve(strict=True).parents[1]
        seen.append((version / "packages" / "pinfold" / "cmd" / "late.py").read_text())
        assert (version / "bin" / "pinfoldd").stat().st_mode & 0o777 == 0o755
        assert node.unit in ("# one", "# two")
        assert (node.targets.examples / "pinfold.yaml").exists()

    with between_any_two_lines(look):
        node.install("two")
        roll_back(node.targets)
    words = [word for place, word in enumerate(seen) if seen[place - 1 : place] != [word]]
    assert words == ["WORD = 'one'", "WORD = 'two'", "WORD = 'one'"]


def test_a_running_program_finds_its_own_modules_after_upgrades(node: Node) -> None:
    node.install("one")
    with subprocess.Popen(
        node.command("--wait"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        node.install("two")
        node.install("three")
        output, _ = process.communicate("go on\n")
    assert (process.returncode, output) == (0, "one\n")
    assert node.word() == "three"


def test_a_rollback_goes_back_and_a_second_one_forth(node: Node) -> None:
    node.install("one")
    node.install("two")
    roll_back(node.targets)
    assert (node.word(), node.unit) == ("one", "# one")
    roll_back(node.targets)
    assert (node.word(), node.unit) == ("two", "# two")


def test_without_a_version_before_there_is_nothing_to_roll_back_to(node: Node) -> None:
    with pytest.raises(InstallError, match="no version to go back to"):
        roll_back(node.targets)
    node.install("one")
    with pytest.raises(InstallError, match="no version to go back to"):
        roll_back(node.targets)
    assert node.word() == "one"


def test_the_same_version_again_changes_nothing(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    node.install("one")
    node.install("two")
    for _ in range(2):
        node.install("two")
        assert "is installed already" in capsys.readouterr().out
    roll_back(node.targets)
    assert node.word() == "one"


def test_it_says_where_everything_is_and_for_which_folder_it_is_staged(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    staged = f"{node.folder}/root/opt/a b, staged for /opt/a b"
    node.install("one")
    assert capsys.readouterr().out.endswith(f" is installed in {staged}\n")
    node.install("two")
    roll_back(node.targets)
    assert capsys.readouterr().out.endswith(f" is back in {staged}\n")
    uninstall(node.targets)
    stays = f"{node.folder}/root/etc/pinfold stays"
    assert capsys.readouterr().out == f"removed from {staged}; {stays}\n"
    assert read_targets({"PREFIX": "/opt/a b"}).place == "/opt/a b"


def test_old_versions_do_not_pile_up(node: Node) -> None:
    for word in ("one", "two", "three", "four", "five"):
        node.install(word)
    assert node.versions() == 3
    roll_back(node.targets)
    assert node.word() == "four"


def test_a_version_that_was_damaged_is_replaced(node: Node) -> None:
    node.install("one")
    (late,) = node.targets.library.rglob("late.py")
    late.write_text("WORD = 'damaged'")
    node.install("one")
    assert node.word() == "one"


def test_a_new_version_that_does_not_run_is_not_switched_to(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.install("one")

    def text(name: str, _python: Path) -> str:
        return f"#!/bin/sh\necho {name}: it is broken >&2; exit 3\n"

    monkeypatch.setattr(sys.modules[__name__], "program_text", text)
    with pytest.raises(InstallError, match=r"does not run.*it is broken.*nothing was changed"):
        node.install("two")
    assert (node.word(), node.unit, node.versions()) == ("one", "# one", 1)


def test_what_is_installed_is_for_everybody(node: Node) -> None:
    before = os.umask(0o077)
    try:
        # Refused, but the mask is set first of all.
        assert main(["install"], {"PREFIX": "relative"}) == 2
        node.install("one")
    finally:
        os.umask(before)
    for path in [node.folder / "root", *(node.folder / "root").rglob("*")]:
        if not path.is_symlink():
            is_program = path.is_dir() or path.parent.name == "bin"
            assert path.stat().st_mode & 0o777 == (0o755 if is_program else 0o644), path


def test_one_installation_at_a_time(node: Node) -> None:
    with (
        Versions(node.targets.library).locked(),
        pytest.raises(VersionsError, match="another installation is under way"),
    ):
        node.install("one")
    node.install("one")


def test_programs_and_examples_of_an_older_kind_are_replaced(node: Node) -> None:
    node.program.parent.mkdir(parents=True)
    node.program.write_text("a program and no link")
    node.targets.examples.mkdir(parents=True)
    (node.targets.examples / "old.yaml").touch()
    node.install("one")
    assert node.word() == "one"
    assert not (node.targets.examples / "old.yaml").exists()


def test_uninstalling_leaves_the_configuration_alone(node: Node) -> None:
    node.install("one")
    node.install("two")
    uninstall(node.targets)
    root = node.folder / "root"
    left = {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}
    assert left == {"etc/pinfold/pinfold.yaml"}
    with pytest.raises(InstallError, match="nothing is installed there"):
        uninstall(node.targets)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        pytest.param({"PREFIX": "usr"}, "PREFIX: 'usr' is not a full path", id="a short prefix"),
        pytest.param({"PREFIX": "/usr/../opt"}, "is not a full path", id="a prefix that goes up"),
        pytest.param({"SYSCONFDIR": "etc"}, "SYSCONFDIR: 'etc'", id="a short folder of settings"),
        pytest.param({"PREFIX": "/opt/50%"}, "has '%'", id="what a unit would take for a variable"),
        pytest.param({"PREFIX": "/opt/$x"}, r"has '\$'", id="a variable"),
        pytest.param({"PREFIX": '/opt/"x"'}, "has '\"'", id="quotes"),
        pytest.param({"PREFIX": "/opt/a\nb"}, r"has '\\n'", id="two lines"),
    ],
)
def test_folders_nothing_can_be_installed_to_are_refused(
    environment: dict[str, str], message: str
) -> None:
    with pytest.raises(TargetsError, match=message):
        read_targets(environment)


def test_a_refusal_is_one_line_and_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    before = os.umask(0o022)
    try:
        assert main(["uninstall"], {"PREFIX": "/absent"}) == 2
    finally:
        os.umask(before)
    told = capsys.readouterr().err
    assert told.startswith("make uninstall: /absent/lib/pinfold: nothing is installed there")
    assert told.count("\n") == 1


def python_that_says(folder: Path, name: str, executable: str) -> Path:
    path = folder / name
    path.write_text(f'#!/bin/sh\necho \'["{executable}", "/usr", "/usr/lib/os.py"]\'\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("executable", "message"),
    [
        pytest.param("/root/.pyenv/bin/python3", "hides from the daemon", id="below /root"),
        pytest.param("/home/me/python/bin/python3", "hides from the daemon", id="below /home"),
        pytest.param("/tmp/python3", "hides from the daemon", id="below /tmp"),
        pytest.param("/opt/my python/bin/python3", "first line of a program", id="with a space"),
        pytest.param(f"/opt/{'x' * 128}/python3", "first line of a program", id="far down"),
    ],
)
def test_a_python_the_service_cannot_use_is_refused(
    tmp_path: Path, executable: str, message: str
) -> None:
    named = python_that_says(tmp_path, "python3", executable)
    with pytest.raises(PythonError, match=message):
        find_python(str(named), {})


def test_a_python_that_is_too_old_or_absent_is_refused(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\necho 'AssertionError: older than 3.11' >&2; exit 1\n")
    old.chmod(0o755)
    with pytest.raises(PythonError, match=r"older than 3\.11 — Python 3\.11 or newer"):
        find_python(str(old), {})
    with pytest.raises(PythonError, match="No such file or directory — name a Python"):
        find_python("/absent/python3", {})


def test_a_python_in_a_home_is_passed_over_for_one_behind_it(tmp_path: Path) -> None:
    for name in ("home", "system"):
        (tmp_path / name).mkdir()
    python_that_says(tmp_path / "home", "python3.11", "/root/.pyenv/bin/python3.11")
    python_that_says(tmp_path / "system", "python3", "/opt/python/bin/python3.12")
    path = f"{tmp_path / 'home'}:{tmp_path / 'system'}"
    assert find_python("", {"PATH": path}) == Path("/opt/python/bin/python3.12")


def test_a_virtual_environment_is_looked_through() -> None:
    try:
        found = find_python(sys.executable, os.environ)
    except PythonError as error:
        pytest.skip(str(error))
    # Debian's python3.14 alone comes without a `python3` beside it.
    assert found == Path(os.path.realpath(sys.executable))
    assert found.is_relative_to(os.path.realpath(sys.base_prefix))


def test_the_proxys_unit_starts_the_same_daemon_below_the_prefix() -> None:
    unit = (ROOT / "systemd" / PROXY_UNIT).read_text()
    quoted = unit_text(unit, Path("/opt/a b"))
    assert '\nExecStart="/opt/a b/bin/pinfoldd" --runtime cri --cri-listen' in quoted


def test_the_unit_starts_the_daemon_below_the_prefix() -> None:
    unit = (ROOT / "systemd" / UNIT).read_text()
    assert unit_text(unit, Path("/usr")) == unit
    assert "\nExecStart=/usr/local/bin/pinfoldd\n" in unit_text(unit, Path("/usr/local"))
    quoted = unit_text(unit, Path("/opt/a b"))
    assert '\nExecStart="/opt/a b/bin/pinfoldd"\n' in quoted
    assert "/usr/bin/pinfoldd" not in quoted


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
def test_systemd_finds_a_daemon_in_a_folder_with_a_space(tmp_path: Path) -> None:
    prefix = tmp_path / "a b"
    (prefix / "bin").mkdir(parents=True)
    shutil.copy("/bin/true", prefix / "bin" / "pinfoldd")
    path = tmp_path / UNIT
    path.write_text(unit_text((ROOT / "systemd" / UNIT).read_text(), prefix))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_configuration_is_looked_for_where_it_is_written(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "cmd", tmp_path / "cmd", ignore=shutil.ignore_patterns("__pycache__"))
    set_config_folder(tmp_path, Path("/srv/my etc/pinfold"))
    lines = [
        line
        for path in tmp_path.rglob("*.py")
        for line in path.read_text().splitlines()
        if line.startswith("CONFIG_FOLDER: Final = ")
    ]
    assert lines == ["CONFIG_FOLDER: Final = Path('/srv/my etc/pinfold')"]
    assert "/etc/pinfold" in CONFIG_FOLDER_LINE
    with pytest.raises(InstallError, match="0 modules, not 1"):
        set_config_folder(tmp_path, Path("/etc"))
