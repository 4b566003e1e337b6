"""Where log lines go: standard error, with the journal's level marks where it reads them."""

import logging
import logging.handlers
import os
import sys
from collections.abc import Mapping
from typing import Final

LEVELS: Final = ("debug", "info", "warning", "error")

_SYSLOG_SOCKET: Final = "/dev/log"

# Levels of syslog(3), which the journal reads from the beginning of a line.
_MARKS: Final[Mapping[int, str]] = {
    logging.DEBUG: "<7>",
    logging.INFO: "<6>",
    logging.WARNING: "<4>",
    logging.ERROR: "<3>",
    logging.CRITICAL: "<2>",
}


class JournalFormatter(logging.Formatter):
    """Each line marked with its level; the journal adds the time."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as lines, every one of a traceback marked too."""
        mark = _MARKS.get(record.levelno, "<6>")
        return "\n".join(mark + line for line in super().format(record).splitlines())


def set_up_logging(
    level: str, environment: Mapping[str, str], *, is_preinstalled: bool = False
) -> logging.Logger:
    """The daemon's logger, ready for use."""
    logger = logging.getLogger("pinfold")
    logger.setLevel(level.upper())
    logger.propagate = False
    logger.handlers[:] = [_handler(environment, is_preinstalled)]
    return logger


def _handler(environment: Mapping[str, str], is_preinstalled: bool) -> logging.Handler:
    # A runtime starts its plugins with standard error on /dev/null.
    if is_preinstalled and os.path.exists(_SYSLOG_SOCKET):
        syslog = logging.handlers.SysLogHandler(_SYSLOG_SOCKET)
        syslog.setFormatter(logging.Formatter("pinfoldd: %(message)s"))
        return syslog
    handler = logging.StreamHandler(sys.stderr)
    if _is_journal(environment):
        handler.setFormatter(JournalFormatter("%(message)s"))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    return handler


def _is_journal(environment: Mapping[str, str]) -> bool:
    """Whether standard error is the very stream systemd connected to the journal."""
    stream = environment.get("JOURNAL_STREAM", "")
    try:
        found = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):
        return False
    return stream == f"{found.st_dev}:{found.st_ino}"
