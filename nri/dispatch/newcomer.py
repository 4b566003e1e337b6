"""Containers a runtime tells of, as values: those that come, those it lists, those it speaks of."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from ...policy.model.container import Container, ContainerId
from ...policy.model.kubelet_resources import LinuxResources
from ...policy.text.errors import Problem


class Newcomer(Struct, frozen=True, kw_only=True):
    """A container that is to be placed, what the kubelet wants for it, and what is odd about it."""

    container: Container
    linux: LinuxResources
    problems: tuple[Problem, ...] = ()


class Listing(Struct, frozen=True, kw_only=True):
    """All containers of a runtime's list. Mappings are by container."""

    containers: tuple[Container, ...]
    linux: Mapping[ContainerId, LinuxResources]
    problems: Mapping[ContainerId, tuple[Problem, ...]]
    pids: Mapping[ContainerId, int]
    """Of those that run; 0 where the runtime does not tell."""
    unread: Mapping[ContainerId, Exception]
    """What went wrong with those that could not be read: all but their cpus is unknown."""


class Mention(Struct, frozen=True, kw_only=True):
    """A container the runtime speaks of, which the policy knows as a rule.

    `read`: the whole of it, converted only where the policy does not know it after all.
    """

    container_id: ContainerId
    read: Callable[[], Newcomer]
    pid: int = 0
    is_over: bool = False
    """It ran, and does not run any more."""


def placed_mention(container_id: ContainerId) -> Mention:
    """The mention of a container that holds cpus: no message with the whole of it is at hand."""
    return Mention(container_id=container_id, read=_unread)


def _unread() -> Newcomer:
    raise AssertionError("a container that holds cpus is never read again")
