"""Cpus that go and come back under a running daemon: who moves, and who is told."""

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from pinfold.cmd.daemon.cpu_watch import CpuWatch
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sysfs.discovery import read_machine
from tests.unit.cmd.daemon.paper_node import LOG, MIB, PaperNode, burstable, config, guaranteed
from tests.unit.topology.made.machine_files import machine_snapshot, write_tree

ONLINE = "sys/devices/system/cpu/online"


class Node(PaperNode):
    """A node whose cpus go offline and come back as its kernel's file says."""

    def __init__(self, root: Path) -> None:
        self.root = root
        super().__init__(read_machine(str(root)), config(), folder=root)
        self.watch = CpuWatch(str(root), self.daemon, LOG)

    def set_online(self, cpus: str) -> None:
        (self.root / ONLINE).write_text(f"{cpus}\n")
        self.watch.look()
        self.settle()
        self.daemon.engine.check()
        assert str(self.daemon.machine.online) == cpus

    def restart(self) -> None:
        self.machine = read_machine(str(self.root))
        super().restart()
        self.watch = CpuWatch(str(self.root), self.daemon, LOG)

    def all_cpus(self) -> dict[str, str]:
        return {one.name: self.cpus(one.name) for one in self.runtime.containers.values()}

    def told(self) -> set[str]:
        """The names of those whose resources were written since this was asked last."""
        names = {self.runtime.containers[one].name for one in self.runtime.update_counts}
        self.runtime.update_counts.clear()
        return names


Run = Callable[[str], Node]


@pytest.fixture(name="run")
def fixture_run(tmp_path: Path) -> Generator[Run]:
    running: list[Node] = []

    def run(spec: str) -> Node:
        write_tree(machine_snapshot(machine_from_spec(spec)), str(tmp_path))
        running.append(Node(tmp_path))
        running[-1].start()
        return running[-1]

    yield run
    for node in running:
        node.stop()


TWO_SOCKETS = "socket:2 numa:2 core:2 thread:2 mem:4G"


def test_an_exclusive_cpu_that_goes_is_replaced_and_stays_replaced(run: Run) -> None:
    node = run(TWO_SOCKETS)
    node.run(guaranteed("a", 2000, memory=MIB), guaranteed("b", 2000, memory=MIB))
    before = node.all_cpus()
    assert before == {"a": "4-5", "b": "8-9"}
    node.set_online("0-4,6-15")
    assert node.all_cpus() == {"a": "4,6", "b": "8-9"}
    assert node.told() == {"a"}
    node.set_online("0-15")
    assert node.all_cpus() == {"a": "4,6", "b": "8-9"}
    assert node.told() == set(), "a cpu that came back is no reason to move anybody"


def test_an_isolated_cpu_that_goes_is_replaced_by_an_isolated_one(run: Run) -> None:
    node = run(f"{TWO_SOCKETS} isolated:12-14")
    node.run(guaranteed("a", 2000, memory=MIB, prefer_isolated_cpus="true"))
    assert node.cpus("a") == "12-13"
    node.set_online("0-11,13-15")
    assert node.cpus("a") == "13-14"


def test_shared_containers_leave_cpus_that_go_and_return_to_them(run: Run) -> None:
    node = run("socket:1 core:8 mem:8G")
    node.run(burstable("shared"), guaranteed("own", 2000, memory=MIB))
    assert node.all_cpus() == {"shared": "3-7", "own": "1-2"}
    node.told()
    node.set_online("0-5,7")
    assert node.all_cpus() == {"shared": "3-5,7", "own": "1-2"}
    assert node.told() == {"shared"}
    node.set_online("0-7")
    assert node.all_cpus() == {"shared": "3-7", "own": "1-2"}
    assert node.told() == {"shared"}


def test_who_kept_all_its_cpus_stays_on_them_when_its_neighbours_return(run: Run) -> None:
    node = run(TWO_SOCKETS)
    node.run(*(guaranteed(name, 500, memory=MIB) for name in "abcd"))
    before = {node.cpus(name): node.mems(name) for name in "abcd"}
    assert before == {"4-7": "1", "8-11": "2", "12-15": "3", "1-3": "0"}
    (stays,) = (name for name in "abcd" if node.cpus(name) == "8-11")
    node.told()
    node.set_online("0-11")
    node.set_online("0-15")
    assert stays not in node.told(), "it kept its cpus, and has its memory there"
    assert (node.cpus(stays), node.mems(stays)) == ("8-11", "2")


def test_whoever_lost_everything_shares_until_cpus_come_back(run: Run) -> None:
    node = run(TWO_SOCKETS)
    node.run(guaranteed("far", 6000, memory=MIB), guaranteed("near", 3000, memory=MIB))
    node.run(guaranteed("mixed", 2500, memory=MIB, prefer_shared_cpus="false"), burstable("shared"))
    kept = {"near": "4-6", "mixed": "1-3"}
    assert node.all_cpus() == {"far": "8-13", "shared": "14-15", **kept}
    node.told()
    node.set_online("0-7")
    assert node.all_cpus() == {"far": "1,7", "shared": "1,7", **kept}
    assert node.daemon.engine.decisions[node.id_of("far")].degraded
    assert node.told() == {"far", "shared"}
    node.set_online("0-15")
    assert node.all_cpus() == {"far": "8-13", "shared": "1,7", **kept}
    assert not node.daemon.engine.decisions[node.id_of("far")].degraded
    assert node.told() == {"far"}


def test_a_daemon_that_starts_while_cpus_are_away_mends_it_when_they_return(run: Run) -> None:
    node = run(TWO_SOCKETS)
    node.run(guaranteed("far", 6000, memory=MIB))
    node.set_online("0-3")
    node.restart()
    node.set_online("0-15")
    assert len(node.grant("far").exclusive) == 6
    assert node.cpus("far") == str(node.grant("far").exclusive)


def test_a_container_that_misses_cpus_is_known_to_ask_for_all_after_a_restart(run: Run) -> None:
    node = run("socket:1 core:6 mem:8G")
    node.run(guaranteed("a", 4000, memory=MIB))
    node.set_online("0-3")
    assert node.cpus("a") == "1-3"
    node.folder = None
    node.restart()
    assert node.daemon.engine.decisions[node.id_of("a")].degraded
    node.set_online("0-5")
    assert node.cpus("a") == "1-4"


def test_memory_stays_where_it_is_when_cpus_beside_it_go(run: Run) -> None:
    node = run(TWO_SOCKETS)
    node.run(guaranteed("a", 2000, memory=MIB))
    assert (node.cpus("a"), node.mems("a")) == ("4-5", "1")
    node.set_online("0-4,6-15")
    assert node.mems("a") == "1"


def test_a_newcomer_gets_cpus_that_came_back(run: Run) -> None:
    node = run("socket:1 core:8 mem:8G")
    node.set_online("0-3")
    node.run(guaranteed("a", 3000, memory=MIB))
    node.set_online("0-7")
    node.run(guaranteed("b", 4000, memory=MIB))
    assert node.all_cpus() == {"a": "1-3", "b": "4-7"}
