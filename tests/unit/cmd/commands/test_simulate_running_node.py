"""`pinfold simulate` that goes on from a running node: what would come, and what would move."""

import json
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from pinfold.cmd.pinfold import main
from pinfold.cmd.state.state_file import STATE_NAME, StateFile
from pinfold.policy.manifests.manifest import parse_manifests
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import Grant

from ..control.asked_node import LOG, AskedNode
from ..daemon.paper_node import burstable, guaranteed

SPEC = "socket:2 numa:1 core:4 thread:1 mem:8G"
NEWCOMERS = """
apiVersion: v1
kind: Pod
metadata:
  name: late
  labels: {app: late}
  annotations: {resource-policy.nri.io/affinity: "second: [first]"}
spec:
  initContainers:
  - {name: prepare, resources: {limits: {cpu: 3, memory: 1G}}}
  containers:
  - {name: first, resources: {limits: {cpu: 2, memory: 100M}}}
  - {name: second, resources: {limits: {cpu: 1500m, memory: 100M}}}
---
apiVersion: v1
kind: Pod
metadata: {name: tiny}
spec:
  containers: [{name: tiny, resources: {requests: {cpu: 200m}}}]
"""


@pytest.fixture(name="node")
def fixture_node(tmp_path: Path) -> Generator[AskedNode]:
    node = AskedNode(tmp_path)
    node.start()
    node.run(burstable("web", 900), guaranteed("db", 1000), burstable("side", 100))
    yield node
    node.stop()


@pytest.fixture(name="pods")
def fixture_pods(tmp_path: Path) -> Path:
    path = tmp_path / "late.yaml"
    path.write_text(NEWCOMERS)
    return path


def simulate(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["simulate", f"--machine={SPEC}", *map(str, arguments)])


def asked(node: AskedNode, *arguments: str | Path) -> Result:
    return simulate("--running", f"--control={node.path}", *arguments)


def scenario(run: Result) -> dict[str, Any]:
    assert run.exit_code == 0, run.output
    document: dict[str, list[dict[str, Any]]] = json.loads(run.output)
    (found,) = document["scenarios"]
    return found


def test_the_simulation_gives_the_nodes_own_decisions_bit_for_bit(
    node: AskedNode, pods: Path
) -> None:
    found = scenario(asked(node, pods, "-o", "json"))
    node.run(*parse_manifests(NEWCOMERS, "late.yaml"))
    documents = {one.container: one for one in node.client.status().containers}
    assert {key: one["pool"] for key, one in found["containers"].items()} == {
        path.split("/")[2]: one.pool for path, one in documents.items()
    }
    for path, document in documents.items():
        simulated, name = found["containers"][path.split("/")[2]], path.split("/")[2]
        real = node.daemon.engine.decisions[ContainerId(document.id)]
        assert simulated["decided_by"] == (real.decided_by if name in LATE else "kept")
        assert (simulated["cpus"], simulated["mems"]) == (node.cpus(name), node.mems(name))
        assert isinstance(real.result, Grant)
        assert simulated["exclusive"] == str(real.result.exclusive)
        if name in LATE:
            assert [(one["container"], one["to"]) for one in simulated.get("moved", ())] == [
                (one.container, {"cpus": one.to.cpus, "mems": one.to.mems})
                for one in node.client.explain(name).moved
            ]


LATE = {"first", "second", "tiny"}


def test_the_diff_says_who_came_and_who_is_elsewhere(node: AskedNode, pods: Path) -> None:
    before = {one.container: one for one in node.client.status().containers}
    diff = scenario(asked(node, pods, "-o", "json"))["diff"]
    assert [one["container"] for one in diff["added"]] == [
        *("default/late/first", "default/late/second", "default/tiny/tiny")
    ]
    assert diff["gone"] == []
    for one in diff["moved"]:
        was = before[one["container"]]
        assert one["from"] == {
            "pool": was.pool,
            "cpus": was.intended.cpus,
            "mems": was.intended.mems,
        }
        assert one["from"] != one["to"]
    node.run(*parse_manifests(NEWCOMERS, "late.yaml"))
    after = {one.container: one for one in node.client.status().containers}
    for one in (*diff["added"], *diff["moved"]):
        now = after[one["container"]]
        assert one["to"] == {"pool": now.pool, "cpus": now.intended.cpus, "mems": now.intended.mems}
    still = before.keys() - {one["container"] for one in diff["moved"]}
    assert all(before[path].intended == after[path].intended for path in still)


