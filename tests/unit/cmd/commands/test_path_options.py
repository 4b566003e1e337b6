"""Options and arguments that name files: an empty one, as of a shell's unset variable, names none.

To Python it would be the present folder, and a state file there another node's.
"""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pinfold.cmd.pinfold import main
from pinfold.cmd.pinfoldd import command as daemon
from pinfold.cmd.report.path_type import PathType

NO_NAME = "has no name — name "


def paths(command: click.Command, *above: str) -> list[tuple[tuple[str, ...], click.Parameter]]:
    """The options and arguments of a command, and of those below it, that name files."""
    # Of a machine its reader says so itself.
    found = [
        (above, one)
        for one in command.params
        if isinstance(one.type, click.Path) and one.name != "sysfs_root"
    ]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            found.extend(paths(below, *above, name))
    return found


PATHS = [
    *(pytest.param(main, above, one, id=f"{above} {one.name}") for above, one in paths(main)),
    *(pytest.param(daemon, above, one, id=f"pinfoldd {one.name}") for above, one in paths(daemon)),
]


@pytest.mark.parametrize(("program", "above", "parameter"), PATHS)
def test_a_file_without_a_name_is_told_by_its_option(
    program: click.Command, above: tuple[str, ...], parameter: click.Parameter
) -> None:
    is_option = isinstance(parameter, click.Option)
    where = parameter.opts[0] if is_option else "FILE"
    # Any words will do where a command asks for some before.
    words = [f"{parameter.opts[0]}=", "x", "y"] if is_option else [""]
    result = CliRunner().invoke(program, [*above, *words])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"{where}: {NO_NAME}"), result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert isinstance(parameter.type, PathType)


@pytest.mark.parametrize("option", ["--nri-socket", "--cri-socket", "--cri-listen", "--control"])
def test_a_socket_without_a_name_is_none_to_wait_for(option: str) -> None:
    result = CliRunner().invoke(daemon, [f"{option}="])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"{option}: {NO_NAME}"), result.stderr


def test_a_state_without_a_name_is_not_the_one_in_this_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("state.json").write_text("{}")
    result = CliRunner().invoke(main, ["rebalance", "--plan", "--state", ""])
    assert result.stderr.startswith(f"--state: {NO_NAME}"), result.stderr
