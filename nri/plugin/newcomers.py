"""The containers of the runtime's messages, with what they are near."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from ...policy.model.container import Container, ContainerId, ContainerState, Pod
from ...policy.model.kubelet_resources import LinuxResources
from ...policy.text.errors import Problem
from ..api import nri_pb2
from ..dispatch.owner import Done, Failed, attempt
from ..dispatch.report import Crashed, Report
from ..hints.hint_finder import Found, HintFinder
from .bare_container import bare_container_value, bare_linux_value
from .messages import container_linux_value, container_value, lost_pod_value, pod_value

FIND_SECONDS: Final = 0.05
"""In which what a new container is near must be found."""
_FIND_ALL_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """A container that is to be placed, what the kubelet wants for it, and what is odd about it."""

    container: Container
    linux: LinuxResources
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Residents:
    """All containers of a runtime's list. Mappings are by container."""

    containers: tuple[Container, ...]
    linux: Mapping[ContainerId, LinuxResources]
    problems: Mapping[ContainerId, tuple[Problem, ...]]
    pids: Mapping[ContainerId, int]
    """Of those that run; 0 where the runtime does not tell."""
    unread: Mapping[ContainerId, Exception]
    """What went wrong with those that could not be read: all but their cpus is unknown."""


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

    def read_running(
        self, pod: nri_pb2.PodSandbox, message: nri_pb2.Container, *, with_kubelet: bool
    ) -> Newcomer:
        """A container that runs; of one that cannot be read only what it asks for of cpus."""
        read = attempt(
            lambda: self.read(pod, message, with_kubelet=with_kubelet, seconds=FIND_SECONDS)
        )
        if isinstance(read, Done):
            return read.value
        self._report(Crashed(f"reading of container {message.id}", read.error))
        container, linux = bare_container_value(message, pod), bare_linux_value(message)
        return Newcomer(container=container, linux=linux)

    def read_all(
        self,
        pods: Iterable[nri_pb2.PodSandbox],
        messages: Iterable[nri_pb2.Container],
        known: Mapping[ContainerId, Container],
        *,
        with_kubelet: bool,
    ) -> Residents:
        """Everything there is, each with the hints it had or those that are found now.

        A container that cannot be read, whatever the fault, keeps nobody else from being known.
        """
        sandboxes = {one.id: one for one in pods}
        pod_values = {one.id: attempt(partial(pod_value, one)) for one in sandboxes.values()}
        listed: list[Container] = []
        linux: dict[ContainerId, LinuxResources] = {}
        problems: dict[ContainerId, tuple[Problem, ...]] = {}
        pids: dict[ContainerId, int] = {}
        unread: dict[ContainerId, Exception] = {}
        for message in messages:
            container_id = ContainerId(message.id)
            if not container_id:
                continue
            pod = pod_values.get(message.pod_sandbox_id)
            read = attempt(partial(self._read_listed, message, pod))
            if isinstance(read, Done):
                one = read.value
            else:
                sandbox = sandboxes.get(message.pod_sandbox_id, nri_pb2.PodSandbox())
                one = Newcomer(
                    container=bare_container_value(message, sandbox),
                    linux=bare_linux_value(message),
                )
                unread[container_id] = read.error
            listed.append(one.container)
            linux[container_id], problems[container_id] = one.linux, one.problems
            if one.container.state is ContainerState.RUNNING:
                pids[container_id] = message.pid
        listed, odd = self.with_hints(listed, known, with_kubelet=with_kubelet)
        for container_id, found in odd.items():
            problems[container_id] = (*problems[container_id], *found)
        return Residents(
            containers=tuple(listed), linux=linux, problems=problems, pids=pids, unread=unread
        )

    def _read_listed(
        self, message: nri_pb2.Container, sandbox: Done[Pod] | Failed | None
    ) -> Newcomer:
        if isinstance(sandbox, Failed):
            raise sandbox.error
        pod = lost_pod_value(message) if sandbox is None else sandbox.value
        linux = container_linux_value(message)
        container, problems = container_value(message, pod, linux, self._machine_memory_bytes)
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
