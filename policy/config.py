"""The operator's configuration as values."""

import enum


class CpuPriority(enum.Enum):
    """Which cpus a container would rather have; NONE does not care."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"
    NONE = "none"


class BurstLevel(enum.Enum):
    """How wide a container without a cpu limit may spread."""

    SYSTEM = "system"
    PACKAGE = "package"
    DIE = "die"
    NUMA = "numa"
    L3_CACHE = "l3cache"
    L2_CACHE = "l2cache"
    CORE = "core"
    THREAD = "thread"


class Config:
    """Every field of the policy."""
