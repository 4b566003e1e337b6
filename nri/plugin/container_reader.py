"""Containers of the runtime's messages, converted, with the hints of what they are near."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from ...policy.model.container import Container, ContainerId, ContainerState, Pod
from ...policy.model.hint import Hint
from ...policy.model.kubelet_resources import LinuxResources
from ...policy.text.errors import Problem
from ..api import nri_pb2
from ..dispatch.newcomer import Listing, Mention, Newcomer
from ..dispatch.report import Crashed, Report
from ..dispatch.turn import Done, Failed, attempt
from ..hints.hint_finder import FoundHints, HintFinder
from .known_pods import KnownPods
from .messages import (
    bare_container_value,
    bare_linux_value,
    container_linux_value,
    container_value,
    lost_pod_value,
    pod_value,
)

FIND_SECONDS: Final = 0.05
"""In which what a new container is near must be found."""
_FIND_ALL_SECONDS: Final = 0.5


class ContainerReader:
    """Reads containers, and has their hints found; without a finder they have none."""

    def __init__(
        self,
        finder: HintFinder | None,
        report: Report,
        machine_memory_bytes: int | None,
        complete: Callable[[Container], Container] = lambda container: container,
    ) -> None:
        """`complete`: what central rules of the configuration give a container is added by it."""
        self._complete = complete
        self._finder = finder
        self._report = report
        self._machine_memory_bytes = machine_memory_bytes
        self._pods = KnownPods()

    def expect(self, pod: nri_pb2.PodSandbox, *, with_kubelet: bool) -> Pod:
        """A pod begins, and its containers follow: read it before they come. Does not wait."""
        read = self._pods.read(pod)
        if self._finder is not None and with_kubelet:
            self._finder.expect(read)
        return read

    def mention(
        self, pod: nri_pb2.PodSandbox, message: nri_pb2.Container, *, with_kubelet: bool
    ) -> Mention:
        """A container that was created before; the rest of the message is read if need be."""
        return Mention(
            container_id=ContainerId(message.id),
            read=lambda: self.read_running(pod, message, with_kubelet=with_kubelet),
            pid=message.pid,
            is_over=message.state == nri_pb2.CONTAINER_STOPPED,
        )

    def read(
        self,
        pod: nri_pb2.PodSandbox,
        message: nri_pb2.Container,
        *,
        with_kubelet: bool,
        seconds: float,
    ) -> Newcomer:
        """A new container with its hints, as far as they are found in time."""
        newcomer = self.read_bare(pod, message)
        return self.with_found(newcomer, with_kubelet=with_kubelet, seconds=seconds)

    def read_bare(self, pod: nri_pb2.PodSandbox, message: nri_pb2.Container) -> Newcomer:
        """A new container without hints. Asks nobody."""
        linux = container_linux_value(message)
        container, problems = container_value(
            message, self._pods.read(pod), linux, self._machine_memory_bytes
        )
        # Central rules may say what it is to be near.
        container = self._complete(container)
        return Newcomer(container=container, linux=linux, problems=problems)

    def is_looked_for(self, newcomer: Newcomer, *, with_kubelet: bool) -> bool:
        """Whether anybody is to be asked for the hints of a new container."""
        finder = self._finder
        return finder is not None and finder.looks(newcomer.container, with_kubelet=with_kubelet)

    def with_found(self, newcomer: Newcomer, *, with_kubelet: bool, seconds: float) -> Newcomer:
        """A new container with its hints, as far as they are found in time."""
        finder, container = self._finder, newcomer.container
        if finder is None or not finder.looks(container, with_kubelet=with_kubelet):
            return newcomer
        found = self._told(
            lambda: finder.find(container, with_kubelet=with_kubelet, seconds=seconds)
        )
        hints, odd = found.hints.get(container.id, ()), found.problems.get(container.id, ())
        if not hints and not odd:
            return newcomer
        container = replace(container, hints=hints) if hints else container
        problems = (*newcomer.problems, *odd)
        return Newcomer(container=container, linux=newcomer.linux, problems=problems)

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
    ) -> Listing:
        """Containers of a runtime's list, each with the hints it had or those that are found now.

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
        return Listing(
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
        container = self._complete(container)
        return Newcomer(container=container, linux=linux, problems=problems)

    def with_hints(
        self,
        listed: list[Container],
        known: Mapping[ContainerId, Container],
        *,
        with_kubelet: bool,
    ) -> tuple[list[Container], Mapping[ContainerId, tuple[Problem, ...]]]:
        """Containers that run, with the hints they had or those found now, and what is odd."""
        finder = self._finder
        if finder is None:
            return listed, {}
        hints = {one.id: known[one.id].hints for one in listed if one.id in known}
        # What a container is near does not change while it runs.
        news = [one for one in listed if not hints.get(one.id)]
        found = FoundHints()
        if news:
            found = self._told(
                lambda: finder.find_all(news, with_kubelet=with_kubelet, seconds=_FIND_ALL_SECONDS)
            )
        hints.update(found.hints)
        return [_with_hints(one, hints.get(one.id, ())) for one in listed], found.problems

    def _told(self, find: Callable[[], FoundHints]) -> FoundHints:
        """Hints found, none where finding them fails; what is missing, and a fault, is reported."""
        result = attempt(find)
        if isinstance(result, Failed):
            self._report(Crashed("hints", result.error))
            return FoundHints()
        for one in result.value.missing:
            self._report(one)
        return result.value


def _with_hints(container: Container, hints: tuple[Hint, ...]) -> Container:
    return container if hints == container.hints else replace(container, hints=hints)
