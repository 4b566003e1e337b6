import pytest

from pinfold.topology.made.online_cpus import with_online
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet
from pinfold.topology.sysfs.discovery import discover
from tests.unit.topology.made.machine_files import machine_snapshot, tree_of

THREADS = "socket:2 numa:2 core:2 thread:2 mem:4G isolated:2-3 gpu:1 nic:0"


@pytest.mark.parametrize(
    ("spec", "online"),
    [
        pytest.param(THREADS, "0-15", id="all"),
        pytest.param(THREADS, "0-1,3-15", id="one thread of a core is offline"),
        pytest.param(THREADS, "0-3,8-15", id="a NUMA node has no cpu"),
        pytest.param(THREADS, "0-7", id="a socket has none"),
        pytest.param("socket:1 l3:2 cluster:2 core:2 mem:2G", "1-2,7", id="little is left"),
        pytest.param(THREADS, "0-63", id="cpus that are not there do not come"),
    ],
)
def test_discovery_finds_the_cpus_that_are_online(spec: str, online: str) -> None:
    machine = with_online(machine_from_spec(spec), CpuSet.parse(online))
    assert machine.online == CpuSet.parse(online) & machine.present
    found = discover(tree_of(machine_snapshot(machine)))
    assert found == machine


def test_nothing_is_lost_by_going_offline_and_back() -> None:
    machine = machine_from_spec(THREADS)
    assert with_online(machine, machine.online) == machine
