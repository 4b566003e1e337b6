"""Cores of one make: what is read of one of them only, and what of each."""

from collections import Counter
from collections.abc import Mapping

import pytest

from pinfold.topology.made.snapshot import SysfsSnapshot
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine
from pinfold.topology.sysfs.discovery import discover
from tests.unit.topology.made.machine_files import machine_snapshot, tree_of

CPU = "sys/devices/system/cpu"
FILES = dict(machine_snapshot(machine_from_spec("socket:2 l3:2 core:4 thread:2 mem:2G")).files)
CPUS = range(32)


def read(files: Mapping[str, str]) -> Machine:
    return discover(tree_of(SysfsSnapshot(files=files)))


def changed(name: str, texts: Mapping[int, str], index: int = 0) -> dict[str, str]:
    """The files with another text in a cache's file of some cpus."""
    return FILES | {
        f"{CPU}/cpu{cpu}/cache/index{index}/{name}": text for cpu, text in texts.items()
    }


def cpus_of(machine: Machine, level: int, kind: str) -> list[str]:
    return [str(one.cpus) for one in machine.caches if (one.level, one.type) == (level, kind)]


def test_cores_whose_caches_have_other_sizes_may_have_other_caches() -> None:
    late = range(16, 32)
    files = changed("type", dict.fromkeys(late, "Unified"))
    files |= {f"{CPU}/cpu{cpu}/cache/index0/size": "64K" for cpu in late}
    files |= {f"{CPU}/cpu{cpu}/cache/index0/shared_cpu_list": "16-31" for cpu in late}
    machine = read(files)
    assert cpus_of(machine, 1, "Data") == [f"{cpu}-{cpu + 1}" for cpu in range(0, 16, 2)]
    assert cpus_of(machine, 1, "Unified") == ["16-31"]
    assert {one.size_bytes for one in machine.caches if one.type == "Unified" and one.level == 1}


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_cache_that_several_cores_share_is_read_of_each(index: int) -> None:
    quads = {cpu: f"{cpu // 4 * 4}-{cpu // 4 * 4 + 3}" for cpu in CPUS}
    # Sharing that a first core does not give away, as for any but the first.
    quads |= {28: "28-29", 29: "28-29", 30: "30-31", 31: "30-31"}
    machine = read(changed("shared_cpu_list", quads, index))
    level = int(FILES[f"{CPU}/cpu0/cache/index{index}/level"])
    kind = FILES[f"{CPU}/cpu0/cache/index{index}/type"].strip()
    assert cpus_of(machine, level, kind)[-3:] == ["24-27", "28-29", "30-31"]


@pytest.mark.parametrize(("index", "level", "kind"), [(0, 1, "Data"), (2, 2, "Unified")])
def test_an_offline_neighbour_does_not_make_a_shared_cache_look_like_a_cores_own(
    index: int, level: int, kind: str
) -> None:
    quads = {cpu: f"{cpu // 4 * 4}-{cpu // 4 * 4 + 3}" for cpu in CPUS} | {0: "0-1", 1: "0-1"}
    files = changed("shared_cpu_list", quads, index) | {f"{CPU}/online": "0-1,4-31"}
    machine = read({path: text for path, text in files.items() if not _is_of(path, (2, 3))})
    assert cpus_of(machine, level, kind)[:3] == ["0-1", "4-7", "8-11"]


@pytest.mark.parametrize("name", ["level", "type"])
def test_a_first_core_that_cannot_be_read_does_not_speak_for_others(name: str) -> None:
    machine = read(changed(name, {0: "?", 1: "?"}))
    assert cpus_of(machine, 1, "Data") == [f"{cpu}-{cpu + 1}" for cpu in range(2, 32, 2)]


