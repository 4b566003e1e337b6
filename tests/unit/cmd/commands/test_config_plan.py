"""`pinfold config plan` against the state file of a daemon."""

import json
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from pinfold.cmd.pinfold import main
from pinfold.cmd.state.saved_states import SavedStates
from pinfold.cmd.state.state_file import StateFile, load_state
from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sysfs.discovery import read_machine
from tests.unit.topology.made.machine_files import machine_snapshot, write_tree

from .piped_text import piped

LOG = logging.getLogger("test_configplan")
FAST = {"key": "tier", "operator": "In", "values": ["fast"]}
SPEC = "socket:2 core:4 thread:1 mem:4G"


def container(name: str, milli: int) -> Container:
    return Container(
        id=ContainerId(f"id-{name}"),
        name=name,
        pod=Pod(id=PodId(name), name=f"{name}-pod", qos=QosClass.GUARANTEED),
        resources=Resources(
            cpu_request_milli=milli,
            cpu_limit_milli=milli,
            memory_request_bytes=2**20,
            memory_limit_bytes=2**20,
        ),
    )


@pytest.fixture(name="folder")
def fixture_folder(tmp_path: Path) -> Path:
    """The state of a daemon with two containers, on cpus 4-5 and 1-3."""
    engine = Engine(machine_from_spec(SPEC), Config(reserved_resources=Amounts(cpu="cpuset:0")))
    for name, milli in (("web", 2000), ("db", 3000)):
        engine.create(container(name, milli))
        engine.start(ContainerId(f"id-{name}"))
    StateFile(tmp_path, LOG).write(SavedStates().of(engine.snapshot()))
    return tmp_path


def plan(folder: Path, config: str, *arguments: str) -> Result:
    file = folder / "node.yaml"
    file.write_text(config)
    run = ["config", "plan", str(file), f"--state={folder}", f"--machine={SPEC}", *arguments]
    return CliRunner().invoke(main, run)


def document(folder: Path, config: str) -> Any:
    return json.loads(plan(folder, config, "-o", "json").output)


def test_a_change_that_moves_nobody(folder: Path) -> None:
    run = plan(folder, 'reservedResources: {cpu: "cpuset:0"}\ncolocatePods: true\n')
    assert run.output == (
        "default/db-pod/db: stays on cpus 1-3, memory 0\n"
        "default/web-pod/web: stays on cpus 4-5, memory 1\n"
        "stays: 2, moves: 0, degraded: 0\n"
    )
    assert run.exit_code == 0


def test_a_configuration_in_a_pipe_is_planned_as_one_in_a_file(folder: Path) -> None:
    config = 'reservedResources: {cpu: "cpuset:0"}\ncolocatePods: true\n'
    with piped(config) as name:
        run = CliRunner().invoke(
            main, ["config", "plan", name, f"--state={folder}", f"--machine={SPEC}"]
        )
    assert run.output == plan(folder, config).output


def test_who_would_have_to_move_where_to_and_why(folder: Path) -> None:
    run = plan(
        folder,
        'availableResources: {cpu: "exclude-cpuset:4"}\nreservedResources: {cpu: "cpuset:0"}\n',
    )
    assert run.output == (
        "default/db-pod/db: stays on cpus 1-3, memory 0\n"
        "default/web-pod/web: moves from cpus 4-5, memory 1 to cpus 5-6, memory 1"
        " — cpus 4 are not available\n"
        "stays: 1, moves: 1, degraded: 0\n"
    )
    assert run.exit_code == 1


def test_memory_that_is_not_available_any_more_is_left(folder: Path) -> None:
    run = plan(
        folder,
        'availableResources: {memory: "nodeset:0"}\nreservedResources: {cpu: "cpuset:0"}\n',
    )
    assert run.output == (
        "default/db-pod/db: stays on cpus 1-3, memory 0\n"
        "default/web-pod/web: moves from cpus 4-5, memory 1 to cpus 4-5, memory 0"
        " — memory nodes 1 are not available\n"
        "stays: 1, moves: 1, degraded: 0\n"
    )
    assert run.exit_code == 1


