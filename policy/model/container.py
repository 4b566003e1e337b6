"""Pods and containers as values: what the runtime told us, before any decision."""

import enum
from collections.abc import Mapping
from typing import NewType

from msgspec import Struct, field

from ...topology.sets.cpuset import CpuSet, NodeSet
from ..text.errors import Problem
from .hint import Hint

ContainerId = NewType("ContainerId", str)
PodId = NewType("PodId", str)


class QosClass(enum.Enum):
    """The Kubernetes quality of service class of a pod."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"

    # Members are compared by identity, and the hash of the name is a call of Python.
    __hash__ = object.__hash__


class ContainerState(enum.Enum):
    """States of a container, in the order it goes through them."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"


# In no cycle: the garbage collector need not go through it.
class Resources(Struct, frozen=True, kw_only=True, gc=False):
    """Requests and limits of a container. Limits are None where there are none."""

    cpu_request_milli: int = 0
    cpu_limit_milli: int | None = None
    memory_request_bytes: int = 0
    may_request_memory: bool = False
    """Neither a memory request nor a limit is known, and a request not excluded: small ones look
    like none."""
    memory_limit_bytes: int | None = None
    hugepage_bytes: Mapping[int, int] = field(default_factory=dict[int, int])
    """Limit in bytes by page size in bytes."""

    def covering(self, other: "Resources") -> "Resources":
        """The least that is enough for both.

        >>> size = Resources(cpu_request_milli=2000, cpu_limit_milli=2000)
        >>> both = size.covering(Resources(cpu_request_milli=500, memory_request_bytes=7))
        >>> both.cpu_request_milli, both.cpu_limit_milli, both.memory_request_bytes
        (2000, None, 7)
        """
        pages = {**other.hugepage_bytes, **self.hugepage_bytes}
        return Resources(
            cpu_request_milli=max(self.cpu_request_milli, other.cpu_request_milli),
            cpu_limit_milli=_larger_limit(self.cpu_limit_milli, other.cpu_limit_milli),
            memory_request_bytes=max(self.memory_request_bytes, other.memory_request_bytes),
            may_request_memory=self.may_request_memory or other.may_request_memory,
            memory_limit_bytes=_larger_limit(self.memory_limit_bytes, other.memory_limit_bytes),
            hugepage_bytes={
                size: max(amount, other.hugepage_bytes.get(size, 0))
                for size, amount in pages.items()
            },
        )


def _larger_limit(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


class Device(Struct, frozen=True, kw_only=True):
    """A device node or block device a container gets; `type` is "c" or "b"."""

    path: str
    type: str = "c"
    major: int = 0
    minor: int = 0
    is_writable: bool = True


class Mount(Struct, frozen=True, kw_only=True):
    """A host path mounted into a container."""

    source: str
    destination: str
    is_read_only: bool = False


class Pod(Struct, frozen=True, kw_only=True):
    """A pod sandbox. `id` is the sandbox's id: it tells two pods of one name apart."""

    id: PodId
    name: str
    namespace: str = "default"
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    first_labels: Mapping[str, str] | None = None
    """Its labels as it was first seen, where it has others by now."""
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    """Annotations for Pinfold, within the budget of a pod; see `annotations.annotation_budget`."""
    annotation_problems: tuple[Problem, ...] = ()
    """Why others of them are left out."""
    qos: QosClass = QosClass.BEST_EFFORT
    resources: Resources | None = None
    """Resources of the whole pod, as it was created; None where the runtime tells none."""

    @property
    def labels_at_first_sight(self) -> Mapping[str, str]:
        """Labels of the pod as it was first seen; label keys of its rules are resolved by them."""
        return self.labels if self.first_labels is None else self.first_labels


class GivenAnnotation(Struct, frozen=True, kw_only=True):
    """An annotation that a rule of the configuration gives a container, not its pod's author."""

    key: str
    value: str
    rule: str
    """The name of the rule."""


class Container(Struct, frozen=True, kw_only=True):
    """One container of a pod. `cpus` and `mems`: what the runtime says it is pinned to, if so."""

    id: ContainerId
    name: str
    pod: Pod
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    resources: Resources = Resources()
    state: ContainerState = ContainerState.CREATED
    created_at: int = 0
    """Nanoseconds; 0 where the runtime does not say."""
    cpus: CpuSet | None = None
    mems: NodeSet | None = None
    devices: tuple[Device, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hints: tuple[Hint, ...] = ()
    """All that were found, counted or not, unresolved."""
    claimed: CpuSet | None = None
    """Cpus that another than the policy gave it; it is left alone with them, empty or not."""
    given: tuple[GivenAnnotation, ...] = ()
    """Items of `pod.annotations` that the pod's author did not write."""
    runtime_id: str = ""
    """The runtime's id, where it was given after `id`, which then is ours alone."""

    @property
    def shown_id(self) -> str:
        """The id by which people and the runtime know the container."""
        return self.runtime_id or self.id

    @property
    def awaits_id(self) -> bool:
        """Whether its id is made of names, sandbox/name/attempt, until the runtime gives one."""
        return not self.runtime_id and "/" in self.id

    @property
    def path(self) -> str:
        """`namespace/pod/container`, as people name a container."""
        return f"{self.pod.namespace}/{self.pod.name}/{self.name}"
