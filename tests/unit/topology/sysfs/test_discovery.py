"""Discovery from made-up trees: every trap seen in real machines, one row each."""

import dataclasses
from collections.abc import Mapping

import pytest

from pinfold.topology.made.snapshot import SysfsSnapshot
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import CoreKind, Domain, Machine
from pinfold.topology.sets.base_errors import TopologyError
from pinfold.topology.sets.cpuset import CpuSet
from pinfold.topology.sysfs.discovery import discover
from tests.unit.counted_calls import count_calls
from tests.unit.topology.made.machine_files import machine_snapshot, tree_of

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"
SPEC = "socket:2 numa:2 l3:1 core:2 thread:2 mem:2G"


def files_of(spec: str = SPEC) -> dict[str, str]:
    return dict(machine_snapshot(machine_from_spec(spec)).files)


def read(files: Mapping[str, str], folders: frozenset[str] = frozenset()) -> Machine:
    return discover(tree_of(SysfsSnapshot(files=files, folders=folders)))


def without(files: Mapping[str, str], *ends: str) -> dict[str, str]:
    """The files but those whose path ends so (or lies below such a folder)."""
    return {
        path: text
        for path, text in files.items()
        if not path.endswith(ends) and not any(f"{end}/" in path for end in ends)
    }


def lists(groups: tuple[CpuSet | Domain, ...]) -> list[str]:
    return [str(group.cpus if isinstance(group, Domain) else group) for group in groups]


def as_mask(text: str) -> str:
    mask = CpuSet.parse(text).mask
    return f"00000000,{mask >> 32:08x},{mask & 0xFFFFFFFF:08x}\n"


def masks_for_lists(files: Mapping[str, str]) -> dict[str, str]:
    """The tree of a kernel (or a dump) that has only mask files."""
    found: dict[str, str] = {}
    for path, text in files.items():
        folder, _, name = path.rpartition("/")
        if name == "cpulist":
            found[f"{folder}/cpumap"] = as_mask(text)
        elif name == "shared_cpu_list":
            found[f"{folder}/shared_cpu_map"] = as_mask(text)
        elif name.endswith("_list"):
            found[f"{folder}/{name.removesuffix('_list')}"] = as_mask(text)
        else:
            found[path] = text
    return found


def test_a_whole_tree_gives_the_machine_it_was_made_from() -> None:
    machine = machine_from_spec(SPEC)
    assert discover(tree_of(machine_snapshot(machine))) == machine


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(masks_for_lists(files_of()), id="only masks, no lists"),
        pytest.param(
            without(files_of(), "package_cpus_list", "core_cpus_list"),
            id="only the older names of sibling files",
        ),
        pytest.param(
            without(files_of(), "cpu/possible", "cpu/present", "cpu/offline"),
            id="no possible and present lists",
        ),
        pytest.param(
            without(files_of(), "node/has_memory", "has_normal_memory", "node/online", "has_cpu"),
            id="no node state files",
        ),
        pytest.param(
            {path: f"{text.strip()}\0" for path, text in files_of().items()},
            id="NUL bytes at the end of files",
        ),
        pytest.param(
            {path: text.replace("\n", "\r\n") for path, text in files_of().items()},
            id="lines of a copy that went through another system",
        ),
        pytest.param(
            {
                path: text.replace("\n", "\r\n")
                for path, text in masks_for_lists(files_of()).items()
            },
            id="such lines in masks",
        ),
    ],
)
def test_older_kernels_show_the_same_machine(files: dict[str, str]) -> None:
    folders = frozenset(f"{CPU}/cpu{cpu}" for cpu in range(16))
    assert read(files, folders) == machine_from_spec(SPEC)


@pytest.mark.parametrize(
    ("ends", "warning"),
    [
        pytest.param(("/die_id", "die_cpus_list"), "die_id: missing", id="no die files"),
        pytest.param(("/cluster_id",), "cluster_id: missing", id="no cluster files"),
        pytest.param(("/id",), "index*/id: missing", id="no cache ids"),
        pytest.param(("cpu/online",), "cpu/online: missing", id="no online list"),
        pytest.param(("/distance",), "distance: missing", id="no distances"),
        pytest.param(("/meminfo",), "no MemTotal of nodes 0-3", id="no meminfo"),
    ],
)
def test_what_is_missing_is_a_warning_and_the_groups_stay(
    ends: tuple[str, ...], warning: str
) -> None:
    machine, whole = read(without(files_of(), *ends)), machine_from_spec(SPEC)
    assert [text for text in machine.warnings if warning in text]
    for name in ("online", "sockets", "dies", "cores", "l2_groups", "l3_groups"):
        assert getattr(machine, name) == getattr(whole, name), name
    assert [node.cpus for node in machine.numa_nodes] == [node.cpus for node in whole.numa_nodes]


