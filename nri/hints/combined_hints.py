"""All sources of hints together: mounts and devices, the kubelet, annotations of tests."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final

from ...policy.annotations.annotation_values import HintSource
from ...policy.annotations.preferences import parse_preferences
from ...policy.hints.hint_text import annotated_hints
from ...policy.model.container import Container, ContainerId, Pod
from ...policy.model.hint import Hint
from ...policy.text.errors import Problem
from ..dispatch.report import HintsMissing
from .hint_finder import FoundHints
from .hint_probe import HintProbe, ProbedHints, is_interesting
from .kubelet_hints import HintsByName, KubeletHints, container_hints
from .pod_resources import PodResourcesError

_NOTHING: Final = FoundHints()
_COLLECT_SECONDS: Final = 0.005
"""The kubelet was asked when the pod began, so its answer is there, or it is slow."""


class CombinedHints:
    """Finds hints from whatever sources there are; see `HintFinder`."""

    def __init__(
        self,
        probe: HintProbe | None = None,
        kubelet: KubeletHints | None = None,
        *,
        has_test_hints: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`has_test_hints`: whether `test.topologyhints` annotations count."""
        self._probe = probe
        self._kubelet = kubelet
        self._has_test_hints = has_test_hints
        self._clock = clock
        self._told_cause = ""

    def expect(self, pod: Pod) -> None:
        """A pod begins: ask the kubelet about its containers. Does not wait."""
        if self._kubelet is not None:
            self._kubelet.expect(pod)

    def looks(self, container: Container, *, with_kubelet: bool) -> bool:
        """Whether anybody is to be asked: about most containers without devices nobody is."""
        return with_kubelet or self._has_test_hints or is_interesting(container)

    def find(self, container: Container, *, with_kubelet: bool, seconds: float) -> FoundHints:
        """The hints of a container that is about to be placed."""
        if not self.looks(container, with_kubelet=with_kubelet):
            return _NOTHING
        view = self._look((container,), seconds)
        if with_kubelet and self._kubelet is not None and _asks_kubelet(container):
            try:
                found = self._kubelet.hints(container, min(_COLLECT_SECONDS, seconds))
            except PodResourcesError as error:
                view.missing.extend(self._complaint(error))
            except TimeoutError:
                view.missing.append(_late(container.path, 1))
            else:
                self._told_cause = ""
                view.hints[container.id] = (*view.hints.get(container.id, ()), *found)
        return self._completed((container,), view)

    def find_all(
        self, containers: Sequence[Container], *, with_kubelet: bool, seconds: float
    ) -> FoundHints:
        """The hints of containers that run."""
        until = self._clock() + seconds
        those = [one for one in containers if with_kubelet and _asks_kubelet(one)]
        answer: Future[HintsByName] | None = None
        if those and self._kubelet is not None:
            answer = self._kubelet.ask_for_all(one.pod for one in those)
        view = self._look(containers, seconds)
        if answer is not None:
            try:
                every = answer.result(max(0.0, until - self._clock()))
            except PodResourcesError as error:
                view.missing.extend(self._complaint(error))
            except TimeoutError:
                view.missing.append(_late("the containers that run", len(those)))
            else:
                self._told_cause = ""
                for one in those:
                    found = container_hints(one, every)
                    view.hints[one.id] = (*view.hints.get(one.id, ()), *found)
        return self._completed(containers, view)

    def close(self) -> None:
        """Let go of the kubelet."""
        if self._kubelet is not None:
            self._kubelet.close()

    def _look(self, containers: Sequence[Container], seconds: float) -> ProbedHints:
        return ProbedHints() if self._probe is None else self._probe.look(containers, seconds)

    def _completed(self, containers: Sequence[Container], view: ProbedHints) -> FoundHints:
        if self._kubelet is not None:
            view.missing.extend(HintsMissing(one, 0) for one in self._kubelet.take_warnings())
        problems: dict[ContainerId, tuple[Problem, ...]] = {}
        for container in containers if self._has_test_hints else ():
            hints, found = annotated_hints(container)
            known: tuple[Hint, ...] = view.hints.get(container.id, ())
            view.hints[container.id] = (*known, *hints)
            problems[container.id] = found
        return FoundHints(hints=view.hints, problems=problems, missing=tuple(view.missing))

    def _complaint(self, error: PodResourcesError) -> list[HintsMissing]:
        """Each cause is told once, until the kubelet answers again."""
        if error.cause == self._told_cause:
            return []
        self._told_cause = error.cause
        return [HintsMissing(str(error), 0)]


def _asks_kubelet(container: Container) -> bool:
    return HintSource.POD_RESOURCES in parse_preferences(container).hint_sources


def _late(who: str, containers: int) -> HintsMissing:
    return HintsMissing(
        f"{who}: the kubelet did not tell the devices in time, placed without"
        " — see whether the kubelet is overloaded",
        containers,
    )
