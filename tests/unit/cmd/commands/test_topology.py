"""`pinfold topology`: both outputs, exit statuses, errors, and what a start does not import."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from pinfold.cmd.pinfold import COMMANDS, main

SPEC = "socket:2 numa:2 core:2 thread:2 mem:2G"


def test_the_json_document_is_the_contract() -> None:
    result = CliRunner().invoke(main, ["topology", "--machine", SPEC, "-o", "json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "online_cpus": "0-15",
        "sockets": {"0": "0-7", "1": "8-15"},
        "dies": {"0/0": "0-7", "1/0": "8-15"},
        "numa_nodes": {
            "0": {"cpus": "0-3", "memory_bytes": 2147483648},
            "1": {"cpus": "4-7", "memory_bytes": 2147483648},
            "2": {"cpus": "8-11", "memory_bytes": 2147483648},
            "3": {"cpus": "12-15", "memory_bytes": 2147483648},
        },
        "l3_groups": ["0-7", "8-15"],
        "l2_groups": ["0-1", "2-3", "4-5", "6-7", "8-9", "10-11", "12-13", "14-15"],
        "cores": ["0-1", "2-3", "4-5", "6-7", "8-9", "10-11", "12-13", "14-15"],
        "threads_per_core_max": 2,
        "distances": [[10, 11, 21, 21], [11, 10, 21, 21], [21, 21, 10, 11], [21, 21, 11, 10]],
        "isolated": "",
        "warnings": [],
    }


def test_the_tree_is_the_default_and_this_machine_too() -> None:
    result = CliRunner().invoke(main, ["topology"])
    assert result.exit_code == 0
    assert "online (0" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ["topology", "--machine", "dee:2"],
            "machine spec, column 1: 'dee:2': unknown key 'dee' — did you mean 'die'?",
            id="a bad spec",
        ),
        pytest.param(
            ["topology", "--sysfs-root", "/absent"],
            "/absent: no such file or directory — give a directory or an archive",
            id="an unreadable root",
        ),
        pytest.param(
            ["topology", "--machine", "core:1", "--sysfs-root", "/"],
            "exclude each other",
            id="two machines at once",
        ),
        pytest.param(["topology", "-o", "xml"], "see 'pinfold topology --help'", id="a bad format"),
        pytest.param(["topology", "--frog"], "no such option '--frog'", id="an unknown option"),
        pytest.param(
            ["lint", "web.yaml", "--machine"],
            "option '--machine' requires an argument — see --help",
            id="an option without its value",
        ),
        pytest.param(["frog"], "pinfold: no such command 'frog'", id="an unknown command"),
        pytest.param(
            ["explian", "web"],
            "pinfold: no such command 'explian'. Did you mean 'explain'? — see 'pinfold --help'",
            id="a misspelt command",
        ),
        pytest.param(["--frog"], "pinfold: no such option '--frog'", id="a bad global option"),
    ],
)
def test_bad_usage_is_one_line_and_status_2(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, arguments, prog_name="pinfold")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_help_names_every_command_of_the_table() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert all(row.name in result.stdout and row.summary in result.stdout for row in COMMANDS)
    assert CliRunner().invoke(main, []).stdout == result.stdout


def test_the_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(main, ["--version"], prog_name="pinfold")
    assert result.stdout.startswith("pinfold ")
    assert result.exit_code == 0


HEAVY = {
    "asyncio",
    "cpuinfo",
    "google.protobuf",
    "grpc",
    "h2",
    "msgspec",
    "prometheus_client",
    "psutil",
    "rich",
    "tarfile",
    "yaml",
}


def imported(*arguments: str) -> set[str]:
    """The modules that a process has imported after a command."""
    program = (
        "import sys\n"
        "from pinfold.cmd.pinfold import main\n"
        "main(sys.argv[1:], standalone_mode=False)\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_a_start_imports_nothing_heavy() -> None:
    modules = imported("topology", "--machine", "core:2", "-o", "json")
    assert not HEAVY & modules
    assert not {one for one in modules if one.startswith("pinfold.policy")}


def test_a_tree_needs_rich_and_nothing_else_that_is_heavy() -> None:
    modules = imported("topology", "--machine", "core:2")
    assert HEAVY & modules == {"rich"}
    assert not {"pygments", "markdown_it", "rich.markdown", "rich.progress"} & modules


def test_a_document_of_pools_needs_no_rich() -> None:
    assert "rich" not in imported("pools", "--machine", "core:2", "-o", "json")


@pytest.mark.parametrize(
    "unbuffered",
    [pytest.param({}, id="buffered"), pytest.param({"PYTHONUNBUFFERED": "1"}, id="unbuffered")],
)
def test_a_reader_that_leaves_early_is_no_error(unbuffered: dict[str, str]) -> None:
    program = "from pinfold.cmd.pinfold import main; main()"
    arguments = ["topology", "--machine", "core:4096 thread:2", "-o", "json"]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**kept, **unbuffered},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0
