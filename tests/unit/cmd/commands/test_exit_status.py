"""The status both programs leave with where their output cannot be written."""

import os
import subprocess
import sys

import click
import pytest

from pinfold.cmd.pinfold import COMMANDS, main
from pinfold.cmd.pinfoldd import command as daemon

BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
UNBUFFERED = {**BUFFERED, "PYTHONUNBUFFERED": "1"}
ANY_BUFFERING = pytest.mark.parametrize(
    "environment",
    [
        # What an installed program has: its interpreter is isolated from the environment.
        pytest.param(BUFFERED, id="buffered"),
        pytest.param(UNBUFFERED, id="unbuffered"),
    ],
)


def command(program: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", f"from pinfold.cmd.{program} import main; main()", *arguments]


@ANY_BUFFERING
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["pinfold", "topology", "--machine", "core:2"], id="a tree"),
        pytest.param(["pinfold", "config", "effective"], id="a document of a sub-command's own"),
        pytest.param(["pinfold", "demo", "--machine", "core:2"], id="the demo"),
        pytest.param(["pinfold", "--help"], id="help"),
        pytest.param(["pinfold", "topology", "--help"], id="help of a sub-command"),
        pytest.param(["pinfold", "--version"], id="the version"),
        pytest.param(["pinfoldd", "--help"], id="help of the daemon"),
        pytest.param(["pinfoldd", "--version"], id="the version of the daemon"),
    ],
)
def test_a_reader_that_is_gone_before_the_first_line_is_no_error(
    arguments: list[str], environment: dict[str, str]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            command(*arguments),
            stdout=writer,
            stderr=subprocess.PIPE,
            env=environment,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@ANY_BUFFERING
@pytest.mark.parametrize("program", ["pinfold", "pinfoldd"])
def test_an_error_that_cannot_be_told_keeps_its_status(
    program: str, environment: dict[str, str]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            command(program, "--frog"),
            stdout=subprocess.PIPE,
            stderr=writer,
            env=environment,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stdout) == (2, b"")


def test_output_that_was_closed_beforehand_is_no_error() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", '"$@" >&-', "sh", *command("pinfold", "topology", "--machine", "core:2")],
        stderr=subprocess.PIPE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


@ANY_BUFFERING
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["pinfold", "topology", "--machine", "core:2"], id="a tree"),
        pytest.param(["pinfold", "topology", "--machine", "core:2", "-o", "json"], id="a document"),
        pytest.param(["pinfold", "--help"], id="help"),
        pytest.param(["pinfoldd", "--help"], id="help of the daemon"),
    ],
)
def test_a_full_disk_is_one_line_and_status_2(
    arguments: list[str], environment: dict[str, str]
) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command(*arguments),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "standard output: no space left on device — write to another place\n"


def paths_of(command: click.Command, name: str) -> list[tuple[str, click.Path]]:
    """The options and arguments below a command that name files."""
    if isinstance(command, click.Group):
        below = [(f"{name} {one}", command.commands.get(one)) for one in command.commands]
        return [path for where, one in below if one for path in paths_of(one, where)]
    return [
        (f"{name} {one.name}", one.type)
        for one in command.params
        if isinstance(one.type, click.Path)
    ]


def test_who_reads_a_file_says_why_it_cannot_be_read_and_what_to_do() -> None:
    """click knows no remedy: "Path ... is not readable", also of the socket of a daemon."""
    context = click.Context(main)
    commands = {row.name: main.get_command(context, row.name) for row in COMMANDS}
    found = [path for name, one in commands.items() if one for path in paths_of(one, name)]
    found += paths_of(daemon, "pinfoldd")
    assert len(found) > 40
    assert not [where for where, one in found if one.readable]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["rebalance", "--state"], id="a state"),
        pytest.param(["config", "plan", "/dev/null", "--state"], id="a state to compare with"),
        pytest.param(["replay", "--state"], id="a history"),
        pytest.param(["simulate", "--state"], id="a state to go on from"),
        pytest.param(["config", "check"], id="a configuration"),
        pytest.param(["lint"], id="a manifest"),
        pytest.param(["topology", "--sysfs-root"], id="a machine"),
        pytest.param(["status", "--control"], id="a socket"),
    ],
)
def test_a_path_that_cannot_even_be_looked_at_is_told_in_a_line(arguments: list[str]) -> None:
    """As below a folder that is closed, which root does not know."""
    path = f"/tmp/{'a' * 300}"
    done = subprocess.run(
        [*command("pinfold", *arguments), path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith(path)
    assert " — " in done.stderr
    assert done.stderr.count("\n") == 1
