"""Clients that take their time, and a machine that has nothing left for another one."""

import http.client
import logging
import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path

import psutil
import pytest

from pinfold.cmd.web.web_server import Page, WebServer
from pinfold.policy.configuration.endpoint import Endpoint

LOG = logging.getLogger("test_webserver")
SECONDS = 20
CLIENT_SECONDS = "pinfold.cmd.web.web_server._CLIENT_SECONDS"
PLACES = 8
LARGE_BYTES = 1 << 24


class Served:
    """A server whose page "/" is small; "/large" is large, and "/slow" waits until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.gate = threading.Event()
        pages = {
            "/": lambda: Page(content=b"x"),
            "/slow": self._slow,
            "/large": lambda: Page(content=bytes(LARGE_BYTES)),
        }
        self.server = WebServer(Endpoint("127.0.0.1", 0), pages, LOG)

    def _slow(self) -> Page:
        self.entered.release()
        self.gate.wait(SECONDS)
        return Page(content=bytes(LARGE_BYTES))

    def clients(self) -> int:
        """The number of connections that the server has open."""
        every = psutil.Process().net_connections("tcp4")
        return sum(one.laddr.port == self.server.port and bool(one.raddr) for one in every)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=SECONDS)

    def get(self) -> int:
        return self.ask("GET", "/")[0].status

    def ask(self, method: str, path: str) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=SECONDS)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()


@pytest.fixture(name="served")
def fixture_served(monkeypatch: pytest.MonkeyPatch) -> Generator[Served]:
    # On a busy machine a good client may take long, too.
    monkeypatch.setattr(CLIENT_SECONDS, 2 * SECONDS)
    served = Served()
    yield served
    served.gate.set()
    served.server.stop()
    await_that(lambda: not serving_threads())


def await_that(holds: Callable[[], object]) -> None:
    until = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


def serving_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "web"]


def is_left(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def test_the_client_that_is_silent_longest_makes_room_for_the_next(served: Served) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(served.connect()) for _ in range(PLACES)]
        # The silent ones have longer than this client waits for its answer.
        for number in range(PLACES):
            assert served.get() == HTTPStatus.OK
            if number == 0:
                assert is_left(silent[0])
        silent[-1].sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert silent[-1].recv(15) == b"HTTP/1.1 200 OK", "one place is enough for the others"


def test_clients_that_wait_for_us_are_not_left_for_others(served: Served) -> None:
    with ExitStack() as stack:
        waiting = [stack.enter_context(served.connect()) for _ in range(PLACES)]
        for one in waiting:
            one.sendall(b"GET /slow HTTP/1.0\r\n\r\n")
            assert served.entered.acquire(timeout=SECONDS)
        assert is_left(stack.enter_context(served.connect())), "the ninth is turned away"
        served.gate.set()
        for one in waiting:
            assert one.recv(15) == b"HTTP/1.1 200 OK"


def test_a_client_that_sends_a_byte_at_a_time_has_no_more_time_than_others(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CLIENT_SECONDS, 0.3)
    started = time.monotonic()
    with served.connect() as client:
        client.settimeout(0.05)
        while time.monotonic() - started < SECONDS:
            try:
                client.sendall(b"G")
                if client.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
    assert time.monotonic() - started < SECONDS


def test_a_client_that_takes_no_answer_is_left(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        lazy = [stack.enter_context(served.connect()) for _ in range(PLACES)]
        for one in lazy:
            one.sendall(b"GET /slow HTTP/1.1\r\nHost: here\r\n\r\n")
            assert served.entered.acquire(timeout=SECONDS)
        monkeypatch.setattr(CLIENT_SECONDS, 0.3)
        served.gate.set()
        await_that(lambda: not served.clients())
        monkeypatch.setattr(CLIENT_SECONDS, SECONDS)
        assert served.get() == HTTPStatus.OK
        for one in lazy:
            received = 0
            with suppress(ConnectionError):
                while piece := one.recv(1 << 20):
                    received += len(piece)
            assert received < LARGE_BYTES


def test_a_page_that_takes_too_long_is_given_up(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough to ask in.
    monkeypatch.setattr(CLIENT_SECONDS, 1.0)
    answer, text = served.ask("GET", "/slow")
    assert answer.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert text == b"/slow takes more than 1 s\n"
    monkeypatch.setattr(CLIENT_SECONDS, SECONDS)
    assert served.get() == HTTPStatus.OK


def test_as_many_as_have_a_place_are_answered_at_once_and_whole(served: Served) -> None:
    with ThreadPoolExecutor(PLACES) as clients:
        for _ in range(5):
            answers = clients.map(served.ask, ["GET"] * PLACES, ["/large"] * PLACES)
            for answer, content in answers:
                assert (answer.status, len(content)) == (HTTPStatus.OK, LARGE_BYTES)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: here\r\nContent-Length: many\r\n\r\n",
        b"GET /" + bytes(1 << 17),
    ],
    ids=["another protocol", "no request", "version", "no host", "length", "head without end"],
)
def test_nonsense_is_refused_and_not_worth_a_line(
    served: Served, nonsense: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with served.connect() as client, suppress(OSError):
        client.sendall(nonsense)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(12) in (b"HTTP/1.1 400", b"")
    assert served.get() == HTTPStatus.OK
    assert not [one for one in caplog.records if one.levelno >= logging.INFO]


def test_a_version_of_http_that_nobody_speaks_is_refused(served: Served) -> None:
    with served.connect() as client:
        client.sendall(b"GET / HTTP/9.9\r\nHost: here\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 400"


def test_a_page_is_read_and_nothing_else(served: Served) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "BREW"):
        answer, text = served.ask(method, "/")
        assert answer.status == HTTPStatus.METHOD_NOT_ALLOWED
        assert answer.headers["Allow"] == "GET, HEAD"
        assert text == b"/ is to be read: GET or HEAD\n"
    answer, text = served.ask("HEAD", "/large")
    assert (answer.status, answer.headers["Content-Length"]) == (HTTPStatus.OK, str(LARGE_BYTES))
    assert text == b""
    assert answer.headers["Server"] == "pinfold"
    assert served.ask("POST", "/nowhere")[0].status == HTTPStatus.NOT_FOUND


def test_a_server_without_clients_sleeps(served: Served) -> None:
    assert served.get() == HTTPStatus.OK
    # Servers of other tests may still be taking leave of their clients.
    thread = serving_threads()[-1]
    status = Path(f"/proc/self/task/{thread.native_id}/status")

    def wakings() -> int:
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(fields["voluntary_ctxt_switches"])

    def is_at_rest() -> bool:
        before = wakings()
        time.sleep(0.2)
        return wakings() == before

    await_that(is_at_rest)
    before = wakings()
    time.sleep(1)
    assert wakings() - before <= 2


@contextmanager
def no_descriptor_left() -> Generator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_without_descriptors_clients_wait_and_the_processor_rests(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    # No other server takes leave meanwhile, and closes what would be a descriptor for this one.
    await_that(lambda: len(serving_threads()) == 1)
    with socket.socket() as client:
        client.settimeout(SECONDS)
        with no_descriptor_left():
            client.connect(("127.0.0.1", served.server.port))
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            before = time.process_time()
            time.sleep(1.5)
            assert time.process_time() - before < 0.5
        assert client.recv(15) == b"HTTP/1.1 200 OK"
    (line,) = [one.getMessage() for one in caplog.records if one.name == LOG.name]
    assert line == (
        "instrumentation.httpEndpoint: cannot take a client: too many open files — if this lasts,"
        " raise LimitNOFILE= of the service"
    )


def test_a_server_that_ends_leaves_who_has_not_asked(served: Served) -> None:
    other = WebServer(Endpoint("127.0.0.1", 0), {}, LOG)
    with socket.create_connection(("127.0.0.1", other.port), timeout=SECONDS) as client:
        client.sendall(b"G")
        other.stop()
        assert is_left(client)
    assert served.get() == HTTPStatus.OK
