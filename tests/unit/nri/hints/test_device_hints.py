"""Where devices are: from a number to the folders of sysfs that tell."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pinfold.cmd.kernel.host_paths import device_of
from pinfold.nri.hints.device_hints import DeviceHints, DeviceNumber
from pinfold.policy.annotations.annotation_values import HintSource
from pinfold.policy.model.container import Container, ContainerId, Device, Mount, Pod, PodId
from pinfold.policy.model.hint import Hint, HintOrigin
from pinfold.topology.made.snapshot import SysfsSnapshot
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from pinfold.topology.sysfs.device_locator import Located, Locator
from pinfold.topology.sysfs.sysfs_tree import DirectoryTree, SysfsTree
from tests.unit.topology.made.machine_files import tree_of, write_tree

NEAR = "sys/devices/pci0000:00/0000:00:02.0"
FAR = "sys/devices/pci0000:80/0000:80:02.0"
SDA = f"{NEAR}/ata1/block/sda"
SDB = f"{FAR}/ata9/block/sdb"
NVME = f"{FAR}/nvme/nvme1"
VIRTUAL = "sys/devices/virtual"

FILES = {
    f"{NEAR}/local_cpulist": "0-1\n",
    f"{NEAR}/numa_node": "0\n",
    f"{FAR}/local_cpulist": "2-3\n",
    f"{FAR}/numa_node": "1\n",
    f"{SDA}/sda1/partition": "1\n",
    f"{SDB}/dev": "8:16\n",
    f"{NVME}/numa_node": "-1\n",
    f"{VIRTUAL}/block/md0/md0p1/partition": "1\n",
    f"{VIRTUAL}/mem/null/dev": "1:3\n",
    f"{VIRTUAL}/vfio/12/dev": "240:0\n",
    f"{VIRTUAL}/nvme-subsystem/nvme-subsys0/nvme0n1/dev": "259:0\n",
}
LINKS = {
    "sys/dev/block/8:0": SDA,
    "sys/dev/block/8:1": f"{SDA}/sda1",
    "sys/dev/block/8:16": SDB,
    "sys/dev/block/9:0": f"{VIRTUAL}/block/md0",
    "sys/dev/block/9:1": f"{VIRTUAL}/block/md0/md0p1",
    "sys/dev/block/253:0": f"{VIRTUAL}/block/dm-0",
    "sys/dev/block/259:0": f"{VIRTUAL}/nvme-subsystem/nvme-subsys0/nvme0n1",
    "sys/dev/char/1:3": f"{VIRTUAL}/mem/null",
    "sys/dev/char/240:0": f"{VIRTUAL}/vfio/12",
    "sys/dev/char/241:0": NVME,
    f"{VIRTUAL}/block/dm-0/slaves/md0": f"{VIRTUAL}/block/md0",
    f"{VIRTUAL}/block/md0/slaves/sda1": f"{SDA}/sda1",
    f"{VIRTUAL}/block/md0/slaves/sdb": SDB,
    f"{VIRTUAL}/nvme-subsystem/nvme-subsys0/nvme1": NVME,
    "sys/kernel/iommu_groups/12/devices/0000:00:02.0": NEAR,
    "sys/kernel/iommu_groups/12/devices/0000:80:02.0": FAR,
}


def tree(files: Mapping[str, str] = FILES, links: Mapping[str, str] = LINKS) -> SysfsTree:
    return tree_of(SysfsSnapshot(files=files, links=links))


def locate(kind: str, major: int, minor: int, over: SysfsTree | None = None) -> Located:
    return Locator(over or tree()).locate(major, minor, is_block=kind == "block")


@pytest.mark.parametrize(
    ("kind", "major", "minor", "device", "places"),
    [
        pytest.param("block", 8, 0, SDA, [NEAR], id="a disk is where its controller is"),
        pytest.param("block", 8, 1, f"{SDA}/sda1", [NEAR], id="a partition is where its disk is"),
        pytest.param("char", 241, 0, NVME, [FAR], id="node -1 says nothing, the folder above does"),
        pytest.param(
            "block", 9, 0, f"{VIRTUAL}/block/md0", [NEAR, FAR], id="a raid is where its disks are"
        ),
        pytest.param(
            "block",
            9,
            1,
            f"{VIRTUAL}/block/md0/md0p1",
            [NEAR, FAR],
            id="so is a partition of a raid",
        ),
        pytest.param(
            "block", 253, 0, f"{VIRTUAL}/block/dm-0", [NEAR, FAR], id="so is a volume on a raid"
        ),
        pytest.param(
            "block",
            259,
            0,
            f"{VIRTUAL}/nvme-subsystem/nvme-subsys0/nvme0n1",
            [FAR],
            id="a multipath disk is where its controllers are",
        ),
        pytest.param(
            "char", 240, 0, f"{VIRTUAL}/vfio/12", [NEAR, FAR], id="a vfio group is all its devices"
        ),
        pytest.param("char", 1, 3, f"{VIRTUAL}/mem/null", [], id="/dev/null is nowhere"),
    ],
)
def test_devices_are_found_by_number(
    kind: str, major: int, minor: int, device: str, places: list[str]
) -> None:
    located = locate(kind, major, minor)
    assert located.path == f"/{device}"
    assert [place.path for place in located.places] == [f"/{one}" for one in places]


@pytest.mark.parametrize(
    ("kind", "major", "minor"),
    [
        pytest.param("char", 8, 0, id="a character device with the number of a block device"),
        pytest.param("block", 77, 7, id="a number nobody has"),
        pytest.param("block", 0, 53, id="a file system without device"),
        pytest.param("block", -1, 0, id="a number that is none"),
    ],
)
def test_numbers_without_device_are_nowhere(kind: str, major: int, minor: int) -> None:
    assert locate(kind, major, minor) == Located()


@pytest.mark.parametrize(
    ("files", "cpus", "node"),
    [
        pytest.param({"local_cpulist": "2-3", "numa_node": "1"}, "2-3", 1, id="cpus and node"),
        pytest.param({"local_cpulist": "2-3"}, "2-3", None, id="cpus alone"),
        pytest.param({"local_cpus": "c"}, "2-3", None, id="the mask of an old kernel"),
        pytest.param({"local_cpulist": "2-3", "numa_node": "-1"}, "2-3", None, id="no node"),
        pytest.param({"local_cpulist": "", "numa_node": "4"}, "", 4, id="a node without cpus"),
        pytest.param({"numa_node": "4"}, "", 4, id="a node alone"),
        pytest.param({"local_cpulist": "2-3", "numa_node": "99999"}, "2-3", None, id="no such id"),
        pytest.param({"local_cpulist": "x", "numa_node": "1"}, "", 1, id="an unreadable list"),
    ],
)
def test_a_place_is_what_its_folder_says(
    files: dict[str, str], cpus: str, node: int | None
) -> None:
    below = {f"{NEAR}/{name}": text for name, text in files.items()}
    links = {"sys/dev/block/8:0": SDA}
    (place,) = locate("block", 8, 0, tree({f"{SDA}/dev": "8:0", **below}, links)).places
    assert (str(place.cpus), place.numa_node) == (cpus, node)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        pytest.param("numa_node", "garbage", "'garbage' is not a whole number", id="no number"),
        pytest.param("numa_node", "99999", "99999 is no NUMA node: ids are from 0", id="too large"),
        pytest.param("numa_node", "-2", "-2 is no NUMA node: ids are from 0", id="below -1"),
        pytest.param("local_cpulist", "zz,,-", "'zz,,-", id="no list"),
        pytest.param("numa_node", "-1", "", id="the kernel does not know the node"),
        pytest.param("local_cpulist", "", "", id="a folder without cpus"),
    ],
)
def test_what_cannot_be_read_is_told_once(name: str, text: str, expected: str) -> None:
    locator = Locator(tree({**FILES, f"{NEAR}/{name}": f"{text}\n"}))
    for minor in (0, 1, 0):
        locator.locate(8, minor, is_block=True)
    warnings = locator.take_warnings()
    assert len(warnings) == bool(expected)
    assert all(one.startswith(f"{NEAR}/{name}: {expected}") for one in warnings)
    assert locator.take_warnings() == []


def test_folders_that_say_nothing_are_passed_over_to_the_end() -> None:
    files = {f"{SDA}/dev": "8:0", f"{NEAR}/numa_node": "-1", f"{NEAR}/local_cpulist": ""}
    located = locate("block", 8, 0, tree(files, {"sys/dev/block/8:0": SDA}))
    assert located == Located(path=f"/{SDA}")


def test_volumes_made_of_each_other_end() -> None:
    one, other = f"{VIRTUAL}/block/dm-0", f"{VIRTUAL}/block/dm-1"
    links = {
        "sys/dev/block/253:0": one,
        f"{one}/slaves/dm-1": other,
        f"{other}/slaves/dm-0": one,
        f"{other}/slaves/sdb": SDB,
    }
    assert [place.path for place in locate("block", 253, 0, tree(FILES, links)).places] == [
        f"/{FAR}"
    ]


def test_a_number_that_is_given_to_another_device_is_found_there(tmp_path: Path) -> None:
    write_tree(SysfsSnapshot(files=FILES, links=LINKS), str(tmp_path))
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    locator = Locator(DirectoryTree(str(tmp_path)))

    def places(major: int, minor: int) -> list[str]:
        found = locator.locate(major, minor, is_block=True)
        return [place.path for place in found.places]

    assert places(253, 0) == [f"/{NEAR}", f"/{FAR}"]
    assert places(8, 0) == [f"/{NEAR}"]
    slaves = tmp_path / VIRTUAL / "block/dm-0/slaves"
    (slaves / "md0").unlink()
    assert places(253, 0) == []
    (slaves / "sdb").symlink_to(os.path.relpath(tmp_path / SDB, slaves))
    assert places(253, 0) == [f"/{FAR}"]
    number = tmp_path / "sys/dev/block/8:0"
    number.unlink()
    assert places(8, 0) == []
    number.symlink_to(os.path.relpath(tmp_path / SDB, number.parent))
    assert places(8, 0) == [f"/{FAR}"]


class CountingTree:
    """A tree that counts what is asked of it."""

    def __init__(self, inner: SysfsTree) -> None:
        self._inner = inner
        self.asked = 0

    @property
    def root(self) -> str:
        return self._inner.root

    def read(self, path: str) -> str | None:
        self.asked += 1
        return self._inner.read(path)

    def beginning(self, path: str) -> str | None:
        self.asked += 1
        return self._inner.beginning(path)

    def names(self, path: str) -> list[str]:
        self.asked += 1
        return self._inner.names(path)

    def resolve(self, path: str) -> str | None:
        self.asked += 1
        return self._inner.resolve(path)


def test_what_is_known_is_not_read_again() -> None:
    counting = CountingTree(tree())
    locator = Locator(counting)

    def look() -> None:
        locator.locate(1, 3, is_block=False)
        locator.locate(8, 0, is_block=True)

    look()
    before = counting.asked
    look()
    # Only which disk has the number.
    assert counting.asked - before == 1


def container(*things: Device | Mount) -> Container:
    return Container(
        id=ContainerId("c"),
        name="nginx",
        pod=Pod(id=PodId("p"), name="web"),
        devices=tuple(one for one in things if isinstance(one, Device)),
        mounts=tuple(one for one in things if isinstance(one, Mount)),
    )


class Host:
    """Paths with the numbers of their devices; remembers what was asked."""

    def __init__(self, **numbers: DeviceNumber) -> None:
        self._numbers = numbers
        self.asked: list[str] = []

    def device_of(self, path: str) -> DeviceNumber | None:
        self.asked.append(path)
        return self._numbers.get(path.strip("/"))


HOST_DISK = DeviceNumber(8, 0, True)


def test_mounts_and_devices_become_hints_with_their_paths() -> None:
    host = Host(data=HOST_DISK)
    found = DeviceHints(tree(), host.device_of).hints(
        container(
            Device(path="/dev/vfio/12", type="c", major=240, minor=0),
            Mount(source="/data", destination="/x"),
        )
    )
    mounted = Hint(
        provider=f"/{NEAR}",
        origin=HintOrigin.MOUNT,
        path="/data",
        device=f"/{SDA}",
        cpus=CpuSet.of(0, 1),
        numa_nodes=NodeSet.of(0),
    )
    vfio = replace(mounted, origin=HintOrigin.DEVICE, path="", device=f"/{VIRTUAL}/vfio/12")
    there = replace(vfio, provider=f"/{FAR}", cpus=CpuSet.of(2, 3), numa_nodes=NodeSet.of(1))
    assert found == (mounted, vfio, there)


@pytest.mark.parametrize(
    ("more", "interrupts"),
    [
        pytest.param({}, (), id="nothing is known"),
        pytest.param({f"{NEAR}/irq": "11\n"}, (11,), id="the line of its controller"),
        pytest.param({f"{NEAR}/irq": "0\n"}, (), id="a controller without one"),
        pytest.param(
            {f"{NEAR}/irq": "11\n", f"{NEAR}/msi_irqs/40": "msi\n", f"{NEAR}/msi_irqs/9": "msi\n"},
            (9, 40),
            id="messages instead of the line",
        ),
        pytest.param(
            {f"{NEAR}/irq": "0\n", "sys/devices/pci0000:00/msi_irqs/3": "msi\n"},
            (),
            id="those of the bridge are not its own",
        ),
        pytest.param({f"{SDA}/irq": "7\n", f"{NEAR}/irq": "11\n"}, (7,), id="its own line"),
    ],
)
def test_the_interrupts_of_a_device_are_those_of_its_nearest_folder(
    more: dict[str, str], interrupts: tuple[int, ...]
) -> None:
    locality = DeviceHints(tree({**FILES, **more}), Host(data=HOST_DISK).device_of)
    found = locality.hints(container(Mount(source="/data", destination="/x")))
    assert [hint.interrupts for hint in found] == [()]
    assert [hint.interrupts for hint in locality.with_interrupts(found)] == [interrupts]


def test_each_part_of_a_device_has_its_own_interrupts() -> None:
    more = {f"{NEAR}/irq": "11\n", f"{FAR}/irq": "12\n"}
    locality = DeviceHints(tree({**FILES, **more}), Host().device_of)
    found = locality.hints(container(Device(path="/dev/vfio/12", type="c", major=240, minor=0)))
    assert [hint.interrupts for hint in locality.with_interrupts(found)] == [(11,), (12,)]


def test_only_mounts_worth_a_look_are_looked_at_and_each_path_once() -> None:
    host = Host(data=HOST_DISK)
    DeviceHints(tree(), host.device_of).hints(
        container(
            Mount(source="/data", destination="/x"),
            Mount(source="/data", destination="/y"),
            Mount(source="/data2", destination="/z", is_read_only=True),
            Mount(source="/var/lib/kubelet/pods/1/etc-hosts", destination="/etc/hosts"),
            Mount(source="proc", destination="/proc"),
        )
    )
    assert host.asked == ["/data"]


@pytest.mark.parametrize(
    ("sources", "origins"),
    [
        ({HintSource.MOUNTS}, [HintOrigin.MOUNT]),
        ({HintSource.DEVICES}, [HintOrigin.DEVICE]),
        ({HintSource.POD_RESOURCES}, []),
    ],
)
def test_what_a_container_does_not_want_is_not_looked_at(
    sources: set[HintSource], origins: list[HintOrigin]
) -> None:
    host = Host(data=HOST_DISK)
    one = container(
        Device(path="/dev/sda", type="b", major=8, minor=0),
        Mount(source="/data", destination="/x"),
    )
    found = DeviceHints(tree(), host.device_of).hints(one, sources)
    assert [hint.origin for hint in found] == origins
    assert bool(host.asked) == (HintSource.MOUNTS in sources)


def test_of_many_mounts_and_devices_the_first_are_looked_at() -> None:
    host = Host(**{f"d{number}": HOST_DISK for number in range(500)})
    things = [Mount(source=f"/d{number}", destination="/d") for number in range(500)]
    DeviceHints(tree(), host.device_of).hints(container(*things))
    assert host.asked == [f"/d{number}" for number in range(128)]


def test_character_and_block_devices_of_one_number_are_told_apart() -> None:
    locality = DeviceHints(tree(), Host().device_of)
    assert locality.hints(container(Device(path="/dev/x", type="c", major=8, minor=0))) == ()
    assert locality.hints(container(Device(path="/dev/x", type="b", major=8, minor=0)))


def test_a_path_of_the_host_is_a_device_or_is_stored_on_one(tmp_path: Path) -> None:
    assert device_of("/dev/null") == DeviceNumber(1, 3, False)
    assert device_of(str(tmp_path / "missing")) is None
    assert device_of("/proc/self") is None
    assert device_of("nul\0byte") is None
    stored = device_of(str(tmp_path))
    number = os.stat(tmp_path).st_dev
    expected = DeviceNumber(os.major(number), os.minor(number), True)
    assert stored == (expected if expected.major else None)
