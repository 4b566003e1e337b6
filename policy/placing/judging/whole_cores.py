"""Whole cores for a container that leaves all threads but one of each idle."""

from ...annotations.annotations import effective
from ...cpus.cpu_blocks import CpuBlocks
from ...model.container import Container
from ...model.request import Request
from ..wishes.own_cpus import HIDE_KEY
from .restriction import Restriction


def whole_core_rule(
    container: Container, request: Request, cores: CpuBlocks, usable: int, free: int
) -> Restriction:
    """The cpus outside of idle cores, as those that a container must not have.

    `usable` and `free` are masks.
    """
    idle = idle_cores(cores, usable, free)
    setting = effective(container.pod.annotations, HIDE_KEY, container.name)
    return Restriction(
        text=setting.key if setting is not None else HIDE_KEY,
        owner=container.path,
        owner_id=container.id,
        can_break=request.fallback is not None,
        wanted="idle cores",
        forbidden=usable & ~idle,
    )


def idle_cores(cores: CpuBlocks, usable: int, free: int) -> int:
    """A mask of the cpus of full cores whose threads are all free; `usable`, `free`: masks.

    Of a machine with cores of several kinds those with the most threads count: so many cpus were
    asked for as make whole cores of these.
    """
    full = cores.by_free_count(usable)[-1]
    return cores.members(cores.idle(free) & full)
