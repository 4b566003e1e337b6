"""Metrics of the daemon's own process: memory, processor time, threads and files."""

import os
from collections.abc import Iterator
from typing import Final

import psutil
from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

GROUP: Final = "process"


class ProcessMetrics(Collector):
    """Metrics that Prometheus's clients tell of any process, under the names they share; and more.

    psutil has what the Python client lacks: threads, switches between them, and bytes written.
    """

    def __init__(self) -> None:
        self._common = ProcessCollector(registry=None)
        self._process = psutil.Process(os.getpid())

    def collect(self) -> Iterator[Metric]:
        """The metrics of this moment; those that the kernel refuses are left out."""
        yield from self._common.collect()
        with self._process.oneshot():
            yield GaugeMetricFamily(
                "process_threads", "Threads of the process.", value=self._process.num_threads()
            )
            switches = CounterMetricFamily(
                "process_context_switches",
                "Times that a thread gave its cpu away: voluntary to wait, else it was taken.",
                labels=["kind"],
            )
            counts = self._process.num_ctx_switches()
            switches.add_metric(["voluntary"], counts.voluntary)
            switches.add_metric(["involuntary"], counts.involuntary)
            yield switches
        try:
            written = self._process.io_counters().write_bytes
        except (psutil.AccessDenied, OSError):
            return
        yield CounterMetricFamily(
            "process_disk_written_bytes",
            "Bytes that the process had written to disks.",
            value=written,
        )
