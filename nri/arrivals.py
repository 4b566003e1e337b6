"""The containers of the runtime's messages, with what they are near."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ..policy.container import Container, ContainerId
from ..policy.errors import Problem
from ..policy.resources import LinuxResources
from .api import nri_pb2
from .convert import container_linux_value, container_value, pod_value
from .dispatch.owner import Failed, attempt
from .happening import Crashed, Report
from .hintfinder import Found, HintFinder

FIND_SECONDS: Final = 0.05
"""In which what a new container is near must be found."""
_FIND_ALL_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """A container that is to be placed, what the kubelet wants for it, and what is odd about it."""

    container: Container
    linux: LinuxResources
    problems: tuple[Problem, ...] = ()


class Arrivals:
    """Reads containers, and has their hints found; without a finder they have none."""

    def __init__(
        self, finder: HintFinder | None, report: Report, machine_memory_bytes: int | None
    ) -> None:
        self.finder = finder
        self._report = report
        self._machine_memory_bytes = machine_memory_bytes

    def read(
        self,
        pod: nri_pb2.PodSandbox,
        message: nri_pb2.Container,
        *,
        with_kubelet: bool,
        seconds: float,
    ) -> Newcomer:
        """A new container with its hints, as far as they are found in time."""
        linux = container_linux_value(message)
        container, problems = container_value(
            message, pod_value(pod), linux, self._machine_memory_bytes
        )
        finder = self.finder
        if finder is not None:
            found = self._told(
                lambda: finder.find(container, with_kubelet=with_kubelet, seconds=seconds)
            )
            problems = (*problems, *found.problems.get(container.id, ()))
            container = replace(container, hints=found.hints.get(container.id, ()))
        return Newcomer(container=container, linux=linux, problems=problems)

    def with_hints(
        self,
        listed: list[Container],
        known: Mapping[ContainerId, Container],
        *,
        with_kubelet: bool,
    ) -> tuple[list[Container], Mapping[ContainerId, tuple[Problem, ...]]]:
        """Containers that run, with the hints they had or those found now, and what is odd."""
        finder = self.finder
        if finder is None:
            return listed, {}
        hints = {one.id: known[one.id].hints for one in listed if one.id in known}
        # What a container is near does not change while it runs.
        news = [one for one in listed if not hints.get(one.id)]
        found = Found()
        if news:
            found = self._told(
                lambda: finder.find_all(news, with_kubelet=with_kubelet, seconds=_FIND_ALL_SECONDS)
            )
        hints.update(found.hints)
        return [replace(one, hints=hints.get(one.id, ())) for one in listed], found.problems

    def _told(self, find: Callable[[], Found]) -> Found:
        """What is found, or nothing where there is a fault in finding; all of it is told."""
        result = attempt(find)
        if isinstance(result, Failed):
            self._report(Crashed("hints", result.error))
            return Found()
        for one in result.value.missing:
            self._report(one)
        return result.value
