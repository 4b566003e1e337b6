"""Updates of the policy's containers at the runtime's own CRI socket."""

from collections.abc import Mapping

from ...policy.model.container import ContainerId
from ...policy.model.pinning import Pinning
from ..dispatch.cri_socket import CriSocket
from ..dispatch.update_sender import ReadBack
from .known_containers import KnownContainers


class CriUpdates:
    """The sender of updates past the proxy, under the runtime's ids; see `UpdateSender`."""

    raises_events: bool = False
    """Whether events ask about each update: they do not pass the proxy."""

    def __init__(self, socket: CriSocket, known: KnownContainers) -> None:
        self._socket = socket
        self._known = known

    def send(self, updates: Mapping[ContainerId, Pinning]) -> Mapping[ContainerId, str]:
        """Set cpus and memory nodes; see `UpdateSender`."""
        named: dict[ContainerId, ContainerId] = {}
        for one in updates:
            runtime_id = self._known.runtime_id(one)
            # One that is being created is told again as soon as it has an id.
            if runtime_id:
                named[ContainerId(runtime_id)] = one
        errors = self._socket.send({name: updates[one] for name, one in named.items()})
        return {named[name]: error for name, error in errors.items()}

    def close(self) -> None:
        """End what is under way."""
        self._socket.close()


def reader_by_runtime_id(read: ReadBack, known: KnownContainers) -> ReadBack:
    """Reads back pinnings of the policy's containers, which the kernel knows by other ids."""

    def read_named(container_id: ContainerId, pid: int, likely: Pinning | None) -> Pinning | None:
        runtime_id = known.runtime_id(container_id)
        return read(ContainerId(runtime_id), pid, likely) if runtime_id else None

    return read_named
