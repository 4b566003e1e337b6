"""What an audit finds in the cgroups of every version, driver and runtime there is."""

from pathlib import Path
from typing import NamedTuple

import pytest

from pinfold.cmd.kernel.cgroup_pins import cgroup_reader
from pinfold.cmd.kernel.thread_watch import ThreadWatch, read_affinities
from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.inquiry.audit import EVERYTHING, MEMORY_ALONE, Drift, find_drift
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet

ID = ContainerId("0123abcd" * 8)
OUTER = "fedc9876" * 8
PID = 17
UID = "8c5ab5a3_0c1b_4d6f_9a52_1d9e3c1f7a10"
SLICE = f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID}.slice"
FOLDER = f"kubepods/burstable/pod{UID.replace('_', '-')}"
V1 = "11:cpuset:"
V2 = "0::"


class Layout(NamedTuple):
    """Where a container's cpuset is, and how its process is told to be there."""

    line: str
    """What /proc/PID/cgroup begins its line with."""
    mount: str
    path: str
    """Of the cgroup of the container, from the mount on."""
    inside: str = ""
    """Of the cgroup of its process, from its own on."""


LAYOUTS = [
    pytest.param(
        Layout(V1, "cpuset", f"{FOLDER}/{ID}"), id="version 1, cgroupfs, containerd and CRI-O"
    ),
    pytest.param(
        Layout(V1, "cpuset", f"{SLICE}/cri-containerd-{ID}.scope"),
        id="version 1, systemd, containerd",
    ),
    pytest.param(Layout(V1, "cpuset", f"{SLICE}/crio-{ID}.scope"), id="version 1, systemd, CRI-O"),
    pytest.param(
        Layout("7:cpu,cpuset:", "cpu,cpuset", f"{FOLDER}/{ID}"),
        id="version 1 with cpusets in the hierarchy of another controller",
    ),
    pytest.param(
        Layout(V1, "cpuset", f"system.slice/containerd.service/{SLICE}:cri-containerd:{ID}"),
        id="version 1, names for systemd under the driver cgroupfs",
    ),
    pytest.param(Layout(V2, "", f"{FOLDER}/{ID}"), id="version 2, cgroupfs"),
    pytest.param(
        Layout(V2, "", f"{SLICE}/cri-containerd-{ID}.scope"), id="version 2, systemd, containerd"
    ),
    pytest.param(Layout(V2, "", f"{SLICE}/crio-{ID}.scope"), id="version 2, systemd, CRI-O"),
    pytest.param(
        Layout(V2, "", f"{SLICE}/crio-{ID}.scope", "container"),
        id="version 2, CRI-O with crun, which has a cgroup inside",
    ),
    pytest.param(
        Layout(V2, "", f"{SLICE}/cri-containerd-{ID}.scope", "init.scope"),
        id="version 2, a container that runs systemd",
    ),
    pytest.param(
        Layout(V2, "", f"kubelet.slice/kubelet-{SLICE}/cri-containerd-{ID}.scope"),
        id="version 2, a node in a container that sees its own cgroup namespace alone",
    ),
    pytest.param(
        Layout(V2, "", f"system.slice/docker-{OUTER}.scope/kubelet/{FOLDER}/{ID}"),
        id="version 2, a node in a container, seen from the machine",
    ),
    pytest.param(
        Layout(V1, "cpuset", f"docker/{OUTER}/kubelet/{FOLDER}/{ID}"),
        id="version 1, a node in a container, seen from the machine",
    ),
    pytest.param(
        Layout(V2, "unified", f"{FOLDER}/{ID}"), id="both versions, cpusets in the second"
    ),
]


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def build(root: Path, layout: Layout, cpus: str, mems: str) -> Path:
    """A tree with one container in it; returns the folder of its processes."""
    (root / "sys/devices/system/cpu").mkdir(parents=True)
    top = root / "sys/fs/cgroup"
    write(top / layout.mount / "cgroup.procs", "1\n")
    if layout.line == V2 and not layout.mount:
        write(top / "cgroup.controllers", "cpuset cpu memory\n")
    folder = top / layout.mount / layout.path
    # CRI-O has a cgroup of its monitor beside it.
    write(folder.parent / f"crio-conmon-{ID}.scope/cgroup.procs", "16\n")
    path = "/".join(part for part in (layout.path, layout.inside) if part)
    write(root / f"proc/{PID}/cgroup", f"12:memory:/elsewhere\n{layout.line}/{path}\n")
    write(folder / "cpuset.cpus", f"{cpus}\n")
    write(folder / "cpuset.mems", f"{mems}\n")
    write(folder / "cgroup.procs", "")
    write(folder / layout.inside / "cgroup.procs", f"{PID}\n")
    return folder


def bind(root: Path, threads: dict[int, str]) -> None:
    """Threads of the container's process, with the cpus that each may use."""
    for tid, cpus in threads.items():
        write(root / f"proc/{PID}/task/{tid}/status", f"Name:\tx\nCpus_allowed_list:\t{cpus}\n")


@pytest.fixture(name="engine", scope="module")
def fixture_engine() -> Engine:
    machine = machine_from_spec("socket:2 numa:1 core:4 mem:8G")
    engine = Engine(machine, Config(reserved_resources=Amounts(cpu="cpuset:0")))
    pod = Pod(id=PodId("db"), name="db", qos=QosClass.GUARANTEED)
    resources = Resources(cpu_request_milli=2000, cpu_limit_milli=2000, memory_limit_bytes=1 << 30)
    engine.create(Container(id=ID, name="db", pod=pod, resources=resources))
    intended = engine.snapshot().pinnings[ID]
    assert (str(intended.cpus), str(intended.mems)) == ("4-5", "1")
    return engine


def found(root: Path, engine: Engine) -> tuple[Drift, ...]:
    kernel = cgroup_reader(str(root))(ID, PID, None)
    return find_drift(engine.snapshot(), {ID: kernel or Pinning()})


@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_memory_nodes_are_found_and_explained(
    tmp_path: Path, engine: Engine, layout: Layout
) -> None:
    folder = build(tmp_path, layout, "4-5", "1")
    assert found(tmp_path, engine) == ()
    write(folder / "cpuset.mems", "0-1\n")
    (drift,) = found(tmp_path, engine)
    assert (str(drift.kernel.cpus), str(drift.kernel.mems)) == ("4-5", "0-1")
    assert drift.likely == MEMORY_ALONE


@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_cpus_are_found_and_explained(tmp_path: Path, engine: Engine, layout: Layout) -> None:
    build(tmp_path, layout, "0-7", "1")
    (drift,) = found(tmp_path, engine)
    assert (str(drift.kernel.cpus), drift.likely) == ("0-7", EVERYTHING)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_thread_on_other_cpus_is_found(tmp_path: Path, layout: Layout) -> None:
    build(tmp_path, layout, "4-5", "1")
    bind(tmp_path, {PID: "4-5", PID + 1: "5"})
    own, one = CpuSet.parse("4-5"), CpuSet.parse("5")
    assert read_affinities(tmp_path, [ID]) == {ID: {own: 1, one: 1}}
    watch = ThreadWatch(tmp_path)
    assert watch.look({ID: own}) == {ID: {one: 1}}
    assert watch.bound_threads == 1
