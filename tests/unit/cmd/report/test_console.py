import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from pinfold.cmd.pinfold import main
from pinfold.cmd.report.console import branch_lines, rich_table, table_lines, tree_lines
from pinfold.topology.drawing.text_tree import TextTree

PROGRAM = [sys.executable, "-m", "pinfold.cmd.pinfold"]
POOLS = ["pools", "--machine", "socket:2 numa:2 core:2 thread:2 mem:2G"]
TREE = TextTree("top", (TextTree("one", (TextTree("two"), TextTree("three"))), TextTree("four")))
STRANGE = [
    pytest.param("[red]web[/]", "[red]web[/]", id="markup"),
    pytest.param("[/nothing]", "[/nothing]", id="markup that closes nothing"),
    pytest.param(":smile: \\[", ":smile: \\[", id="emoji and a backslash"),
    pytest.param("a\tb", r"a\tb", id="a tab"),
    pytest.param("a\nb\rc", r"a\nb\rc", id="ends of lines"),
    pytest.param("a\x07\x08\x0b\x0cb", r"a\u0007\b\u000b\fb", id="what rich would drop"),
    pytest.param("\x1b[2Ja", r"\u001b[2Ja", id="a terminal's sequence"),
    pytest.param("\x9b2J\u2028\u202eb", r"\u009b2J\u2028\u202eb", id="what is not printed"),
    pytest.param("0x1f http://a/b 3.14 None", "0x1f http://a/b 3.14 None", id="words to highlight"),
    pytest.param("y" * 5000, "y" * 5000, id="a long word"),
    pytest.param("y y " * 2000 + "z", "y y " * 2000 + "z", id="many words"),
]


def in_terminal(
    arguments: list[str],
    columns: int,
    environment: Mapping[str, str],
    program: Sequence[str] = PROGRAM,
) -> str:
    """What a command writes to a terminal of so many columns."""
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with subprocess.Popen(
            [*program, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**kept, "TERM": "xterm-256color", **environment},
        ) as process:
            os.close(theirs)
            written = b""
            # Linux says EIO where the other end of a terminal is closed.
            while chunk := _read(ours):
                written += chunk
        assert process.returncode == 0
    finally:
        os.close(ours)
    return written.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""


def piped(arguments: list[str], **environment: str) -> str:
    done = subprocess.run(
        [*PROGRAM, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return done.stdout


def plain(lines: list[str]) -> list[str]:
    """Lines as a pipe has them, where the tests have a terminal."""
    return [click.unstyle(line) for line in lines]


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    lines = table_lines(["container", "cpus"], [["web", "0-3 shared"], ["漢字/c", ""], ["", "-"]])
    assert plain(lines) == [
        "  container  cpus",
        "  web        0-3 shared",
        "  漢字/c",
        "             -",
    ]


@given(
    head=st.lists(st.text("ab []:\\\n"), min_size=1, max_size=4),
    rows=st.lists(st.lists(st.text("xyz -[/]:\t"), max_size=4), max_size=4),
)
def test_a_table_of_ascii_looks_as_rich_draws_it(head: list[str], rows: list[list[str]]) -> None:
    fitting = [row[: len(head)] for row in rows]
    assert plain(table_lines(head, fitting)) == plain(rich_table(head, fitting))


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_a_table_of_ascii_has_the_bold_letters_of_rich(environment: dict[str, str]) -> None:
    program = (
        "from pinfold.cmd.report.console import rich_table, table_lines\nprint(*{}, sep='\\n')"
    )
    table = "(['name', 'cpus'], [['web', '0-3'], ['db']])"
    ours, theirs = (
        in_terminal([program.format(f"{drawn}{table}")], 80, environment, [sys.executable, "-c"])
        for drawn in ("table_lines", "rich_table")
    )
    assert ("\x1b[1m" in ours) is (not environment)
    assert ours == theirs


def test_a_tree_has_a_line_for_each_text() -> None:
    assert plain(tree_lines(TREE)) == ["top", "├─ one", "│  ├─ two", "│  └─ three", "└─ four"]


def test_branches_without_a_root_have_a_line_for_each_text() -> None:
    drawn = ["├── one", "│   ├── two", "│   └── three", "└── four"]
    assert plain(branch_lines(TREE.below)) == drawn
    assert branch_lines([]) == []


@pytest.mark.parametrize(("text", "shown"), STRANGE)
def test_texts_of_strangers_are_shown_as_they_are(text: str, shown: str) -> None:
    assert plain(tree_lines(TextTree(text, (TextTree(text),)))) == [shown, f"└─ {shown}"]
    lines = plain(table_lines(["name", "why"], [["a", "b"], [text, text]]))
    assert lines[1].split() == ["a", "b"]
    assert lines[2] == f"  {shown}  {shown}"


def test_names_of_pods_cannot_steer_the_terminal(tmp_path: Path) -> None:
    pod = tmp_path / "pod.yaml"
    pod.write_text(
        "apiVersion: v1\nkind: Pod\n"
        'metadata: {name: "[red]x[/]\\e[2J\\nc"}\n'
        "spec: {containers: [{name: small}, {name: huge, resources: {limits: {cpu: 9}}}]}\n"
    )
    name = r"[red]x[/]\u001b[2J\nc"
    arguments = ["simulate", str(pod), "--machine", "core:2 mem:1G", "-o"]
    for output in ("table", "tree"):
        result = CliRunner().invoke(main, [*arguments, output], color=True)
        lines = result.stdout.splitlines()
        assert sum(f"{name}/small" in line for line in lines) == 1
        assert sum(f"{name}/huge" in line and "refused" in line for line in lines) == 1
        assert "\x1b" not in result.stdout
    result = CliRunner().invoke(main, ["demo", str(pod), *arguments[2:4]], color=True)
    assert f"[{name}/small]" in result.stdout
    assert f"[{name}/huge] refused: " in result.stdout
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize(
    "environment",
    [
        {"COLUMNS": "20"},
        {"TERM": "dumb"},
        {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "TTY_COMPATIBLE": "1"},
        {"JPY_PARENT_PID": "1", "COLUMNS": "1", "LINES": "1"},
    ],
    ids=str,
)
def test_a_pipe_gets_the_same_bytes_whatever_the_environment(environment: dict[str, str]) -> None:
    expected = piped(POOLS)
    assert "├─ socket #0: sharable 1-7, reserved 0; dram 4 GiB of node 0-1\n" in expected
    assert "\x1b" not in expected
    assert piped(POOLS, **environment) == expected


def test_a_narrow_terminal_loses_nothing() -> None:
    shown = in_terminal(POOLS, 20, {"COLUMNS": "20"})
    assert "\x1b[" in shown
    assert click.unstyle(shown) == piped(POOLS)


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_a_terminal_without_colours_gets_plain_text(environment: dict[str, str]) -> None:
    assert in_terminal(POOLS, 80, environment) == piped(POOLS)


def test_a_reader_that_leaves_before_the_tree_is_no_error() -> None:
    with subprocess.Popen(
        [*PROGRAM, "pools", "--machine", "socket:64 numa:16 core:1 mem:1G"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_a_tree_without_standard_output_is_no_fault() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *PROGRAM, *POOLS],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