def test_the_table_shows_newcomers_and_then_what_moves(node: AskedNode, pods: Path) -> None:
    pods.write_text(NEWCOMERS.split("---")[1])
    lines = [re.split(r"  +", line.strip()) for line in asked(node, pods).output.splitlines()]
    assert lines[:2] == [
        ["manifests on this node as it runs:"],
        ["container", "pool", "cpus", "memory", "why"],
    ]
    assert [line[0] for line in lines[2:]] == ["tiny/tiny"]
    pods.write_text(NEWCOMERS.split("---")[0])
    text = asked(node, pods).output
    moved = text[text.index("moved") :].splitlines()
    assert re.split("  +", moved[0].strip()) == ["moved", "from", "to"]
    assert re.fullmatch(
        r" *default/(web|side)/\S+( +socket #\d, cpus \S+, memory \S+){2}",
        moved[1],
    )


def test_a_state_file_says_the_same_as_its_daemon(
    node: AskedNode, pods: Path, tmp_path: Path
) -> None:
    StateFile(tmp_path, LOG).write(node.client.state())
    of_daemon = scenario(asked(node, pods, "-o", "json"))
    for path in (tmp_path, tmp_path / STATE_NAME):
        of_file = scenario(simulate(f"--state={path}", pods, "-o", "json"))
        assert of_file == {**of_daemon, "topology": str(path)}


def test_another_configuration_moves_those_it_must(node: AskedNode, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    cpus = node.cpus("db")
    other.write_text(yaml.safe_dump({"reservedResources": {"cpu": f"cpuset:{cpus}"}}))
    run = asked(node, f"--config={other}", "-o", "json")
    diff = scenario(run)["diff"]
    assert diff["added"] == []
    (moved,) = (one for one in diff["moved"] if one["container"] == "default/db/db")
    assert moved["from"]["cpus"] == cpus != moved["to"]["cpus"]


def test_without_anything_new_nothing_changes(node: AskedNode) -> None:
    run = asked(node)
    assert (run.exit_code, run.output) == (
        0,
        "manifests on this node as it runs:\n  nothing changes\n",
    )


def test_a_refused_pod_is_said_and_is_status_one(node: AskedNode, pods: Path) -> None:
    manifest = NEWCOMERS.split("---")[1].replace(
        "requests: {cpu: 200m}", "limits: {cpu: 8, memory: 1G}"
    )
    pods.write_text(manifest)
    run = asked(node, pods)
    assert run.exit_code == 1
    assert "refused: no pool has room for 8 exclusive" in run.output


def test_a_scenario_may_go_on_from_the_node_and_expect_something(
    node: AskedNode, tmp_path: Path
) -> None:
    file = tmp_path / "check.yaml"
    steps = [
        {"do": "delete_pods", "pods": ["web"]},
        {"do": "expect", "that": ['not has_allocation("web")', 'has_allocation("db")']},
    ]
    file.write_text(yaml.safe_dump({"scenarios": [{"id": "without web", "steps": steps}]}))
    run = asked(node, file)
    assert run.exit_code == 0, run.output
    assert "2 of 2 expectations hold" in run.output
    assert "gone: default/web/web" in run.output
    steps.insert(0, {"do": "start"})
    file.write_text(yaml.safe_dump({"scenarios": [{"id": "anew", "steps": steps}]}))
    run = asked(node, file)
    assert run.exit_code == 2
    assert "names its own topology or starts the policy — leave that out" in run.output


def test_a_pod_that_runs_already_is_a_problem(node: AskedNode, pods: Path) -> None:
    pods.write_text(NEWCOMERS.split("---")[1].replace("name: tiny}\n", "name: web}\n"))
    run = asked(node, pods)
    assert run.exit_code == 1
    assert "create_pod: default/web is there already" in run.output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param((), "name a FILE, or a running node with --state or --running", id="nothing"),
        pytest.param(("--state=.", "--running"), "exclude each other", id="both"),
        pytest.param(("--control=x", "x.yaml"), "give --running with it", id="a socket alone"),
    ],
)
def test_what_is_asked_must_be_clear(arguments: tuple[str, ...], complaint: str) -> None:
    run = simulate(*arguments)
    assert run.exit_code == 2
    assert complaint in run.output


def test_a_made_up_machine_is_known_from_its_state(node: AskedNode, pods: Path) -> None:
    arguments = ["simulate", "--running", f"--control={node.path}", str(pods)]
    run = CliRunner().invoke(main, arguments)
    assert (run.exit_code, run.output) == (0, asked(node, pods).output)


def test_a_state_of_another_machine_is_refused(node: AskedNode, pods: Path) -> None:
    run = CliRunner().invoke(
        main,
        ["simulate", "--running", f"--control={node.path}", "--machine=socket:1 core:2", str(pods)],
    )
    assert run.exit_code == 2
    assert "state: of another machine" in run.output
