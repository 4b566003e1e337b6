"""The collector of traces, as the configuration names it."""

from typing import Final

from .config import Instrumentation

_SCHEMES: Final = ("otlp-grpc", "grpc")


def is_traced(section: Instrumentation) -> bool:
    """Whether traces are sent: to a collector that can be spoken to, and more than none of them."""
    address = collector_address(section.tracing_collector)
    return address is not None and section.sampling_rate_per_million > 0


def collector_address(text: str) -> str | None:
    """The address of a collector; empty for the usual one, None where it is none for OTLP by gRPC.

    >>> collector_address("otlp-grpc://collector:4317"), collector_address("otlp-grpc")
    ('collector:4317', '')
    >>> collector_address("otlp-http")

    Source: nri-plugins, instrumentation, `tracingCollector`.
    """
    scheme, _, address = text.partition("://")
    return address.strip("/") if scheme in _SCHEMES else None
