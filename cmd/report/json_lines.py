"""Log lines as JSON documents, for collectors that take the fields of a line apart."""

import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from .escaped_text import escaped

_PAIR: Final = re.compile(r'([\w.]+)=("(?:[^"\\]|\\.)*"|[^\s"]*)(?: |$)', re.ASCII)

_NAMES: Final[Mapping[str, str]] = {"container": "k8s.container.name", "id": "container.id"}
"""Names of OpenTelemetry's conventions for the fields that they know."""


class JsonFormatter(logging.Formatter):
    """Each record as one document in one line: time, level, and its fields or its message.

    All values are texts: CPUs such as "4" are a list, not a number.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record, a traceback of it included."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        document = {"time": at, "level": record.levelname.lower()}
        message = record.getMessage()
        pairs = parse_pairs(message)
        if pairs is None:
            document["message"] = message
        for key, value in (pairs or {}).items():
            document.update(_named(key, value))
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return escaped(json.dumps(document, ensure_ascii=False))


def parse_pairs(text: str) -> Mapping[str, str] | None:
    """The fields of a line that is nothing but `key=value` pairs; None for any other text.

    >>> parse_pairs('event=create pool="NUMA node #0"')
    {'event': 'create', 'pool': 'NUMA node #0'}
    """
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        pair = _PAIR.match(text, position)
        if pair is None:
            return None
        key, value = pair.groups()
        try:
            found[key] = json.loads(value) if value.startswith('"') else value
        except ValueError:
            return None
        position = pair.end()
    return found or None


def _named(key: str, value: str) -> Mapping[str, str]:
    namespace, slash, name = value.partition("/")
    if key == "pod" and slash:
        return {"k8s.namespace.name": namespace, "k8s.pod.name": name}
    return {_NAMES.get(key, key): value}
