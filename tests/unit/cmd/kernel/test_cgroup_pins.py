"""Reading a container's cpuset back from a tree like the kernel's."""

import shutil
from pathlib import Path

import pytest

from pinfold.cmd.kernel.cgroup_pins import cgroup_reader
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

ID = ContainerId("0123abcd" * 8)


def write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture(name="root")
def fixture_root(tmp_path: Path) -> Path:
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("lines", "folder"),
    [
        pytest.param(
            f"4:memory:/kubepods/pod1/{ID}\n3:cpuset:/kubepods/pod1/{ID}\n",
            f"cpuset/kubepods/pod1/{ID}",
            id="cgroup v1",
        ),
        pytest.param(
            f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope\n",
            f"kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope",
            id="cgroup v2 with systemd's names",
        ),
        pytest.param(
            f"0::/kubepods/pod1/{ID}/init.scope\n",
            f"kubepods/pod1/{ID}",
            id="a process in a cgroup of its own inside the container",
        ),
    ],
)
def test_cpuset_of_the_containers_cgroup(root: Path, lines: str, folder: str) -> None:
    write(root, "proc/17/cgroup", lines)
    write(root, f"sys/fs/cgroup/{folder}/cpuset.cpus", "2-3\n")
    write(root, f"sys/fs/cgroup/{folder}/cpuset.mems", "1\n")
    expected = Pinning(cpus=CpuSet.of(2, 3), mems=NodeSet.of(1))
    assert cgroup_reader(str(root))(ID, 17, None) == expected


def test_a_cpuset_that_is_set_in_a_cgroup_inside_the_containers_alone(root: Path) -> None:
    scope = f"kubepods.slice/crio-{ID}.scope"
    write(root, "proc/17/cgroup", f"0::/{scope}/container\n")
    for folder, cpus in ((scope, "\n"), (f"{scope}/container", "2-3\n")):
        write(root, f"sys/fs/cgroup/{folder}/cpuset.cpus", cpus)
        write(root, f"sys/fs/cgroup/{folder}/cpuset.mems", "1\n")
    assert cgroup_reader(str(root))(ID, 17, None) == Pinning(
        cpus=CpuSet.of(2, 3), mems=NodeSet.of(1)
    )


def test_a_container_that_is_not_pinned_has_no_cpus_set(root: Path) -> None:
    write(root, "proc/17/cgroup", f"0::/kubepods/{ID}/init.scope\n")
    for folder in (f"kubepods/{ID}", f"kubepods/{ID}/init.scope"):
        write(root, f"sys/fs/cgroup/{folder}/cpuset.cpus", "\n")
        write(root, f"sys/fs/cgroup/{folder}/cpuset.mems", "\n")
    assert cgroup_reader(str(root))(ID, 17, None) == Pinning(cpus=CpuSet.of(), mems=NodeSet.of())


def test_a_cgroup_that_is_known_is_found_without_its_process(root: Path) -> None:
    read = cgroup_reader(str(root))
    write(root, "proc/17/cgroup", f"0::/kubepods/{ID}\n")
    write(root, f"sys/fs/cgroup/kubepods/{ID}/cpuset.cpus", "2-3\n")
    write(root, f"sys/fs/cgroup/kubepods/{ID}/cpuset.mems", "")
    assert read(ID, 17, None) is not None
    (root / "proc/17/cgroup").unlink()
    write(root, f"sys/fs/cgroup/kubepods/{ID}/cpuset.cpus", "1\n")
    assert read(ID, 17, None) == Pinning(cpus=CpuSet.of(1), mems=NodeSet.of())


@pytest.mark.parametrize(
    ("cpus", "mems", "is_likely"),
    [
        pytest.param("0-1,4\n", "1\n", True, id="as is likely"),
        pytest.param("0-1\n", "1\n", False, id="on other cpus"),
        pytest.param("0-1,4\n", "0-1\n", False, id="on other memory nodes"),
        pytest.param("\n", "\n", False, id="on none"),
        pytest.param("0,1,4\n", "1\n", False, id="in other words"),
    ],
)
def test_what_is_likely_is_told_only_where_it_is_so(
    root: Path, cpus: str, mems: str, is_likely: bool
) -> None:
    write(root, "proc/17/cgroup", f"0::/kubepods/{ID}\n")
    write(root, f"sys/fs/cgroup/kubepods/{ID}/cpuset.cpus", cpus)
    write(root, f"sys/fs/cgroup/kubepods/{ID}/cpuset.mems", mems)
    likely = Pinning(cpus=CpuSet.of(0, 1, 4), mems=NodeSet.of(1))
    found = cgroup_reader(str(root))(ID, 17, likely)
    assert (found is likely) == is_likely
    assert found == Pinning(cpus=CpuSet.parse(cpus), mems=NodeSet.parse(mems))


def test_a_container_may_come_back_elsewhere(root: Path) -> None:
    read = cgroup_reader(str(root))
    for cgroup, cpus in (("kubepods", "2-3"), ("kubepods/burstable", "1"), ("kubepods", "4")):
        write(root, "proc/17/cgroup", f"0::/{cgroup}/{ID}\n")
        write(root, f"sys/fs/cgroup/{cgroup}/{ID}/cpuset.cpus", cpus)
        write(root, f"sys/fs/cgroup/{cgroup}/{ID}/cpuset.mems", "0")
        assert read(ID, 17, None) == Pinning(cpus=CpuSet.parse(cpus), mems=NodeSet.of(0))
        shutil.rmtree(root / "proc/17")
        shutil.rmtree(root / f"sys/fs/cgroup/{cgroup}/{ID}")
        assert read(ID, 17, None) is None


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("", id="no such process"),
        pytest.param("0::/kubepods/pod1/another\n", id="another container's process by now"),
        pytest.param(f"0::/../../kubepods/{ID}\n", id="outside of our own cgroup namespace"),
        pytest.param(f"4:memory:/kubepods/{ID}\n", id="no cpuset"),
        pytest.param(f"0::/kubepods/{ID}\n", id="no files"),
        pytest.param("nonsense", id="no cgroup file at all"),
    ],
)
def test_what_cannot_be_read(root: Path, lines: str) -> None:
    write(root, "proc/17/cgroup", lines)
    assert cgroup_reader(str(root))(ID, 17, None) is None


def test_a_cpuset_that_is_none(root: Path) -> None:
    write(root, "proc/17/cgroup", f"0::/kubepods/{ID}\n")
    write(root, f"sys/fs/cgroup/kubepods/{ID}/cpuset.cpus", "all of them")
    write(root, f"sys/fs/cgroup/kubepods/{ID}/cpuset.mems", "0")
    assert cgroup_reader(str(root))(ID, 17, None) is None


def test_a_container_without_an_id_has_no_cgroup(root: Path) -> None:
    write(root, "proc/17/cgroup", "0::/kubepods/pod1\n")
    assert cgroup_reader(str(root))(ContainerId(""), 17, None) is None
