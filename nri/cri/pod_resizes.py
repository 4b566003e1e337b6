"""Resizes of whole pods on their way to the runtime, which may fail or never be heard of again."""

from collections.abc import Iterable
from typing import Final

from ...policy.model.container import Pod, PodId, Resources
from ...policy.model.kubelet_resources import LinuxResources, estimate, merge
from ..dispatch.answer import Answer
from ..dispatch.events import Events
from ..dispatch.pod_updates import resize_pod

_PODS_MAX: Final = 4096


class SizedPods:
    """Pods of sandboxes, and the cgroup values they were created with; those that came last.

    For the loop's thread.
    """

    def __init__(self) -> None:
        self._known: dict[PodId, tuple[Pod, LinuxResources]] = {}

    def note(self, pod: Pod, created: LinuxResources) -> None:
        """A pod is there, with these values of its own."""
        self._known.pop(pod.id, None)
        self._known[pod.id] = pod, created
        if len(self._known) > _PODS_MAX:
            del self._known[next(iter(self._known))]

    def is_known(self, pod_id: PodId) -> bool:
        """Whether a pod was noted."""
        return pod_id in self._known

    def forget(self, pod_id: PodId) -> Pod | None:
        """The pod of a sandbox that is gone; None where it was not noted."""
        pod, _ = self._known.pop(pod_id, (None, None))
        return pod

    def resize(self, pod_id: PodId, update: LinuxResources) -> "PodResize | None":
        """A pod and its size after an update, which leaves some values; None if it is unknown."""
        known = self._known.get(pod_id)
        if known is None:
            return None
        pod, created = known
        return PodResize(pod, estimate(merge(created, update), pod.qos, None))


class PodResize:
    """A size that a pod is to have, from the question to the runtime until its answer."""

    def __init__(self, pod: Pod, size: Resources) -> None:
        self.pod = pod
        self.size = size


class PodResizes:
    """Resizes of pods under way; each method is called in a turn of the owner's.

    A pod has the largest of all sizes that it may have at present: so nobody else gets cpus that it
    may still need, and there is room for the old size whatever the runtime says.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self._under_way: dict[PodId, _UnderWay] = {}

    def begin(self, resize: PodResize) -> Answer:
        """The runtime is to be asked for a size; a refusal changes nothing, and is the end."""
        pod = resize.pod
        known = self._under_way.get(pod.id)
        if known is None:
            known = _UnderWay(self._events.policy.pod_size(pod))
        answer = self._hold(pod, known, [*known.open, resize])
        if not answer.refusal:
            known.open.append(resize)
            self._under_way[pod.id] = known
        return answer

    def end(self, resize: PodResize, *, is_done: bool) -> None:
        """The runtime took a size; or it did not, as far as its caller knows, who asks again."""
        pod = resize.pod
        known = self._under_way.get(pod.id)
        if known is None or resize not in known.open:
            # It was refused after its caller had stopped waiting.
            return
        known.open.remove(resize)
        if not known.open:
            del self._under_way[pod.id]
        if is_done:
            known.settled = resize.size
        self._hold(pod, known, known.open)

    def _hold(self, pod: Pod, known: "_UnderWay", resizes: Iterable[PodResize]) -> Answer:
        size = known.settled
        if size is None:
            # It has no size of its own yet, and so no pen that could change.
            return Answer()
        for one in resizes:
            size = size.covering(one.size)
        return resize_pod(self._events, pod, size)


class _UnderWay:
    """The size of a pod that its runtime has, None where that is unknown, and those asked for."""

    def __init__(self, settled: Resources | None) -> None:
        self.settled = settled
        self.open: list[PodResize] = []
