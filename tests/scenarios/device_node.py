"""Devices of a scenario's machine as its node shows them, to a daemon that looks.

Below one folder: sysfs, what NVIDIA's driver tells, and the metadata that drivers of claims mount;
and the kubelet's socket, which lists who has what.
"""

# The stubs of grpc leave the types of handlers open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from pinfold.cmd.daemon.hint_sources import find_hint_sources
from pinfold.nri.api import podresources_pb2 as api
from pinfold.nri.embedded.claim_driver import metadata_folders
from pinfold.nri.hints.combined_hints import CombinedHints
from pinfold.nri.hints.hint_finder import FoundHints
from pinfold.nri.hints.pod_resources import KUBELET_SOCKET
from pinfold.policy.annotations.cpu_claims import CLAIM_PREFIX
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId
from pinfold.policy.model.cpuset_conflicts import NO_MANAGERS
from pinfold.policy.model.hint import Hint
from pinfold.policy.scenarios.device_stock import NVIDIA, DeviceStock
from pinfold.policy.scenarios.scenario_file import Topology
from pinfold.topology.made.snapshot import SysfsSnapshot
from pinfold.topology.model.machine import IoDevice
from tests.unit.nri.hints.pod_resources_service import serve_pod_resources
from tests.unit.topology.made.machine_files import machine_snapshot, write_tree