def test_who_could_not_have_what_it_asks_for(folder: Path) -> None:
    config = 'availableResources: {cpu: "cpuset:0-4"}\nreservedResources: {cpu: "cpuset:0"}\n'
    run = plan(folder, config)
    assert run.exit_code == 1
    assert "default/web-pod/web: degraded, from cpus 4-5, memory 1 to" in run.output
    found = document(folder, config)
    assert found["counts"] == {"stays": 1, "moves": 0, "degraded": 1}


def test_whose_rule_stops_holding_while_it_runs(tmp_path: Path) -> None:
    def labels(node: int) -> Config:
        pool = {"pool": f"socket #{node}", "labels": {"tier": "fast"}}
        return config_from_values({"poolLabels": [pool], "reservedResources": {"cpu": "cpuset:0"}})

    terms = {"nodeSelectorTerms": [{"matchExpressions": [FAST]}]}
    web = container("web", 2000)
    rule = {"poolAffinity": {"requiredDuringSchedulingRequiredDuringExecution": terms}}
    pod = structs.replace(web.pod, annotations={"affinity.pinfold.dev/pod": json.dumps(rule)})
    engine = Engine(machine_from_spec(SPEC), labels(1))
    engine.create(structs.replace(web, pod=pod))
    engine.start(web.id)
    StateFile(tmp_path, LOG).write(SavedStates().of(engine.snapshot()))
    text = (
        'reservedResources: {cpu: "cpuset:0"}\npoolLabels: [{pool: "*#%s", labels: {tier: fast}}]\n'
    )
    assert plan(tmp_path, text % 1).exit_code == 0
    run = plan(tmp_path, text % 0)
    assert (
        "default/web-pod/web: degraded, stays on cpus 4-5, memory 1 — does not hold" in run.output
    )
    assert "stays: 0, moves: 0, degraded: 1" in run.output
    assert run.exit_code == 1


def test_the_document_is_sorted_and_whole(folder: Path) -> None:
    run = plan(folder, 'reservedResources: {cpu: "cpuset:4"}\n', "-o", "json")
    found = json.loads(run.output)
    assert json.dumps(found, indent=2, sort_keys=True, ensure_ascii=False) + "\n" == run.output
    db, web = found["containers"]
    assert db == {
        "id": "id-db",
        "container": "db",
        "pod": "db-pod",
        "namespace": "default",
        "fate": "stays",
        "before": {"cpus": "1-3", "mems": "0", "pool": "socket #0"},
        "after": {"cpus": "1-3", "mems": "0", "pool": "socket #0"},
        "reason": None,
    }
    assert (web["fate"], web["reason"]) == ("moves", "cpus 4 are reserved")


def test_who_stays_is_not_said_to_run_anywhere(folder: Path) -> None:
    run = plan(folder, 'reservedResources: {cpu: "cpuset:0"}\npinCPU: false\npinMemory: false\n')
    assert run.output == (
        "default/db-pod/db: stays on cpus 1-3 (not pinned), memory 0 (not pinned)\n"
        "default/web-pod/web: stays on cpus 4-5 (not pinned), memory 1 (not pinned)\n"
        "stays: 2, moves: 0, degraded: 0\n"
    )
    assert run.exit_code == 0


