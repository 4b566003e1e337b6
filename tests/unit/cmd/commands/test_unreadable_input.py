"""Exit statuses of the commands that read manifests, for what is hard to read.

A fault of a text is what `lint` is asked for, and its answer is 1. `simulate` is asked where pods
go: it has no answer then, and ends with 2.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pinfold.cmd.pinfold import main

SPEC = ("--machine", "socket:1 numa:1 core:2 mem:1G")
POD = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}"

TEXTS = [
    pytest.param(b"a: [b\n", 1, 2, "not valid YAML", id="a text that is no YAML"),
    pytest.param(
        b"a: 1\nb: \x07\n",
        1,
        2,
        "not valid YAML: a character that YAML does not allow — leave it out\n",
        id="a character that YAML does not allow",
    ),
    pytest.param(
        b"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: 3}\n",
        1,
        2,
        "is not a list",
        id="a pod that is none",
    ),
    pytest.param(b"\xff\xfe", 2, 2, "not UTF-8 at byte 0", id="bytes that are no text"),
    pytest.param(POD.encode(), 0, 0, "", id="a pod"),
]


def run(*arguments: str, content: bytes = b"") -> Result:
    return CliRunner().invoke(main, arguments, input=content)


@pytest.mark.parametrize(("content", "lint", "simulate", "message"), TEXTS)
@pytest.mark.parametrize("is_file", [True, False], ids=["in a file", "on standard input"])
def test_each_command_answers_what_it_is_asked(
    tmp_path: Path, content: bytes, lint: int, simulate: int, message: str, *, is_file: bool
) -> None:
    path = tmp_path / "pods.yaml"
    path.write_bytes(content)
    name, text = (str(path), b"") if is_file else ("-", content)
    for command, status in (("lint", lint), ("simulate", simulate)):
        result = run(command, name, *SPEC, content=text)
        assert (command, result.exit_code) == (command, status), result.output
        assert message in result.output
        if message:
            assert result.output.startswith(str(path) if is_file else "standard input")


def test_the_place_of_a_character_that_yaml_does_not_allow_is_told() -> None:
    for text, place in ((b"a: 1\nb: \x07\n", ":2:4: "), (b"\x00", ":1:1: ")):
        for command in ("lint", "simulate"):
            result = run(command, "-", *SPEC, content=text)
            assert result.output.startswith(f"standard input{place}")


@pytest.mark.parametrize("name", ["/nowhere/at-all.yaml", "/", "/dev/null"])
def test_what_is_no_file_with_a_text_is_status_2(name: str) -> None:
    for command in ("lint", "simulate"):
        result = run(command, name, *SPEC)
        assert result.exit_code == 2
        assert result.stderr.startswith(f"{name}: ")


def test_a_file_that_cannot_be_read_outweighs_faults_and_hides_none(tmp_path: Path) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text("a: [b\n")
    for names in ((str(path), "/nowhere"), ("/nowhere", str(path))):
        result = run("lint", *names)
        assert result.exit_code == 2
        assert "not valid YAML" in result.stdout


@pytest.mark.parametrize("command", ["lint", "simulate"])
def test_bytes_that_are_no_text_are_told_in_every_locale(command: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pinfold.cmd.pinfold", command, "-", *SPEC],
        input=b"\xff\xfe",
        env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"},
        capture_output=True,
        check=False,
    )
    expected = "standard input: not UTF-8 at byte 0 — save it as UTF-8\n"
    assert (ended.returncode, ended.stderr.decode()) == (2, expected)


@pytest.mark.parametrize("name", ["/", ".", ""])
def test_a_configuration_that_is_no_file_is_status_2(name: str) -> None:
    result = run("pools", "--config", name, *SPEC)
    assert result.exit_code == 2
    assert " — name a readable file" in result.stderr


def test_the_null_device_is_checked_as_the_empty_configuration_that_a_daemon_reads() -> None:
    result = run("config", "check", "/dev/null")
    assert (result.exit_code, result.output) == (0, "/dev/null: good\n")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8:strict"])
def test_what_the_encoding_of_the_output_lacks_is_written_as_escapes(
    tmp_path: Path, encoding: str
) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.yaml"
    with open(path, "w") as file:
        file.write("smt: pack\n")
    ended = subprocess.run(
        [sys.executable, "-m", "pinfold.cmd.pinfold", "lint", "-o", "json", path],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (1, b"")
    (found,) = json.loads(ended.stdout)["complaints"]
    assert os.fsencode(found["file"]) == path
    assert " — accepted: pinCPU" in found["message"]


@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        pytest.param("latin-1", "\N{DROMEDARY CAMEL}.yaml", id="a letter of more than 16 bits"),
        pytest.param("koi8-r", "caf\N{LATIN SMALL LETTER E WITH ACUTE}.yaml", id="one of 8 bits"),
    ],
)
def test_json_stays_json_whatever_letters_the_encoding_lacks(
    tmp_path: Path, encoding: str, name: str
) -> None:
    (tmp_path / name).write_text("smt: pack\n")
    ended = subprocess.run(
        [sys.executable, "-m", "pinfold.cmd.pinfold", "lint", "-o", "json", tmp_path / name],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (1, b"")
    (found,) = json.loads(ended.stdout.decode(encoding))["complaints"]
    assert found["file"] == str(tmp_path / name)


@pytest.mark.parametrize("command", ["lint", "simulate"])
def test_standard_input_that_is_closed_is_empty(command: str) -> None:
    ended = subprocess.run(
        ["sh", "-c", '"$0" -m pinfold.cmd.pinfold "$@" <&-', sys.executable, command, "-", *SPEC],
        capture_output=True,
        check=False,
    )
    assert ended.stderr.decode().startswith("standard input: ")
    assert ended.returncode == (0 if command == "lint" else 2)
