"""Cgroups of other pods, seen by a daemon that is in a pod, and in a cgroup namespace, itself."""

from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from pinfold.cmd.kernel import cgroup_namespace
from pinfold.cmd.kernel.cgroup_pins import cgroup_reader
from pinfold.cmd.kernel.cgroup_usage import container_folders
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

ID = ContainerId("0123abcd" * 8)
NEXT = ContainerId("4567cdef" * 8)
KUBEPODS = "kubepods.slice"
BURSTABLE = f"{KUBEPODS}/kubepods-burstable.slice"
SCOPE = f"kubepods-burstable-pod1.slice/cri-containerd-{ID}.scope"
NEXT_SCOPE = f"kubepods-burstable-pod2.slice/cri-containerd-{NEXT}.scope"


def add(root: Path, pid: int, line: str, folder: str, cpus: str) -> None:
    for path, text in (
        (f"proc/{pid}/cgroup", f"{line}\n"),
        (f"sys/fs/cgroup/{folder}/cpuset.cpus", cpus),
        (f"sys/fs/cgroup/{folder}/cpuset.mems", "0"),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


@pytest.fixture(name="root")
def fixture_root(tmp_path: Path) -> Path:
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    return tmp_path


def is_unified(root: Path) -> None:
    (root / "sys/fs/cgroup/cgroup.controllers").touch()


def pinned(cpus: str) -> Pinning:
    return Pinning(cpus=CpuSet.parse(cpus), mems=NodeSet.of(0))


@pytest.mark.parametrize(
    ("line", "folder"),
    [
        pytest.param(f"0::/../../{SCOPE}", f"{BURSTABLE}/{SCOPE}", id="of the same class"),
        pytest.param(
            f"0::/../../../kubepods-pod1.slice/crio-{ID}.scope",
            f"{KUBEPODS}/kubepods-pod1.slice/crio-{ID}.scope",
            id="of another class",
        ),
        pytest.param(
            f"0::/../../../../docker-{ID}.scope", f"docker-{ID}.scope", id="not of Kubernetes"
        ),
        pytest.param(
            f"0::/../../{SCOPE}/init.scope",
            f"{BURSTABLE}/{SCOPE}",
            id="a process in a cgroup of its own inside the container",
        ),
    ],
)
def test_a_container_of_another_pod_is_found(root: Path, line: str, folder: str) -> None:
    is_unified(root)
    add(root, 17, line, folder, "2-3")
    assert cgroup_reader(str(root))(ID, 17, None) == pinned("2-3")


def test_a_hierarchy_of_version_1(root: Path) -> None:
    add(root, 17, f"3:cpuset:/../../pod1/{ID}", f"cpuset/kubepods/pod1/{ID}", "2-3")
    assert cgroup_reader(str(root))(ID, 17, None) == pinned("2-3")


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(
            f"4:memory:/../../pod1/{ID}\n3:cpuset:/../../own/pod1/{ID}", id="of a process"
        ),
        pytest.param(f"3:cpuset:/../../own/pod1/{ID}\n0::/../../pod1/{ID}", id="unified last"),
    ],
)
def test_in_another_hierarchy_other_parts_are_hidden(root: Path, lines: str) -> None:
    add(root, 17, lines, f"cpuset/kubepods/own/pod1/{ID}", "2-3")
    assert cgroup_reader(str(root))(ID, 17, None) == pinned("2-3")


def test_parts_that_one_hierarchy_hides_are_not_taken_for_those_of_another(root: Path) -> None:
    # The cpuset of the first one is nobody's, as where a runtime leaves it alone.
    add(root, 17, f"3:cpuset:/\n0::/../../pod1/{ID}", f"cpuset/kubepods/own/pod1/{ID}", "2-3")
    add(root, 18, f"3:cpuset:/../../own/pod2/{NEXT}", f"cpuset/kubepods/own/pod2/{NEXT}", "1")
    read = cgroup_reader(str(root))
    assert read(ID, 17, None) is None
    assert read(NEXT, 18, None) == pinned("1")


def test_what_was_hidden_of_one_is_known_of_the_next(root: Path) -> None:
    is_unified(root)
    add(root, 17, f"0::/../../{SCOPE}", f"{BURSTABLE}/{SCOPE}", "2-3")
    read = cgroup_reader(str(root))
    assert read(ID, 17, None) == pinned("2-3")
    add(root, 18, f"0::/../../{NEXT_SCOPE}", f"{BURSTABLE}/{NEXT_SCOPE}", "1")
    # A search would find this one, which is not where the process is.
    add(root, 18, f"0::/../../{NEXT_SCOPE}", f"a.slice/{NEXT_SCOPE}", "5")
    assert read(NEXT, 18, None) == pinned("1")


def test_where_the_hosts_cgroups_are_not_mounted_nothing_is_known(root: Path) -> None:
    is_unified(root)
    add(root, 17, f"0::/../../{SCOPE}", "init.scope", "2-3")
    assert cgroup_reader(str(root))(ID, 17, None) is None


def test_a_folder_of_that_name_elsewhere_is_another(root: Path) -> None:
    is_unified(root)
    add(root, 17, f"0::/../pod1/{ID}", f"kubepods/pod2/{ID}", "2-3")
    assert cgroup_reader(str(root))(ID, 17, None) is None


def test_who_is_nowhere_is_looked_for_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_unified(root)
    add(root, 17, f"0::/../../{SCOPE}", "init.scope", "2-3")
    add(root, 18, f"0::/../../{NEXT_SCOPE}", "init.scope", "2-3")
    looked: list[Collection[str]] = []

    def look(root: Path, ids: Collection[str]) -> Iterator[tuple[str, Path]]:
        looked.append(ids)
        return container_folders(root, ids)

    monkeypatch.setattr(cgroup_namespace, "container_folders", look)
    read = cgroup_reader(str(root))
    for _ in range(2):
        assert read(ID, 17, None) is None
        assert read(NEXT, 18, None) is None
    assert looked == [{ID}, {NEXT}]
    # Another one that is seen tells of both.
    third = ContainerId("89ef" * 16)
    scope = NEXT_SCOPE.replace(NEXT, third)
    add(root, 19, f"0::/../../{scope}", f"{BURSTABLE}/{scope}", "1")
    add(root, 17, f"0::/../../{SCOPE}", f"{BURSTABLE}/{SCOPE}", "2-3")
    assert read(third, 19, None) == pinned("1")
    assert read(ID, 17, None) == pinned("2-3")
