"""The logger of the daemon: its level and form, by the command line or the configuration."""

import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from ...policy.configuration.config import Log, LogFormat, LogLevel
from .escaped_text import escaped
from .log_setup import log_handler, prepare_logging

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


class DaemonLogger:
    """The logger, and what may change of it while the daemon runs."""

    def __init__(
        self,
        settings: Log,
        environment: Mapping[str, str],
        *,
        level: str | None = None,
        form: str | None = None,
        is_preinstalled: bool = False,
    ) -> None:
        """`level` and `form`: what the command line says, whatever the configuration does."""
        self._level = None if level is None else LogLevel(level)
        self._form = None if form is None else LogFormat(form)
        self._is_debugging = False
        self._settings = settings
        self._handler = log_handler(environment, is_preinstalled=is_preinstalled)
        self.logger = prepare_logging(self._handler.handler)
        self.follow(settings)

    def follow(self, settings: Log) -> None:
        """Log as the configuration in force says; at the start and after each change."""
        self._settings = settings
        level = LogLevel.DEBUG if self._is_debugging else self._level or settings.level
        self.logger.setLevel(level.value.upper())
        form = self._form or settings.format
        self._handler.write_as(JsonFormatter() if form is LogFormat.JSON else None)

    def toggle_debug(self) -> None:
        """Log in detail, or as before that again."""
        self._is_debugging = not self._is_debugging
        self.follow(self._settings)
        level = logging.getLevelName(self.logger.level).lower()
        self.logger.warning("log: the level is %s — SIGUSR1 switches it", level)
