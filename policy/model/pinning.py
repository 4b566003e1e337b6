"""Pinnings: the cpus and memory nodes the kernel is told for a container, and changes of them."""

from collections.abc import Iterable

from msgspec import Struct

from ...topology.sets.cpuset import CpuSet, NodeSet
from .container import Container, ContainerId


# In no cycle: the garbage collector need not go through it.
class Pinning(Struct, frozen=True, kw_only=True, gc=False):
    """Cpus and memory nodes that the kernel is told for one container; None leaves them alone.

    Cpu shares are left as the kubelet set them: they are the request, and all that tells of it
    after a restart.
    """

    cpus: CpuSet | None = None
    mems: NodeSet | None = None

    def differs_from(self, before: "Pinning") -> bool:
        """Whether the kernel has to be told anything where it was told `before`."""
        return self.cpus not in (None, before.cpus) or self.mems not in (None, before.mems)


# In no cycle: the garbage collector need not go through it.
class Change(Struct, frozen=True, kw_only=True, gc=False):
    """A container whose pinning differs from what it was, and both values."""

    container_id: ContainerId
    before: Pinning
    after: Pinning


def difference(container: Container, after: Pinning | None) -> Change | None:
    """The change from what the runtime says a container has to `after`; None: there is none."""
    return changed(container.id, Pinning(cpus=container.cpus, mems=container.mems), after)


def changed(
    container_id: ContainerId, before: Pinning | None, after: Pinning | None
) -> Change | None:
    """The change from one pinning to another; None where nobody has to be told."""
    if before is None or after is None or not after.differs_from(before):
        return None
    return Change(container_id=container_id, before=before, after=after)


def new_pinnings(changes: Iterable[Change]) -> dict[ContainerId, Pinning]:
    """The pinnings after some changes, by container."""
    return {one.container_id: one.after for one in changes}
