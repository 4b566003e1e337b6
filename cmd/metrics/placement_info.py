"""Places of containers as metrics with names among the labels, where somebody asked for them."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from ...policy.engine.snapshot import Snapshot
from ...policy.model.pinning import Pinning

SERIES_MAX: Final = 1000
"""So many containers are told of: each new place of each is one more series to be stored."""

_LABELS: Final = ("namespace", "pod", "container", "pool", "kind", "cpus", "mems")


def placement_families(snapshot: Snapshot) -> Iterator[Metric]:
    """The places of containers, by their names, where the configuration has them told."""
    if not snapshot.config.instrumentation.metrics.container_placement_info:
        return
    # Of containers with one name, which replace each other, the last one counts: a series is one.
    places: dict[tuple[str, str, str], tuple[str, str, str, str]] = {}
    for container_id, grant in snapshot.grants.items():
        container = snapshot.containers[container_id]
        told = snapshot.pinnings.get(container_id) or Pinning()
        places[container.pod.namespace, container.pod.name, container.name] = (
            snapshot.tree.pools[grant.pool_id].name,
            grant.kind.value,
            str(told.cpus or ""),
            str(told.mems or ""),
        )
    family = GaugeMetricFamily(
        "pinfold_container_placement_info",
        "Always 1: where a container is, and what the kernel was told of it.",
        labels=_LABELS,
    )
    for name in sorted(places)[:SERIES_MAX]:
        family.add_metric((*name, *places[name]), 1)
    yield family
    yield GaugeMetricFamily(
        "pinfold_container_placement_omitted",
        f"Containers beyond the first {SERIES_MAX}, whose places are not told.",
        value=max(0, len(places) - SERIES_MAX),
    )
