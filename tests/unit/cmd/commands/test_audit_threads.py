"""`pinfold audit --threads`: threads that are bound to some of their container's cpus."""

import json
import os
import re
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pinfold.cmd.kernel.thread_watch import read_affinities
from pinfold.cmd.pinfold import main
from pinfold.topology.sets.cpuset import CpuSet

from ..control.asked_node import AskedNode
from ..daemon.paper_node import guaranteed

ID = "a1" * 32


def add_process(root: Path, cgroup: str, pid: int, threads: Mapping[int, str]) -> None:
    """A process in a cgroup of version 2, with the cpus that each of its threads may use."""
    top = root / "sys/fs/cgroup"
    folder = top / cgroup
    folder.mkdir(parents=True, exist_ok=True)
    (top / "cgroup.controllers").write_text("cpuset\n")
    with (folder / "cgroup.procs").open("a") as file:
        file.write(f"{pid}\n")
    for tid, cpus in threads.items():
        task = root / "proc" / str(pid) / "task" / str(tid)
        task.mkdir(parents=True)
        (task / "status").write_text(f"Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t{cpus}\n")


@pytest.fixture(name="node", scope="module")
def fixture_node(tmp_path_factory: pytest.TempPathFactory) -> Generator[AskedNode]:
    node = AskedNode(tmp_path_factory.mktemp("node"))
    node.start()
    node.run(guaranteed("db", 3000))
    yield node
    node.stop()


def audit(node: AskedNode, root: Path, *arguments: str) -> Result:
    more = [f"--control={node.path}", f"--sysfs-root={root}", "--threads", *arguments]
    return CliRunner().invoke(main, ["audit", *more])


def test_threads_of_all_processes_of_a_container_are_counted(tmp_path: Path) -> None:
    add_process(tmp_path, f"kubepods/podx/{ID}", 10, {10: "4-6", 11: "4"})
    add_process(tmp_path, f"kubepods/podx/{ID}/inner", 20, {20: "4", 21: "4-6"})
    add_process(tmp_path, f"kubepods/podx/{ID}/outer/inner", 40, {40: "5"})
    add_process(tmp_path, "system.slice/sshd.service", 30, {30: "0-7"})
    with (tmp_path / f"sys/fs/cgroup/kubepods/podx/{ID}/cgroup.procs").open("a") as file:
        # One that ended meanwhile, and no process at all.
        file.write("99\nodd\n")
    assert read_affinities(tmp_path, [ID]) == {
        ID: {CpuSet.parse("4-6"): 2, CpuSet.parse("4"): 2, CpuSet.parse("5"): 1},
    }


def test_the_kernel_tells_a_threads_affinity_so() -> None:
    status = Path("/proc/thread-self/status").read_text()
    found = re.search(r"^Cpus_allowed_list:\s*(\S+)", status, re.MULTILINE)
    assert found is not None
    assert set(CpuSet.parse(found[1])) == os.sched_getaffinity(0)


def test_bound_threads_are_shown_and_change_no_status(node: AskedNode, tmp_path: Path) -> None:
    one, *_, last = CpuSet.parse(node.cpus("db"))
    add_process(
        tmp_path,
        f"kubepods/podx/{node.id_of('db')}",
        10,
        {10: node.cpus("db"), 11: str(one), 12: str(one), 13: str(last)},
    )
    run = audit(node, tmp_path)
    assert run.exit_code == 0, run.output
    lines = [re.split("  +", line.strip()) for line in run.output.splitlines()]
    assert lines == [
        ["containers: 1, drift: 0, repaired: 0"],
        [""],
        ["container", "intended", "bound to", "threads"],
        ["default/db/db", node.cpus("db"), str(one), "2"],
        ["default/db/db", node.cpus("db"), str(last), "1"],
        ["threads bound to fewer cpus than their container has: 3"],
    ]
    found = json.loads(audit(node, tmp_path, "-o", "json").output)
    assert [(bound["cpus"], bound["threads"]) for bound in found["threads"]] == [
        *((str(one), 2), (str(last), 1))
    ]


def test_without_bound_threads_that_is_said(node: AskedNode, tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    run = audit(node, tmp_path)
    assert run.output.splitlines()[-1] == "threads bound to fewer cpus than their container has: 0"
    assert json.loads(audit(node, tmp_path, "-o", "json").output)["threads"] == []


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("none", id="that is not there"),
        pytest.param("a" * 300, id="whose name no file can have"),
    ],
)
def test_a_folder_without_processes_is_no_place_to_look_at_threads(
    node: AskedNode, tmp_path: Path, name: str
) -> None:
    run = audit(node, tmp_path / name)
    assert run.exit_code == 2
    assert f"--sysfs-root {tmp_path}/{name}: holds no proc/" in run.output
