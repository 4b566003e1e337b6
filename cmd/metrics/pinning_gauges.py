"""Gauges of containers that run with the cpus and memory nodes they were told, and of others."""

from collections.abc import Iterator
from typing import Final

from ...nri.dispatch.pin_state import PinningCounts
from ...policy.engine.gauges import Gauge, Sample

GROUP: Final = "policy/pinning"


def pinning_gauges(
    pinnings: PinningCounts, *, drifts: int, bound_threads: int, is_suspect: bool
) -> Iterator[Gauge]:
    """Running containers by what is known of them, drift, and whether the runtime seems to hang."""
    counts = {
        "acknowledged": pinnings.acknowledged,
        "waiting": pinnings.waiting,
        "failing": pinnings.failing,
        "unknown": pinnings.blind,
    }
    yield Gauge(
        name="policy.pinning.container.count",
        unit="",
        help="Running containers by whether the kernel is known to have what they were told.",
        group=GROUP,
        samples=tuple(
            Sample(labels={"state": state}, value=count) for state, count in counts.items()
        ),
    )
    yield Gauge(
        name="policy.pinning.drift.count",
        unit="",
        help="How often a container was found with a pinning that somebody else had changed.",
        group=GROUP,
        samples=(Sample(labels={}, value=drifts),),
    )
    yield Gauge(
        name="policy.pinning.bound.threads",
        unit="",
        help="Threads that are bound to fewer cpus than their containers have.",
        group=GROUP,
        samples=(Sample(labels={}, value=bound_threads),),
    )
    yield Gauge(
        name="policy.pinning.runtime.suspect",
        unit="",
        help="1 while the runtime seems to hang, and nothing is sent to it.",
        group=GROUP,
        samples=(Sample(labels={}, value=int(is_suspect)),),
    )
