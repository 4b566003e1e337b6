"""`pinfold status`, `ps` and `audit` as they are typed, asked of a daemon on paper."""

import json
import re
from collections.abc import Generator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pinfold.cmd.commands.node.status import bar, status_lines, status_text
from pinfold.cmd.control.documents import RuntimeDocument
from pinfold.cmd.control.status_document import status_document
from pinfold.cmd.pinfold import main
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.gauges.gauge_reader import GaugeReader
from pinfold.policy.engine.pool_drawing import spare_supplies
from pinfold.policy.model.container import (
    Container,
    ContainerId,
    Pod,
    PodId,
    QosClass,
    Resources,
)
from pinfold.policy.model.grant import Refusal
from pinfold.topology.made.spec import machine_from_spec

from ..control.asked_node import AskedNode
from ..daemon.paper_node import burstable, config, guaranteed


@pytest.fixture(name="node", scope="module")
def fixture_node(tmp_path_factory: pytest.TempPathFactory) -> Generator[AskedNode]:
    node = AskedNode(tmp_path_factory.mktemp("node"))
    node.start()
    node.run(guaranteed("db", 2000), burstable("web", 500), burstable("odd", 10, shrink="yes"))
    yield node
    node.stop()


def pinfold(node: AskedNode, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, f"--control={node.path}"])


@pytest.mark.parametrize("name", ["status", "ps"])
def test_tables_for_people_show_pools_containers_and_problems(node: AskedNode, name: str) -> None:
    run = pinfold(node, name)
    assert run.exit_code == 0, run.output
    lines = run.output.splitlines()
    assert lines[0] == "runtime: containerd v2.4.0 (embedded), connected"
    cells = [re.split(r"  +", line.strip()) for line in lines]
    assert ["socket #1", "█████·····", "4-7", "4-5", "0m", "2000m", "1", "1"] in cells
    reason = "it has most room left"
    assert ["default/db/db", "socket #1", "exclusive", "4-5", "1", "the same", reason] in cells
    (problem,) = [line for line in lines if line.startswith("problem:")]
    assert problem.startswith("problem: default/odd/odd: ")


def test_document_for_tools_is_that_of_the_contract(node: AskedNode) -> None:
    run = pinfold(node, "status", "-o", "json")
    status = json.loads(run.output)
    assert list(status) == ["containers", "pools", "problems", "runtime"]
    assert status["runtime"].keys() == {"kind", "name", "version", "connected"}
    assert status["pools"][0].keys() == {
        *("name", "cpus", "exclusive", "sharable", "shared_milli", "free_milli", "mems"),
        "containers",
    }
    (db, _, _) = status["containers"]
    assert db == {
        "container": "default/db/db",
        "id": node.id_of("db"),
        "pool": "socket #1",
        "kind": "exclusive",
        "intended": {"cpus": "4-5", "mems": "1"},
        "kernel": {"cpus": "4-5", "mems": "1"},
        "drift": False,
        "decided_by": "exclusive_room",
        "problems": [],
    }


def test_what_is_not_well_beside_the_containers_is_shown(tmp_path: Path) -> None:
    node = AskedNode(tmp_path)
    node.start()
    try:
        for name in ("a", "b", "c", "d", "e", "f", "f"):
            node.refusal(guaranteed(name, 8000))
        status = json.loads(pinfold(node, "status", "-o", "json").output)
        assert "config_fault" not in status
        assert "state_fault" not in status
        assert "history_fault" not in status
        node.daemon.note_reload("p.yaml:1: odd — accepted: even\np.yaml:2: more")
        saved = "/state: No space left on device — the state is not saved"
        node.daemon.state_fault = lambda: saved
        lost = "/state: Permission denied — decisions are lost"
        node.daemon.history_fault = lambda: lost
        lines = pinfold(node, "status").output.splitlines()
        assert lines[1:4] == [
            "problem: p.yaml:1: odd; the old configuration stays in force, see the log",
            f"problem: {saved}",
            f"problem: {lost}",
        ]
        head, *shown = lines[lines.index("refused since the start: 7; see 'pinfold explain'") :]
        assert head
        assert [line.split()[0] for line in shown] == [f"default/{one}/{one}" for one in "fed"]
        assert all("Z: no pool has room for 8 exclusive CPUs, 1 Gi" in one for one in shown)
        assert all(len(line) < 250 for line in shown)
        status = json.loads(pinfold(node, "status", "-o", "json").output)
        assert status["config_fault"] == "p.yaml:1: odd — accepted: even"
        assert status["state_fault"] == saved
        assert status["history_fault"] == lost
        assert status["refusals"]["count"] == 7
        assert [one["container"] for one in status["refusals"]["last"]] == [
            f"default/{one}/{one}" for one in "fedcb"
        ]
    finally:
        node.stop()


def test_idle_cpus_are_told_of_those_who_may_use_them() -> None:
    engine = Engine(machine_from_spec("socket:1 numa:2 core:4 mem:4G"), config())
    for name, level in (("wide", "socket"), ("plain", "numa")):
        pod = Pod(
            id=PodId(name),
            name=name,
            annotations={"idle-cpus.pinfold.dev/pod": level},
            qos=QosClass.BEST_EFFORT,
        )
        engine.create(Container(id=ContainerId(name), name=name, pod=pod))
    runtime = RuntimeDocument(kind="nri", name="containerd", version="2.3.4", connected=True)
    document = status_document(engine.snapshot(), runtime, {}, {}, ())
    plain, wide = json.loads(status_text(document))["containers"]
    assert (wide["kind"], wide["intended"]["cpus"], wide["idle"]) == ("shared", "1-7", "1-3")
    assert "idle" not in plain


