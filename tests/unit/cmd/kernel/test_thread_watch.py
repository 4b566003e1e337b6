"""Threads that are bound to fewer cpus than their container has, from look to look."""

import shutil
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from pinfold.cmd.kernel.thread_watch import CONTAINER_THREADS, ThreadWatch
from pinfold.nri.dispatch.pacer import Pacer
from pinfold.policy.model.container import ContainerId
from pinfold.topology.sets.cpuset import CpuSet

from ..commands.test_audit_threads import add_process

FIRST, SECOND = ContainerId("a1" * 32), ContainerId("b2" * 32)
FOUR = CpuSet.parse("0-3")
INTENDED = {FIRST: FOUR, SECOND: FOUR}


def bound(**threads: int) -> dict[CpuSet, int]:
    return {CpuSet.parse(cpus.removeprefix("on")): count for cpus, count in threads.items()}


def bind(root: Path, pid: int, thread: int, cpus: str) -> None:
    status = root / f"proc/{pid}/task/{thread}/status"
    status.write_text(f"Cpus_allowed_list:\t{cpus}\n")


def test_bound_threads_are_told_of_once_until_others_are_bound(tmp_path: Path) -> None:
    add_process(tmp_path, f"kubepods/x/{FIRST}", 10, {10: "0-3", 11: "0-3", 12: "0-3"})
    watch = ThreadWatch(tmp_path)
    assert watch.look(INTENDED) == {}
    bind(tmp_path, 10, 11, "1")
    assert watch.look(INTENDED) == {FIRST: bound(on1=1)}
    assert watch.look(INTENDED) == {}
    bind(tmp_path, 10, 12, "1")
    assert watch.look(INTENDED) == {}
    assert watch.bound_threads == 2
    bind(tmp_path, 10, 12, "2")
    assert watch.look(INTENDED) == {FIRST: bound(on1=1, on2=1)}


def test_a_search_for_cgroups_rests_at_each_of_them_for_the_policys_sake(tmp_path: Path) -> None:
    for pid, name in enumerate(("x", "y", "z"), start=10):
        add_process(tmp_path, f"kubepods/{name}/other", pid, {pid: "0-3"})
    asked: list[bool] = []

    def is_at_work() -> bool:
        asked.append(False)
        return asked[-1]

    # Time passes whenever somebody looks at the clock, so that every rest is due.
    pacer = Pacer(is_at_work, partial(next, count()))
    ThreadWatch(tmp_path, pacer).look(INTENDED)
    folders = [one for one in (tmp_path / "sys/fs/cgroup").rglob("*") if one.is_dir()]
    assert len(asked) >= len(folders) >= 6


def test_threads_that_are_bound_no_more_are_forgotten(tmp_path: Path) -> None:
    add_process(tmp_path, f"kubepods/x/{FIRST}", 10, {10: "1"})
    watch = ThreadWatch(tmp_path)
    watch.look(INTENDED)
    bind(tmp_path, 10, 10, "0-3")
    assert watch.look(INTENDED) == {}
    assert watch.bound_threads == 0
    bind(tmp_path, 10, 10, "1")
    assert watch.look(INTENDED) == {FIRST: bound(on1=1)}


@pytest.mark.parametrize("cpus", ["0-3", "0-7", "4-5", "", "odd"])
def test_what_is_no_part_of_the_containers_cpus_is_not_bound(tmp_path: Path, cpus: str) -> None:
    add_process(tmp_path, f"kubepods/x/{FIRST}", 10, {10: cpus})
    assert ThreadWatch(tmp_path).look(INTENDED) == {}


def test_containers_that_come_and_go_are_found_and_forgotten(tmp_path: Path) -> None:
    watch = ThreadWatch(tmp_path)
    assert watch.look({}) == {}
    add_process(tmp_path, f"kubepods/x/{FIRST}", 10, {10: "1"})
    assert watch.look({FIRST: FOUR}) == {FIRST: bound(on1=1)}
    add_process(tmp_path, f"kubepods/y/{SECOND}", 20, {20: "2"})
    assert watch.look(INTENDED) == {SECOND: bound(on2=1)}
    shutil.rmtree(tmp_path / f"sys/fs/cgroup/kubepods/x/{FIRST}")
    assert watch.look(INTENDED) == {}
    assert watch.bound_threads == 1
    assert watch.look({}) == {}
    assert watch.bound_threads == 0


def test_a_look_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    add_process(tmp_path, f"kubepods/x/{FIRST}", 10, {one: "1" for one in range(10, 15)})
    add_process(tmp_path, f"kubepods/y/{SECOND}", 20, {20: "2"})
    watch = ThreadWatch(tmp_path, threads_max=3)
    looks = [watch.look(INTENDED), watch.look(INTENDED)]
    assert sorted(looks, key=str) == sorted(
        [{FIRST: bound(on1=3)}, {SECOND: bound(on2=1)}], key=str
    )


def test_one_container_of_very_many_threads_is_looked_at_in_part(tmp_path: Path) -> None:
    threads = {one: "1" for one in range(10, 12 + CONTAINER_THREADS)}
    add_process(tmp_path, f"kubepods/x/{FIRST}", 10, threads)
    watch = ThreadWatch(tmp_path)
    watch.look(INTENDED)
    assert watch.bound_threads == CONTAINER_THREADS
