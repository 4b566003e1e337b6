"""Dialects of runtimes: how their versions differ, for the embedded one to speak as they do."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import Message

from ..api import nri_pb2

SPLIT_BYTES: Final = 4 << 20
"""Newer runtimes cut a Synchronize that is larger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The dialect of NRI that one version of a runtime speaks."""

    name: str = "containerd"
    version: str
    has_own_calls: bool
    """Whether every event is a call of its own; else most are sent as StateChange."""
    splits_synchronize: bool
    """Whether a large Synchronize comes in pieces; else as one message of any size."""
    tells_timeouts: bool
    nri_version: str = ""
    """The version of its NRI, where it tells that."""
    tells_pids: bool = True
    """Whether messages hold the process of a container that runs; else 0."""
    known_events: int = 0x7FF
    """The bits of events that a plugin may subscribe to; others end the connection."""
    updates_pods: bool = False
    """Whether it tells of a pod's new size (UpdatePodSandbox)."""

    @property
    def sets_memory_policies(self) -> bool:
        """Whether a plugin can set the memory policy of a new container: since NRI 0.12."""
        return bool(self.nri_version)


NEWEST: Final = Dialect(
    version="v2.4.0",
    has_own_calls=True,
    splits_synchronize=True,
    tells_timeouts=True,
    nri_version="v0.12.2",
    known_events=0x3FFF,
    updates_pods=True,
)


_FIELD_BYTES: Final = 16
"""More than the key and the length of a field take."""


def split_synchronize(
    pods: Iterable[nri_pb2.PodSandbox], containers: Iterable[nri_pb2.Container]
) -> list[nri_pb2.SynchronizeRequest]:
    """The pieces of a Synchronize, all but the last marked as such. Pods come first."""
    pieces = [nri_pb2.SynchronizeRequest()]
    size = 0

    def piece_for(one: Message) -> nri_pb2.SynchronizeRequest:
        nonlocal size
        size += one.ByteSize() + _FIELD_BYTES
        if size > SPLIT_BYTES:
            pieces[-1].more = True
            pieces.append(nri_pb2.SynchronizeRequest())
            size = one.ByteSize() + _FIELD_BYTES
        return pieces[-1]

    for pod in pods:
        piece_for(pod).pods.append(pod)
    for container in containers:
        piece_for(container).containers.append(container)
    return pieces


def write_resources(container: nri_pb2.Container, resources: nri_pb2.LinuxResources) -> None:
    """Set what is set; wrappers that hold 0 and empty texts leave things as they are."""
    target, source = container.linux.resources.cpu, resources.cpu
    if source.cpus:
        target.cpus = source.cpus
    if source.mems:
        target.mems = source.mems
    if source.shares.value:
        target.shares.value = source.shares.value
    if source.quota.value:
        target.quota.value = source.quota.value
    if source.period.value:
        target.period.value = source.period.value
    if resources.memory.limit.value:
        container.linux.resources.memory.limit.value = resources.memory.limit.value
