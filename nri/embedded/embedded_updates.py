"""Updates at the embedded runtime, and its cgroups, for the actuator of the plugin beside it."""

from collections.abc import Mapping

from ...policy.model.container import ContainerId
from ...policy.model.pinning import Pinning
from ...topology.sets.cpuset import CpuSet, NodeSet
from ..dispatch.update_sender import ReadBack
from ..plugin.plugin import RuntimeLink
from .embedded_runtime import EmbeddedRuntime, RequestError


class EmbeddedUpdates:
    """A sender of updates to the runtime in this process, as its kubelet would."""

    raises_events: bool = True
    """Whether events ask about each update: they do, as about any caller's."""

    def __init__(self, runtime: EmbeddedRuntime) -> None:
        self._runtime = runtime

    def send(self, updates: Mapping[ContainerId, Pinning]) -> Mapping[ContainerId, str]:
        """Update one container after the other; see `UpdateSender`."""
        failed: dict[ContainerId, str] = {}
        for container_id, pinning in updates.items():
            cpus = str(pinning.cpus) if pinning.cpus else ""
            mems = str(pinning.mems) if pinning.mems else ""
            if not cpus and not mems:
                continue
            try:
                self._runtime.update_cpuset(container_id, cpus, mems)
            except RequestError as error:
                failed[container_id] = str(error)
        return failed

    def close(self) -> None:
        """End; an update on paper takes no time, so none is under way."""


def kernel_reader(runtime: EmbeddedRuntime) -> ReadBack:
    """Reads back what the kernel on paper has of a container that runs."""

    def read(container_id: ContainerId, pid: int, _likely: Pinning | None) -> Pinning | None:
        found = runtime.kernel.get(container_id)
        # A cgroup is found by a process of it, which some runtimes do not tell.
        if found is None or not pid:
            return None
        return Pinning(cpus=CpuSet.parse(found.cpus), mems=NodeSet.parse(found.mems))

    return read


def embedded_link(runtime: EmbeddedRuntime) -> RuntimeLink:
    """The link of a plugin to the embedded runtime beside it."""
    return RuntimeLink(
        connect=runtime.connect,
        find_sender=lambda _: EmbeddedUpdates(runtime),
        read_back=kernel_reader(runtime),
    )
