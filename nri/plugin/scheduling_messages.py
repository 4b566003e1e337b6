"""Scheduling classes as messages of NRI."""

from collections.abc import Mapping
from typing import Final

from ...policy.configuration.config import (
    IoClass,
    SchedulingClass,
    SchedulingFlag,
    SchedulingPolicy,
)
from ..api import nri_pb2

_POLICIES: Final[Mapping[SchedulingPolicy, nri_pb2.LinuxSchedulerPolicy]] = {
    SchedulingPolicy.OTHER: nri_pb2.SCHED_OTHER,
    SchedulingPolicy.FIFO: nri_pb2.SCHED_FIFO,
    SchedulingPolicy.RR: nri_pb2.SCHED_RR,
    SchedulingPolicy.BATCH: nri_pb2.SCHED_BATCH,
    SchedulingPolicy.ISO: nri_pb2.SCHED_ISO,
    SchedulingPolicy.IDLE: nri_pb2.SCHED_IDLE,
    SchedulingPolicy.DEADLINE: nri_pb2.SCHED_DEADLINE,
}

_FLAGS: Final[Mapping[SchedulingFlag, nri_pb2.LinuxSchedulerFlag]] = {
    SchedulingFlag.RESET_ON_FORK: nri_pb2.SCHED_FLAG_RESET_ON_FORK,
    SchedulingFlag.RECLAIM: nri_pb2.SCHED_FLAG_RECLAIM,
    SchedulingFlag.DL_OVERRUN: nri_pb2.SCHED_FLAG_DL_OVERRUN,
    SchedulingFlag.KEEP_POLICY: nri_pb2.SCHED_FLAG_KEEP_POLICY,
    SchedulingFlag.KEEP_PARAMS: nri_pb2.SCHED_FLAG_KEEP_PARAMS,
    SchedulingFlag.UTIL_CLAMP_MIN: nri_pb2.SCHED_FLAG_UTIL_CLAMP_MIN,
    SchedulingFlag.UTIL_CLAMP_MAX: nri_pb2.SCHED_FLAG_UTIL_CLAMP_MAX,
}

_IO_CLASSES: Final[Mapping[IoClass, nri_pb2.IOPrioClass]] = {
    IoClass.NONE: nri_pb2.IOPRIO_CLASS_NONE,
    IoClass.REALTIME: nri_pb2.IOPRIO_CLASS_RT,
    IoClass.BEST_EFFORT: nri_pb2.IOPRIO_CLASS_BE,
    IoClass.IDLE: nri_pb2.IOPRIO_CLASS_IDLE,
}


def add_scheduling(linux: nri_pb2.LinuxContainerAdjustment, chosen: SchedulingClass) -> None:
    """Have the runtime start a container's processes as a class says."""
    policy = chosen.policy
    if policy is SchedulingPolicy.NONE and chosen.nice is not None:
        # A nice value means something to the kernel's ordinary policy alone.
        policy = SchedulingPolicy.OTHER
    if policy is not SchedulingPolicy.NONE:
        scheduler = linux.scheduler
        scheduler.policy = _POLICIES[policy]
        scheduler.nice = chosen.effective_nice or 0
        scheduler.priority = chosen.priority or 0
        scheduler.flags.extend(_FLAGS[flag] for flag in chosen.flags)
        scheduler.runtime = chosen.runtime or 0
        scheduler.deadline = chosen.deadline or 0
        scheduler.period = chosen.period or 0
    if chosen.io_class not in (None, IoClass.NONE):
        linux.io_priority.priority = chosen.io_priority or 0
        # The field's name is a keyword of the language.
        setattr(linux.io_priority, "class", _IO_CLASSES[chosen.io_class])
