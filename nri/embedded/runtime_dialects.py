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


_EVENTS_TO_POD_UPDATES: Final = 0x3FFF
"""Events of NRI 0.10 and later: updates of pods, and validation."""


CONTAINERD_1_7: Final = Dialect(
    version="v1.7.24", has_own_calls=False, splits_synchronize=False, tells_timeouts=False
)
CONTAINERD_2_1: Final = Dialect(
    version="v2.1.9", has_own_calls=False, splits_synchronize=True, tells_timeouts=True
)
CONTAINERD_2_3: Final = Dialect(
    version="v2.3.4",
    has_own_calls=True,
    splits_synchronize=True,
    tells_timeouts=True,
    nri_version="v0.12.0",
    known_events=_EVENTS_TO_POD_UPDATES,
    updates_pods=True,
)
NEWEST: Final = Dialect(
    version="v2.4.0",
    has_own_calls=True,
    splits_synchronize=True,
    tells_timeouts=True,
    nri_version="v0.12.2",
    known_events=_EVENTS_TO_POD_UPDATES,
    updates_pods=True,
)


def _crio(
    version: str, *, tells_pids: bool = True, has_own_calls: bool = False, nri_version: str = ""
) -> Dialect:
    """The dialect of a CRI-O since 1.34, which knows updates of pods and does not tell of both."""
    return Dialect(
        name="cri-o",
        version=version,
        has_own_calls=has_own_calls,
        splits_synchronize=True,
        tells_timeouts=True,
        nri_version=nri_version,
        tells_pids=tells_pids,
        known_events=_EVENTS_TO_POD_UPDATES,
        updates_pods=True,
    )


CRIO_1_34: Final = _crio("1.34.0", tells_pids=False)
CRIO_1_35: Final = _crio("1.35.0", tells_pids=False)
CRIO_1_36: Final = _crio("1.36.3")
CRIO_1_37: Final = _crio("1.37.0", has_own_calls=True, nri_version="v0.12.0")

DIALECTS: Final = (
    CONTAINERD_1_7,
    CONTAINERD_2_1,
    CONTAINERD_2_3,
    NEWEST,
    CRIO_1_34,
    CRIO_1_35,
    CRIO_1_36,
    CRIO_1_37,
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
