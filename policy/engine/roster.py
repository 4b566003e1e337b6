"""Every container the policy knows, what it asks for, and what was decided about it."""

from dataclasses import replace

from ..model.container import Container, ContainerId, ContainerState
from ..model.decision import Decision
from ..placing.classifier import Classified
from .adoption import instance_key


class Roster:
    """Containers by id, stopped ones included until they are removed.

    At most one of each name in a pod is the present instance; older ones are only known by id.
    """

    def __init__(self) -> None:
        self.containers: dict[ContainerId, Container] = {}
        self.classified: dict[ContainerId, Classified] = {}
        self.decisions: dict[ContainerId, Decision] = {}
        self._instances: dict[tuple[str, str], ContainerId] = {}

    def add(self, container: Container, classified: Classified) -> None:
        """A container is there, and is the present instance of its name."""
        self.containers[container.id] = container
        self.classified[container.id] = classified
        self._instances[instance_key(container)] = container.id

    def leave_out(self, container: Container, decision: Decision) -> None:
        """A container is there, and nothing is known of what it asks for."""
        self.containers[container.id] = container
        self.decisions[container.id] = decision

    def instance(self, container: Container) -> ContainerId | None:
        """The present instance of a container's pod and name."""
        return self._instances.get(instance_key(container))

    def reach(self, container_id: ContainerId, state: ContainerState) -> None:
        """A container is in another state of its life. Unknown ids are ignored."""
        container = self.containers.get(container_id)
        if container is not None:
            self.containers[container_id] = replace(container, state=state)

    def remove(self, container_id: ContainerId) -> None:
        """Forget a container. Unknown ids change nothing."""
        container = self.containers.pop(container_id, None)
        if container is None:
            return
        key = instance_key(container)
        if self._instances.get(key) == container_id:
            del self._instances[key]
        self.classified.pop(container_id, None)
        self.decisions.pop(container_id, None)
