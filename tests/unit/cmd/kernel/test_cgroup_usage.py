"""Counters of containers' cgroups, in both versions and as every runtime calls its folders."""

import os
from pathlib import Path

import pytest

from pinfold.cmd.kernel.cgroup_usage import CgroupUsage, read_usages

ID = "a1" * 32
OTHER = "b2" * 32
PAGE = os.sysconf("SC_PAGE_SIZE")
NUMA_STAT = "anon N0=4096 N1=8192\nfile N0=100 N1=0\nslab N0=7 N1=7\n"


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def unified(root: Path, path: str, usage: int = 5_000_000) -> Path:
    top = root / "sys/fs/cgroup"
    write(top, cgroup__controllers="cpuset cpu memory\n")
    folder = top / path
    write(
        folder,
        cpu__stat=f"usage_usec {usage}\nuser_usec 1\nnr_throttled 3\nthrottled_usec 250000\n",
        cpu__pressure="some avg10=0.00 avg60=0.00 avg300=0.00 total=42000\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
        memory__numa_stat=NUMA_STAT,
    )
    return folder


WHOLE = CgroupUsage(
    used_usec=5_000_000,
    throttled_usec=250_000,
    waiting_usec=42_000,
    memory_bytes={0: 4196, 1: 8192},
)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(f"kubepods/burstable/podx/{ID}", id="cgroupfs"),
        pytest.param(
            f"kubepods.slice/kubepods-podx.slice/cri-containerd-{ID}.scope",
            id="containerd under systemd",
        ),
        pytest.param(
            f"kubepods.slice/kubepods-podx.slice/crio-{ID}.scope", id="CRI-O under systemd"
        ),
        pytest.param(f"kubelet/kubepods/podx/{ID}", id="a kubelet with a root of its own"),
    ],
)
def test_a_container_is_found_by_its_id(tmp_path: Path, path: str) -> None:
    unified(tmp_path, path)
    unified(tmp_path, f"kubepods/podx/{OTHER}", usage=1)
    # Inside of it there may be more, which it counts itself.
    unified(tmp_path, f"{path}/inner-{ID}", usage=2)
    assert read_usages(tmp_path, [ID]) == {ID: WHOLE}


def test_the_monitor_of_a_container_is_not_the_container(tmp_path: Path) -> None:
    unified(tmp_path, f"system.slice/crio-conmon-{ID}.scope", usage=1)
    unified(tmp_path, f"kubepods.slice/crio-{ID}.scope")
    assert read_usages(tmp_path, [ID]) == {ID: WHOLE}


def test_a_kernel_that_counts_less_leaves_it_out(tmp_path: Path) -> None:
    folder = unified(tmp_path, f"kubepods/{ID}")
    (folder / "cpu.pressure").unlink()
    (folder / "memory.numa_stat").unlink()
    (folder / "cpu.stat").write_text("usage_usec 7\n")
    assert read_usages(tmp_path, [ID]) == {ID: CgroupUsage(used_usec=7)}


def test_version_one_counts_in_several_hierarchies(tmp_path: Path) -> None:
    top = tmp_path / "sys/fs/cgroup"
    write(
        top / f"cpu,cpuacct/kubepods/podx/{ID}",
        cpuacct__usage="5000000000\n",
        cpu__stat="nr_periods 1\nnr_throttled 1\nthrottled_time 250000000\n",
    )
    write(top / f"memory/kubepods/podx/{ID}", memory__numa_stat="total=3 N0=1 N1=2\nfile=0 N0=0\n")
    assert read_usages(tmp_path, [ID]) == {
        ID: CgroupUsage(
            used_usec=5_000_000, throttled_usec=250_000, memory_bytes={0: PAGE, 1: 2 * PAGE}
        )
    }


def test_version_one_may_have_time_and_limits_in_hierarchies_apart(tmp_path: Path) -> None:
    top = tmp_path / "sys/fs/cgroup"
    write(top / f"cpuacct/kubepods/podx/{ID}", cpuacct__usage="5000000000\n")
    write(top / f"cpu/kubepods/podx/{ID}", cpu__stat="nr_throttled 1\nthrottled_time 250000000\n")
    assert read_usages(tmp_path, [ID]) == {
        ID: CgroupUsage(used_usec=5_000_000, throttled_usec=250_000)
    }


def test_without_cgroups_nothing_is_known(tmp_path: Path) -> None:
    assert read_usages(tmp_path, [ID]) == {}
