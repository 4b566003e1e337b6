"""Devices by name, NVIDIA's by their minor, and devices of claims by their drivers' metadata."""

import json

import pytest
from msgspec.structs import replace

from pinfold.nri.hints.claim_metadata import ClaimedDevice, claimed_devices
from pinfold.nri.hints.device_hints import DeviceHints
from pinfold.nri.hints.hint_probe import HintProbe
from pinfold.policy.model.container import Container, ContainerId, Device, Mount, Pod, PodId
from pinfold.policy.model.hint import Hint, HintOrigin
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from pinfold.topology.sysfs.sysfs_tree import SysfsTree
from tests.unit.nri.hints.test_device_hints import FAR, FILES, LINKS, NEAR, NVME, tree

GPUS = "proc/driver/nvidia/gpus"
INFORMATION = "Model: \t\t A100\nIRQ:   \t\t 77\nDevice Minor: \t {}\n"
PLUGIN = "/var/lib/kubelet/plugins/gpu.example.com/dra-device-metadata/ns_c/r"
SECONDS = 20.0
BARE = Container(id=ContainerId("c"), name="c", pod=Pod(id=PodId("p"), name="p"))


def machine() -> SysfsTree:
    files = {
        **FILES,
        f"{GPUS}/0000:80:02.0/information": INFORMATION.format(1),
        f"{GPUS}/0000:00:02.0/information": INFORMATION.format(0),
    }
    links = {
        **LINKS,
        "sys/bus/pci/devices/0000:00:02.0": NEAR,
        "sys/bus/pci/devices/0000:80:02.0": FAR,
        "sys/class/block/sda": f"{NEAR}/ata1/block/sda",
        "sys/class/nvme/nvme1": NVME,
    }
    return tree(files, links)


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        pytest.param("0000:80:02.0", FAR, id="an address on the PCI bus"),
        pytest.param("/dev/sda", NEAR, id="a disk"),
        pytest.param("/dev/nvme1", FAR, id="a character device, by its class"),
        pytest.param("/sys/class/block/sda", NEAR, id="a path in sysfs"),
        pytest.param("/dev/nvidia1", FAR, id="a GPU that sysfs does not list"),
        pytest.param("/dev/nvidia7", None, id="a GPU that is not there"),
        pytest.param("/dev/sdz", None, id="a disk that is not there"),
        pytest.param("/etc/passwd", None, id="what is no device"),
    ],
)
def test_a_device_is_found_by_name(name: str, folder: str | None) -> None:
    found = DeviceHints(machine(), lambda _: None).near(name)
    assert [one.provider for one in found] == ([] if folder is None else [f"/{folder}"])
    assert all(one.origin is HintOrigin.NAMED and one.path == name for one in found)


def test_a_gpu_of_nvidia_is_a_device_like_any_other() -> None:
    gpu = Device(path="/dev/nvidia0", major=195, minor=0)
    control = Device(path="/dev/nvidiactl", major=195, minor=255)
    (hint,) = DeviceHints(machine(), lambda _: None).hints(replace(BARE, devices=(gpu, control)))
    assert (hint.provider, hint.numa_nodes) == (f"/{NEAR}", NodeSet.of(0))


@pytest.fixture(autouse=True)
def fixture_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes until a thread gets a processor."""
    monkeypatch.setattr("pinfold.nri.hints.hint_probe._PATIENCE_SECONDS", SECONDS)


METADATA = {
    "apiVersion": "metadata.resource.k8s.io/v1alpha1",
    "kind": "DeviceMetadata",
    "requests": [
        {
            "name": "r",
            "devices": [
                {
                    "driver": "gpu.example.com",
                    "pool": "node-1",
                    "name": "gpu-0",
                    "attributes": {"resource.kubernetes.io/numaNode": {"int": 1}},
                },
                {
                    "driver": "nic.example.com",
                    "name": "nic-0",
                    "attributes": {
                        "resource.kubernetes.io/pciBusID": {"string": "0000:00:02.0"},
                        "vendor": {"string": "x"},
                    },
                },
                {"name": "silent", "attributes": {"numaNode": {"string": "x"}}},
            ],
        }
    ],
}


def test_the_metadata_of_a_claim_gives_hints() -> None:
    files = {f"{PLUGIN}/metadata.json": json.dumps(METADATA).encode()}
    mount = Mount(
        source=PLUGIN, destination="/var/run/dra-device-attributes/c/r/", is_read_only=True
    )
    probe = HintProbe(machine(), lambda _: None, read_file=files.get)
    view = probe.look((replace(BARE, mounts=(mount,)),), SECONDS)
    assert view.missing == []
    assert view.hints[BARE.id] == (
        Hint(
            provider="claim:gpu.example.com/node-1/gpu-0",
            origin=HintOrigin.CLAIM,
            numa_nodes=NodeSet.of(1),
        ),
        Hint(
            provider=f"/{NEAR}",
            origin=HintOrigin.CLAIM,
            device=f"/{NEAR}",
            cpus=CpuSet.parse("0-1"),
            numa_nodes=NodeSet.of(0),
        ),
    )


@pytest.mark.parametrize("text", ["", "[", "{}", "[[[]]]", '{"attributes": []}', "[" * 5000, "3"])
def test_metadata_that_says_nothing_gives_none(text: str) -> None:
    assert claimed_devices(text) == ()


def test_attributes_may_be_plain() -> None:
    (found,) = claimed_devices('{"name": "a", "attributes": {"numaNode": 3}}')
    assert found == ClaimedDevice(name="a", numa_node=3)


def test_a_named_device_that_is_nowhere_is_told() -> None:
    pod = Pod(id=PodId("p"), name="p", annotations={"near-device.pinfold.dev": "/dev/sdz"})
    view = HintProbe(machine(), lambda _: None).look((replace(BARE, pod=pod),), SECONDS)
    (missing,) = view.missing
    assert missing.what.startswith("default/p/c: nothing tells where device '/dev/sdz' is")
