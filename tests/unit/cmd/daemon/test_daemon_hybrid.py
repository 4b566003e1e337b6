"""A daemon on a machine of fast and efficient cores: who gets which of them."""

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from pinfold.cmd.daemon.cpu_watch import CpuWatch
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import CoreKind, Domain, Machine
from pinfold.topology.sets.cpuset import CpuSet
from pinfold.topology.sysfs.discovery import read_machine
from tests.unit.cmd.daemon.paper_node import LOG, PaperNode, burstable, config, guaranteed
from tests.unit.topology.made.machine_files import machine_snapshot, write_tree

FAST = CpuSet.parse("0-7")
EFFICIENT = CpuSet.parse("8-15")
ONLINE = "sys/devices/system/cpu/online"

MANIFEST = """
apiVersion: v1
kind: Pod
metadata:
  name: batch
  annotations: {prefer-cpu-priority.resource-policy.nri.io/pod: low}
spec:
  containers:
  - {name: batch, resources: {limits: {cpu: 2, memory: 100M}}}
"""


def hybrid() -> Machine:
    """Four fast cores of two threads (cpus 0-7), two clusters of four efficient ones (8-15)."""
    plain = machine_from_spec("socket:1 numa:1 cluster:4 core:4 mem:8G")
    cores = (*(CpuSet.of(one, one + 1) for one in (0, 2, 4, 6)), *map(CpuSet.of, EFFICIENT))
    core_of = {cpu: core for core in cores for cpu in core}
    groups = (*cores[:4], CpuSet.parse("8-11"), CpuSet.parse("12-15"))
    cluster_of = {cpu: min(group) for group in groups for cpu in group}
    cpus = {
        one: dataclasses.replace(
            cpu,
            core=min(core_of[one]),
            cluster=cluster_of[one],
            kind=CoreKind.EFFICIENT if one in EFFICIENT else CoreKind.PERFORMANCE,
        )
        for one, cpu in plain.cpus.items()
    }
    clusters = tuple(Domain(label=f"0/0/{min(group)}", cpus=group) for group in groups)
    return dataclasses.replace(plain, cpus=cpus, cores=cores, clusters=clusters)


@pytest.fixture(name="tree")
def fixture_tree(tmp_path: Path) -> Path:
    """The files of the hybrid machine."""
    root = tmp_path / "root"
    root.mkdir()
    write_tree(machine_snapshot(hybrid()), str(root))
    return root


Run = Callable[..., PaperNode]


@pytest.fixture(name="run")
def fixture_run(tree: Path) -> Generator[Run]:
    running: list[PaperNode] = []

    def run(**fields: object) -> PaperNode:
        machine = read_machine(str(tree))
        assert machine.is_hybrid
        running.append(PaperNode(machine, config(**fields)))
        running[-1].start()
        return running[-1]

    yield run
    for node in running:
        node.stop()


@pytest.mark.parametrize(
    ("priority", "milli", "expected"),
    [
        pytest.param("high", 2000, "2-3", id="high priority: a fast core"),
        pytest.param("high", 7000, "1-7", id="all fast cpus that are left"),
        pytest.param("low", 2000, "8-9", id="low priority: efficient cores"),
        pytest.param("low", 4000, "8-11", id="a whole cluster of them"),
        pytest.param("low", 6000, "8-13", id="a whole cluster and half of the other"),
        pytest.param("low", 8000, "8-15", id="both clusters"),
        pytest.param("normal", 2000, "2-3", id="normal priority: no efficient core"),
        pytest.param("high", 8000, "1-8", id="more than there are: the rest is efficient"),
    ],
)
def test_a_priority_finds_its_kind_of_core(
    run: Run, priority: str, milli: int, expected: str
) -> None:
    node = run()
    node.run(guaranteed("a", milli, prefer_cpu_priority=priority))
    assert node.cpus("a") == expected


def test_the_default_priority_is_for_those_who_say_nothing(run: Run) -> None:
    node = run(defaultCPUPriority="low")
    node.run(guaranteed("silent", 2000), guaranteed("loud", 2000, prefer_cpu_priority="high"))
    assert CpuSet.parse(node.cpus("silent")) <= EFFICIENT
    assert CpuSet.parse(node.cpus("loud")) <= FAST


def test_low_priority_keeps_clusters_whole_for_others(run: Run) -> None:
    node = run()
    node.run(*(guaranteed(one, 2000, prefer_cpu_priority="low") for one in ("a", "b")))
    node.run(guaranteed("whole", 4000, prefer_cpu_priority="low"))
    assert (node.cpus("a"), node.cpus("b"), node.cpus("whole")) == ("8-9", "10-11", "12-15")


def test_shared_containers_use_what_is_left_of_both_kinds(run: Run) -> None:
    node = run()
    node.run(burstable("shared"))
    assert node.cpus("shared") == "1-15"
    node.run(guaranteed("fast", 2000, prefer_cpu_priority="high"))
    node.run(guaranteed("slow", 4000, prefer_cpu_priority="low"))
    assert node.cpus("shared") == "1,4-7,12-15"
    node.remove("slow")
    assert node.cpus("shared") == "1,4-15"


def test_a_restarted_daemon_leaves_everybody_on_its_cores(run: Run) -> None:
    node = run()
    for name, priority in (("fast", "high"), ("slow", "low")):
        node.run(guaranteed(name, 2000, prefer_cpu_priority=priority))
    before, counts = (node.cpus("fast"), node.cpus("slow")), node.runtime.update_counts.copy()
    node.restart()
    assert (node.cpus("fast"), node.cpus("slow")) == before
    assert node.runtime.update_counts == counts


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({}, "cpus=8-9 ", id="what the kernel says"),
        pytest.param({"OVERRIDE_SYS_ATOM_CPUS": "2-5"}, "cpus=2-3 ", id="other efficient cores"),
        pytest.param({"OVERRIDE_SYS_CORE_CPUS": "0-11"}, "cpus=12-13 ", id="more fast cores"),
        pytest.param(
            {"OVERRIDE_SYS_CORE_CPUS": "4-15", "OVERRIDE_SYS_ATOM_CPUS": "0-3"},
            "cpus=0-1 ",
            id="both kinds",
        ),
    ],
)
def test_the_daemon_believes_its_environment(
    tree: Path, tmp_path: Path, environment: dict[str, str], expected: str
) -> None:
    (tmp_path / "pods.yaml").write_text(MANIFEST)
    (tmp_path / "pinfold.yaml").touch()
    daemon = subprocess.Popen(
        [
            *(sys.executable, "-m", "pinfold.cmd.pinfoldd", "--runtime=embedded"),
            *(f"--sysfs-root={tree}", f"--manifest={tmp_path}/pods.yaml"),
            f"--config={tmp_path}/pinfold.yaml",
        ],
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"], **environment},
    )
    assert daemon.stderr is not None
    with daemon.stderr as log:
        created = next((line for line in log if "event=create" in line), "nothing was created")
        daemon.terminate()
        daemon.wait(60)
    assert expected in created


def test_the_environment_counts_when_cpus_come_and_go(
    run: Run, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OVERRIDE_SYS_ATOM_CPUS", "4-7")
    node = run()
    watch = CpuWatch(str(tree), node.daemon, LOG)
    (tree / ONLINE).write_text("0-14\n")
    watch.look()
    node.run(guaranteed("slow", 2000, prefer_cpu_priority="low"))
    assert node.cpus("slow") == "4-5"
