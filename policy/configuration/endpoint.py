"""Where something is served over HTTP: a host and a port."""

import re
from dataclasses import dataclass
from typing import Final

from ..errors import ConfigError

_PORT_MAX: Final = 65535
_LABEL: Final = "[a-zA-Z0-9_-]{1,63}"
_TEXT: Final = re.compile(
    rf"(?:http://)?(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<name>{_LABEL}(?:\.{_LABEL})*)?)"
    r":(?P<port>[0-9]{1,5})/?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address to listen at."""

    host: str
    """A name or an address; empty for all addresses of the machine."""
    port: int
    """0 for any free one."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    """The endpoint of "HOST:PORT" or ":PORT", with or without "http://". Raises `ConfigError`.

    >>> parse_endpoint("http://[::1]:8891/")
    Endpoint(host='::1', port=8891)
    """
    matched = _TEXT.fullmatch(text)
    if matched is None or int(matched["port"]) > _PORT_MAX:
        raise ConfigError(
            f"{text!r} is no address to listen at — write ':8891' or '127.0.0.1:8891'"
        )
    return Endpoint(matched["v6"] or matched["name"] or "", int(matched["port"]))
