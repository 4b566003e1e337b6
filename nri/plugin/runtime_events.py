"""The runtime's events: what each is called, whether we subscribe to it, and what it does.

Source: the NRI protocol, `pkg/api/api.proto`; the numbers are those of its `Event`.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ...policy.model.container import ContainerId, PodId
from ..api import nri_pb2
from ..dispatch.events import Events
from .container_reader import ContainerReader

Effect = Callable[[Events, ContainerReader, nri_pb2.PodSandbox, nri_pb2.Container], None]
"""What an event means whose answer says nothing, done in a turn of the policy's owner."""


class RuntimeEvent(NamedTuple):
    """One row of the table."""

    number: int
    method: str
    """The call of newer runtimes; older ones send most of them as StateChange."""
    is_wanted: bool
    """Whether we subscribe: every event costs each container's start some time."""
    is_answered: bool = False
    """Whether the answer says something, so that it is a call of its own everywhere."""
    effect: Effect | None = None


def _expect(
    events: Events, reader: ContainerReader, pod: nri_pb2.PodSandbox, _container: nri_pb2.Container
) -> None:
    events.policy.expect(reader.expect(pod, with_kubelet=events.asks_kubelet))


def _start(
    events: Events, reader: ContainerReader, pod: nri_pb2.PodSandbox, container: nri_pb2.Container
) -> None:
    events.start(reader.mention(pod, container, with_kubelet=events.asks_kubelet))


def _remove(
    events: Events, _reader: ContainerReader, _pod: nri_pb2.PodSandbox, container: nri_pb2.Container
) -> None:
    events.post(events.remove(ContainerId(container.id)))


def _stop_pod(
    events: Events, _reader: ContainerReader, pod: nri_pb2.PodSandbox, _container: nri_pb2.Container
) -> None:
    events.stop_pod(PodId(pod.id))


def _remove_pod(
    events: Events, _reader: ContainerReader, pod: nri_pb2.PodSandbox, _container: nri_pb2.Container
) -> None:
    events.remove_pod(PodId(pod.id), pod.uid)


# The mask cannot be changed while a connection lasts, so pods that begin are always told of: the
# configuration may want the kubelet asked about them from the next moment on.
EVENTS: Final = (
    RuntimeEvent(nri_pb2.RUN_POD_SANDBOX, "RunPodSandbox", is_wanted=True, effect=_expect),
    RuntimeEvent(nri_pb2.STOP_POD_SANDBOX, "StopPodSandbox", is_wanted=True, effect=_stop_pod),
    RuntimeEvent(
        nri_pb2.REMOVE_POD_SANDBOX, "RemovePodSandbox", is_wanted=True, effect=_remove_pod
    ),
    RuntimeEvent(nri_pb2.CREATE_CONTAINER, "CreateContainer", is_wanted=True, is_answered=True),
    RuntimeEvent(nri_pb2.POST_CREATE_CONTAINER, "PostCreateContainer", is_wanted=False),
    RuntimeEvent(nri_pb2.START_CONTAINER, "StartContainer", is_wanted=False, effect=_start),
    RuntimeEvent(nri_pb2.POST_START_CONTAINER, "PostStartContainer", is_wanted=True, effect=_start),
    RuntimeEvent(nri_pb2.UPDATE_CONTAINER, "UpdateContainer", is_wanted=True, is_answered=True),
    RuntimeEvent(nri_pb2.POST_UPDATE_CONTAINER, "PostUpdateContainer", is_wanted=False),
    RuntimeEvent(nri_pb2.STOP_CONTAINER, "StopContainer", is_wanted=True, is_answered=True),
    RuntimeEvent(nri_pb2.REMOVE_CONTAINER, "RemoveContainer", is_wanted=True, effect=_remove),
    RuntimeEvent(nri_pb2.UPDATE_POD_SANDBOX, "UpdatePodSandbox", is_wanted=False, is_answered=True),
)

# Bits above 0x7ff end the connection with older runtimes; none at all would mean every event.
EVENT_MASK: Final = sum(1 << (one.number - 1) for one in EVENTS if one.is_wanted)

POD_UPDATES: Final = 1 << (nri_pb2.UPDATE_POD_SANDBOX - 1)
"""The bit to add for runtimes that tell of the sizes of pods."""

NOTICES: Final[Mapping[str, RuntimeEvent]] = {
    one.method: one for one in EVENTS if not one.is_answered
}
"""Events whose answer says nothing, by method."""

STATE_CHANGES: Final[Mapping[int, RuntimeEvent]] = {
    one.number: one for one in EVENTS if not one.is_answered
}
"""Events that older runtimes send as StateChange, by number."""
