"""Devices of a simulated machine, handed out to containers as device plugins do."""

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ...topology.model.machine import IoDevice
from ...topology.sets.cpuset import NodeSet
from ..model.container import Container
from ..model.hint import Hint, HintOrigin
from ..text.errors import Problem

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
            every = list(self._of(resource))
            free = [one for one in every if one.path not in self._holders]
            if not every:
                what = "the machine has no such devices: placed as if there were none"
                problems.append(_advice(container, resource, what))
            elif len(free) < count:
                reason = f"{resource}: wanted {count}, available {len(free)}"
                self._missing[container.path] = f"the kubelet has too few devices — {reason}"
            else:
                taken = free[:count]
                self._holders.update((one.path, container.path) for one in taken)
                hints.extend(_hints(resource, taken))
        if hints and not tells_places:
            what = "the places of the kubelet's devices do not count on this node"
            problems.append(_advice(container, ", ".join(wanted), what, _FIX))
            hints = []
        return replace(container, hints=(*container.hints, *hints)), tuple(problems)

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


def _advice(container: Container, resource: str, what: str, fix: str = "") -> Problem:
    return Problem(where=f"{resource} of {container.path}", what=what, fix=fix, is_advice=True)


def _natural(device: IoDevice) -> tuple[list[tuple[int, str]], str]:
    """Names with numbers in the order of the numbers: gpu2 before gpu10."""
    parts = _NUMBERS.split(device.name)
    return [(int(one), "") if one.isdigit() else (-1, one) for one in parts], device.path
