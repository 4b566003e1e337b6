"""Addresses in the configuration: where an HTTP server listens, and of the collector of traces."""

import re
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from msgspec import Struct

from ..text.errors import ConfigError
from .config import Instrumentation

_PORT_MAX: Final = 65535
_LABEL: Final = "[a-zA-Z0-9_-]{1,63}"
_LOCALHOST: Final = "localhost"
_EXAMPLES: Final = "':8891' or '127.0.0.1:8891'"
_TEXT: Final = re.compile(
    rf"(?:http://)?(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<name>{_LABEL}(?:\.{_LABEL})*)?)"
    r":(?P<port>[0-9]{1,5})/?",
    re.ASCII,
)
_SCHEMES: Final = ("otlp-grpc", "grpc")


class Endpoint(Struct, frozen=True):
    """An address to listen at."""

    host: str
    """An address or "localhost"; empty for all addresses of the machine."""
    port: int
    """0 for any free one."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    """The endpoint of "HOST:PORT" or ":PORT", with or without "http://". Raises `ConfigError`.

    Other names than localhost are refused: which address they mean, if any, shows only once the
    daemon is to listen there, and name servers are hardly there when a node starts.

    >>> parse_endpoint("http://[::1]:8891/")
    Endpoint(host='::1', port=8891)
    """
    matched = _TEXT.fullmatch(text)
    if matched is None or int(matched["port"]) > _PORT_MAX:
        raise ConfigError(f"{text!r} is no address to listen at — write {_EXAMPLES}")
    host = matched["v6"] or matched["name"] or ""
    if host and host.lower() != _LOCALHOST and not _is_address(host):
        raise ConfigError(
            f"{text!r} has no address to listen at, but {host!r} — write an address of the machine"
            f" instead, or none: {_EXAMPLES}"
        )
    return Endpoint(host, int(matched["port"]))


def _is_address(host: str) -> bool:
    for kind in (IPv4Address, IPv6Address):
        with suppress(ValueError):
            kind(host)
            return True
    return False


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
