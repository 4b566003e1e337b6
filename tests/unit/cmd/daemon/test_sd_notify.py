"""What systemd is told, and that nobody waits for its ear."""

import contextlib
import socket
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from pinfold.cmd.daemon.sd_notify import Notifier
from pinfold.nri.dispatch.report import Connected, Disconnected, Synchronized

SECONDS = 20


@pytest.fixture(name="address")
def fixture_address(tmp_path: Path) -> str:
    return str(tmp_path / "notify")


@pytest.fixture(name="ear")
def fixture_ear(address: str) -> Generator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(address)
        sock.settimeout(SECONDS)
        yield sock


def stuff(address: str) -> int:
    """Fill the queue of a socket; returns the number of states it took."""
    count = 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.connect(address)
        with contextlib.suppress(BlockingIOError):
            while True:
                sock.send(b"X=1")
                count += 1
    return count


def test_readiness_is_told_with_the_first_synchronize_only(
    address: str, ear: socket.socket
) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": address})
    notifier(Disconnected("refused", 1.0))
    notifier(Synchronized(2, 0))
    notifier(Synchronized(3, 0))
    notifier.stopping()
    notifier.close(SECONDS)
    assert [ear.recv(999).decode() for _ in range(4)] == [
        "STATUS=waiting for the runtime: refused",
        "READY=1\nSTATUS=connected, 2 containers at start",
        "STATUS=connected, 3 containers at start",
        "STOPPING=1",
    ]


def test_who_is_not_listened_to_does_not_wait_and_is_heard_in_the_end(
    address: str, ear: socket.socket
) -> None:
    count = stuff(address)
    notifier = Notifier({"NOTIFY_SOCKET": address})
    told = threading.Thread(target=lambda: tell_much(notifier), daemon=True)
    told.start()
    told.join(SECONDS)
    assert not told.is_alive(), "telling waits for systemd"
    for _ in range(count):
        assert ear.recv(999) == b"X=1"
    heard: list[str] = []
    while heard[-1:] != ["STOPPING=1"]:
        heard.append(ear.recv(999).decode())
    notifier.close(SECONDS)
    # Of the statuses in between the last one is enough, and one that was just being sent.
    last = heard.index("STATUS=waiting for the runtime: 99")
    assert last <= 1
    assert heard[last + 1] == "READY=1\nSTATUS=connected, 1 containers at start"
    assert set(heard[last + 2 : -1]) == {"WATCHDOG=1"}
    assert len(heard) < 10


def tell_much(notifier: Notifier) -> None:
    for number in range(100):
        notifier(Connected(f"runtime {number}"))
        notifier(Disconnected(str(number), 1.0))
    notifier(Synchronized(1, 0))
    for _ in range(100):
        notifier.alive()
    notifier.stopping()


def test_ready_outlives_everything_that_waits(address: str, ear: socket.socket) -> None:
    count = stuff(address)
    notifier = Notifier({"NOTIFY_SOCKET": address})
    notifier(Synchronized(1, 0))
    for _ in range(1000):
        notifier.reloading()
    for _ in range(count):
        ear.recv(999)
    states = [ear.recv(999).decode() for _ in range(64)]
    assert sum(state.startswith("READY=1") for state in states) == 1
    notifier.close(SECONDS)


def test_ready_is_told_to_a_socket_that_comes_late(address: str) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": address})
    notifier(Synchronized(1, 0))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.settimeout(SECONDS)
        sock.bind(address)
        assert sock.recv(999).decode().startswith("READY=1")
    notifier.close(SECONDS)


def test_a_status_is_one_line_of_bounded_length(address: str, ear: socket.socket) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": address})
    notifier(Connected("v1\nREADY=1"))
    notifier(Disconnected("x" * 1_000_000, 1.0))
    notifier.close(SECONDS)
    heard = ear.recv(9999).decode()
    if "connected" in heard:
        assert heard == "STATUS=connected to v1 READY=1"
        heard = ear.recv(9999).decode()
    assert len(heard) < 2000


def test_nobody_to_notify_is_no_trouble() -> None:
    for environment in ({}, {"NOTIFY_SOCKET": "/nonexistent/notify"}):
        notifier = Notifier(environment)
        notifier.stopping()
        notifier.close(0)


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        pytest.param({}, None, id="no watchdog"),
        pytest.param({"WATCHDOG_USEC": "20000000"}, 20.0, id="what systemd waits"),
        pytest.param(
            {"WATCHDOG_USEC": "20000000", "WATCHDOG_PID": "1"}, None, id="another process's"
        ),
        pytest.param({"WATCHDOG_USEC": "often"}, None, id="nonsense"),
    ],
)
def test_watchdog_is_the_environments(environment: dict[str, str], seconds: float | None) -> None:
    assert Notifier(environment).watchdog_seconds == seconds