SECONDS = 10.0


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a kubelet and for files however busy the machine is."""
    for name in (
        *("hint_probe._PATIENCE_SECONDS", "combined_hints._COLLECT_SECONDS"),
        *("pod_resources._GET_SECONDS", "pod_resources._LIST_SECONDS"),
    ):
        monkeypatch.setattr(f"pinfold.nri.hints.{name}", SECONDS)


class PatientFinder:
    """Finds hints as the daemon does, and waits for them."""

    def __init__(self, surroundings: CombinedHints) -> None:
        self._surroundings = surroundings
        self.close = surroundings.close
        self.expect = surroundings.expect
        self.looks = surroundings.looks

    def find(self, container: Container, *, with_kubelet: bool, seconds: float) -> FoundHints:
        return self._surroundings.find(container, with_kubelet=with_kubelet, seconds=SECONDS)

    def find_all(
        self, containers: Sequence[Container], *, with_kubelet: bool, seconds: float
    ) -> FoundHints:
        found = self._surroundings.find_all
        return found(containers, with_kubelet=with_kubelet, seconds=SECONDS)


class DeviceNode:
    """A node with the devices of a topology, until `close`."""

    def __init__(self, topology: Topology) -> None:
        machine = topology.machine
        # The path of a socket is short.
        self.root = Path(tempfile.mkdtemp(prefix="pinfold-"))
        self._addresses = {
            one.name: f"0000:{number:02x}:00.0"
            for number, one in enumerate(machine.devices)
            if one.kind == "pci"
        }
        base = machine_snapshot(machine)
        # The machine itself is known: of its many files only those of devices are looked at.
        files = {path: text for path, text in base.files.items() if _is_of_device(path)}
        links = {path: place for path, place in base.links.items() if _is_of_device(place)}
        snapshot = SysfsSnapshot(
            files={**files, **dict(self._driver_files(machine.devices))},
            links={**links, **dict(self._bus_links(machine.devices))},
            folders=frozenset({"sys/devices/system/cpu/cpu0"}),
        )
        write_tree(snapshot, str(self.root))
        self.managers = NO_MANAGERS
        """The kubelet's, which tells of what they gave."""
        self._machine = machine
        self._stock = DeviceStock(machine.devices, topology.devices)
        self._pods: dict[tuple[str, str], api.PodResources] = {}
        self._server = grpc.server(ThreadPoolExecutor(max_workers=2))
        self._serve()

    def finder(self, environment: Mapping[str, str]) -> PatientFinder:
        """What a daemon looks for devices with, on this node."""
        return PatientFinder(find_hint_sources(str(self.root), environment))

    def close(self) -> None:
        """End the kubelet, and remove all files."""
        self._server.stop(None).wait(SECONDS)
        shutil.rmtree(self.root)

    def admit(self, pod: PodSpec) -> None:
        """Give the containers of a pod the devices that they ask for, init containers first."""
        told = self._pods[pod.namespace, pod.name] = api.PodResources(
            namespace=pod.namespace, name=pod.name
        )
        for spec in (*pod.init_containers, *pod.containers):
            container = Container(
                id=ContainerId(spec.name),
                name=spec.name,
                pod=Pod(id=PodId(pod.name), name=pod.name, namespace=pod.namespace),
            )
            one = told.containers.add(name=spec.name)
            for resource, count in spec.devices.items():
                given, _ = self._stock.equipped(container, {resource: count}, tells_places=True)
                one.devices.extend(_listed(resource, hint) for hint in given.hints)
            for resource, count in spec.claims.items():
                given, _ = self._stock.claimed(container, {resource: count})
                self._describe(container, resource, given.hints)
                one.dynamic_resources.add(
                    claim_name=spec.name,
                    claim_namespace=pod.namespace,
                    claim_resources=[api.ClaimResource(driver_name=resource.partition("/")[0])],
                )
            self._tell_managers(spec, one, pod.namespace)
            if not spec.keeps_running:
                self._stock.release(container.path)

    def forget(self, namespace: str, pod: str) -> None:
        """Take the devices of a pod back."""
        self._stock.release_pod(namespace, pod)
        del self._pods[namespace, pod]

    def _tell_managers(
        self, spec: ContainerSpec, told: api.ContainerResources, namespace: str
    ) -> None:
        claims = [one for one in spec.environment if one.startswith(CLAIM_PREFIX)]
        if claims:
            driver = api.ClaimResource(driver_name="dra.cpu")
            told.dynamic_resources.add(
                claim_name=spec.name, claim_namespace=namespace, claim_resources=[driver]
            )
        elif spec.placed_on is not None and self.managers.cpu:
            told.cpu_ids.extend(spec.placed_on)
        if spec.placed_on is not None and not claims and self.managers.memory:
            nodes = [
                api.NUMANode(ID=one.id)
                for one in self._machine.numa_nodes
                if one.cpus & spec.placed_on
            ]
            told.memory.add(memory_type="memory", topology=api.TopologyInfo(nodes=nodes))

    def _describe(self, container: Container, resource: str, hints: Iterable[Hint]) -> None:
        """Write what a driver says of the devices of a claim."""
        folder, _ = metadata_folders(
            container.pod.namespace, container.pod.name, container.name, resource
        )
        devices: list[object] = []
        value: Mapping[str, str | int]
        for hint in hints:
            found = {
                "driver": resource.partition("/")[0],
                "pool": "node",
                "name": hint.provider.rpartition("/")[2],
            }
            if (address := self._addresses.get(found["name"])) is not None:
                where, value = "pciBusID", {"string": address}
            else:
                (node,) = hint.numa_nodes
                where, value = "numaNode", {"int": node}
            devices.append({**found, "attributes": {f"resource.kubernetes.io/{where}": value}})
        document = {
            "apiVersion": "metadata.resource.k8s.io/v1alpha1",
            "kind": "DeviceMetadata",
            "requests": [{"name": "devices", "devices": devices}],
        }
        place = self.root / folder.lstrip("/")
        place.mkdir(parents=True)
        (place / "metadata.json").write_text(json.dumps(document))

    def _driver_files(self, devices: Iterable[IoDevice]) -> Iterator[tuple[str, str]]:
        for one in devices:
            number = one.name.removeprefix(NVIDIA)
            if one.name in self._addresses and number.isdigit():
                address = self._addresses[one.name]
                path = f"proc/driver/nvidia/gpus/{address}/information"
                yield (
                    path,
                    f"Model: \t\t NVIDIA L4\nDevice Minor: \t {number}\n",
                )

    def _bus_links(self, devices: Iterable[IoDevice]) -> Iterator[tuple[str, str]]:
        for one in devices:
            if one.name in self._addresses:
                yield f"sys/bus/pci/devices/{self._addresses[one.name]}", f"sys/{one.path}"

    def _serve(self) -> None:
        socket = self.root / KUBELET_SOCKET.lstrip("/")
        socket.parent.mkdir(parents=True)
        serve_pod_resources(self._server, str(socket), self._list, self._get)

    def _list(self, request: api.ListPodResourcesRequest, context: grpc.ServicerContext) -> object:
        return api.ListPodResourcesResponse(pod_resources=self._pods.values())

    def _get(self, request: api.GetPodResourcesRequest, context: grpc.ServicerContext) -> object:
        found = self._pods[request.pod_namespace, request.pod_name]
        return api.GetPodResourcesResponse(pod_resources=found)


def _is_of_device(path: str) -> bool:
    return not path.startswith("sys/devices/system/")


def _listed(resource: str, hint: Hint) -> api.ContainerDevices:
    nodes = [api.NUMANode(ID=one) for one in hint.numa_nodes]
    return api.ContainerDevices(
        resource_name=resource, device_ids=["x"], topology=api.TopologyInfo(nodes=nodes)
    )
