"""The daemon's log: level and form from the command line, the configuration, a signal."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pinfold.cmd.report.daemon_logger import DaemonLogger, JsonFormatter, parse_pairs
from pinfold.cmd.report.line_record import LineRecord, line_logger
from pinfold.cmd.report.log_fields import fields
from pinfold.cmd.report.log_setup import LogHandler, MarkedFormatter
from pinfold.policy.configuration.config import Log, LogFormat, LogLevel

SECONDS = 30


def record(message: str, level: int = logging.INFO) -> logging.LogRecord:
    made = logging.LogRecord("pinfold", level, "", 0, message, None, None)
    made.created = 1_700_000_000.25
    return made


def document(message: str, level: int = logging.INFO) -> dict[str, str]:
    text = JsonFormatter().format(record(message, level))
    assert "\n" not in text
    found: dict[str, str] = json.loads(text)
    assert found.pop("time") == "2023-11-14T22:13:20.250+00:00"
    return found


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(
            fields(event="create", pod="default/web", container="nginx", id="c1", cpus="4"),
            {
                "event": "create",
                "k8s.namespace.name": "default",
                "k8s.pod.name": "web",
                "k8s.container.name": "nginx",
                "container.id": "c1",
                "cpus": "4",
            },
            id="fields have the names that collectors know",
        ),
        pytest.param(
            fields(why='a "tie"\n', pool="NUMA node #0", empty="", other="ä\u2028\x1b"),
            {"why": 'a "tie"\n', "pool": "NUMA node #0", "empty": "", "other": "ä\u2028\x1b"},
            id="quoted values are as they were",
        ),
        pytest.param(
            "node.yaml:3: pinCpu: unknown field",
            {"message": "node.yaml:3: pinCpu: unknown field"},
            id="a sentence is a message",
        ),
        pytest.param(
            "event=reconfigured changed=nothing",
            {"event": "reconfigured", "changed": "nothing"},
            id="pairs written by hand are fields",
        ),
        pytest.param("event=fault; it stays", {"message": "event=fault; it stays"}, id="a mixture"),
        pytest.param('a="b', {"message": 'a="b'}, id="a quotation without end"),
        pytest.param("", {"message": ""}, id="nothing"),
    ],
)
def test_a_line_is_one_document(message: str, expected: dict[str, str]) -> None:
    assert document(message) == {"level": "info", **expected}


def test_fields_are_parsed_as_they_were_written() -> None:
    values = {"a": "x=y z", "b": '"', "c": "\\", "d": "tab\t", "e": "plain/0-3", "f": "é\U0001f600"}
    assert parse_pairs(fields(**values)) == values


def test_a_traceback_is_part_of_its_document() -> None:
    made = record("event=fault")
    try:
        raise ValueError("bad\nluck")
    except ValueError:
        made.exc_info = sys.exc_info()
    found = json.loads(JsonFormatter().format(made))
    assert found["event"] == "fault"
    assert found["exception"].endswith("ValueError: bad\nluck")


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def test_a_record_of_ours_makes_the_lines_of_a_standard_one() -> None:
    ours, standard = line_logger("test_line_logger"), logging.Logger("test_line_logger")
    kept = Kept()
    for one in (ours, standard):
        one.addHandler(kept)
        one.propagate = False
        one.setLevel(logging.DEBUG)
        one.warning("%s of %d", "a", 2)
        one.info("100%")
        one.info("%s", {"a": 1})
        try:
            raise ValueError("bad\nluck")
        except ValueError:
            one.exception("event=fault")
    assert {type(one) for one in kept.records[:4]} == {LineRecord}
    for made in kept.records:
        made.created, made.msecs = 1_700_000_000.25, 250.0
        # Of the exception the line in this file differs.
        made.exc_text = "ValueError: bad\nluck" if made.exc_info else None
    plain = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    for formatter in (plain, JsonFormatter(), MarkedFormatter(inner=plain)):
        texts = [formatter.format(made) for made in kept.records]
        assert texts[:4] == texts[4:], formatter


def test_a_formatter_finds_all_that_a_standard_record_has() -> None:
    ours = line_logger("test_line_logger")
    made = ours.makeRecord("pinfold", logging.INFO, "", 0, "event=x", (), None)
    known = vars(logging.LogRecord("pinfold", logging.INFO, "", 0, "event=x", None, None))
    text = " ".join(f"%({name})s" for name in known if name != "exc_info")
    assert logging.Formatter(f"{text} %(relativeCreated)d").format(made).startswith("pinfold ")


def test_the_journal_gets_the_level_before_the_document() -> None:
    marked = MarkedFormatter(inner=JsonFormatter())
    text = marked.format(record("event=drift", logging.WARNING))
    assert text.startswith('<4>{"time": ')
    assert json.loads(text[3:])["level"] == "warning"


def test_a_handler_marks_lines_in_every_form() -> None:
    handler = logging.NullHandler()
    one = LogHandler(handler=handler, is_marked=True, prefix="pinfoldd: ")
    texts: list[str] = []
    for inner in (None, JsonFormatter()):
        one.write_as(inner)
        texts.append(handler.format(record("event=drift")))
    assert texts[0] == "<6>pinfoldd: event=drift"
    assert texts[1].startswith('<6>pinfoldd: {"time"')


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.getLogger("pinfold")
    before = (made.level, made.propagate, list(made.handlers))
    yield made
    made.level, made.propagate, made.handlers[:] = before


LEVELS: list[tuple[str | None, LogLevel, int]] = [
    (None, LogLevel.WARNING, logging.WARNING),
    ("error", LogLevel.DEBUG, logging.ERROR),
    (None, LogLevel.INFO, logging.INFO),
]


@pytest.mark.parametrize(("option", "configured", "level"), LEVELS)
def test_the_command_line_wins_over_the_configuration(
    option: str | None, configured: LogLevel, level: int, logger: logging.Logger
) -> None:
    logs = DaemonLogger(Log(level=configured), {}, level=option)
    assert logs.logger is logger
    assert logger.level == level


def test_a_reload_changes_the_level_unless_a_signal_did(logger: logging.Logger) -> None:
    logs = DaemonLogger(Log(level=LogLevel.INFO), {})
    logs.follow(Log(level=LogLevel.ERROR))
    assert logger.level == logging.ERROR
    logs.toggle_debug()
    assert logger.level == logging.DEBUG
    logs.follow(Log(level=LogLevel.WARNING))
    assert logger.level == logging.DEBUG, "the signal counts until the next one"
    logs.toggle_debug()
    assert logger.level == logging.WARNING


def test_the_form_follows_the_configuration_too(logger: logging.Logger) -> None:
    logs = DaemonLogger(Log(format=LogFormat.JSON), {})
    (handler,) = logger.handlers
    assert json.loads(handler.format(record("event=x")))["event"] == "x"
    logs.follow(Log())
    assert handler.format(record("event=x")).endswith(" INFO event=x")


@dataclass(frozen=True, slots=True)
class Running:
    """A daemon and what it has logged so far."""

    process: subprocess.Popen[bytes]
    log: Path

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()

    def wait_for(self, holds: Callable[[list[str]], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not holds(self.lines()):
            assert self.process.poll() is None, self.lines()
            assert time.monotonic() < deadline, self.lines()
            time.sleep(0.05)


@contextmanager
def running(folder: Path) -> Generator[Running]:
    log = folder / "log"
    config = folder / "pinfold.yaml"
    with log.open("wb") as standard_error:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "pinfold.cmd.pinfoldd", "--runtime", "embedded"),
                *("--machine", "core:4", "--control", "off", "--config", str(config)),
            ],
            stderr=standard_error,
            env={key: value for key, value in os.environ.items() if key != "JOURNAL_STREAM"},
        )
    try:
        found = Running(process, log)
        found.wait_for(lambda lines: "event=connected" in "\n".join(lines))
        yield found
    finally:
        process.terminate()
        process.wait(SECONDS)


def test_a_running_daemon_changes_level_and_form(tmp_path: Path) -> None:
    config = tmp_path / "pinfold.yaml"
    config.write_text("log: {level: info}\n")
    with running(tmp_path) as daemon:
        daemon.process.send_signal(signal.SIGUSR1)
        daemon.wait_for(lambda lines: "log: the level is debug" in "\n".join(lines))
        daemon.process.send_signal(signal.SIGUSR1)
        daemon.wait_for(lambda lines: "log: the level is info" in "\n".join(lines))
        config.write_text("log: {format: json}\n")
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_for(lambda lines: "reconfigured" in "\n".join(lines))
        daemon.process.send_signal(signal.SIGUSR1)
        daemon.wait_for(lambda lines: "\n".join(lines).count("level is debug") == 2)
        (last,) = [json.loads(line) for line in daemon.lines() if '"log: the level' in line]
    assert last["message"] == "log: the level is debug — SIGUSR1 switches it"
    assert last["level"] == "warning"
