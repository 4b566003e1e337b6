"""What a container wants of simultaneous multithreading: several hardware threads in one core."""

import enum

from .cpu_blocks import CpuBlocks


class SmtPreference(enum.Enum):
    """How a container's cpus lie on the threads of cores."""

    ANY = "any"
    """Whole idle cores first, as for everyone who says nothing."""
    PACK = "pack"
    """As few cores as possible."""
    SPREAD = "spread"
    """One thread of each core; siblings only when the cores run out."""
    HIDE = "hide"
    """Picked like ANY; then only the lowest thread of each core is put into the cpuset."""


def hide_siblings(cpus: int, cores: CpuBlocks) -> int:
    """The lowest cpu of each core that has any of `cpus`: what HIDE puts into the cpuset."""
    return cores.lowest_members(cpus)
