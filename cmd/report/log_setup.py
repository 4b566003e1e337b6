"""Destinations of log lines: standard error, with level marks where the journal reads them."""

import logging
import os
import sys
from collections.abc import Mapping
from typing import Final

from .log_writer import LogWriter, stream_sink, syslog_sink

LEVELS: Final = ("debug", "info", "warning", "error")

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

    def __init__(self, facility: int = 0, prefix: str = "") -> None:
        super().__init__("%(message)s")
        self._facility = facility
        self._prefix = prefix

    def format(self, record: logging.LogRecord) -> str:
        """The record as lines, every one of a traceback marked too."""
        mark = f"<{self._facility | _LEVELS.get(record.levelno, 6)}>{self._prefix}"
        return "\n".join(mark + line for line in super().format(record).splitlines())


def set_up_logging(
    level: str, environment: Mapping[str, str], *, is_preinstalled: bool = False
) -> logging.Logger:
    """The daemon's logger, ready for use; `end_logging` writes what is left of it."""
    # No line tells where in the code it comes from, and finding that out costs more than the line.
    # Source: Python's logging HOWTO, "Optimization".
    logging._srcfile = None  # pyright: ignore[reportPrivateUsage]  # as that page says
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logger = logging.getLogger(_NAME)
    logger.setLevel(level.upper())
    logger.propagate = False
    logger.handlers[:] = [_handler(environment, is_preinstalled)]
    return logger


def end_logging(seconds: float = _STOP_SECONDS) -> None:
    """Write what was logged so far, but for no longer than this."""
    for handler in logging.getLogger(_NAME).handlers:
        if isinstance(handler, LogWriter):
            handler.stop(seconds)


def _handler(environment: Mapping[str, str], is_preinstalled: bool) -> logging.Handler:
    # A runtime starts its plugins with standard error on /dev/null.
    if is_preinstalled and os.path.exists(_SYSLOG_SOCKET):
        writer = LogWriter(syslog_sink(_SYSLOG_SOCKET))
        writer.setFormatter(MarkedFormatter(_USER_FACILITY, "pinfoldd: "))
        return writer
    try:
        descriptor = sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        # There is no standard error, and its number may be that of another file by now.
        return logging.NullHandler()
    writer = LogWriter(stream_sink(descriptor))
    if _is_journal(descriptor, environment):
        writer.setFormatter(MarkedFormatter())
    else:
        writer.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    return writer


def _is_journal(descriptor: int, environment: Mapping[str, str]) -> bool:
    """Whether standard error is the very stream systemd connected to the journal."""
    found = os.fstat(descriptor)
    return environment.get("JOURNAL_STREAM", "") == f"{found.st_dev}:{found.st_ino}"
