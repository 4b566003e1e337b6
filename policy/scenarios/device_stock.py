"""Devices of a simulated machine, handed out to containers as device plugins and drivers do."""

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from ...topology.model.machine import IoDevice
from ...topology.sets.cpuset import NO_NODES, NodeSet
from ..annotations.annotation_values import is_resource
from ..annotations.preferences import parse_preferences
from ..model.container import Container
from ..model.hint import Hint, HintOrigin
from ..text.errors import Problem

NVIDIA: Final = "gpu"
"""What the names of devices begin with whose files are those of NVIDIA's driver."""
_NODE: Final = "node"
"""The pool of devices that a driver offers on a node."""
_FIX: Final = "configure 'agent.podResourceAPI: true'"
_NUMBERS: Final = re.compile(r"(\d+)")


class DeviceStock:
    """The devices by resource, and who has which; the first that is free is given out.

    A container keeps its devices over its restarts, as with the kubelet. The hints are those that
    the kubelet tells: one for each device whose NUMA node is known.
    """

    def __init__(
        self, devices: Sequence[IoDevice], names: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        """`names`: the names of devices by resource, or patterns of the shell.

        Of any other resource the last word counts: devices of `example.com/gpu` are `gpu0`, `gpu1`.
        """
        self._devices = sorted(devices, key=_natural)
        self._names = names or {}
        self._holders: dict[str, str] = {}
        self._missing: dict[str, str] = {}

    def equipped(
        self, container: Container, wanted: Mapping[str, int], *, tells_places: bool
    ) -> tuple[Container, tuple[Problem, ...]]:
        """The container with hints of the devices it wants, and advice where they say nothing.

        `tells_places`: whether the node's configuration asks the kubelet for devices.
        """
        hints: list[Hint] = []
        problems: list[Problem] = []
        for resource, count in wanted.items():
            taken = self._take(container, resource, count, problems)
            hints.extend(_hints(resource, taken))
        if hints and not tells_places:
            what = "the places of the kubelet's devices do not count on this node"
            problems.append(_advice(container, ", ".join(wanted), what, _FIX))
            hints = []
        return structs.replace(container, hints=(*container.hints, *hints)), tuple(problems)

    def claimed(
        self, container: Container, claims: Mapping[str, int], gpus: Sequence[int] = ()
    ) -> tuple[Container, tuple[Problem, ...]]:
        """The container with hints of devices that it claims, and of those whose files it has.

        `claims`: their numbers by resource; `gpus`: by the numbers of NVIDIA's files. The metadata
        of claims tell where devices are, on every node.
        """
        hints: list[Hint] = []
        problems: list[Problem] = []
        for resource, count in claims.items():
            for one in self._take(container, resource, count, problems):
                hints.append(claim_hint(resource, one))
        for number in gpus:
            found = [one for one in self._devices if one.name == f"{NVIDIA}{number}"]
            hints.extend(_located(one, HintOrigin.DEVICE) for one in found)
        return structs.replace(container, hints=(*container.hints, *hints)), tuple(problems)

    def beside(self, container: Container) -> tuple[Container, tuple[Problem, ...]]:
        """The container with hints of the device that it wants to be near, whoever has that.

        The devices of a resource that it names are its own, which have their hints.
        """
        device = parse_preferences(container).near_device
        if device is None or is_resource(device) or not self._devices:
            return container, ()
        found = [one for one in self._devices if device in _names_of(one)]
        hints = tuple(replace(_located(one, HintOrigin.NAMED), path=device) for one in found)
        if not hints:
            what = "the machine has no such device: placed as without it"
            return container, (_advice(container, f"near-device {device}", what),)
        return structs.replace(container, hints=(*container.hints, *hints)), ()

    def _take(
        self, container: Container, resource: str, count: int, problems: list[Problem]
    ) -> Sequence[IoDevice]:
        every = list(self._of(resource))
        free = [one for one in every if one.path not in self._holders]
        if not every:
            what = "the machine has no such devices: placed as if there were none"
            problems.append(_advice(container, resource, what))
        elif len(free) < count:
            reason = f"{resource}: wanted {count}, available {len(free)}"
            self._missing[container.path] = f"the kubelet has too few devices — {reason}"
        else:
            self._holders.update((one.path, container.path) for one in free[:count])
            return free[:count]
        return ()

    def adopt(self, container: Container) -> None:
        """Count devices to a container that runs: the first free ones where its hints point.

        Of its devices no more is known than the hints that it got from them.
        """
        for hint in container.hints:
            if hint.origin is HintOrigin.POD_RESOURCES:
                for one in self._of(hint.provider.partition(":")[2]):
                    if one.numa_node in hint.numa_nodes and one.path not in self._holders:
                        self._holders[one.path] = container.path
                        break

    def missing(self, path: str) -> str:
        """The reason why a container cannot start for want of devices; empty where it has all."""
        return self._missing.get(path, "")

    def release(self, path: str) -> None:
        """Take back the devices of a container, named `namespace/pod/container`."""
        self._missing.pop(path, None)
        self._holders = {device: one for device, one in self._holders.items() if one != path}

    def release_pod(self, namespace: str, name: str) -> None:
        """Take back the devices of all containers of a pod."""
        start = f"{namespace}/{name}/"
        for path in {*self._holders.values(), *self._missing}:
            if path.startswith(start):
                self.release(path)

    def _of(self, resource: str) -> Iterator[IoDevice]:
        patterns = self._names.get(resource)
        word = resource.rpartition("/")[2]
        for one in self._devices:
            if patterns is None:
                number = one.name.removeprefix(word)
                if number != one.name and number.isascii() and number.isdigit():
                    yield one
            elif any(fnmatch.fnmatchcase(one.name, pattern) for pattern in patterns):
                yield one


def _hints(resource: str, devices: Sequence[IoDevice]) -> Iterator[Hint]:
    for one in devices:
        if one.numa_node is not None:
            yield Hint(
                provider=f"podresourceapi:{resource}",
                origin=HintOrigin.POD_RESOURCES,
                numa_nodes=NodeSet.of(one.numa_node),
            )


def claim_hint(resource: str, device: IoDevice) -> Hint:
    """The hint of a device by the metadata that its driver mounts.

    Of a device on the PCI bus they tell the address, of others the NUMA node.
    """
    if device.kind == "pci":
        return _located(device, HintOrigin.CLAIM)
    return Hint(
        provider=f"claim:{'/'.join(claimed_name(resource, device))}",
        origin=HintOrigin.CLAIM,
        numa_nodes=_node_of(device),
    )


def claimed_name(resource: str, device: IoDevice) -> tuple[str, str, str]:
    """The driver, the pool and the name by which a claim knows a device."""
    return resource.partition("/")[0], _NODE, device.name


def _names_of(device: IoDevice) -> tuple[str, ...]:
    """Names by which a pod may call a device: of its file, of its folder, on the PCI bus."""
    file = device.name
    if device.kind == "pci":
        file = device.name.replace(NVIDIA, "nvidia")
    return f"/dev/{file}", f"/sys/{device.path}", device.name


def _located(device: IoDevice, origin: HintOrigin) -> Hint:
    folder = f"/sys/{device.path}"
    return Hint(
        provider=folder,
        origin=origin,
        device=folder,
        cpus=device.cpus,
        numa_nodes=_node_of(device),
    )


def _node_of(device: IoDevice) -> NodeSet:
    return NO_NODES if device.numa_node is None else NodeSet.of(device.numa_node)


def _advice(container: Container, resource: str, what: str, fix: str = "") -> Problem:
    return Problem(where=f"{resource} of {container.path}", what=what, fix=fix, is_advice=True)


def _natural(device: IoDevice) -> tuple[list[tuple[int, str]], str]:
    """Names with numbers in the order of the numbers: gpu2 before gpu10."""
    parts = _NUMBERS.split(device.name)
    return [(int(one), "") if one.isdigit() else (-1, one) for one in parts], device.path