def test_offline_cpus_keep_a_folder_but_no_topology() -> None:
    files = without(files_of(), "cpu2/topology", "cpu2/cache", "cpu5/topology", "cpu5/cache")
    files[f"{CPU}/online"] = "0-1,3-4,6-15\n"
    machine = read(files, frozenset({f"{CPU}/cpu2", f"{CPU}/cpu5"}))
    assert str(machine.offline) == "2,5"
    assert lists(machine.cores)[:4] == ["0-1", "3", "4", "6-7"]
    assert [str(node.cpus) for node in machine.numa_nodes][:2] == ["0-1,3", "4,6-7"]
    assert set(machine.cpus) == set(machine.online)


def test_without_an_online_list_a_cpu_with_topology_that_is_not_switched_off_is_online() -> None:
    files = without(files_of(), "cpu/online", "cpu9/topology")
    files[f"{CPU}/cpu3/online"] = "0\n"
    files[f"{CPU}/cpu4/online"] = "1\n"
    machine = read(files, frozenset({f"{CPU}/cpu9"}))
    assert str(machine.online) == "0-2,4-8,10-15"


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param(["-1", "-1"], id="negative ids of ppc and s390"),
        pytest.param(["3", "3"], id="repeated ids of ia64"),
        pytest.param(["x", "1"], id="text that is no number"),
        pytest.param(["", "1"], id="an empty file"),
    ],
)
def test_sockets_with_unusable_ids_are_grouped_by_siblings_and_numbered(ids: list[str]) -> None:
    files = files_of()
    for cpu in range(16):
        files[f"{CPU}/cpu{cpu}/topology/physical_package_id"] = ids[cpu // 8]
    machine = read(files)
    assert lists(machine.sockets) == ["0-7", "8-15"]
    assert [socket.label for socket in machine.sockets] == ["0", "1"]
    assert [machine.cpus[cpu].socket for cpu in (0, 8)] == [0, 1]
    assert any("physical_package_id" in text for text in machine.warnings)


def test_large_and_sparse_socket_ids_are_kept() -> None:
    files = files_of()
    for cpu in range(16):
        socket = "36" if cpu < 8 else "196611"
        files[f"{CPU}/cpu{cpu}/topology/physical_package_id"] = socket
    assert [socket.label for socket in read(files).sockets] == ["36", "196611"]


def test_sockets_without_sibling_files_are_grouped_by_id() -> None:
    files = without(files_of(), "package_cpus_list", "core_siblings_list")
    machine = read(files)
    assert lists(machine.sockets) == ["0-7", "8-15"]


def test_dies_and_cores_without_sibling_files_are_grouped_by_id() -> None:
    spec = "socket:2 die:2 numa:1 core:2 thread:2"
    lists_lost = ("die_cpus_list", "core_cpus_list", "thread_siblings_list")
    machine = read(without(files_of(spec), *lists_lost))
    assert machine.dies == machine_from_spec(spec).dies
    assert machine.cores == machine_from_spec(spec).cores
    assert [text for text in machine.warnings if "cpus 0-15: grouped by core_id" in text]


def test_cpus_without_sibling_files_and_usable_ids_are_cores_of_their_own_in_one_die() -> None:
    spec = "socket:2 die:2 numa:1 core:2 thread:2"
    lists_lost = ("die_cpus_list", "core_cpus_list", "thread_siblings_list")
    files = without(files_of(spec), *lists_lost)
    for cpu in range(8):
        files[f"{CPU}/cpu{cpu}/topology/die_id"] = "-1"
        files[f"{CPU}/cpu{cpu}/topology/core_id"] = "-1"
    machine = read(files)
    assert lists(machine.dies) == ["0-7", "8-11", "12-15"]
    assert lists(machine.cores)[6:] == ["6", "7", "8-9", "10-11", "12-13", "14-15"]
    assert [text for text in machine.warnings if "cpus 0-7: one thread per core" in text]


@pytest.mark.parametrize("die", ["-1", "65535"])
def test_a_die_list_without_a_valid_die_id_is_ignored(die: str) -> None:
    files = files_of()
    for cpu in range(16):
        files[f"{CPU}/cpu{cpu}/topology/die_id"] = die
        files[f"{CPU}/cpu{cpu}/topology/die_cpus_list"] = str(cpu)
    machine = read(files)
    assert lists(machine.dies) == ["0-7", "8-15"]
    assert [one.label for one in machine.dies] == ["0/0", "1/0"]
    assert machine.warnings == ()


def test_core_ids_that_repeat_do_not_merge_cores() -> None:
    files = files_of()
    for cpu in range(16):
        files[f"{CPU}/cpu{cpu}/topology/core_id"] = "0"
    assert len(read(files).cores) == 8


def test_clusters_that_the_kernel_calls_unknown_are_none() -> None:
    files = files_of()
    for cpu in range(16):
        files[f"{CPU}/cpu{cpu}/topology/cluster_id"] = "65535"
        files[f"{CPU}/cpu{cpu}/topology/cluster_cpus_list"] = str(cpu)
    machine = read(files)
    assert machine.clusters == ()
    assert machine.warnings == ()


def test_a_cache_that_names_no_cpu_belongs_to_its_core() -> None:
    files = {
        path: "0" if path.endswith("shared_cpu_map") else text
        for path, text in masks_for_lists(files_of()).items()
    }
    machine = read(files)
    assert machine.l3_groups == machine.cores
    assert any("shared_cpu_map" in text for text in machine.warnings)


def test_levels_are_read_and_never_taken_from_the_index() -> None:
    files = without(files_of(), "cpu4/cache/index0", "cpu4/cache/index1", "cpu5/cache")
    machine = read(files)
    assert machine.l2_groups == machine_from_spec(SPEC).l2_groups
    first = [cache.cpus for cache in machine.caches if cache.level == 1]
    assert CpuSet.of(4, 5) not in first


def test_a_machine_without_cache_files_has_no_cache_groups() -> None:
    machine = read(without(files_of(), "cache"))
    assert machine.caches == ()
    assert machine.l2_groups == machine.l3_groups == ()
    assert any("no caches shown" in text for text in machine.warnings)


def test_data_and_instruction_caches_of_one_level_are_one_group() -> None:
    files = {
        path: "Data" if path.endswith("cache/index2/type") else text
        for path, text in files_of().items()
    }
    for cpu in range(16):
        folder = f"{CPU}/cpu{cpu}/cache/index4"
        files[f"{folder}/level"], files[f"{folder}/type"] = "2", "Instruction"
        files[f"{folder}/shared_cpu_list"] = "0-15"
    assert read(files).l2_groups == machine_from_spec(SPEC).l2_groups


def test_no_numa_at_all_is_one_node_with_everything() -> None:
    files = without(files_of(), "system/node")
    files["proc/meminfo"] = "MemTotal:   4194304 kB\nMemFree:    1048576 kB\n"
    machine = read(files)
    (node,) = machine.numa_nodes
    assert (node.id, node.cpus, node.memory_bytes, node.free_bytes) == (
        0,
        machine.online,
        4 * 2**30,
        2**30,
    )
    assert machine.distances == ()


def test_sparse_node_ids_take_distance_columns_in_the_order_of_online_nodes() -> None:
    files = without(files_of("socket:2 core:2"), "system/node")
    rows = {0: "10 20 40", 8: "20 10 80", 252: "40 80 10"}
    for node, row in rows.items():
        files[f"{NODE}/node{node}/distance"] = row
        files[f"{NODE}/node{node}/cpulist"] = {0: "0-1", 8: "2-3", 252: ""}[node]
        files[f"{NODE}/node{node}/meminfo"] = f"Node {node} MemTotal: 1024 kB\n"
    files[f"{NODE}/online"] = "0,8,252"
    files[f"{NODE}/has_memory"] = "0,8"
    machine = read(files)
    assert [node.id for node in machine.numa_nodes] == [0, 8, 252]
    assert machine.distances == ((10, 20, 40), (20, 10, 80), (40, 80, 10))
    assert machine.numa_distances.between(*(node.id for node in machine.numa_nodes[1:3])) == 80


def test_a_node_folder_that_a_dump_lost_takes_its_column_along() -> None:
    files = without(files_of("numa:3 core:1"), "node/node1")
    machine = read(files)
    assert [node.id for node in machine.numa_nodes] == [0, 2]
    assert machine.distances == ((10, 11), (11, 10))
    assert any("cpus 1 are in no NUMA node" in text for text in machine.warnings)


@pytest.mark.parametrize("online", ["1", "0-1", None])
def test_more_columns_than_nodes_are_told_by_the_nodes_own_place(online: str | None) -> None:
    files = without(files_of("socket:2 core:1"), "node/node0", "node/online")
    if online is not None:
        files[f"{NODE}/online"] = online
    assert read(files).distances == ((10,),)


def test_nodes_may_overlap_name_absent_cpus_or_have_nothing() -> None:
    files = files_of("socket:2 core:2")
    files[f"{NODE}/node0/cpulist"] = "0-140"
    files[f"{NODE}/node1/cpulist"] = "0-3"
    files[f"{NODE}/node7/cpulist"] = ""
    files[f"{NODE}/node7/meminfo"] = "Node 7 MemTotal: 0 kB\n"
    machine = read(files)
    assert [str(node.cpus) for node in machine.numa_nodes] == ["0-3", "0-3", ""]
    assert machine.node_by_id[7].memory_bytes == 0
    assert any("absent cpus 4-140" in text for text in machine.warnings)


@pytest.mark.parametrize(
    "links",
    [
        pytest.param([f"{NODE}/node1/cpu{cpu}" for cpu in (2, 3)], id="to cpus"),
        pytest.param([f"{CPU}/cpu{cpu}/node1" for cpu in (2, 3)], id="of cpus"),
    ],
)
def test_links_tell_the_cpus_of_a_node_that_lost_its_lists(links: list[str]) -> None:
    files = without(files_of("socket:2 core:2"), "node1/cpulist")
    machine = read(files, frozenset(links))
    assert [str(node.cpus) for node in machine.numa_nodes] == ["0-1", "2-3"]
    assert any("node1: no cpulist or cpumap: cpus 2-3 told by" in one for one in machine.warnings)


def test_a_node_that_lost_its_lists_and_links_is_without_cpus() -> None:
    machine = read(without(files_of("socket:2 core:2"), "node1/cpulist"))
    assert [str(node.cpus) for node in machine.numa_nodes] == ["0-1", ""]
    assert any("node1: no cpulist or cpumap: taken as" in one for one in machine.warnings)


def test_the_links_of_each_cpu_are_looked_at_once_for_all_nodes() -> None:
    files = files_of("numa:16 core:8")
    stripped = without(files, "/cpulist")
    links = frozenset(f"{CPU}/cpu{cpu}/node{cpu // 8}" for cpu in range(128))
    extra = count_calls(lambda: read(stripped, links)) - count_calls(lambda: read(files, links))
    assert [one.cpus for one in read(stripped, links).numa_nodes] == [
        one.cpus for one in read(files, links).numa_nodes
    ]
    assert extra < 16 * 128


def test_folders_that_a_kernel_would_not_name_so_are_no_second_node_or_cpu() -> None:
    files = files_of()
    odd = {f"{NODE}/node00/cpulist": "0-3\n", f"{CPU}/cpu001/topology/core_id": "0\n"}
    assert read(files | odd) == read(files)


def test_asymmetric_distances_are_kept_as_they_are() -> None:
    files = files_of("numa:2 core:1")
    files[f"{NODE}/node0/distance"] = "10 30"
    machine = read(files)
    assert machine.distances == ((10, 30), (11, 10))
    assert any("not symmetric" in text for text in machine.warnings)


def test_movable_only_memory_and_huge_pages_are_seen() -> None:
    files = files_of("numa:2 core:1")
    files[f"{NODE}/has_normal_memory"] = "0"
    files[f"{NODE}/node1/hugepages/hugepages-2048kB/nr_hugepages"] = "16"
    files[f"{NODE}/node1/hugepages/hugepages-1048576kB/nr_hugepages"] = "0"
    one, two = read(files).numa_nodes
    assert (one.is_normal, two.is_normal) == (True, False)
    assert dict(two.hugepages) == {2**21: 16, 2**30: 0}


def test_isolated_cpus_are_the_online_ones() -> None:
    files = files_of("core:4")
    files[f"{CPU}/online"] = "0-2"
    files[f"{CPU}/isolated"] = "2-3"
    assert str(read(files).isolated) == "2"


@pytest.mark.parametrize(
    ("units", "efficient"),
    [
        pytest.param({"cpu_core": "0-3", "cpu_atom": "4-7"}, "4-7", id="both kinds named"),
        pytest.param({"cpu_atom": "4-7"}, "4-7", id="only the efficient ones named"),
        pytest.param({"cpu_core": "0-3"}, "4-7", id="only the performance ones named"),
        pytest.param(
            {"cpu_core": "0-3", "cpu_atom": "4-5", "cpu_lowpower": "6-7"}, "4-7",
            id="low-power cores are efficient",
        ),
        pytest.param({"cpu_core": "0-5", "cpu_atom": "4-7"}, "6-7", id="some of both kinds"),
        pytest.param({"cpu_core": "0-3", "cpu_atom": "5-7"}, "6-7", id="half a core named"),
        pytest.param({"cpu_core": "junk", "cpu_atom": ""}, "", id="unreadable lists"),
        pytest.param({}, "", id="no hybrid machine"),
    ],
)  # fmt: skip
def test_core_kinds_are_whole_cores(units: dict[str, str], efficient: str) -> None:
    files = files_of("core:4 thread:2")
    files.update({f"sys/devices/{unit}/cpus": cpus for unit, cpus in units.items()})
    machine = read(files)
    found = [cpu.id for cpu in machine.cpus.values() if cpu.kind is CoreKind.EFFICIENT]
    assert str(CpuSet.collect(found)) == efficient


def test_small_arm_cores_are_efficient() -> None:
    files = files_of("core:8")
    for cpu in range(8):
        capacity = "280" if cpu < 3 else "855" if cpu < 7 else "1024"
        files[f"{CPU}/cpu{cpu}/cpu_capacity"] = capacity
    kinds = [cpu.kind for cpu in read(files).cpus.values()]
    assert kinds == [CoreKind.EFFICIENT] * 3 + [CoreKind.PERFORMANCE] * 5


def test_frequencies_are_in_khz_and_unknown_where_there_is_no_policy() -> None:
    files = files_of("core:2")
    base = f"{CPU}/cpu1/cpufreq"
    files[f"{base}/base_frequency"] = "2000000"
    files[f"{base}/cpuinfo_min_freq"] = "800000"
    files[f"{base}/cpuinfo_max_freq"] = "3500000"
    files[f"{base}/energy_performance_preference"] = "balance_power"
    machine = read(files)
    assert machine.cpus[0].max_khz is None
    cpu = machine.cpus[1]
    assert (cpu.base_khz, cpu.min_khz, cpu.max_khz, cpu.epp) == (
        2000000,
        800000,
        3500000,
        "balance_power",
    )


def test_policies_in_the_folders_of_cpus_are_found_beside_an_empty_folder_of_all() -> None:
    """As in kernels before 4.3."""
    files = files_of("core:2") | {f"{CPU}/cpu0/cpufreq/cpuinfo_max_freq": "3500000"}
    machine = read(files, frozenset({f"{CPU}/cpufreq"}))
    assert [cpu.max_khz for cpu in machine.cpus.values()] == [3500000, None]


def test_no_cpu_is_asked_for_its_clock_where_the_kernel_has_no_driver() -> None:
    tree = tree_of(machine_snapshot(machine_from_spec("core:64")))
    read_paths: list[str] = []

    class Listing:
        root = tree.root
        beginning, names, resolve = tree.beginning, tree.names, tree.resolve

        def read(self, path: str) -> str | None:
            read_paths.append(path)
            return tree.read(path)

    discover(Listing())
    assert not [path for path in read_paths if "cpufreq" in path]


def test_a_cpu_list_beyond_every_kernel_is_refused_before_it_costs_anything() -> None:
    files = files_of("core:2")
    files[f"{CPU}/possible"] = "0-4000000000"
    machine = read(files)
    assert machine.possible == machine.online
    assert any("possible" in text for text in machine.warnings)


def test_a_tree_that_shows_no_cpu_is_an_error() -> None:
    with pytest.raises(TopologyError, match="no cpu is online — "):
        read({f"{CPU}/possible": "0-3"})


def test_a_cpu_that_lost_its_files_is_in_the_groups_that_name_it() -> None:
    files = without(files_of("socket:2 cluster:2 core:2 thread:2"), "cpu0/topology")
    machine = read(files)
    assert lists(machine.sockets) == ["0-7", "8-15"]
    assert lists(machine.dies) == ["0-7", "8-15"]
    assert lists(machine.clusters) == ["0-3", "4-7", "8-11", "12-15"]
    assert lists(machine.cores)[0] == "0-1"


def test_equality_of_machines_counts_every_field() -> None:
    machine = machine_from_spec(SPEC)
    assert dataclasses.replace(machine, warnings=("x: y",)) != machine
