"""The policy as the calls and lists of a proxy reach it."""

from collections.abc import Callable
from dataclasses import dataclass

from ...policy.model.container import ContainerId
from ..plugin.container_reader import ContainerReader
from .known_containers import KnownContainers
from .policy_turns import PolicyTurns
from .proxy_events import ProxyEvents


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxiedPolicy:
    """The events of the policy, its turns in the loop's thread, and the containers it knows."""

    events: ProxyEvents
    turns: PolicyTurns
    reader: ContainerReader
    known: KnownContainers
    started: Callable[[ContainerId], None]
    """Told of each container that runs, with the policy's id."""
