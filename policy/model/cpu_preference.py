"""Preferences for cpus: their priority, their threads, how wide a container bursts, its moves."""

import enum


class CpuPriority(enum.Enum):
    """The class of cpus a container would rather have; NONE does not care."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"
    NONE = "none"

    # Members are compared by identity, and the hash of the name is a call of Python.
    __hash__ = object.__hash__


class BurstLevel(enum.Enum):
    """The widest level that a container without a cpu limit may spread over."""

    SYSTEM = "system"
    PACKAGE = "package"
    DIE = "die"
    NUMA = "numa"
    L3_CACHE = "l3cache"
    L2_CACHE = "l2cache"
    CORE = "core"
    THREAD = "thread"

    # Members are compared by identity, and the hash of the name is a call of Python.
    __hash__ = object.__hash__


class SmtPreference(enum.Enum):
    """The way a container's cpus lie on the threads of cores."""

    ANY = "any"
    """Whole idle cores first, as for everyone who says nothing."""
    PACK = "pack"
    """As few cores as possible."""
    SPREAD = "spread"
    """One thread of each core; siblings only when the cores run out."""
    HIDE = "hide"
    """Picked like ANY; then only the lowest thread of each core is put into the cpuset."""


class MovePreference(enum.Enum):
    """Whether a container that runs may be moved to a better place.

    Without one, containers with exclusive cpus stay and the others may be moved.
    """

    NEVER = "never"
    ALLOWED = "allowed"


class QuotaUse(enum.Enum):
    """The fate of the cpu quota of a container that has its cpus for itself."""

    KEEP = "keep"
    """The kubelet's limit holds, as everywhere."""
    LIFT = "lift"
    """No quota: its cpus are its limit."""
