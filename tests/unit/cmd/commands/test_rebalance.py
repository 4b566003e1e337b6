"""`pinfold rebalance` against the state file of a daemon."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pinfold.cmd.pinfold import main
from pinfold.cmd.report.weight_text import weight_text
from pinfold.cmd.state.saved_states import SavedStates
from pinfold.cmd.state.state_file import StateFile
from pinfold.policy.engine.engine import Engine
from tests.unit.policy.engine.pods_with_wishes import placed, wishing

LOG = logging.getLogger("test_rebalance")
SPEC = "socket:2 numa:2 core:4 thread:1 mem:4G"


def saved(folder: Path, engine: Engine) -> Path:
    StateFile(folder, LOG).write(SavedStates().of(engine.snapshot()))
    return folder


@pytest.fixture(name="folder")
def fixture_folder(tmp_path: Path) -> Path:
    """The state of a daemon with two friends far from each other, and a third with its own cpus."""
    engine = placed(
        (wishing("web", wishes={"db": 3, "owner": 1}), "NUMA node #1"),
        (wishing("db"), "NUMA node #2"),
        (wishing("owner", 2000), "NUMA node #2"),
    )
    return saved(tmp_path, engine)


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(
        main, ["rebalance", f"--state={folder}", f"--machine={SPEC}", *arguments]
    )


def document(folder: Path, *arguments: str) -> Any:
    return json.loads(run(folder, "-o", "json", *arguments).output)


def test_the_table_says_what_moves_where_to_and_what_it_costs(folder: Path) -> None:
    found = run(folder, "--plan")
    lines = [" ".join(line.split()) for line in found.output.splitlines()]
    assert lines == [
        "satisfied weight: 1.27, 4 after 1 move (64 MiB to migrate, 1 cpuset to change)",
        "container from to gain memory to migrate",
        "default/web/web NUMA node #1, cpus 4-7 NUMA node #2, cpus 10-11 +2.73 64 MiB",
    ]
    assert found.exit_code == 0


def test_the_json_is_that_of_the_contract(folder: Path) -> None:
    assert document(folder) == {
        "score": 324,
        "score_after": 1024,
        "moves": [
            {
                "container": "default/web/web",
                "from": {"pool": "NUMA node #1", "cpus": "4-7", "mems": "1"},
                "to": {"pool": "NUMA node #2", "cpus": "10-11", "mems": "2"},
                "gain": 700,
                "bytes": 64 * 2**20,
            }
        ],
    }


def test_a_budget_of_nothing_moves_nobody(folder: Path) -> None:
    assert document(folder, "--budget", "0") == {"score": 324, "score_after": 324, "moves": []}
    told = "satisfied weight: 1.27; the budget allows no move\n"
    assert run(folder, "--budget=0").output == told


def test_exclusive_cpus_are_moved_for_who_asks_for_it(tmp_path: Path) -> None:
    stays = {"move.pinfold.dev/pod": "never"}
    engine = placed(
        (wishing("web", wishes={"own": 3}, more=stays), "NUMA node #1"),
        (wishing("own", 2000), "NUMA node #2"),
    )
    saved(tmp_path, engine)
    assert document(tmp_path)["moves"] == []
    (move,) = document(tmp_path, "--exclusive")["moves"]
    assert (move["container"], move["to"]["pool"]) == ("default/own/own", "NUMA node #1")


def test_a_state_that_is_not_there_is_named(tmp_path: Path) -> None:
    found = run(tmp_path / "none")
    assert found.exit_code == 2
    assert "no such file or directory — name the folder" in found.output


def test_a_made_up_machine_is_known_from_its_state(folder: Path) -> None:
    found = CliRunner().invoke(main, ["rebalance", "--plan", f"--state={folder}"])
    assert (found.exit_code, found.output) == (0, run(folder, "--plan").output)


def test_a_state_of_another_machine_is_refused(folder: Path) -> None:
    found = CliRunner().invoke(main, ["rebalance", f"--state={folder}", "--machine=core:2"])
    assert found.exit_code == 2
    assert "state: of another machine" in found.output


@pytest.mark.parametrize(
    ("score", "text"),
    [(0, "0"), (256, "1"), (257, "1"), (2560, "10"), (384, "1.5"), (-300, "-1.17"), (25600, "100")],
)
def test_weights_have_two_decimals_at_most(score: int, text: str) -> None:
    assert weight_text(score, 256) == text
