"""Devices: the nearest folder upwards that says anything is their place."""

import dataclasses
from collections.abc import Mapping

import pytest

from pinfold.topology.made.snapshot import SysfsSnapshot
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import IoDevice, Machine, NumaNodeId
from pinfold.topology.sets.cpuset import CpuSet
from pinfold.topology.sysfs.discovery import discover
from tests.unit.topology.made.machine_files import machine_snapshot, tree_of

PCI = "sys/devices/pci0000:00/0000:00:02.0"


def snapshot_of(files: Mapping[str, str], links: Mapping[str, str]) -> SysfsSnapshot:
    base = machine_snapshot(machine_from_spec("socket:2 core:2"))
    return dataclasses.replace(base, files={**base.files, **files}, links=links)


def read(files: Mapping[str, str], links: Mapping[str, str]) -> Machine:
    return discover(tree_of(snapshot_of(files, links)))


def test_a_disk_is_where_its_controller_is_and_partitions_are_not_listed() -> None:
    disk = f"{PCI}/host0/target0:0:0/0:0:0:0/block/sda"
    machine = read(
        {
            f"{PCI}/numa_node": "1",
            f"{PCI}/local_cpulist": "2-3",
            f"{PCI}/class": "0x010601",
            f"{disk}/dev": "8:0",
            f"{disk}/sda1/dev": "8:1",
        },
        {
            "sys/class/block/sda": disk,
            "sys/class/block/sda1": f"{disk}/sda1",
            "sys/class/block/loop0": "sys/devices/virtual/block/loop0",
            "sys/bus/pci/devices/0000:00:02.0": PCI,
        },
    )
    assert [(device.kind, device.name) for device in machine.devices] == [
        ("block", "sda"),
        ("pci", "0000:00:02.0"),
    ]
    assert {device.numa_node for device in machine.devices} == {1}
    assert {str(device.cpus) for device in machine.devices} == {"2-3"}
    assert machine.devices[0].path == disk.removeprefix("sys/")


@pytest.mark.parametrize(
    ("files", "node", "cpus"),
    [
        pytest.param({"numa_node": "1", "local_cpulist": "2-3"}, 1, "2-3", id="node and cpus"),
        pytest.param({"numa_node": "-1", "local_cpulist": "0-3"}, None, "", id="nothing known"),
        pytest.param({"numa_node": "-1", "local_cpulist": "0-1"}, None, "0-1", id="cpus alone"),
        pytest.param({"numa_node": "0"}, 0, "", id="node alone"),
        pytest.param({"local_cpus": "0000000c"}, None, "2-3", id="a mask of an old kernel"),
        pytest.param({"numa_node": "9", "local_cpulist": "2-3"}, None, "2-3", id="a false node"),
        pytest.param({"numa_node": "1", "local_cpulist": "2-9"}, 1, "2-3", id="offline cpus"),
        pytest.param({"numa_node": "?", "local_cpulist": "x"}, None, "", id="unreadable files"),
    ],
)
def test_a_place_is_what_the_kernel_says_and_no_more(
    files: dict[str, str], node: int | None, cpus: str
) -> None:
    base = {f"{PCI}/{name}": text for name, text in files.items()}
    machine = read({**base, f"{PCI}/class": "0x020000"}, {"sys/bus/pci/devices/0000:00:02.0": PCI})
    (device,) = machine.devices
    assert (device.numa_node, str(device.cpus)) == (node, cpus)


@pytest.mark.parametrize(
    ("code", "is_listed"),
    [
        ("0x020000", True),
        ("0x0c0600", True),
        ("0x120000", True),
        ("0x060400", False),
        ("0x0c0330", False),
        ("", False),
        ("junk", False),
    ],
)
def test_pci_devices_that_workloads_use_are_listed(code: str, is_listed: bool) -> None:
    machine = read({f"{PCI}/class": code}, {"sys/bus/pci/devices/0000:00:02.0": PCI})
    assert bool(machine.devices) is is_listed


def test_devices_go_round_through_a_generated_tree() -> None:
    devices = (
        IoDevice(
            path="devices/pci0000:00/0000:00:03.0/net/eth0",
            kind="net",
            name="eth0",
            numa_node=NumaNodeId(1),
            cpus=CpuSet.parse("2-3"),
        ),
        IoDevice(path="devices/pci0000:00/0000:00:04.0", kind="pci", name="0000:00:04.0"),
    )
    machine = dataclasses.replace(machine_from_spec("socket:2 core:2"), devices=devices)
    assert discover(tree_of(machine_snapshot(machine))) == machine
