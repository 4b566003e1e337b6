"""Machines from one line: what is built, and errors that point at the word."""

from collections.abc import Sequence

import pytest

from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.made.spec_values import parse_size
from pinfold.topology.model.machine import Domain, Machine
from pinfold.topology.sets.base_errors import TopologyError
from pinfold.topology.sets.cpuset import CpuSet
from pinfold.topology.sysfs.discovery import discover
from tests.unit.topology.made.machine_files import machine_snapshot, tree_of

GIB = 2**30


def lists(groups: Sequence[CpuSet | Domain]) -> list[str]:
    return [str(group.cpus if isinstance(group, Domain) else group) for group in groups]


def test_cpus_run_through_threads_cores_numa_nodes_and_sockets() -> None:
    machine = machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:2G")
    assert str(machine.online) == "0-15"
    assert machine.online == machine.present == machine.possible
    assert list(machine.cpus) == list(range(16))
    assert lists(machine.sockets) == ["0-7", "8-15"]
    assert [domain.label for domain in machine.dies] == ["0/0", "1/0"]
    assert lists(machine.cores) == [f"{cpu}-{cpu + 1}" for cpu in range(0, 16, 2)]
    assert [str(node.cpus) for node in machine.numa_nodes] == ["0-3", "4-7", "8-11", "12-15"]
    assert {node.memory_bytes for node in machine.numa_nodes} == {2 * GIB}
    assert machine.distances == (
        (10, 11, 21, 21),
        (11, 10, 21, 21),
        (21, 21, 10, 11),
        (21, 21, 11, 10),
    )
    assert machine.threads_per_core_max == 2
    assert machine.cpus[9].socket == 1
    assert machine.cpus[10].core == 1


@pytest.mark.parametrize(
    ("spec", "l3", "numa", "dies"),
    [
        pytest.param("core:4", ["0-3"], ["0-3"], ["0-3"], id="one count is enough"),
        pytest.param(
            "socket:2 core:2", ["0-1", "2-3"], ["0-1", "2-3"], ["0-1", "2-3"],
            id="one NUMA node and one L3 per socket by default",
        ),
        pytest.param(
            "socket:1 die:2 core:2", ["0-1", "2-3"], ["0-3"], ["0-1", "2-3"],
            id="one L3 per die, one NUMA node per socket by default",
        ),
        pytest.param(
            "numa:2 l3:2 core:2", ["0-1", "2-3", "4-5", "6-7"], ["0-3", "4-7"], ["0-7"],
            id="several L3 groups in a NUMA node",
        ),
        pytest.param(
            "l3:1 numa:2 core:2", ["0-3"], ["0-1", "2-3"], ["0-3"],
            id="an L3 group wider than a NUMA node",
        ),
        pytest.param(
            "numa:1 socket:2 core:2", ["0-1", "2-3"], ["0-3"], ["0-1", "2-3"],
            id="a NUMA node wider than a socket",
        ),
    ],
)  # fmt: skip
def test_counts_nest_in_the_order_they_are_written(
    spec: str, l3: list[str], numa: list[str], dies: list[str]
) -> None:
    machine = machine_from_spec(spec)
    assert lists(machine.l3_groups) == l3
    assert [str(node.cpus) for node in machine.numa_nodes] == numa
    assert lists(machine.dies) == dies


def test_cores_of_a_cluster_share_the_l2() -> None:
    machine = machine_from_spec("socket:2 cluster:2 core:2 thread:2")
    assert lists(machine.clusters) == ["0-3", "4-7", "8-11", "12-15"]
    assert machine.l2_groups == tuple(domain.cpus for domain in machine.clusters)
    assert machine.cpus[5].cluster == 1
    assert machine_from_spec("core:2").clusters == ()


def test_isolated_cpus_and_distances_are_taken_from_the_line() -> None:
    machine = machine_from_spec("socket:2 numa:1 core:4 isolated:1,6-7 distance:10,15,40")
    assert str(machine.isolated) == "1,6-7"
    assert machine.distances == ((10, 40), (40, 10))


def test_every_numa_node_has_the_huge_pages_and_less_is_free() -> None:
    machine = machine_from_spec("numa:2 core:2 mem:4G hugepages:2M=512,1G=1")
    assert [node.hugepages for node in machine.numa_nodes] == [{2**21: 512, 2**30: 1}] * 2
    assert {node.memory_bytes for node in machine.numa_nodes} == {4 * GIB}
    assert {node.free_bytes for node in machine.numa_nodes} == {2 * GIB}


def test_devices_are_numbered_and_near_the_cpus_of_their_numa_nodes() -> None:
    machine = machine_from_spec("socket:2 core:2 gpu:0,1,1 nic:1")
    assert [(one.kind, one.name, one.numa_node, str(one.cpus)) for one in machine.devices] == [
        ("net", "nic0", 1, "2-3"),
        ("pci", "gpu0", 0, "0-1"),
        ("pci", "gpu1", 1, "2-3"),
        ("pci", "gpu2", 1, "2-3"),
    ]


