"""Sockets of two ends that talk to each other: whole messages, one answer to each call."""

import socket
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from pinfold.nri.plugin.service import PLUGIN_SERVICE, RUNTIME_SERVICE
from pinfold.nri.plugin.wire_socket import WireSocket
from pinfold.nri.wire.connection import Call, Connection, Rejection, Reply, Role
from pinfold.nri.wire.mux import WireError, encode_message
from pinfold.nri.wire.ttrpc import Code, Message, MessageType

LONG = 5.0
SEND_SECONDS = 0.3
FOR_EVER = 60.0
LARGE = bytes(range(256)) * 8192
"""2 MiB: more than a socket holds of what nobody reads."""


@dataclass(slots=True)
class End:
    """One end whose thread reads until the connection is over."""

    wire: WireSocket
    calls: list[Call] = field(default_factory=list[Call])
    serve: Callable[["End", Call], None] | None = None
    over: threading.Event = field(default_factory=threading.Event)

    def read(self) -> None:
        try:
            while not self.wire.fault and (chunk := self.wire.read()):
                for event in self.wire.events(chunk):
                    if not isinstance(event, Call):
                        self.wire.attend(event)
                        continue
                    self.calls.append(event)
                    if self.serve is not None:
                        self.serve(self, event)
        except (OSError, WireError):
            pass
        finally:
            self.wire.release()
            self.over.set()

    def start(self) -> "End":
        threading.Thread(target=self.read, daemon=True).start()
        return self


def echo(end: End, call: Call) -> None:
    assert end.wire.respond(call.stream_id, call.payload)


def echo_aside(end: End, call: Call) -> None:
    """As runtimes do: else two that send much to each other would both wait."""
    threading.Thread(target=echo, args=(end, call), daemon=True).start()


@dataclass(slots=True)
class Pair:
    """Both ends of one connection; the bare one has no code of ours but a `Connection`."""

    plugin: WireSocket
    bare: socket.socket
    runtime: Connection

    def call(self, method: str, payload: bytes = b"") -> bytes:
        return self.runtime.request(PLUGIN_SERVICE, method, payload)[1]

    def taken(self, size: int = 1 << 16) -> list[Reply | Call]:
        events = self.runtime.receive(self.bare.recv(size))
        return [one for one in events if isinstance(one, Reply | Call)]


@contextmanager
def paired(send_seconds: float) -> Generator[Pair]:
    ours, theirs = socket.socketpair()
    theirs.settimeout(LONG)
    plugin = WireSocket(ours, Role.PLUGIN, RUNTIME_SERVICE, send_seconds)
    yield Pair(plugin, theirs, Connection(Role.RUNTIME))
    plugin.release()
    theirs.close()


@pytest.fixture(name="pair")
def fixture_pair() -> Generator[Pair]:
    with paired(FOR_EVER) as pair:
        yield pair


@pytest.fixture(name="hasty_pair")
def fixture_hasty_pair() -> Generator[Pair]:
    """One whose plugin soon gives up what is not read."""
    with paired(SEND_SECONDS) as pair:
        yield pair


@pytest.fixture(name="ends")
def fixture_ends() -> Generator[tuple[End, End]]:
    ours, theirs = socket.socketpair()
    plugin = End(WireSocket(ours, Role.PLUGIN, RUNTIME_SERVICE), serve=echo).start()
    runtime = End(WireSocket(theirs, Role.RUNTIME, PLUGIN_SERVICE), serve=echo_aside).start()
    yield plugin, runtime
    plugin.wire.close()
    assert plugin.over.wait(LONG)
    assert runtime.over.wait(LONG)


def test_both_ends_call_each_other_from_many_threads(ends: tuple[End, End]) -> None:
    sizes = (0, 1, 4096, 5000, 1 << 20)

    def ask(end: End, number: int) -> bool:
        payload = bytes([number % 256]) * sizes[number % len(sizes)]
        reply = end.wire.request("Echo", payload).result(LONG)
        return (reply.code, reply.payload) == (0, payload)

    with ThreadPoolExecutor(8) as callers:
        asked = [callers.submit(ask, ends[number % 2], number) for number in range(120)]
        assert all(one.result(LONG) for one in asked)


@pytest.mark.parametrize("piece", [1, 7, 4096], ids="in pieces of {} bytes".format)
def test_bytes_may_be_split_anywhere(pair: Pair, piece: int) -> None:
    data = pair.call("First", b"x" * 300) + pair.call("Second", b"y" * 5000)
    calls: list[Call] = []
    for start in range(0, len(data), piece):
        pair.bare.sendall(data[start : start + piece])
        calls += [one for one in pair.plugin.events(pair.plugin.read()) if isinstance(one, Call)]
    assert [(one.method, one.payload) for one in calls] == [
        ("First", b"x" * 300),
        ("Second", b"y" * 5000),
    ]


def test_a_peer_that_goes_in_the_midst_of_a_message_is_an_end_like_any_other(pair: Pair) -> None:
    waiting = pair.plugin.request("UpdateContainers", b"")
    pair.bare.sendall(pair.call("CreateContainer", b"x" * 3000)[:1500])
    pair.bare.close()
    assert pair.plugin.events(pair.plugin.read()) == []
    with pytest.raises(ConnectionResetError):
        # What it had not read itself was lost with it.
        pair.plugin.read()
    pair.plugin.end()
    assert isinstance(waiting.exception(LONG), ConnectionError)


def test_requests_under_way_fail_at_the_end_and_later_ones_at_once(pair: Pair) -> None:
    waiting = [pair.plugin.request("UpdateContainers", b"") for _ in range(3)]
    pair.plugin.end()
    assert all(isinstance(one.exception(LONG), ConnectionError) for one in waiting)
    with pytest.raises(ConnectionError):
        pair.plugin.request("UpdateContainers", b"")


