"""Traces for a collector of OpenTelemetry: a span for each call and each decision, made aside."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from ...nri.dispatch.report import Answered, Decided, Happening, Released
from ...policy.configuration.config import Instrumentation
from ...policy.configuration.endpoint import is_traced

QUEUE_MAX: Final = 2048
"""Happenings that wait for their spans; further ones are dropped."""
_END_SECONDS: Final = 2.0


class Spans(Protocol):
    """Maker of spans: of OpenTelemetry, or of a test."""

    def add(self, at_ns: int, happening: Happening) -> None:
        """Make the span of a happening, told at this time in nanoseconds since 1970."""
        ...

    def close(self) -> None:
        """Send what is left."""
        ...


class TraceReport:
    """A report that hands on what is to be traced, from `follow` of a section that says so.

    To be told costs a look at a queue: spans are made and sent by other threads, and dropped where
    these cannot keep up.
    """

    takes = (Answered, Decided, Released)

    def __init__(
        self,
        log: logging.Logger,
        make_spans: Callable[[Instrumentation], Spans] | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """`make_spans`: OpenTelemetry's by default, which is loaded where it is wanted."""
        self._log = log
        self._make_spans = make_spans or _open_spans
        self._clock_ns = clock_ns
        self._following = threading.Lock()
        self._section: Instrumentation | None = None
        self._waiting: queue.Queue[Any] | None = None
        self._thread: threading.Thread | None = None
        self.dropped = 0

    def __call__(self, happening: Happening) -> None:
        """Have its span made, if there are traces."""
        waiting = self._waiting
        if waiting is None:
            return
        try:
            waiting.put_nowait((self._clock_ns(), happening))
        except queue.Full:
            self.dropped += 1

    def follow(self, section: Instrumentation) -> None:
        """Begin, go on or end as the configuration in force says."""
        with self._following:
            if section != self._section:
                self._end()
                self._section = section
                if is_traced(section):
                    self._begin(section)

    def stop(self) -> None:
        """End, once what waits is sent or some seconds are over."""
        with self._following:
            self._end()

    def _begin(self, section: Instrumentation) -> None:
        try:
            spans = self._make_spans(section)
        except ImportError as error:
            self._log.error(
                "instrumentation.tracingCollector: no traces: %s — pip install 'pinfold[otel]',"
                " or on a node see 'Traces' in the guide",
                error,
            )
            return
        self._waiting = queue.Queue(QUEUE_MAX)
        self._thread = threading.Thread(
            target=self._work, args=(self._waiting, spans), name="traces", daemon=True
        )
        self._thread.start()
        self._log.info("event=traces collector=%s", section.tracing_collector)

    def _end(self) -> None:
        waiting, self._waiting, self._section = self._waiting, None, None
        thread, self._thread = self._thread, None
        if waiting is not None and thread is not None:
            try:
                waiting.put(None, timeout=_END_SECONDS)
            except queue.Full:
                return
            thread.join(_END_SECONDS)

    def _work(self, waiting: "queue.Queue[Any]", spans: Spans) -> None:
        while (one := waiting.get()) is not None:
            try:
                spans.add(*one)
            except Exception:
                # Whatever OpenTelemetry thinks of it, containers are placed.
                self._log.exception("event=fault during=traces")
        spans.close()


def _open_spans(section: Instrumentation) -> Spans:
    """Spans that are sent to the collector. Raises `ImportError`."""
    from .event_spans import open_spans

    return open_spans(section)
