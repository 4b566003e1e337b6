"""Spans of OpenTelemetry for calls and decisions, read back from its in-memory exporter."""

# The stubs of grpc leave the types of handlers open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from msgspec import structs

from pinfold.nri.dispatch.report import Answered, Connected, Decided, Happening, Outcome, Report
from pinfold.policy.configuration.config import Instrumentation

from ..daemon.paper_node import PaperNode, config, guaranteed

pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry is not installed: pinfold[otel]")

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as collector
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pinfold.cmd.report.event_spans import EventSpans, open_spans
from pinfold.topology.made.spec import machine_from_spec

AT_NS = 1_700_000_000_000_000_000
MACHINE = machine_from_spec("socket:2 numa:1 core:4 thread:1 mem:8G")
ALL = 1_000_000


def spans_of(*happenings: Happening, rate_per_million: int = ALL) -> tuple[ReadableSpan, ...]:
    exporter = InMemorySpanExporter()
    spans = EventSpans(SimpleSpanProcessor(exporter), rate_per_million)
    for one in happenings:
        spans.add(AT_NS, one)
    spans.close()
    return exporter.get_finished_spans()


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    assert span.attributes is not None
    return span.attributes


@dataclass
class Told:
    """What a node on paper told of a container that came, one that was refused, and their ends."""

    happenings: list[Happening]


@pytest.fixture(name="told", scope="module")
def fixture_told() -> Generator[Told]:
    told = Told([])
    keep: Report = told.happenings.append
    node = PaperNode(MACHINE, config(), reports=(keep,))
    node.start()
    node.run(guaranteed("db", 2000))
    node.refusal(guaranteed("vast", 9000))
    node.settle()
    yield told
    node.stop()


def test_a_call_has_a_span_that_ends_when_it_was_answered() -> None:
    (span,) = spans_of(Answered("CreateContainer", 0.002, Outcome.DONE))
    assert span.name == "CreateContainer"
    assert (span.start_time, span.end_time) == (AT_NS - 2_000_000, AT_NS)
    assert attributes(span) == {"result": "done"}
    assert span.status.is_ok
    assert span.resource.attributes["service.name"] == "pinfold"


@pytest.mark.parametrize("outcome", [Outcome.LATE, Outcome.CRASHED])
def test_a_call_that_went_wrong_is_an_error(outcome: Outcome) -> None:
    (span,) = spans_of(Answered("CreateContainer", 0.2, outcome))
    assert not span.status.is_ok


def test_other_happenings_have_none() -> None:
    assert spans_of(Connected("containerd")) == ()


def test_a_rate_of_nothing_traces_nothing() -> None:
    assert spans_of(Answered("StateChange", 0.001, Outcome.DONE), rate_per_million=0) == ()


def test_decisions_have_the_names_and_the_place_of_their_containers(told: Told) -> None:
    placed, refused = (one for one in spans_of(*told.happenings) if one.name == "decide create")
    found = attributes(placed)
    assert found["k8s.pod.name"] == "db"
    assert found["pinfold.pool"].startswith("socket")
    assert found["pinfold.cpus"]
    assert found["pinfold.decided_by"]
    assert placed.status.is_ok
    assert "no pool has room" in attributes(refused)["pinfold.refused"]
    assert not refused.status.is_ok


def test_a_pod_is_told_by_the_uid_that_kubernetes_gave_it(told: Told) -> None:
    known = next(one for one in told.happenings if isinstance(one, Decided))
    pod = structs.replace(known.container.pod, uid="5c0a")
    for uid, expected in (("5c0a", "5c0a"), ("", None)):
        container = structs.replace(known.container, pod=structs.replace(pod, uid=uid))
        (span,) = spans_of(structs.replace(known, container=container))
        assert attributes(span).get("k8s.pod.uid") == expected


def test_spans_reach_a_collector() -> None:
    received: list[str] = []

    def export(asked: Any, context: grpc.ServicerContext) -> Any:
        del context
        received.extend(
            span.name
            for resource in asked.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        )
        return collector.ExportTraceServiceResponse()

    handler = grpc.unary_unary_rpc_method_handler(
        export,
        request_deserializer=collector.ExportTraceServiceRequest.FromString,
        response_serializer=collector.ExportTraceServiceResponse.SerializeToString,
    )
    service = "opentelemetry.proto.collector.trace.v1.TraceService"
    handlers = [grpc.method_handlers_generic_handler(service, {"Export": handler})]
    server = grpc.server(ThreadPoolExecutor(1), handlers=handlers)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        section = Instrumentation(
            tracing_collector=f"otlp-grpc://127.0.0.1:{port}", sampling_rate_per_million=ALL
        )
        spans = open_spans(section)
        spans.add(AT_NS, Answered("CreateContainer", 0.002, Outcome.DONE))
        spans.close()
    finally:
        server.stop(None).wait(5)
    assert received == ["CreateContainer"]
