"""Log lines whose reader does not read."""

import logging
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from pinfold.cmd.report.line_record import LateText
from pinfold.cmd.report.log_setup import MarkedFormatter
from pinfold.cmd.report.log_writer import LATE_MAX, LogWriter, stream_sink, syslog_sink

SECONDS = 20


class Gate:
    """A reader of lines who may be asleep, or gone."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.is_asked = threading.Event()
        self.error: OSError | None = None
        self.texts: list[str] = []
        self.calls = 0

    def __call__(self, lines: bytes, _has_given_up: Callable[[], bool]) -> None:
        self.calls += 1
        self.is_asked.set()
        self.is_open.wait(SECONDS)
        if self.error is not None:
            raise self.error
        self.texts += lines.decode().splitlines(keepends=True)


@pytest.fixture(name="log")
def fixture_log() -> Generator[logging.Logger]:
    logger = logging.Logger("test_logwriter")
    yield logger
    for handler in logger.handlers:
        assert isinstance(handler, LogWriter)
        handler.stop(SECONDS)


def writer(log: logging.Logger, gate: Gate, characters_max: int = 1 << 20) -> LogWriter:
    handler = LogWriter(gate, characters_max)
    log.addHandler(handler)
    return handler


def test_lines_are_written_in_the_order_they_were_logged(log: logging.Logger) -> None:
    gate = Gate()
    gate.is_open.set()
    handler = writer(log, gate)
    for number in range(100):
        log.info("line %d", number)
    handler.stop(SECONDS)
    assert gate.texts == [f"line {number}\n" for number in range(100)]


def test_whoever_logs_takes_no_lock_beside_that_of_the_backlog(log: logging.Logger) -> None:
    gate = Gate()
    gate.is_open.set()
    handler = writer(log, gate)
    handler.addFilter(lambda record: record.levelno >= logging.ERROR)
    # As logging takes it since Python 3.13: there has to be one.
    assert handler.lock is not None
    with handler.lock:
        other = threading.Thread(target=log.error, args=("from another thread",), daemon=True)
        other.start()
        other.join(SECONDS)
        assert not other.is_alive()
    log.warning("not wanted")
    handler.stop(SECONDS)
    assert gate.texts == ["from another thread\n"]


def test_what_does_not_fit_is_counted_and_told_in_its_place(log: logging.Logger) -> None:
    gate = Gate()
    handler = writer(log, gate, 5000)
    log.info("line 0")
    assert gate.is_asked.wait(SECONDS)
    for number in range(1, 1000):
        log.info("line %d", number)
    gate.is_open.set()
    while len(gate.texts) < 5:
        time.sleep(0.001)
    log.info("after")
    handler.stop(SECONDS)
    kept = [text for text in gate.texts if text.startswith("line")]
    assert kept == [f"line {number}\n" for number in range(len(kept))]
    assert gate.texts[len(kept) :] == [
        f"log: {1000 - len(kept)} lines are dropped: nobody took them — see who reads them\n",
        "after\n",
    ]


def test_long_lines_count_for_more(log: logging.Logger) -> None:
    gate = Gate()
    handler = writer(log, gate, 5000)
    log.info("first")
    assert gate.is_asked.wait(SECONDS)
    for _ in range(3):
        log.info("x" * 4000)
    gate.is_open.set()
    handler.stop(SECONDS)
    assert [len(text) for text in gate.texts[:2]] == [6, 4001]
    assert len(gate.texts) <= 4


def test_a_reader_who_is_gone_costs_no_turn_of_the_wheel(log: logging.Logger) -> None:
    gate = Gate()
    gate.is_open.set()
    gate.error = BrokenPipeError()
    handler = writer(log, gate)
    for number in range(3):
        log.info("line %d", number)
    while not gate.calls:
        time.sleep(0.001)
    gate.error = None
    log.info("after")
    handler.stop(SECONDS)
    assert gate.calls <= 8, "a line that failed is not tried again and again"
    # A line may have failed only after that one came: then it is told behind it.
    assert "after\n" in gate.texts[-2:]
    # Once or twice, as the reader may come back between two of them.
    dropped = [int(text.split()[1]) for text in gate.texts if "are dropped" in text]
    written = [text for text in gate.texts if text.startswith("line ")]
    assert dropped
    assert sum(dropped) + len(written) == 3, "each line is written or told of as dropped"


def test_a_line_that_cannot_be_made_is_no_failure_of_the_caller(log: logging.Logger) -> None:
    gate = Gate()
    gate.is_open.set()
    handler = writer(log, gate)
    log.info("%d lines", "many")
    handler.stop(SECONDS)
    assert "'%d lines' cannot be logged: TypeError" in gate.texts[0]


class Hopeless(logging.Formatter):
    """A formatter with a fault."""

    def format(self, record: logging.LogRecord) -> str:
        raise ValueError(record.msg)


def test_a_line_that_cannot_be_formatted_is_not_the_last_one(log: logging.Logger) -> None:
    gate = Gate()
    gate.is_open.set()
    handler = writer(log, gate)
    handler.setFormatter(Hopeless())
    log.info("first")
    log.info("second")
    handler.stop(SECONDS)
    assert gate.texts == ["first\n", "second\n"]


def test_a_pipe_nobody_reads_neither_holds_up_the_caller_nor_the_end(log: logging.Logger) -> None:
    reading, writing = os.pipe()
    handler = LogWriter(stream_sink(writing))
    log.addHandler(handler)
    for number in range(10_000):
        log.info("line %d", number)
    full = select.poll()
    full.register(writing, select.POLLOUT)
    until = time.monotonic() + SECONDS
    while full.poll(0):
        assert time.monotonic() < until
        time.sleep(0.01)
    handler.stop(0)
    log.info("too late")
    text = os.read(reading, 1 << 20).decode()
    assert text.startswith("line 0\nline 1\n")
    handler.stop(SECONDS)
    os.close(writing)
    os.close(reading)


def test_a_pipe_that_is_read_slowly_gets_every_byte(log: logging.Logger) -> None:
    reading, writing = os.pipe()
    handler = LogWriter(stream_sink(writing))
    log.addHandler(handler)
    lines = [f"{number} " + "x" * 10_000 for number in range(50)]
    for line in lines:
        log.info("%s", line)
    text = b""
    while text.count(b"\n") < len(lines):
        text += os.read(reading, 1000)
    assert text.decode().splitlines() == lines
    handler.stop(SECONDS)
    os.close(writing)
    os.close(reading)


def test_syslog_gets_one_message_for_each_line(log: logging.Logger, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "log"))
        sock.settimeout(SECONDS)
        handler = LogWriter(syslog_sink(str(tmp_path / "log")))
        handler.setFormatter(MarkedFormatter(8, "pinfoldd: "))
        log.addHandler(handler)
        log.warning("first\nsecond")
        assert [sock.recv(99) for _ in range(2)] == [
            b"<12>pinfoldd: first",
            b"<12>pinfoldd: second",
        ]


class Maker:
    """A text that notes which thread it is made in."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def __call__(self) -> str:
        self.threads.append(threading.get_ident())
        return f"text {len(self.threads)}"


