"""The metrics of Pinfold's own names: events, placements, alignment, domains, health.

Base units and names as Prometheus recommends them; no pods or containers among the labels.
Source: prometheus.io, "Metric and label naming".
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from ...nri.dispatch.pacer import ALONE, Pacer
from ...policy.engine.decision import unmet_rule_names
from ...policy.engine.gauges.gauge import Gauge
from ...policy.engine.rebalance.satisfied_weight import SatisfiedWeight
from ...policy.engine.rebalance.wishes import AFFINITY, ANTI_AFFINITY, POOL, SPREAD, Wishes
from ...policy.engine.snapshot import Snapshot
from ..daemon.daemon import ReloadRecord
from .domain_gauges import DomainGauges
from .domain_levels import DOMAIN_LEVELS
from .event_counts import (
    BUCKETS_SECONDS,
    CREATION,
    FAULT,
    GRANTED,
    LATE,
    REFUSED,
    UNANNOUNCED,
    EventCounts,
)

_Key = TypeVar("_Key", bound=tuple[str, ...])

GROUP: Final = "policy/pinfold"
POLICY: Final = "topology-aware"
_UNMET: Final = re.compile(r"(anti-affinity|affinity) at (\w+)|(spread) over (\w+)")
_LEVELS: Final = ("socket", "die", "numa", "l3", "cluster", "core")
_KINDS: Final = (AFFINITY, ANTI_AFFINITY, SPREAD)
_WISHES: Final = (AFFINITY, ANTI_AFFINITY)
_CAUSES: Final = ("create", "update", "release", "reconfigure", "synchronize")


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonLook:
    """The daemon at one moment, as the families are made from it."""

    snapshot: Snapshot
    counts: EventCounts
    is_connected: bool
    reconnections: int
    reload: ReloadRecord | None
    """The last reading of the configuration; None where it was never read again."""
    state_fault: str = ""
    """What kept the state from being saved last; empty for nothing."""
    history_fault: str = ""
    """What kept decisions from being written last; empty for nothing."""


def daemon_families(
    look: DaemonLook,
    weight: SatisfiedWeight | None = None,
    domain_gauges: DomainGauges | None = None,
    pacer: Pacer = ALONE,
) -> Iterator[Metric | Gauge]:
    """Every family, also those of which nothing was counted yet.

    `weight`, `domain_gauges`: kept from look to look.
    """
    counts = look.counts
    yield from _event_families(counts)
    yield _counter(
        "pinfold_placements",
        "Decisions about new containers, by result and the criterion that decided.",
        ("result", "reason", "policy"),
        _with_zeros(
            ((GRANTED, "only_candidate", POLICY), (REFUSED, "no pool", POLICY)),
            {(*key, POLICY): count for key, count in dict(counts.placements).items()},
        ),
    )
    boundaries = [(level, one) for level in DOMAIN_LEVELS for one in ("aligned", "split")]
    yield _counter(
        "pinfold_alignment",
        "Placements by whether all their cpus are in one domain of a level.",
        ("level", "boundary"),
        _with_zeros(boundaries, counts.alignment(look.snapshot.machine)),
    )
    wishes = (weight or SatisfiedWeight()).wishes(look.snapshot, pacer.rest)
    yield from _wish_families(look.snapshot, wishes)
    yield from _cause_families(counts)
    yield from (domain_gauges or DomainGauges()).families(look.snapshot)
    yield from _health_families(look)


def _wish_families(snapshot: Snapshot, wishes: Wishes) -> Iterator[Metric]:
    yield _violations(snapshot, wishes)
    yield GaugeMetricFamily(
        "pinfold_satisfied_weight",
        "How much of what running containers wish of each other their places give them.",
        value=wishes.satisfied / wishes.scale,
    )
    yield GaugeMetricFamily(
        "pinfold_wished_weight",
        "How much that would be if every wish were met, whether or not that can be.",
        value=wishes.wished / wishes.scale,
    )


def _cause_families(counts: EventCounts) -> Iterator[Metric]:
    """Families with one label, the cause or the outcome."""
    for name, text, label, zeros, values in (
        (
            "pinfold_cpuset_updates",
            "Running containers that were told other cpus or memory nodes, by cause.",
            "cause",
            _CAUSES,
            counts.updates,
        ),
        (
            "pinfold_cpuset_drift",
            "Containers found with a pinning that somebody else had changed, by what was done.",
            "action",
            ("repaired", "failed"),
            counts.drift,
        ),
        (
            "pinfold_unpinned_starts",
            "Containers that started without our decision, by cause.",
            "cause",
            (LATE, FAULT, UNANNOUNCED),
            counts.unpinned,
        ),
        (
            "pinfold_state_recovery",
            "Readings of the state file at the daemon's start, by outcome.",
            "outcome",
            ("restored", "empty"),
            counts.recoveries,
        ),
    ):
        counted = {(key,): count for key, count in dict(values).items()}
        yield _counter(name, text, (label,), _with_zeros([(one,) for one in zeros], counted))


def _event_families(counts: EventCounts) -> Iterator[Metric]:
    durations = dict(counts.durations)
    events = {key: sum(one.counts) for key, one in durations.items()}
    labels = ("event", "result")
    yield _counter(
        "pinfold_events",
        "Calls of the runtime, by method and how they were answered.",
        labels,
        _with_zeros([(CREATION, "done")], events),
    )
    family = HistogramMetricFamily(
        "pinfold_event_duration_seconds",
        "Time from a call of the runtime to its answer.",
        labels=labels,
    )
    bounds = [*map(str, BUCKETS_SECONDS), "+Inf"]
    nothing = [0] * len(bounds)
    for key in {(CREATION, "done"): None, **durations}:
        one = durations.get(key)
        buckets = accumulate(one.counts if one else nothing)
        family.add_metric(
            key,
            buckets=list(zip(bounds, map(float, buckets), strict=True)),
            sum_value=one.sum_seconds if one else 0.0,
        )
    yield family


def _violations(snapshot: Snapshot, wishes: Wishes) -> Metric:
    found: Counter[tuple[str, str, str]] = Counter()
    for rule in unmet_rule_names(snapshot.decisions.values()):
        match = _UNMET.match(rule)
        kind = (match[1] or match[3]) if match else "pool"
        level = (match[2] or match[4]) if match else ""
        found[kind, "required", level] += 1
    for (kind, at), count in wishes.unmet.items():
        found[kind, "preferred", "" if at is None else at.value] += count
    zeros = [(kind, "required", level) for kind in _KINDS for level in _LEVELS]
    # A weight without a level has none here, either.
    zeros += [(kind, "preferred", level) for kind in _WISHES for level in ("", *_LEVELS)]
    zeros += [(SPREAD, "preferred", level) for level in _LEVELS]
    zeros.append((POOL, "preferred", ""))
    return _gauge(
        "pinfold_affinity_violations",
        "Rules between containers, and about pools, that do not hold; pairs of preferred ones.",
        ("kind", "strength", "level"),
        _with_zeros(zeros, found),
    )


def _health_families(look: DaemonLook) -> Iterator[Metric]:
    reload = look.reload
    for name, text, value in (
        (
            "pinfold_config_last_reload_successful",
            "1 unless the last reading of the configuration found a fault.",
            1 if reload is None else int(reload.is_good),
        ),
        (
            "pinfold_config_last_reload_timestamp_seconds",
            "Time of the last reading of the configuration that found no fault; 0: there was none.",
            0.0 if reload is None else reload.good_at,
        ),
        (
            "pinfold_state_last_save_successful",
            "0 while the state could not be saved.",
            int(not look.state_fault),
        ),
        (
            "pinfold_history_last_write_successful",
            "0 while decisions could not be written.",
            int(not look.history_fault),
        ),
        (
            "pinfold_nri_connected",
            "1 while the runtime is connected and has told what runs.",
            int(look.is_connected),
        ),
    ):
        yield GaugeMetricFamily(name, text, value=value)
    for name, text, count in (
        (
            "pinfold_nri_reconnects",
            "Connections to the runtime after the first one.",
            look.reconnections,
        ),
        ("pinfold_faults", "Faults of ours that were contained.", look.counts.faults),
    ):
        yield CounterMetricFamily(name, text, value=count)


def _with_zeros(keys: Iterable[_Key], counts: Mapping[_Key, int]) -> dict[_Key, int]:
    """Counts with those that are 0 so far: what begins later would seem to begin with a leap."""
    return {**dict.fromkeys(keys, 0), **counts}


def _counter(name: str, text: str, labels: Sequence[str], values: Mapping[_Key, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for key in sorted(values):
        family.add_metric(key, values[key])
    return family


def _gauge(name: str, text: str, labels: Sequence[str], values: Mapping[_Key, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key in sorted(values):
        family.add_metric(key, values[key])
    return family
