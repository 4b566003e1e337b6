"""Manual pages and completions: made from the commands, the same each time, and of every one."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from pinfold.cmd.pinfold import COMMANDS, main
from pinfold.cmd.pinfoldd import command as daemon
from scripts.command_files import write_command_files
from scripts.completions import completions
from scripts.manual_pages import manual_pages

PAGES = manual_pages("1.2")
SHELLS = ("bash", "zsh", "fish")


def shown(page: str) -> str:
    """A page without its escapes and requests, as it can be searched."""
    text = re.sub(r"^\.(?:TP|PP)$|\\f[BR]|\\&", "", page, flags=re.MULTILINE)
    return text.replace("\\-", "-").replace("\\(dq", '"').replace("\\e", "\\")


def commands() -> list[tuple[str, click.Command]]:
    context = click.Context(main)
    found: list[tuple[str, click.Command]] = [("pinfoldd.8", daemon), ("pinfold.1", main)]
    for row in COMMANDS:
        command = main.get_command(context, row.name)
        assert command is not None
        page = f"pinfold-{row.name}.1"
        found.append((page, command))
        if isinstance(command, click.Group):
            inner = [command.get_command(context, one) for one in command.list_commands(context)]
            found.extend((page, one) for one in inner if one is not None)
    return found


def test_every_command_has_a_page() -> None:
    assert set(PAGES) == {page for page, _ in commands()}


@pytest.mark.parametrize(
    ("page", "command"), [pytest.param(*one, id=f"{one[0]} {one[1].name}") for one in commands()]
)
def test_a_page_has_every_option_and_what_it_is_for(page: str, command: click.Command) -> None:
    text = shown(PAGES[page])
    words = " ".join(text.split())
    for option in command.params:
        if isinstance(option, click.Option):
            assert all(name in words for name in (*option.opts, *option.secondary_opts))
            assert " ".join((option.help or "").split()) in words
    for paragraph in (command.help or "").split("\n\n"):
        assert " ".join(paragraph.split()) in words
    assert [one for one in re.findall(r'^\.SH "(.*)"$', text, re.MULTILINE)][:3] == [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
    ]


def test_the_pages_of_the_programs_name_all_others_and_the_files() -> None:
    program, service = shown(PAGES["pinfold.1"]), shown(PAGES["pinfoldd.8"])
    assert all(f"pinfold-{row.name}(1)" in program for row in COMMANDS)
    for text in (program, service):
        assert "/etc/pinfold/pinfold.yaml" in text
        assert "/etc/pinfold/conf.d/*.yaml" in text


def test_no_line_is_a_request_by_accident() -> None:
    known = (".TH ", ".SH ", ".SS ", ".TP", ".PP")
    for page in PAGES.values():
        lines = [line for line in page.splitlines() if line.startswith((".", "'"))]
        assert all(line.startswith(known) for line in lines)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
@pytest.mark.parametrize("name", PAGES)
def test_groff_has_nothing_to_warn_of(name: str) -> None:
    done = subprocess.run(
        ["groff", "-man", "-ww", "-z", "-Tutf8", "-K", "utf8"],
        input=PAGES[name],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""


def test_the_same_commands_make_the_same_files(tmp_path: Path) -> None:
    write_command_files(tmp_path / "one")
    # Another process, another order of hashes, another folder and time.
    subprocess.run(
        [sys.executable, "-B", "-m", "scripts.command_files", str(tmp_path / "two")],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "COLUMNS": "30"},
        check=True,
    )
    one, two = (
        {path.relative_to(top): path.read_bytes() for path in top.rglob("*") if path.is_file()}
        for top in (tmp_path / "one", tmp_path / "two")
    )
    assert one == two
    assert len(one) == len(PAGES) + 2 * len(SHELLS)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_completion_is_what_the_program_itself_prints(shell: str) -> None:
    scripts = [text for place, text in completions().items() if shell in place]
    for program, module in (("pinfold", "pinfold"), ("pinfoldd", "pinfoldd")):
        done = subprocess.run(
            [sys.executable, "-m", f"pinfold.cmd.{module}"],
            env={**os.environ, f"_{program.upper()}_COMPLETE": f"{shell}_source"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.strip() + "\n" in scripts


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "completed"),
    [
        pytest.param("pinfold sim", ["simulate"], id="a command"),
        pytest.param("pinfold config eff", ["effective"], id="a command of a command"),
        pytest.param("pinfold topology --sys", ["--sysfs-root"], id="an option"),
        pytest.param("pinfold status -o j", ["json"], id="a value"),
        pytest.param("pinfoldd --runtime n", ["nri"], id="a value of the daemon's"),
        pytest.param("pinfold simulate we", ["web.yaml"], id="a file"),
        pytest.param("pinfold lint --config we", ["web.yaml"], id="a file of an option"),
    ],
)
def test_bash_completes(line: str, completed: list[str], tmp_path: Path) -> None:
    (tmp_path / "web.yaml").touch()
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("pinfold", "pinfoldd"):
        path = programs / name
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -m pinfold.cmd.{name} "$@"\n')
        path.chmod(0o755)
    program = line.split()[0]
    script = completions()[f"bash-completion/completions/{program}"]
    words = " ".join(f"'{word}'" for word in line.split())
    asked = (
        f"{script}\nCOMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        f"_{program}_completion {program}\n"
        # A file is what bash finds by itself for `compopt -o default`.
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "-c", asked],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    answers = done.stdout.split()
    if completed == ["web.yaml"]:
        assert "compopt" in done.stderr, "bash is told to complete files"
    else:
        assert answers == completed