def test_a_request_is_over_once_whether_its_answer_or_the_end_comes_first() -> None:
    for _ in range(50):
        ours, theirs = socket.socketpair()
        plugin = WireSocket(ours, Role.PLUGIN, RUNTIME_SERVICE)
        waiting = [plugin.request("UpdateContainers", b"") for _ in range(20)]
        replies = [Reply(stream_id=2 * number + 1) for number in range(20)]
        ending = threading.Thread(target=plugin.end)
        ending.start()
        for reply in replies:
            plugin.attend(reply)
        ending.join(LONG)
        assert all(one.done() for one in waiting)
        plugin.release()
        theirs.close()


def test_the_first_answer_to_a_call_is_the_only_one(pair: Pair) -> None:
    pair.bare.sendall(pair.call("CreateContainer"))
    [call] = pair.plugin.events(pair.plugin.read())
    with ThreadPoolExecutor(4) as threads:
        answers = [
            threads.submit(pair.plugin.respond, call.stream_id, b"%d" % number)
            for number in range(4)
        ]
        firsts = [number for number, one in enumerate(answers) if one.result(LONG)]
    assert not pair.plugin.respond(call.stream_id, Rejection(Code.UNKNOWN, "too late"))
    pair.bare.sendall(pair.call("Shutdown"))
    [last] = pair.plugin.events(pair.plugin.read())
    assert pair.plugin.respond(last.stream_id, b"last")
    seen = [one.payload for one in pair.taken() if isinstance(one, Reply)]
    assert seen == [b"%d" % number for number in firsts] + [b"last"]
    assert len(firsts) == 1


def test_nothing_is_answered_that_was_not_asked(pair: Pair) -> None:
    assert not pair.plugin.respond(1, b"")
    assert not pair.plugin.respond(7, Rejection(Code.UNKNOWN, ""))


def test_a_request_that_cannot_be_served_is_answered_with_its_code(pair: Pair) -> None:
    bad = Message(stream_id=1, type=MessageType.REQUEST, data=b"\xff\xff").encode()
    pair.bare.sendall(encode_message(1, bad))
    [event] = pair.plugin.events(pair.plugin.read())
    assert not isinstance(event, Call)
    pair.plugin.attend(event)
    pair.runtime.request("", "", b"")
    [reply] = pair.taken()
    assert isinstance(reply, Reply)
    assert reply.code == Code.INVALID_ARGUMENT


def test_nothing_follows_half_a_message(hasty_pair: Pair) -> None:
    pair = hasty_pair
    pair.bare.sendall(pair.call("First") + pair.call("Second"))
    first, second = pair.plugin.events(pair.plugin.read())
    with pytest.raises(BlockingIOError):
        # What is not read for a while is not waited for for ever.
        pair.plugin.respond(first.stream_id, LARGE)
    for send in (
        lambda: pair.plugin.respond(second.stream_id, b"second"),
        lambda: pair.plugin.request("UpdateContainers", b""),
    ):
        with pytest.raises(OSError, match="over"):
            send()
    written = b""
    while chunk := pair.bare.recv(1 << 20):
        written += chunk
    assert 0 < len(written) < len(LARGE)
    assert pair.runtime.receive(written) == [], "half an answer is none"
    assert pair.plugin.read() == b"", "and whoever reads sees the end"


def test_one_that_reads_does_not_wait_for_one_that_sends(pair: Pair) -> None:
    pair.bare.sendall(pair.call("First"))
    [first] = pair.plugin.events(pair.plugin.read())
    sending = threading.Thread(target=lambda: pair.plugin.respond(first.stream_id, LARGE))
    sending.start()
    pair.bare.recv(1)
    pair.bare.sendall(pair.call("Second"))
    [second] = pair.plugin.events(pair.plugin.read())
    assert isinstance(second, Call)
    assert sending.is_alive()
    left = len(LARGE)
    while left > 0:
        left -= len(pair.bare.recv(1 << 20))
    sending.join(LONG)


def test_one_that_sends_for_long_sees_the_end(pair: Pair) -> None:
    pair.bare.sendall(pair.call("First"))
    [first] = pair.plugin.events(pair.plugin.read())
    failed: list[OSError] = []

    def send() -> None:
        try:
            pair.plugin.respond(first.stream_id, LARGE)
        except OSError as error:
            failed.append(error)

    sending = threading.Thread(target=send)
    sending.start()
    pair.bare.recv(1)
    pair.plugin.release()
    sending.join(LONG)
    assert failed


class InterruptedSocket(socket.socket):
    """A socket in whose shutdown a signal arrives."""

    handler: Callable[[], None] | None = None

    def shutdown(self, how: int) -> None:
        super().shutdown(how)
        handler, self.handler = self.handler, None
        if handler is not None:
            handler()


def test_a_signals_handler_may_close_while_its_thread_does() -> None:
    ours, theirs = socket.socketpair()
    interrupted = InterruptedSocket(fileno=ours.detach())
    wire = WireSocket(interrupted, Role.PLUGIN, RUNTIME_SERVICE)
    interrupted.handler = wire.close
    closing = threading.Thread(target=wire.release, daemon=True)
    closing.start()
    closing.join(LONG)
    assert not closing.is_alive()
    theirs.close()


def test_closing_is_safe_at_any_time_and_more_than_once(pair: Pair) -> None:
    pair.plugin.close()
    pair.plugin.close()
    assert pair.plugin.read() == b""
    pair.plugin.release()
    pair.plugin.close()
    pair.plugin.release()
    assert pair.plugin.is_readable(0), "the end can be read"
