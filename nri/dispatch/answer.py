"""Answers to the calls of a runtime."""

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from ...policy.configuration.config import SchedulingClass
from ...policy.model.container import ContainerId
from ...policy.model.pinning import Change, Pinning
from ...policy.tuning.resource_class import NO_CLASSES, ResourceClasses
from ...topology.sets.cpuset import NodeSet


class Answer(Struct, frozen=True, kw_only=True):
    """An answer to the runtime: `own` pins the container of the call, `others` the rest."""

    container_id: ContainerId | None = None
    own: Pinning | None = None
    scheduling: SchedulingClass | None = None
    """How the processes of the container of the call are to be scheduled, while it is created."""
    classes: ResourceClasses = NO_CLASSES
    """The classes of caches and block devices it is to be created in."""
    lifts_quota: bool = False
    """It is to run without a cpu quota, whatever the kubelet asks for."""
    interleaved: NodeSet | None = None
    """The memory nodes on which its pages are to lie in turn, while it is created."""
    others: Mapping[ContainerId, Pinning] = field(default_factory=dict[ContainerId, Pinning])
    refusal: str = ""
    is_echo: bool = False
    """The call was raised by an update of our own."""

    @property
    def all(self) -> Mapping[ContainerId, Pinning]:
        """Pinnings of all containers concerned, as sent when the call itself is over."""
        if self.own is None or self.container_id is None:
            return self.others
        return {**self.others, self.container_id: self.own}


def pinnings_of(changes: Iterable[Change]) -> dict[ContainerId, Pinning]:
    """The pinnings that containers are told, by container."""
    return {one.container_id: one.after for one in changes}