def test_what_is_asked_for_in_vain_from_then_on_is_said(tmp_path: Path) -> None:
    machine = machine_from_spec(SPEC)
    write_tree(machine_snapshot(machine), str(tmp_path))
    (tmp_path / "proc/irq/24").mkdir(parents=True)
    (tmp_path / "proc/irq/24/smp_affinity_list").write_text("0-7\n")
    (tmp_path / "proc/interrupts").write_text("  CPU0\n 24: 0 PCI-MSI eth0\n")
    read = read_machine(str(tmp_path))
    engine = Engine(read, Config(reserved_resources=Amounts(cpu="cpuset:0")))
    web = container("web", 2000)
    key = "irq-affinity.resource-policy.nri.io/container.web"
    pod = structs.replace(web.pod, annotations={key: "claim: ['*eth0*']"})
    engine.create(structs.replace(web, pod=pod))
    StateFile(tmp_path, LOG).write(SavedStates().of(engine.snapshot()))
    file = tmp_path / "node.yaml"
    file.write_text('reservedResources: {cpu: "cpuset:0"}\ncontrollableInterrupts: ["*nvme*"]\n')
    arguments = [f"--state={tmp_path}", f"--sysfs-root={tmp_path}"]
    run = CliRunner().invoke(main, ["config", "plan", str(file), *arguments])
    reason = (
        f"{key}: denied interrupt: 24 (PCI-MSI eth0) is denied but matched by user pattern"
        " '*eth0*' — add it to controllableInterrupts or name another"
    )
    assert run.output == (
        f"default/web-pod/web: degraded, stays on cpus 4-5, memory 1 — {reason}\n"
        "stays: 0, moves: 0, degraded: 1\n"
    )
    assert run.exit_code == 1
    run = CliRunner().invoke(main, ["config", "plan", str(file), "-o", "json", *arguments])
    (one,) = json.loads(run.output)["containers"]
    assert (one["fate"], one["reason"]) == ("degraded", reason)
    assert run.exit_code == 1


def test_a_pod_whose_annotations_were_not_kept_is_named(folder: Path) -> None:
    state = load_state(folder / "state.json")
    pods = tuple(msgspec.structs.replace(pod, is_cut=pod.name == "web-pod") for pod in state.pods)
    StateFile(folder, LOG).write(msgspec.structs.replace(state, pods=pods))
    run = plan(folder, 'reservedResources: {cpu: "cpuset:0"}\n')
    assert run.output.splitlines()[0] == (
        "warning: default/web-pod: too long to be kept — planned without its annotations, labels"
        " and hints"
    )
    assert run.exit_code == 0


def test_nothing_is_changed_by_a_plan(folder: Path) -> None:
    before = (folder / "state.json").read_bytes()
    plan(folder, 'reservedResources: {cpu: "cpuset:4"}\n')
    assert (folder / "state.json").read_bytes() == before
    assert sorted(one.name for one in folder.iterdir()) == ["node.yaml", "state.json"]


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        pytest.param("pinCpu: true\n", "node.yaml:1:1: pinCpu: unknown field", id="a fault"),
        pytest.param(
            "reservedResources: {cpu: 100}\n",
            "'100' reserves 100 cpus of 8 usable ones",
            id="a configuration for another machine",
        ),
    ],
)
def test_a_faulty_file_has_no_plan(folder: Path, config: str, complaint: str) -> None:
    run = plan(folder, config)
    assert run.exit_code == 2
    assert complaint in run.stderr
    assert run.stdout == ""


def test_a_made_up_machine_is_known_from_its_state(folder: Path) -> None:
    named = plan(folder, "colocatePods: true\n")
    arguments = ["config", "plan", str(folder / "node.yaml"), f"--state={folder}"]
    run = CliRunner().invoke(main, arguments)
    assert (run.exit_code, run.output) == (named.exit_code, named.output)


def test_a_state_of_another_machine_has_no_plan(folder: Path) -> None:
    run = plan(folder, "", "--machine=socket:1 core:4 thread:1 mem:4G")
    assert run.exit_code == 2
    assert (
        "state: of another machine (cpus 0-7, sockets: 2, NUMA nodes: 2; this one has cpus 0-3,"
        " sockets: 1, NUMA nodes: 1) — name that one" in run.stderr
    )


def test_without_a_state_there_is_no_plan(folder: Path) -> None:
    (folder / "state.json").unlink()
    run = plan(folder, "")
    assert run.exit_code == 2
    assert "state.json: no such file or directory — name the folder that" in run.stderr


def test_a_broken_state_is_left_where_it_is(folder: Path) -> None:
    (folder / "state.json").write_bytes(b"broken")
    run = plan(folder, "")
    assert run.exit_code == 2
    assert "the daemon puts it aside and writes a good one when it starts" in run.stderr
    assert (folder / "state.json").read_bytes() == b"broken"
