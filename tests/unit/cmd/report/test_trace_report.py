"""Happenings are handed on for traces, aside and only where traces are wanted."""

import logging
import threading
from collections.abc import Callable

import pytest

from pinfold.cmd.report.trace_report import QUEUE_MAX, TraceReport
from pinfold.nri.dispatch.report import Answered, Happening, Outcome
from pinfold.policy.configuration.config import Instrumentation

LOG = logging.getLogger("traces")
OFF = Instrumentation()
ON = Instrumentation(tracing_collector="otlp-grpc", sampling_rate_per_million=1_000_000)
CALL = Answered("CreateContainer", 0.002, Outcome.DONE)


class KeptSpans:
    """Spans that are kept, and wait while a test holds them."""

    def __init__(self) -> None:
        self.added: list[tuple[int, Happening]] = []
        self.is_closed = False
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def add(self, at_ns: int, happening: Happening) -> None:
        assert self.may_go_on.wait(20)
        self.added.append((at_ns, happening))

    def close(self) -> None:
        self.is_closed = True


def of(spans: KeptSpans) -> Callable[[Instrumentation], KeptSpans]:
    return lambda _: spans


def test_nothing_is_traced_by_default() -> None:
    spans = KeptSpans()
    report = TraceReport(LOG, of(spans))
    report(CALL)
    report.follow(OFF)
    report(CALL)
    report.stop()
    assert spans.added == []


def test_what_is_told_is_traced_with_its_time_until_the_end() -> None:
    spans = KeptSpans()
    report = TraceReport(LOG, of(spans), clock_ns=lambda: 7)
    report.follow(ON)
    report(CALL)
    report.stop()
    report(CALL)
    assert spans.added == [(7, CALL)]
    assert spans.is_closed


def test_a_reload_begins_and_ends_traces_and_leaves_the_same_alone() -> None:
    made: list[KeptSpans] = []

    def make(_: Instrumentation) -> KeptSpans:
        made.append(KeptSpans())
        return made[-1]

    report = TraceReport(LOG, make)
    for section in (ON, ON, OFF, ON):
        report.follow(section)
    assert [one.is_closed for one in made] == [True, False]
    report.stop()
    assert [one.is_closed for one in made] == [True, True]


def test_who_tells_does_not_wait_for_a_collector_that_hangs() -> None:
    spans = KeptSpans()
    spans.may_go_on.clear()
    report = TraceReport(LOG, of(spans))
    report.follow(ON)
    for _ in range(QUEUE_MAX + 10):
        report(CALL)
    assert report.dropped in (9, 10)
    spans.may_go_on.set()
    report.stop()
    assert len(spans.added) + report.dropped == QUEUE_MAX + 10


def test_without_the_extra_the_log_says_what_to_type(caplog: pytest.LogCaptureFixture) -> None:
    def make(_: Instrumentation) -> KeptSpans:
        raise ImportError("No module named 'opentelemetry'")

    report = TraceReport(LOG, make)
    report.follow(ON)
    report(CALL)
    report.stop()
    assert "pip install 'pinfold[otel]'" in caplog.text


def test_a_fault_of_one_span_ends_no_others(caplog: pytest.LogCaptureFixture) -> None:
    class FaultySpans(KeptSpans):
        def add(self, at_ns: int, happening: Happening) -> None:
            super().add(at_ns, happening)
            if len(self.added) == 1:
                raise ValueError("odd")

    spans = FaultySpans()
    report = TraceReport(LOG, of(spans))
    report.follow(ON)
    report(CALL)
    report(CALL)
    report.stop()
    assert len(spans.added) == 2
    assert "during=traces" in caplog.text
