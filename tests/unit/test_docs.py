"""What the documents show is true: commands are run, configurations loaded, links followed.

In a ```console block, lines that begin with "$ pinfold" are run in a folder that holds the named
```yaml blocks before it (```yaml web.yaml); "…" in the output shown stands for anything. A line
"$ pinfoldd ... --control node.sock &" has a daemon run until the end of its block.
"""

import ast
import contextlib
import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
import yaml

from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import KIND, read_config
from pinfold.policy.manifests.manifest import parse_manifests
from pinfold.policy.scenarios.scenario_file import parse_scenarios
from pinfold.policy.text.yaml_document import mapping_of
from pinfold.policy.text.yaml_fields import read_fields

ROOT = Path(__file__).parents[2]
GIVEN = ROOT.parent / "shared" / "scenarios" / "given.yaml"
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^```([a-z]*)(?: +(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
DAEMON_SECONDS = 30
CONFIG_FIELDS = {field.encode_name for field in msgspec.structs.fields(Config)}


@dataclass(frozen=True)
class Block:
    document: Path
    line: int
    language: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def blocks(document: Path) -> list[Block]:
    text = document.read_text()
    return [
        Block(
            document,
            text.count("\n", 0, found.start()) + 1,
            found[1],
            found[2] or "",
            found[3],
        )
        for found in FENCE.finditer(text)
    ]


BLOCKS = [block for document in DOCUMENTS for block in blocks(document)]
CONSOLES = [block for block in BLOCKS if block.language == "console" and "$ pinfold" in block.text]
YAMLS = [block for block in BLOCKS if block.language == "yaml"]


def commands(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with the output shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.replace("\\\n", " ").partition("\n")
        yield command, shown


def pattern(shown: str) -> str:
    return r".*?".join(re.escape(part) for part in shown.strip("\n").split("…"))


@pytest.mark.parametrize("block", CONSOLES, ids=str)
def test_commands_print_what_is_shown(block: Block, tmp_path: Path) -> None:
    for earlier in blocks(block.document):
        if earlier.line < block.line and earlier.name:
            (tmp_path / earlier.name).write_text(earlier.text)
    with contextlib.ExitStack() as daemons:
        for command, shown in commands(block.text):
            program, *arguments = shlex.split(command)
            if program == "pinfoldd":
                assert arguments.pop() == "&"
                daemons.enter_context(running_daemon(arguments, tmp_path))
            if program == "pinfold":
                assert_prints(block, command, shown, tmp_path)


@contextlib.contextmanager
def running_daemon(arguments: list[str], folder: Path) -> Generator[None]:
    """A daemon, from when it has looked at every container of its manifests."""
    files = [file for option, file in pairwise(arguments) if option == "--manifest"]
    pods = [pod for file in files for pod in parse_manifests((folder / file).read_text(), file)]
    count = sum(len(pod.containers) for pod in pods)
    log = folder / "pinfoldd.log"
    with log.open("wb") as standard_error:
        process = subprocess.Popen(
            [sys.executable, "-m", "pinfold.cmd.pinfoldd", *arguments],
            cwd=folder,
            stderr=standard_error,
        )
    try:
        deadline = time.monotonic() + DAEMON_SECONDS
        while (text := log.read_text()).count("event=create") < count:
            assert process.poll() is None, text
            assert time.monotonic() < deadline, text
            time.sleep(0.05)
        running = count - text.count("refused=")
        while "--control" in arguments and count_running(arguments, folder) < running:
            assert time.monotonic() < deadline, text
        yield
    finally:
        process.terminate()
        process.wait(DAEMON_SECONDS)


def count_running(arguments: list[str], folder: Path) -> int:
    """The containers that a daemon has seen start: a moment after they were created."""
    control = arguments[arguments.index("--control") + 1]
    asked = [sys.executable, "-m", "pinfold.cmd.pinfold", "audit", "--control", control]
    run = subprocess.run(
        [*asked, "-o", "json"], cwd=folder, capture_output=True, timeout=120, check=False
    )
    return json.loads(run.stdout)["containers"] if run.stdout else 0


def assert_prints(block: Block, command: str, shown: str, folder: Path) -> None:
    _, *arguments = shlex.split(command)
    run = subprocess.run(
        [sys.executable, "-m", "pinfold.cmd.pinfold", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    printed = "\n".join(line.rstrip() for line in run.stdout.strip("\n").splitlines())
    if shown.strip():
        matched = re.fullmatch(pattern(shown), printed, re.DOTALL)
        assert matched, f"{block}: `{command}` prints\n{printed}"
    else:
        assert run.returncode == 0, f"{block}: `{command}`\n{printed}"


@pytest.mark.parametrize("block", YAMLS, ids=str)
def test_yaml_is_a_configuration_a_manifest_or_a_scenario(block: Block) -> None:
    documents = [mapping_of(one) for one in yaml.safe_load_all(block.text)]
    first = documents[0]
    assert first, f"{block}: no mapping"
    if "scenarios" in first:
        # What it expects is tested where the document runs it.
        (fields,) = read_fields(block.text, str(block))
        assert parse_scenarios(fields).scenarios, f"{block}: no scenario of placements"
        assert block.name, f"{block}: a scenario that nothing runs"
    elif first.get("kind") == KIND or set(first) & CONFIG_FIELDS:
        read_config(block.text, str(block))
    else:
        known = ("Pod", "Deployment", "StatefulSet", "DaemonSet", "Job")
        for one in documents:
            assert one, f"{block}: an empty document"
            assert one.get("kind") in known, f"{block}: neither configuration nor manifest"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text()):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_documents_show_commands_and_configurations() -> None:
    assert CONSOLES
    assert YAMLS


def test_messages_in_the_table_are_messages_of_ours() -> None:
    rows = re.findall(
        r"^\| `(.+?)`[^|]*\|", (ROOT / "docs" / "operating.md").read_text(), re.MULTILINE
    )
    messages = [row for row in rows if not row.startswith("/")]
    said = "\n".join(
        node.value
        for room in ("topology", "policy", "nri", "cmd")
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    assert len(messages) > 5
    for message in messages:
        # Values differ: what is between quotes, behind "…" or a lone N.
        parts = re.split(r"'[^']*'|…| N\b", message)
        for part in (part.strip() for part in parts):
            assert len(part) < 12 or part in said, f"{part!r} of {message!r} is said nowhere"


def test_differences_name_given_scenarios() -> None:
    if not GIVEN.exists():
        pytest.skip(f"{GIVEN} is not here")
    known = set(re.findall(r"^- id: (\S+)", GIVEN.read_text(), re.MULTILINE))
    rows = re.findall(
        r"^\| `([^`]+)`", (ROOT / "docs" / "differences.md").read_text(), re.MULTILINE
    )
    assert rows
    assert set(rows) <= known


def known_differences() -> set[tuple[str, str | int]]:
    """The keys of every table of differences in the tests: scenario, and row or step."""
    return {
        ast.literal_eval(key)
        for path in (ROOT / "tests" / "unit").glob("test_given_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Dict)
        and "DIFFERENCES" in ast.unparse(node).split("=")[0]
        for key in node.value.keys
        if key is not None
    }


def test_every_difference_is_listed() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (ROOT / "docs" / "differences.md").read_text().splitlines()
        if line.startswith("| `")
    ]
    known = known_differences()
    assert known
    for scenario, which in known:
        assert any(
            row[0] == f"`{scenario}`"
            and re.search(rf"(?<!\w){re.escape(str(which))}(?!\w)", row[1])
            for row in rows
        ), f"docs/differences.md does not list {scenario}: {which}"


def test_every_made_target_that_documents_name_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        target
        for document in DOCUMENTS
        for target in re.findall(r"`(?:sudo )?make ([a-z0-9-]+)", document.read_text())
    }
    assert {"run", "test"} <= named
    assert named <= targets
