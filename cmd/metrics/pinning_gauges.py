"""Gauges of containers that run with the cpus and memory nodes they were told, and of others."""

from collections.abc import Iterator
from typing import Final

from ...nri.dispatch.pin_state import PinningCounts
from ...policy.engine.gauges.gauge import Gauge

GROUP: Final = "policy/pinning"
_STATES: Final = ("acknowledged", "waiting", "failing", "unknown")
_STATE_LABELS: Final = tuple({"state": one} for one in _STATES)


def pinning_gauges(
    pinnings: PinningCounts, *, drifts: int, bound_threads: int, is_suspect: bool
) -> Iterator[Gauge]:
    """Running containers by what is known of them, drift, and whether the runtime seems to hang."""
    yield Gauge(
        name="policy.pinning.container.count",
        unit="",
        help="Running containers by whether the kernel is known to have what they were told.",
        group=GROUP,
        labels=_STATE_LABELS,
        values=(
            pinnings.acknowledged,
            pinnings.waiting,
            pinnings.failing,
            pinnings.blind,
        ),
    )
    yield Gauge(
        name="policy.pinning.drift.count",
        unit="",
        help="How often a container was found with a pinning that somebody else had changed.",
        group=GROUP,
        values=(drifts,),
    )
    yield Gauge(
        name="policy.pinning.bound.threads",
        unit="",
        help="Threads that are bound to fewer cpus than their containers have.",
        group=GROUP,
        values=(bound_threads,),
    )
    yield Gauge(
        name="policy.pinning.runtime.suspect",
        unit="",
        help="1 while the runtime seems to hang, and nothing is sent to it.",
        group=GROUP,
        values=(int(is_suspect),),
    )
