"""Topology hints of containers, to be found before they are placed."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field

from ...policy.model.container import Container, ContainerId, Pod
from ...policy.model.hint import Hint
from ...policy.text.errors import Problem
from ..dispatch.report import HintsMissing


class FoundHints(Struct, frozen=True, kw_only=True):
    """The hints of containers by id, what is odd in their annotations, and what took too long."""

    hints: Mapping[ContainerId, tuple[Hint, ...]] = field(
        default_factory=dict[ContainerId, tuple[Hint, ...]]
    )
    problems: Mapping[ContainerId, tuple[Problem, ...]] = field(
        default_factory=dict[ContainerId, tuple[Problem, ...]]
    )
    missing: tuple[HintsMissing, ...] = ()


class HintFinder(Protocol):
    """Finds hints in a given time; whatever fails is left out and told, never raised.

    `with_kubelet`: whether the configuration lets the kubelet be asked. Called by the connection's
    thread and by the policy's.
    """

    def expect(self, pod: Pod) -> None:
        """A pod begins, and its containers follow: ask the kubelet about them. Does not wait."""
        ...

    def looks(self, container: Container, *, with_kubelet: bool) -> bool:
        """Whether `find` looks around for a container, or knows at once that there is nothing."""
        ...

    def find(self, container: Container, *, with_kubelet: bool, seconds: float) -> FoundHints:
        """The hints of a container that is about to be placed."""
        ...

    def find_all(
        self, containers: Sequence[Container], *, with_kubelet: bool, seconds: float
    ) -> FoundHints:
        """The hints of containers that run."""
        ...
