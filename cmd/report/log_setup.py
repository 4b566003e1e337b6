"""Destinations of log lines: standard error, with level marks where the journal reads them."""

import logging
import os
import sys
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from .line_record import line_logger
from .log_writer import LogWriter, stream_sink, syslog_sink

_NAME: Final = "pinfold"
_SYSLOG_SOCKET: Final = "/dev/log"
_USER_FACILITY: Final = 1 << 3
_STOP_SECONDS: Final = 2.0

# Levels of syslog(3), which the journal reads from the beginning of a line.
_LEVELS: Final[Mapping[int, int]] = {
    logging.DEBUG: 7,
    logging.INFO: 6,
    logging.WARNING: 4,
    logging.ERROR: 3,
    logging.CRITICAL: 2,
}


class MarkedFormatter(logging.Formatter):
    """Each line marked with its level, as the journal and syslog read it; they add the time."""

    def __init__(
        self, facility: int = 0, prefix: str = "", inner: logging.Formatter | None = None
    ) -> None:
        """`inner` makes the text of a record; of its own it is the message alone."""
        super().__init__("%(message)s")
        self._facility = facility
        self._prefix = prefix
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """The record as lines, every one of a traceback marked too."""
        text = super().format(record) if self._inner is None else self._inner.format(record)
        mark = f"<{self._facility | _LEVELS.get(record.levelno, 6)}>{self._prefix}"
        return "\n".join(mark + line for line in text.splitlines())


class LogHandler(Struct, frozen=True, kw_only=True):
    """The handler of where lines go, and how they are marked there."""

    handler: logging.Handler
    is_marked: bool = False
    facility: int = 0
    prefix: str = ""

    def write_as(self, inner: logging.Formatter | None) -> None:
        """Write records as this formatter has them; None: as text, with what is added there."""
        formatter = inner or logging.Formatter("%(asctime)s %(levelname)s %(message)s")
        if self.is_marked:
            formatter = MarkedFormatter(self.facility, self.prefix, inner)
        self.handler.setFormatter(formatter)


def prepare_logging(handler: logging.Handler) -> logging.Logger:
    """The daemon's logger with this handler; `end_logging` writes what is left of it."""
    # What no line tells is not to be looked for. Source: Python's logging HOWTO, "Optimization".
    logging._srcfile = None  # pyright: ignore[reportPrivateUsage]  # as that page says
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logger = line_logger(_NAME)
    logger.propagate = False
    logger.handlers[:] = [handler]
    return logger


def end_logging() -> None:
    """Write what was logged so far, but for no longer than `_STOP_SECONDS`."""
    for handler in logging.getLogger(_NAME).handlers:
        if isinstance(handler, LogWriter):
            handler.stop(_STOP_SECONDS)


def log_handler(environment: Mapping[str, str], *, is_preinstalled: bool) -> LogHandler:
    """The handler of standard error, or of syslog for a daemon that the runtime started."""
    # A runtime starts its plugins with standard error on /dev/null.
    if is_preinstalled and os.path.exists(_SYSLOG_SOCKET):
        writer = LogWriter(syslog_sink(_SYSLOG_SOCKET))
        return LogHandler(
            handler=writer, is_marked=True, facility=_USER_FACILITY, prefix="pinfoldd: "
        )
    try:
        descriptor = sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        # There is no standard error, and its number may be that of another file by now.
        return LogHandler(handler=logging.NullHandler())
    writer = LogWriter(stream_sink(descriptor))
    return LogHandler(handler=writer, is_marked=_is_journal(descriptor, environment))


def _is_journal(descriptor: int, environment: Mapping[str, str]) -> bool:
    """Whether standard error is the very stream systemd connected to the journal."""
    found = os.fstat(descriptor)
    return environment.get("JOURNAL_STREAM", "") == f"{found.st_dev}:{found.st_ino}"