def test_caches_without_a_size_are_read_of_each_core() -> None:
    files = {path: text for path, text in FILES.items() if not path.endswith("/size")}
    files[f"{CPU}/cpu16/cache/index0/type"] = files[f"{CPU}/cpu17/cache/index0/type"] = "Unified"
    assert cpus_of(read(files), 1, "Unified") == ["16-17"]


def test_wider_caches_of_cores_of_one_make_may_have_other_sizes() -> None:
    """As two designs of arm cores with the same first caches."""
    machine = read(changed("size", {30: "512K", 31: "512K"}, index=2))
    sizes = {one.size_bytes for one in machine.caches if one.level == 2}
    assert sizes == {2**20, 2**19}


def test_what_all_cores_have_in_common_is_read_once() -> None:
    tree = tree_of(SysfsSnapshot(files=FILES))
    counts: Counter[str] = Counter()

    class Counting:
        root = tree.root
        beginning, names, resolve = tree.beginning, tree.names, tree.resolve

        def read(self, path: str) -> str | None:
            counts[path.rpartition("/")[2]] += "/cache/" in path
            return tree.read(path)

    assert discover(Counting()) == read(FILES)
    assert counts["level"] == counts["type"] == 4
    # One of level 1 for both of its kinds, each of level 2, and the four of level 3.
    assert counts["shared_cpu_list"] == 2 + 16 + 4
    # The first one of each core, the other of level 1, each of level 2, and the four of level 3.
    assert counts["size"] == 16 + 2 + 16 + 4
    # Nobody is called by those of narrower caches.
    assert counts["id"] == 4


@pytest.mark.parametrize("index", [2, 3])
def test_threads_of_a_core_may_have_caches_of_their_own(index: int) -> None:
    """As s390 shows them, and POWER9 whose cores of eight threads are two of four in one."""
    machine = read(changed("shared_cpu_list", {cpu: str(cpu) for cpu in CPUS}, index))
    groups = machine.l2_groups if index == 2 else machine.l3_groups
    assert [str(one) for one in groups] == [str(cpu) for cpu in CPUS]
    assert not [text for text in machine.warnings if "no caches" in text]


def test_halves_of_a_core_may_have_caches_of_their_own() -> None:
    files = dict(machine_snapshot(machine_from_spec("socket:2 core:2 thread:8 mem:2G")).files)
    for cpu in CPUS:
        first = cpu // 8 * 8 + cpu % 2
        for index in range(4):
            halves = f"{first},{first + 2},{first + 4},{first + 6}"
            files[f"{CPU}/cpu{cpu}/cache/index{index}/shared_cpu_list"] = halves
    machine = read(files)
    assert [str(one) for one in machine.cores] == ["0-7", "8-15", "16-23", "24-31"]
    for groups in (machine.l2_groups, machine.l3_groups):
        assert [str(one) for one in groups[:3]] == ["0,2,4,6", "1,3,5,7", "8,10,12,14"]
        assert len(groups) == 8


def test_a_core_and_its_caches_share_one_set() -> None:
    """Of a machine with thousands of cpus, each set has half a kilobyte."""
    machine = read(FILES)
    sets = [*machine.cores, *(one.cpus for one in machine.caches if one.level < 3)]
    assert len(sets) == 16 * 4
    assert len({id(one) for one in sets}) == 16
    assert len({id(one) for one in (*machine.l2_groups, *machine.cores)}) == 16


def _is_of(path: str, cpus: tuple[int, ...]) -> bool:
    return any(path.startswith(f"{CPU}/cpu{cpu}/") for cpu in cpus)


@pytest.mark.parametrize("text", ["", "0-", "\n"])
def test_a_cache_that_names_no_cpu_on_one_of_them_is_shared_as_others_show_it(text: str) -> None:
    machine = read(changed("shared_cpu_list", {0: text}, 3))
    assert cpus_of(machine, 3, "Unified") == ["0-7", "8-15", "16-23", "24-31"]
    assert any("names no cpu on cpus 0-1" in warning for warning in machine.warnings)
