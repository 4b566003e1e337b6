"""Spans of OpenTelemetry for calls of the runtime and for decisions.

Loads OpenTelemetry, an extra: imported where traces are wanted alone.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from opentelemetry.trace import Status, StatusCode

from ...nri.dispatch.report import Answered, Decided, Happening, Outcome, Released
from ...policy.configuration.config import Instrumentation
from ...policy.configuration.endpoint import collector_address
from ...policy.model.container import Container
from ...policy.model.grant import Refusal

_SERVICE: Final = "pinfold"
_MILLION: Final = 1_000_000
_SECOND_NS: Final = 1_000_000_000
_CLOSE_MILLISECONDS: Final = 1500


def open_spans(section: Instrumentation) -> "EventSpans":
    """Spans that are sent to the collector that the configuration names."""
    address = collector_address(section.tracing_collector)
    # Without an address the exporter goes by OTEL_EXPORTER_OTLP_ENDPOINT.
    exporter = OTLPSpanExporter(endpoint=f"http://{address}" if address else None)
    return EventSpans(BatchSpanProcessor(exporter), section.sampling_rate_per_million)


class EventSpans:
    """Makes a span of each happening that is traced. Not for several threads."""

    def __init__(self, processor: SpanProcessor, rate_per_million: int) -> None:
        """`processor`: takes the spans that are finished."""
        # The environment's OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come first.
        resource = Resource({SERVICE_NAME: _SERVICE}).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(
            sampler=TraceIdRatioBased(rate_per_million / _MILLION),
            resource=resource,
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer(_SERVICE)

    def add(self, at_ns: int, happening: Happening) -> None:
        """Make the span of a call or a decision; of all others none."""
        match happening:
            case Answered(method=method, seconds=seconds, outcome=outcome):
                duration_ns = int(seconds * _SECOND_NS)
                is_fault = outcome in (Outcome.LATE, Outcome.CRASHED)
                result = {"result": outcome.value}
                self._add(method, at_ns, duration_ns, result, is_fault=is_fault)
            case Decided(event=event):
                is_refused = isinstance(happening.decision.result, Refusal)
                attributes = dict(_decision_attributes(happening))
                self._add(f"decide {event}", at_ns, 0, attributes, is_fault=is_refused)
            case Released(container=container):
                self._add("release", at_ns, 0, dict(_name_attributes(container)), is_fault=False)
            case _:
                pass

    def close(self) -> None:
        """Send what is left, for a short time."""
        self._provider.force_flush(_CLOSE_MILLISECONDS)
        self._provider.shutdown()

    def _add(
        self,
        name: str,
        at_ns: int,
        duration_ns: int,
        attributes: Mapping[str, str | int],
        *,
        is_fault: bool,
    ) -> None:
        span = self._tracer.start_span(
            name, start_time=at_ns - duration_ns, attributes=dict(attributes)
        )
        if is_fault:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end_time=at_ns)


def _name_attributes(container: Container) -> Iterator[tuple[str, str | int]]:
    """Names as OpenTelemetry's conventions for Kubernetes have them."""
    yield "k8s.namespace.name", container.pod.namespace
    yield "k8s.pod.name", container.pod.name
    # The sandbox's id is another: a pod has one for each time that its sandbox is made.
    if container.pod.uid:
        yield "k8s.pod.uid", container.pod.uid
    yield "k8s.container.name", container.name
    yield "container.id", container.id


def _decision_attributes(decided: Decided) -> Iterator[tuple[str, str | int]]:
    decision = decided.decision
    yield from _name_attributes(decided.container)
    if isinstance(decision.result, Refusal):
        yield "pinfold.refused", decision.result.reason
        return
    yield "pinfold.pool", decision.pool
    yield "pinfold.cpus", str(decision.pinning.cpus or "")
    yield "pinfold.mems", str(decision.pinning.mems or "")
    yield "pinfold.decided_by", decision.decided_by
    yield "pinfold.updates", len(decision.changes)
