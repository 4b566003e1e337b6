"""The kubelet's hints, asked for ahead of the containers in a thread of their own."""

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from ...policy.model.container import Container, Pod, PodId
from ...policy.model.hint import Hint
from .pod_resources import ContainerName, PodResources, PodResourcesError

HintsByName = Mapping[ContainerName, tuple[Hint, ...]]

_PODS_MAX: Final = 2048


class KubeletHints:
    """Answers by pod: a pod's devices do not change, so its containers may start again."""

    def __init__(self, kubelet: PodResources) -> None:
        self._kubelet = kubelet
        self._pods: dict[PodId, Future[HintsByName]] = {}
        self._lock = threading.Lock()
        # gRPC is heavy, its answers slow, and one question at a time is what the kubelet likes.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kubelet")

    def expect(self, pod: Pod) -> Future[HintsByName]:
        """Ask about a pod; does not wait."""
        with self._lock:
            asked = self._pods.get(pod.id)
            if asked is None:
                asked = self._thread.submit(self._kubelet.hints, pod.namespace, pod.name)
                self._keep(pod.id, asked)
        return asked

    def hints(self, container: Container, seconds: float) -> tuple[Hint, ...]:
        """A container's hints. Raises `PodResourcesError`, and `TimeoutError` after so long."""
        try:
            found = self.expect(container.pod).result(seconds)
        except PodResourcesError:
            # The next container of this pod may have more luck.
            with self._lock:
                self._pods.pop(container.pod.id, None)
            raise
        return found.get(_name(container), ())

    def ask_for_all(self, pods: Iterable[Pod]) -> Future[HintsByName]:
        """Ask for all containers at once; does not wait. See `PodResources.all_hints`.

        The answer is kept for these pods, however late it comes: their containers may start again.
        """
        every = self._thread.submit(self._kubelet.all_hints)
        with self._lock:
            for pod in pods:
                known = self._pods.get(pod.id)
                if known is None or (known.done() and known.exception() is not None):
                    self._keep(pod.id, every)
        return every

    def take_warnings(self) -> list[str]:
        """Warnings of answers that hold no hint; see `PodResources`."""
        return self._kubelet.take_warnings()

    def close(self) -> None:
        """Let go of the kubelet; takes up to 3 s where it hangs."""
        self._thread.shutdown(cancel_futures=True)
        self._kubelet.close()

    def _keep(self, pod_id: PodId, answer: Future[HintsByName]) -> None:
        self._pods.pop(pod_id, None)
        while len(self._pods) >= _PODS_MAX:
            del self._pods[next(iter(self._pods))]
        self._pods[pod_id] = answer


def container_hints(container: Container, every: HintsByName) -> tuple[Hint, ...]:
    """A container's hints among those of all."""
    return every.get(_name(container), ())


def _name(container: Container) -> ContainerName:
    return ContainerName(container.pod.namespace, container.pod.name, container.name)
