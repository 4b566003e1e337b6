"""Records of the daemon's log, made in a fraction of the time."""

import logging
import time
from collections.abc import Callable, Mapping
from types import TracebackType

_Arguments = tuple[object, ...] | Mapping[str, object]
_Exception = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)


class LateText:
    """A text that is made when it is written: by `%s`, from values that do not change.

    As the only argument of a record. It need not be made where nobody wants the record.
    """

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    def __str__(self) -> str:
        return self._make()


class LineRecord(logging.LogRecord):
    """A record without the file, the function, the thread and the process it comes from.

    No line tells them, and to find them takes longer than all the rest of a line.
    """

    def __init__(
        self,
        name: str,
        level: int,
        message: object,
        args: _Arguments | None,
        exc_info: _Exception | None,
    ) -> None:
        # Instead of the standard one's, which finds them.
        self.name, self.msg, self.args = name, str(message), args or None
        self.levelno, self.levelname = level, logging.getLevelName(level)
        self.exc_info, self.exc_text, self.stack_info = exc_info, None, None
        # A formatter of somebody else's finds them empty, and not missing.
        self.pathname = self.filename = self.module = self.funcName = ""
        self.lineno = 0
        self.thread = self.threadName = self.process = self.processName = self.taskName = None
        self.created = time.time()
        self.msecs = self.created % 1 * 1000
        self.relativeCreated = 0.0


class LineLogger(logging.Logger):
    """A logger of such records."""

    def makeRecord(  # noqa: N802 - its name in the standard library
        self,
        name: str,
        level: int,
        fn: str,
        lno: int,
        msg: object,
        args: _Arguments,
        exc_info: _Exception | None,
        func: str | None = None,
        extra: Mapping[str, object] | None = None,
        sinfo: str | None = None,
    ) -> logging.LogRecord:
        """The record of one line."""
        return LineRecord(name, level, msg, args, exc_info)


def line_logger(name: str) -> logging.Logger:
    """The logger of a name, which writes such records where nobody asked for it before."""
    usual = logging.getLoggerClass()
    logging.setLoggerClass(LineLogger)
    try:
        return logging.getLogger(name)
    finally:
        logging.setLoggerClass(usual)
