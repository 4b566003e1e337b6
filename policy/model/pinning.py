"""Pinnings: the cpus and memory nodes the kernel is told for a container, and changes of them."""

from collections.abc import Iterable, Sequence

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


class MovedTogether(Struct, frozen=True, gc=False):
    """Containers that had the same cpus, and have the same others."""

    before: CpuSet
    after: CpuSet
    ids: list[ContainerId]


def moved_together(changes: Iterable[Change]) -> Sequence[MovedTogether]:
    """The containers that have other cpus, together as far as they are told one pinning."""
    found: dict[tuple[int, int], MovedTogether] = {}
    # Kept as long as what they are of is known by its identity.
    changes = tuple(changes)
    # Those side by side mostly were, and are: it is looked up once.
    old: Pinning | None = None
    new: Pinning | None = None
    ids: list[ContainerId] = []
    for one in changes:
        if one.before is not old or one.after is not new:
            old, new, ids = one.before, one.after, []
            before, after = old.cpus, new.cpus
            if before is not None and after is not None and before is not after:
                ids = found.setdefault((id(old), id(new)), MovedTogether(before, after, ids)).ids
        ids.append(one.container_id)
    return tuple(found.values())


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