def test_discovery_finds_a_machine_of_all_words_as_it_was_described() -> None:
    machine = machine_from_spec(
        "socket:2 numa:2 core:2 thread:2 mem:4G hugepages:2M=512 isolated:2-3 gpu:3,0 nic:1,1"
    )
    assert discover(tree_of(machine_snapshot(machine))) == machine


def test_caches_are_objects_with_ids() -> None:
    machine = machine_from_spec("numa:2 l3:2 core:2 thread:2")
    l3 = [cache for cache in machine.caches if cache.level == 3]
    assert [cache.id for cache in l3] == [0, 1, 2, 3]
    assert tuple(cache.cpus for cache in l3) == machine.l3_groups


def test_the_largest_machine_is_built() -> None:
    machine: Machine = machine_from_spec("socket:8 numa:8 core:64 thread:2")
    assert len(machine.online) == 8192
    assert len(machine.numa_nodes) == 64


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param("", "machine spec: empty", id="nothing"),
        pytest.param("socket:2 nmua:2", r"column 10: 'nmua:2': unknown key 'nmua' — did you mean "
                     "'numa'", id="a misspelt key"),
        pytest.param("socket", "column 1: 'socket': no value — write socket:VALUE", id="no value"),
        pytest.param("frog", "column 1: 'frog': not KEY:VALUE — keys are socket", id="no colon"),
        pytest.param("core:2 core:3", "column 8: 'core:3': 'core' is given twice", id="twice"),
        pytest.param("core:0", "'0' is not a count", id="a count of zero"),
        pytest.param("core:-1", "'-1' is not a count", id="a negative count"),
        pytest.param("core:²", "'²' is not a count", id="a digit of another alphabet"),
        pytest.param("core:2 mem:2X", "column 8: 'mem:2X': '2X' is not a size", id="a bad unit"),
        pytest.param("core:2 isolated:5", "column 8: 'isolated:5': isolated cpus that are not "
                     "there — cpus of this machine are 0-1", id="an isolated cpu too many"),
        pytest.param("isolated:x", "column 1: 'isolated:x': 'x' is not a list of ids — write N",
                     id="a bad cpu list"),
        pytest.param("core:2 distance:10,20", "are not three distances", id="two distances"),
        pytest.param("core:2 distance:10,20,900", "are not three distances", id="a huge distance"),
        pytest.param("core:2 hugepages:512", "column 8: 'hugepages:512': '512' is no number of "
                     "pages — write SIZE=NUMBER", id="huge pages without a size"),
        pytest.param("core:2 hugepages:3M=1", "'3M' is no size of huge pages", id="an odd size"),
        pytest.param("core:2 hugepages:2M=1,2048K=1", "'2048K' is given twice", id="a size twice"),
        pytest.param("core:2 mem:1G hugepages:1G=2", "column 15: 'hugepages:1G=2': pages of "
                     "2147483648 bytes — a NUMA node has 1073741824 bytes", id="too many pages"),
        pytest.param("core:2 gpu:a", "column 8: 'gpu:a': 'a' are no NUMA nodes — write the NUMA "
                     "node of each device", id="a device at no NUMA node"),
        pytest.param("core:2 nic:0,1", "'nic:0,1': there is no NUMA node 1 — NUMA nodes of this "
                     "machine are 0-0", id="a device at a NUMA node that is not there"),
        pytest.param("core:2 gpu:" + ",".join("0" * 257), "257 devices are too many — at most 256",
                     id="more devices than anybody has"),
        pytest.param("core:2 socket:2", "'socket' is inside 'core'", id="a socket inside a core"),
        pytest.param("thread:2 core:2", "'core' is inside 'thread'", id="a core inside a thread"),
        pytest.param("die:2 socket:2", "a socket is not part of a die", id="a socket inside a die"),
        pytest.param("socket:99 core:99", "column 11: 'core:99': 9801 cpus are too many — at most "
                     "8192", id="too big"),
        pytest.param("mem:1G socket:8192", "column 8: 'socket:8192': 8192 NUMA nodes are too many"
                     " — at most 1024", id="more NUMA nodes than Linux knows"),
    ],
)  # fmt: skip
def test_errors_point_at_the_word(spec: str, message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        machine_from_spec(spec)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("2G", 2 * GIB),
        ("2Gi", 2 * GIB),
        ("64K", 65536),
        ("1T", 1024 * GIB),
        ("0", 0),
        ("i", None),
        ("2GG", None),
        ("2GiB", None),
        ("1.5G", None),
        ("", None),
    ],
)
def test_sizes_are_powers_of_1024(text: str, size: int | None) -> None:
    assert parse_size(text) == size
