"""`pinfold replay`: the decisions of a node made again, to compare configurations and machines."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from pinfold.cmd.control.history.history_file import read_history
from pinfold.cmd.control.history.replayed_decision import ReplayOutcome, replay
from pinfold.cmd.pinfold import main
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.topology.model.machine import Machine
from tests.property.test_engine_walk import MACHINES
from tests.unit.policy.engine.ruled_pods import apart, term

from ..control.history.test_history_keeper import MADE, KeptNode
from ..daemon.paper_node import burstable, config, guaranteed
from .piped_text import piped

SPEC = "socket:2 numa:1 core:4 thread:1 mem:8G"


@pytest.fixture(name="folder")
def fixture_folder(tmp_path: Path) -> Path:
    """The folder of a daemon that placed, resized, refused and released containers, and ended."""
    node = KeptNode(tmp_path)
    node.start()
    node.run(burstable("side", 900), guaranteed("db", 2000), guaranteed("web", 1500))
    node.refusal(guaranteed("vast", 8000))
    node.remove("db")
    node.run(guaranteed("late", 2000))
    node.resize("web", 2500, 2**30)
    node.restart()
    node.run(guaranteed("last", 1000))
    node.stop()
    return tmp_path


def run(folder: Path, *arguments: str, spec: str = SPEC) -> Result:
    return CliRunner().invoke(
        main, ["replay", f"--state={folder}", f"--machine={spec}", *arguments]
    )


def test_the_same_machine_and_configuration_decide_the_same(folder: Path) -> None:
    found = run(folder)
    assert (found.exit_code, found.output) == (
        0,
        "as it was: 7, elsewhere: 0, refused now: 0, granted now: 0\n",
    )


def test_a_made_up_machine_of_a_folder_is_known_from_its_state(tmp_path: Path) -> None:
    node = KeptNode(tmp_path, MADE)
    node.start()
    node.run(guaranteed("db", 2000))
    node.stop()
    found = CliRunner().invoke(main, ["replay", f"--state={tmp_path}"])
    assert found.output == "as it was: 1, elsewhere: 0, refused now: 0, granted now: 0\n"


def test_cpus_are_reserved_that_the_node_reserved(tmp_path: Path) -> None:
    """Of one cpu, as the configuration has it by now, any other one would be chosen."""
    node = KeptNode(tmp_path, MADE)
    node.settings = config(reservedResources={"cpu": "cpuset:3"})
    node.daemon = node._daemon()  # pyright: ignore[reportPrivateUsage]
    node.start()
    node.run(guaranteed("db", 2000))
    node.settings = config(reservedResources={"cpu": "1"})
    node.restart()
    node.run(guaranteed("web", 2000))
    node.stop()
    for more in ([], [f"--machine={SPEC}"]):
        found = CliRunner().invoke(main, ["replay", f"--state={tmp_path}", *more])
        assert found.output == "as it was: 2, elsewhere: 0, refused now: 0, granted now: 0\n"


def test_the_machine_of_a_folder_from_elsewhere_has_to_be_named(folder: Path) -> None:
    file = folder / "pinfold.yaml"
    file.write_text("pinCPU: true\n")
    for more in ([], [f"--config={file}"]):
        found = CliRunner().invoke(main, ["replay", f"--state={folder}", *more])
        assert found.exit_code == 2
        assert found.output.startswith("state: of another machine (cpus 0-7, sockets: 2,")
        assert found.output.endswith("name that one with --sysfs-root or --machine\n")


def test_with_a_configuration_decisions_alone_are_enough(folder: Path) -> None:
    file = folder / "pinfold.yaml"
    file.write_text("reservedResources: {cpu: 'cpuset:0'}\n")
    (folder / "state.json").unlink()
    found = run(folder, f"--config={file}")
    assert found.output == "as it was: 7, elsewhere: 0, refused now: 0, granted now: 0\n"


def test_a_configuration_may_come_out_of_a_pipe(folder: Path) -> None:
    with piped("reservedResources: {cpu: 'cpuset:0'}\n") as name:
        found = run(folder, f"--config={name}")
    assert found.output == "as it was: 7, elsewhere: 0, refused now: 0, granted now: 0\n"


def test_another_configuration_shows_who_would_be_elsewhere(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text(
        yaml.safe_dump({"reservedResources": {"cpu": "cpuset:0"}, "preferSharedCPUs": True})
    )
    found = json.loads(run(folder, f"--config={file}", "-o", "json").output)
    assert sum(found["counts"].values()) == 7
    assert found["counts"]["elsewhere"] == len(found["decisions"]) > 0
    moved = {one["container"]: one for one in found["decisions"]}
    assert moved["default/db/db"]["before"]["cpus"] != moved["default/db/db"]["after"]["cpus"]


def test_a_smaller_machine_refuses_some_and_that_is_status_one(folder: Path) -> None:
    found = run(folder, spec="socket:1 numa:1 core:4 thread:1 mem:8G")
    assert found.exit_code == 1
    lines = [re.split("  +", line.strip()) for line in found.output.splitlines()]
    assert lines[0] == ["container", "event", "was", "would be"]
    refused = [line for line in lines if line[-1].startswith("refused: no pool has room for")]
    assert refused
    assert all(line[2].startswith("socket #") for line in refused)


def test_a_larger_machine_grants_what_was_refused(folder: Path) -> None:
    found = json.loads(
        run(folder, "-o", "json", spec="socket:2 numa:1 core:16 thread:1 mem:8G").output
    )
    assert found["counts"]["granted now"] == 1
    (granted,) = (one for one in found["decisions"] if one["outcome"] == "granted now")
    assert granted["container"] == "default/vast/vast"
    assert granted["before"]["refused"].startswith("no pool has room for 8")


def test_which_rules_do_not_hold_after_a_restart_is_no_decision_to_be_made_again(
    tmp_path: Path,
) -> None:
    """Who is refused, as here, does not run after the restart, either."""
    node = KeptNode(tmp_path, MADE)
    node.start()
    rules = {"affinity.pinfold.dev/pod": json.dumps(apart(term("socket", "wolf")))}
    node.run(
        guaranteed("full", 4000),
        replace(burstable("shy", 1500), annotations=rules),
        replace(burstable("wolf", 100), labels={"app": "wolf"}),
    )
    node.restart()
    node.stop()
    assert [one.event for one in node.kept()] == ["create"] * 3 + ["synchronize"]
    found = run(tmp_path, "--all", spec="socket:1 numa:1 core:2 thread:1 mem:8G")
    assert [line.split()[:2] for line in found.output.splitlines()[1:-1]] == [
        ["default/full/full", "create"],
        ["default/shy/shy", "create"],
        ["default/wolf/wolf", "create"],
    ]


def test_every_decision_is_shown_to_who_asks(folder: Path) -> None:
    lines = run(folder, "--all").output.splitlines()
    assert [line.split()[1] for line in lines[1:-1]] == [
        *["create"] * 5,
        "update",
        "create",
    ]


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_a_history_can_be_replayed_on_any_machine(folder: Path, machine: Machine) -> None:
    kept = read_history(folder)
    found = replay(Engine(machine, Config()), kept)
    assert len(found) <= 7
    assert all(isinstance(one.outcome, ReplayOutcome) for one in found)


def test_a_folder_without_decisions_is_status_two(tmp_path: Path) -> None:
    found = run(tmp_path)
    assert found.exit_code == 2
    assert "holds no decisions.jsonl" in found.output