def test_of_who_is_in_another_pool_by_now_the_reason_is_not_that_of_the_decision() -> None:
    engine = Engine(machine_from_spec("socket:2 numa:2 core:4 mem:8G"), config())
    for name, milli in (("a", 2000), ("b", 4000)):
        annotations = {"group.pinfold.dev/pod": "shop"}
        pod = Pod(id=PodId(name), name=name, annotations=annotations, qos=QosClass.GUARANTEED)
        resources = Resources(cpu_request_milli=milli, cpu_limit_milli=milli)
        engine.create(Container(id=ContainerId(name), name=name, pod=pod, resources=resources))
    runtime = RuntimeDocument(kind="nri", name="containerd", version="2.3.4", connected=True)
    document = status_document(engine.snapshot(), runtime, {}, {}, ())
    moved, there = json.loads(status_text(document))["containers"]
    assert (moved["pool"], moved["placed_in"]) == ("socket #0", "NUMA node #1")
    assert "placed_in" not in there
    shown = [line for line in status_lines(document) if line.startswith("  default/")]
    assert [line.partition("unknown  ")[2] for line in shown] == [
        "it was placed in NUMA node #1; what happened since has put it into socket #0",
        "its pod or its group runs there",
    ]


@pytest.mark.parametrize(
    ("promised_milli", "free_milli"),
    [
        pytest.param(1500, 2500, id="nothing is kept for a container that asks for no cpu"),
        pytest.param(4000, 0, id="nor is less than nothing free beside it where all is promised"),
    ],
)
def test_what_is_free_is_what_explain_and_the_metrics_say(
    promised_milli: int, free_milli: int
) -> None:
    engine = Engine(machine_from_spec("socket:1 numa:1 core:5 mem:4G"), config())
    for name, milli in (("full", promised_milli), ("idle", 0)):
        pod = Pod(id=PodId(name), name=name, qos=QosClass.BURSTABLE)
        resources = Resources(cpu_request_milli=milli)
        engine.create(Container(id=ContainerId(name), name=name, pod=pod, resources=resources))
    snapshot = engine.snapshot()
    runtime = RuntimeDocument(kind="nri", name="containerd", version="2.3.4", connected=True)
    (pool,) = status_document(snapshot, runtime, {}, {}, ()).pools
    assert pool.free_milli == spare_supplies(snapshot)[0].shared_milli == free_milli
    name = "policy.topologyaware.zone.cpu.shared.available"
    (metric,) = [one for one in GaugeReader().read(snapshot, {}) if one.name == name]
    assert metric.values == [free_milli / 1000]
    asked = Container(
        id=ContainerId("more"),
        name="more",
        pod=Pod(id=PodId("more"), name="more", qos=QosClass.BURSTABLE),
        resources=Resources(cpu_request_milli=5000),
    )
    refusal = engine.create(asked).result
    assert isinstance(refusal, Refusal)
    assert f"available {free_milli}m" in refusal.reason


def test_audit_exits_with_one_where_there_is_drift_and_with_zero_once_it_is_repaired(
    node: AskedNode,
) -> None:
    run = pinfold(node, "audit")
    assert (run.exit_code, run.output) == (0, "containers: 3, drift: 0, repaired: 0\n")
    node.runtime.kernel[node.id_of("db")].cpus = "1-2"
    run = pinfold(node, "audit", "-o", "json")
    assert run.exit_code == 1
    assert json.loads(run.output) == {
        "containers": 3,
        "drift": [
            {
                "container": "default/db/db",
                "intended": {"cpus": "4-5", "mems": "1"},
                "kernel": {"cpus": "1-2", "mems": "1"},
                "likely": "another program that sets cpusets: the kubelet, or another NRI plugin",
                "repaired": False,
            }
        ],
    }
    run = pinfold(node, "status")
    assert "cpus 1-2, memory 1" in run.output
    assert run.output.endswith("1 not as intended: see 'pinfold audit'\n")
    run = pinfold(node, "audit", "--repair")
    assert run.exit_code == 0
    assert "cpus 4-5, memory 1  cpus 1-2, memory 1  yes" in run.output
    assert run.output.endswith("containers: 3, drift: 1, repaired: 1\n")


def test_nobody_to_ask_is_status_two_with_one_line(tmp_path: Path) -> None:
    run = CliRunner().invoke(main, ["status", f"--control={tmp_path}/none"])
    assert run.exit_code == 2
    assert run.output == (
        f"{tmp_path}/none: no such file or directory — start pinfoldd, or name its socket with"
        " --control\n"
    )


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [
        pytest.param(0, 4000, "··········", id="nothing"),
        pytest.param(1, 4000, "█·········", id="next to nothing is something"),
        pytest.param(4000, 4000, "██████████", id="everything"),
        pytest.param(5000, 4000, "██████████", id="more than there is"),
        pytest.param(-1, 4000, "··········", id="less than nothing"),
        pytest.param(1, 0, "··········", id="a pool without cpus"),
    ],
)
def test_a_bar_shows_the_share_that_is_taken(part: int, whole: int, shown: str) -> None:
    assert bar(part, whole) == shown
