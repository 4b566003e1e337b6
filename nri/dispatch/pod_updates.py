"""Resizes of whole pods, as a runtime announces them."""

from ...policy.model.container import Pod, Resources
from ...policy.model.grant import Refusal
from ...policy.model.kubelet_resources import LinuxResources, estimate
from ...policy.model.pinning import Change
from .answer import Answer
from .events import Events


def update_pod(events: Events, pod: Pod, wanted: LinuxResources) -> Answer:
    """Change the size of a pod, in a turn of the owner's; containers that change are told.

    The runtime asks before it resizes the pod, and once more with the old size where something
    behind that failed: then everything is undone. A pod without an id is passed over.
    """
    if not pod.id:
        return Answer()
    return resize_pod(events, pod, estimate(wanted, pod.qos, None))


def resize_pod(events: Events, pod: Pod, size: Resources) -> Answer:
    """Give a pod this size; containers that change are told."""

    def resize() -> tuple[Refusal | None, tuple[Change, ...]]:
        resized = events.policy.resize_pod(pod, size)
        return (resized, ()) if isinstance(resized, Refusal) else (None, resized)

    refusal, changes = events.moves.kept(events.policy.of_pod(pod.id), resize)
    events.adjust("resize of a pod", changes)
    return Answer() if refusal is None else Answer(refusal=refusal.reason)