def test_a_late_text_is_made_once_by_the_thread_that_writes(log: logging.Logger) -> None:
    gate, make = Gate(), Maker()
    gate.is_open.set()
    handler = writer(log, gate)
    log.info("first")
    log.info("%s", LateText(make))
    log.info("last")
    handler.stop(SECONDS)
    assert gate.texts == ["first\n", "text 1\n", "last\n"]
    assert make.threads != [threading.get_ident()]


def test_late_texts_are_made_at_once_where_many_lines_wait(log: logging.Logger) -> None:
    gate, make = Gate(), Maker()
    handler = writer(log, gate)
    log.info("first")
    assert gate.is_asked.wait(SECONDS)
    for _ in range(LATE_MAX + 10):
        log.info("%s", LateText(make))
    assert make.threads == [threading.get_ident()] * 10
    gate.is_open.set()
    handler.stop(SECONDS)
    assert len(make.threads) == LATE_MAX + 10
    assert len(gate.texts) == 1 + LATE_MAX + 10


def test_a_late_text_that_nobody_wants_is_not_made(log: logging.Logger) -> None:
    gate, make = Gate(), Maker()
    gate.is_open.set()
    handler = writer(log, gate)
    log.setLevel(logging.WARNING)
    log.info("%s", LateText(make))
    handler.stop(SECONDS)
    assert make.threads == []


def test_a_late_text_that_cannot_be_made_is_not_the_last_line(log: logging.Logger) -> None:
    gate = Gate()
    gate.is_open.set()
    handler = writer(log, gate)
    log.info("%s", LateText(lambda: "x"[1]))
    log.info("after")
    handler.stop(SECONDS)
    assert "cannot be logged: IndexError" in gate.texts[0]
    assert gate.texts[1:] == ["after\n"]
