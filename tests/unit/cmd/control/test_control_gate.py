"""The gate against clients that are slow, silent, many or not ours; on a clock of its own."""

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from pinfold.cmd.control import control_gate
from pinfold.cmd.control.control_gate import CLIENTS_MAX, GREETING, ControlGate, Peer, peer_of

LOG = logging.getLogger("test_control_gate")
SECONDS = 10


class Door:
    """A gate at a socket, with services that are the other ends of socket pairs."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "gate.sock"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.listener.listen()
        self.listener.setblocking(False)
        self.services: list[socket.socket] = []
        self.is_welcome = True
        self.fault: Exception | None = None
        self.clients: list[socket.socket] = []
        self.gate = ControlGate(self.listener, lambda _: self.is_welcome, self._open, LOG)
        self.gate.start()

    def _open(self) -> socket.socket:
        if self.fault is not None:
            raise self.fault
        ours, theirs = socket.socketpair()
        theirs.settimeout(SECONDS)
        self.services.append(theirs)
        return ours

    def client(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(SECONDS)
        client.connect(str(self.path))
        self.clients.append(client)
        return client

    def close(self) -> None:
        self.gate.stop()
        for one in (*self.services, *self.clients, self.listener):
            one.close()


@pytest.fixture(name="door")
def fixture_door(tmp_path: Path) -> Generator[Door]:
    door = Door(tmp_path)
    yield door
    door.close()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def read(source: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = source.recv(count - len(found))
        assert part, "closed early"
        found += part
    return found


def test_what_each_end_says_reaches_the_other(door: Door) -> None:
    client = door.client()
    client.sendall(GREETING + b"question")
    wait_for(lambda: bool(door.services))
    service = door.services[0]
    assert read(service, len(GREETING) + 8) == GREETING + b"question"
    service.sendall(b"answer")
    assert client.recv(100) == b"answer"
    client.sendall(b"thanks")
    assert service.recv(100) == b"thanks"
    service.close()
    assert is_closed(client)


def test_a_greeting_may_come_in_pieces(door: Door) -> None:
    client = door.client()
    for at in range(len(GREETING)):
        assert not door.services
        client.sendall(GREETING[at : at + 1])
        time.sleep(0.002)
    wait_for(lambda: bool(door.services))


def test_megabytes_pass_whole_in_both_directions(door: Door) -> None:
    client = door.client()
    client.sendall(GREETING)
    wait_for(lambda: bool(door.services))
    service = door.services[0]
    assert read(service, len(GREETING)) == GREETING
    data = os.urandom(3 << 20)
    for source, target in ((client, service), (service, client)):
        sender = threading.Thread(target=source.sendall, args=(data,))
        sender.start()
        assert read(target, len(data)) == data
        sender.join(SECONDS)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
        pytest.param(b"PRI * HTTP/2.1", id="nearly the greeting"),
        pytest.param(bytes(1 << 16), id="much of nothing"),
    ],
)
def test_whoever_says_something_else_is_left_and_no_service_is_made(
    door: Door, said: bytes
) -> None:
    client = door.client()
    # It may be left before it has said all of it.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        client.sendall(said)
    assert is_closed(client)
    assert not door.services


def test_half_a_greeting_ends_with_its_time(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_gate, "GREETING_SECONDS", 0.05)
    client = door.client()
    client.sendall(GREETING[:12])
    assert is_closed(client)
    assert not door.services


def test_a_client_that_never_reads_is_left_and_its_service_too(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_gate, "STALL_SECONDS", 0.1)
    client = door.client()
    client.sendall(GREETING)
    wait_for(lambda: bool(door.services))
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        door.services[0].sendall(bytes(1 << 24))


def test_a_silent_client_ends_with_its_time(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_gate, "SILENCE_SECONDS", 0.05)
    client = door.client()
    client.sendall(GREETING)
    assert is_closed(client)


def test_one_client_too_many_takes_the_place_of_the_most_silent(door: Door) -> None:
    crowd = [door.client() for _ in range(CLIENTS_MAX)]
    for number, one in enumerate(crowd):
        one.sendall(GREETING)
        wait_for(lambda number=number: len(door.services) > number)  # type: ignore[misc]  # bound
    last = door.client()
    last.sendall(GREETING)
    assert is_closed(crowd[0])
    wait_for(lambda: len(door.services) == CLIENTS_MAX + 1)
    door.services[-1].sendall(b"served")
    assert last.recv(100) == b"served"


def test_a_hundred_clients_one_after_another_leave_nothing_open(door: Door) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(door.path))
    wait_for(lambda: len(os.listdir("/proc/self/fd")) <= before)


def test_whoever_may_not_enter_is_left(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    door.is_welcome = False
    assert is_closed(door.client())
    assert "may not use it" in caplog.text
    assert not door.services


def test_a_service_that_cannot_be_made_is_a_line_in_the_log_and_the_next_one_is_served(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    door.fault = RuntimeError("no room")
    client = door.client()
    client.sendall(GREETING)
    assert is_closed(client)
    assert "no room" in caplog.text
    door.fault = None
    again = door.client()
    again.sendall(GREETING)
    wait_for(lambda: bool(door.services))


def test_a_peer_is_known_by_its_user_and_groups() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        peer = peer_of(ours)
    assert peer.user_id == os.getuid()
    assert peer.group_ids == {os.getgid(), *os.getgroups()}
    assert peer.is_privileged()
    assert not Peer(user_id=os.getuid() + 12345, group_ids=frozenset()).is_privileged()
