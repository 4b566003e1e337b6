"""Log lines on their way out: whoever logs never waits for whoever reads."""

import logging
import os
import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from .line_record import LateText

_CHARACTERS_MAX: Final = 4 << 20
_RECORD_CHARACTERS: Final = 500
"""What a record takes beside its text."""
_PIECE_BYTES: Final = select.PIPE_BUF
_POLL_MILLISECONDS: Final = 200
_SEND_SECONDS: Final = 1.0
_AT_ONCE_CHARACTERS: Final = 16 << 10
"""Lines are written together until they are so long: each writing passes on Python's lock, and who
answers a runtime may have to wait for it."""
LATE_MAX: Final = 64
"""So many records wait with all that their texts are made from; the texts of others are shorter."""
_LATE_CHARACTERS: Final = 500
"""The length that such a text is taken to have."""
_GATHER_SECONDS: Final = 0.15
"""Lines that come so soon after the first are written with it: each waking of the writing thread
takes time from whoever logs."""


class _Waiting(Struct, frozen=True, kw_only=True):
    """A record in the backlog; `lines` is what is lost with it."""

    record: logging.LogRecord
    characters: int
    lines: int


Sink = Callable[[bytes, Callable[[], bool]], None]
"""Takes lines, and may take its time until it is told to give up. Raises `OSError`."""


class LogWriter(logging.Handler):
    """Handler with a bounded backlog, which one thread writes.

    The only handler of its logger: it changes the records. Those that do not fit any more are
    dropped; a line in their place says how many. Only texts are made in the caller's thread, and
    those alone that have to be; what takes longer, as tracebacks do, is made in the other one.
    """

    def __init__(self, sink: Sink, characters_max: int = _CHARACTERS_MAX) -> None:
        super().__init__()
        self._sink = sink
        self._characters_max = characters_max
        self._backlog = threading.RLock()
        """For the records; taken by itself, as a condition takes it by a call of Python."""
        self._changed = threading.Condition(self._backlog)
        self._waiting: deque[_Waiting] = deque()
        self._characters = 0
        self._dropped = 0
        self._is_stopping = self._is_over = False
        self._stopped = threading.Event()
        self._is_failing = False
        """Whether the last line was not taken: then only a further one is worth a try."""
        self._thread: threading.Thread | None = None

    def handle(self, record: logging.LogRecord) -> bool:
        """Have the record written soon, without the handler's lock: the backlog has its own."""
        is_wanted = not self.filters or bool(self.filter(record))
        if is_wanted:
            self.emit(record)
        return is_wanted

    def emit(self, record: logging.LogRecord) -> None:
        """Have the record written soon."""
        if _is_late(record) and len(self._waiting) < LATE_MAX:
            size = _LATE_CHARACTERS + _RECORD_CHARACTERS
        else:
            _make_text(record)
            size = len(record.msg) + _RECORD_CHARACTERS
        with self._backlog:
            if self._is_stopping or self._characters + size > self._characters_max:
                self._dropped += 1
                return
            if self._dropped:
                self._tell_dropped()
            self._put(_Waiting(record=record, characters=size, lines=1))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="log", daemon=True)
                self._thread.start()

    def stop(self, seconds: float) -> None:
        """Write what waits, but for no longer than this; nothing is written from then on."""
        with self._backlog:
            self._is_stopping = True
            self._stopped.set()
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join(seconds)
        self._is_over = True

    def _put(self, one: "_Waiting") -> None:
        is_first = not self._waiting
        self._characters += one.characters
        self._waiting.append(one)
        if is_first:
            # Behind another one it is taken with that, without anybody being woken.
            self._changed.notify()

    def _tell_dropped(self) -> None:
        if self._dropped:
            text = f"log: {self._dropped} lines are dropped: nobody took them — see who reads them"
            record = logging.LogRecord("pinfold", logging.WARNING, __file__, 0, text, None, None)
            one = _Waiting(record=record, characters=_RECORD_CHARACTERS, lines=self._dropped)
            self._dropped = 0
            self._put(one)

    def _run(self) -> None:
        while taken := self._take():
            text = "".join([f"{self._text(one.record)}\n" for one in taken])
            try:
                self._sink(text.encode(errors="replace"), self._has_given_up)
                self._is_failing = False
            except OSError:
                # The reader is gone, or its disk is full.
                self._is_failing = True
                with self._backlog:
                    self._dropped += sum([one.lines for one in taken])

    def _take(self) -> "list[_Waiting]":
        """The next records, waited for; none at the end."""
        with self._backlog:
            if not self._waiting and not self._is_failing:
                self._tell_dropped()
            is_first = not self._waiting
            self._changed.wait_for(lambda: self._waiting or self._is_stopping)
        if is_first:
            self._stopped.wait(_GATHER_SECONDS)
        with self._backlog:
            taken: list[_Waiting] = []
            characters = 0
            while self._waiting and not self._is_over and characters < _AT_ONCE_CHARACTERS:
                taken.append(self._waiting.popleft())
                characters += taken[-1].characters
                if self._is_failing:
                    # It may be lost with all that goes with it.
                    break
            self._characters -= characters
            return taken

    def _text(self, record: logging.LogRecord) -> str:
        _make_text(record)
        try:
            return self.format(record)
        except Exception:
            # Whatever is wrong with one line, there must be further ones.
            return str(record.msg)

    def _has_given_up(self) -> bool:
        return self._is_over


def _is_late(record: logging.LogRecord) -> bool:
    match record.args:
        case (LateText(),):
            return True
        case _:
            return False


def _make_text(record: logging.LogRecord) -> None:
    """Have a record be its text, in place of what that is made from."""
    if record.args is None and isinstance(record.msg, str):
        return
    try:
        record.msg = record.getMessage()
    except Exception as error:
        # The standard complaint would go to standard error, which may be full.
        record.msg = f"{record.msg!r} cannot be logged: {error!r}"
    record.args = None


def stream_sink(descriptor: int) -> Sink:
    """Lines to an open file, which may be a pipe nobody reads.

    Written past Python's own stream: that one is locked while it waits, and a process that ends
    waits for the lock.
    """

    def write(lines: bytes, has_given_up: Callable[[], bool]) -> None:
        poller = select.poll()
        poller.register(descriptor, select.POLLOUT)
        rest = memoryview(lines)
        while rest and not has_given_up():
            if not poller.poll(_POLL_MILLISECONDS):
                continue
            try:
                # A pipe that can be written to takes so much at once.
                rest = rest[os.write(descriptor, rest[:_PIECE_BYTES]) :]
            except BlockingIOError:
                continue

    return write


def syslog_sink(path: str) -> Sink:
    """Lines to the socket of syslog, one message each. Source: syslog(3), unix(7)."""

    def write(lines: bytes, _has_given_up: Callable[[], bool]) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.settimeout(_SEND_SECONDS)
            sock.connect(path)
            for line in lines.splitlines():
                sock.send(line)

    return write
