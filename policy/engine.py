"""The one owner of all grants: events in, decisions out. Synchronous and single-threaded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..topology.machine import Machine
from .config import Config
from .container import Container, ContainerId, Resources
from .decision import Change, Decision, Grant, Pinning


@dataclass(frozen=True, slots=True, kw_only=True)
class Synchronized:
    """The answer to a list of running containers: one decision each, and who must be updated."""

    decisions: tuple[Decision, ...]
    changes: tuple[Change, ...]


class Engine:
    """All grants of one machine under one configuration.

    `Decision.changes` and the changes returned by `stop`, `remove` and `synchronize` name only
    containers whose cpus, mems or shares really differ from what they were told last.
    """

    def __init__(self, machine: Machine, config: Config) -> None:
        """Raises `ConfigError` where the configuration does not fit the machine."""
        self.machine = machine
        self.config = config
        self.containers: Mapping[ContainerId, Container] = {}
        self.grants: Mapping[ContainerId, Grant] = {}
        self.decisions: Mapping[ContainerId, Decision] = {}
        raise AssertionError("written next")

    def create(self, container: Container) -> Decision:
        """Place a new container; its own pinning is in the decision, others' in `changes`.

        An older instance of the same pod and name is released first. A refusal changes nothing.
        """
        raise AssertionError("written next")

    def update(self, container_id: ContainerId, resources: Resources) -> Decision:
        """Change what a container asks for; a refusal leaves it what it had."""
        raise AssertionError("written next")

    def start(self, container_id: ContainerId) -> None:
        """The container runs. Unknown ids are ignored."""
        raise AssertionError("written next")

    def stop(self, container_id: ContainerId) -> tuple[Change, ...]:
        """Release what a container held. Unknown ids and repeated stops change nothing."""
        raise AssertionError("written next")

    def remove(self, container_id: ContainerId) -> tuple[Change, ...]:
        """Forget a container, releasing it first where it was never stopped."""
        raise AssertionError("written next")

    def synchronize(self, containers: Sequence[Container]) -> Synchronized:
        """Adopt what runs: keep every container's cpus and memory where they are still legal.

        Containers that are not in the list are forgotten.
        """
        raise AssertionError("written next")

    def pinning(self, container_id: ContainerId) -> Pinning | None:
        """What the kernel was told about a container last; None for an unknown id."""
        raise AssertionError("written next")
