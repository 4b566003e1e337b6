"""Telling systemd how we are: sd_notify(3)."""

import os
import socket
import threading
from collections import deque
from collections.abc import Mapping
from time import CLOCK_MONOTONIC, clock_gettime_ns
from typing import Final

from ...nri.dispatch.report import Connected, Disconnected, Happening, Synchronized

_FIRST_PAUSE_SECONDS: Final = 0.05
_LAST_PAUSE_SECONDS: Final = 2.0
_WAITING_MAX: Final = 64
_STATUS_MAX: Final = 1000
_CLOSE_SECONDS: Final = 1.0
_READY: Final = "READY=1"
_STATUS: Final = "STATUS="
_ALIVE: Final = "WATCHDOG=1"


class Notifier:
    """Sends states to the socket systemd named; does nothing where it named none.

    No caller ever waits: a thread sends, in the callers' order, and tries again until systemd took
    a state. What waits meanwhile is bounded; of statuses only the last one of a row is kept.
    """

    takes = (Synchronized, Connected, Disconnected)

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # "@" stands for the zero byte of an abstract socket's name.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._is_ready = False
        self._changed = threading.Condition()
        self._waiting: deque[str] = deque()
        self._is_closing = self._is_over = False
        self._thread: threading.Thread | None = None
        self.watchdog_seconds = _watchdog_seconds(environment)
        """How long systemd waits for `alive` until it kills the daemon, or None."""

    def __call__(self, happening: Happening) -> None:
        """Report: ready with the first Synchronize, and what the connection is like."""
        match happening:
            case Synchronized(containers=containers):
                self.ready(f"connected, {containers} containers at start")
            case Connected(runtime=runtime):
                self._post(_status(f"connected to {runtime}"))
            case Disconnected(reason=reason):
                self._post(_status(f"waiting for the runtime: {reason}"))
            case _:
                pass

    def ready(self, status: str) -> None:
        """We do our work."""
        self._post(_status(status) if self._is_ready else f"{_READY}\n{_status(status)}")
        self._is_ready = True

    def reloading(self) -> None:
        """The configuration is read again; `reloaded` must follow."""
        microseconds = clock_gettime_ns(CLOCK_MONOTONIC) // 1000
        self._post(f"RELOADING=1\nMONOTONIC_USEC={microseconds}")

    def reloaded(self, status: str) -> None:
        """The configuration was read, with or without success."""
        self._post(f"{_READY}\n{_status(status)}" if self._is_ready else _status(status))

    def alive(self) -> None:
        """We are not stuck."""
        self._post(_ALIVE)

    def stopping(self) -> None:
        """We are on our way out."""
        self._post("STOPPING=1")

    def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Send what waits, but for no longer than this; nothing is sent from then on."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join(seconds)
        with self._changed:
            self._is_over = True
            self._changed.notify()

    def _post(self, state: str) -> None:
        if not self._address:
            return
        with self._changed:
            if self._is_closing or (state == _ALIVE and state in self._waiting):
                return
            if (
                state.startswith(_STATUS)
                and self._waiting
                and self._waiting[-1].startswith(_STATUS)
            ):
                self._waiting.pop()
            self._waiting.append(state)
            if len(self._waiting) > _WAITING_MAX:
                # Ready is what systemd must hear; a later one stands for all before it.
                self._waiting.remove(
                    next((one for one in self._waiting if _READY not in one), self._waiting[0])
                )
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="notify", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closing)
                if not self._waiting:
                    return
                state = self._waiting.popleft()
            if self._send(state):
                pause = _FIRST_PAUSE_SECONDS
                continue
            with self._changed:
                if self._is_over:
                    return
                self._waiting.appendleft(state)
                self._changed.wait(_FIRST_PAUSE_SECONDS if self._is_closing else pause)
            pause = min(2 * pause, _LAST_PAUSE_SECONDS)

    def _send(self, state: str) -> bool:
        """Whether systemd took it."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.setblocking(False)
                sock.connect(self._address)
                sock.send(state.encode(errors="replace"))
        except OSError:
            return False
        return True


def _status(text: str) -> str:
    """A state of one line; no text of the runtime's makes a second one, or one too long to send."""
    return _STATUS + " ".join(text.split())[:_STATUS_MAX]


def _watchdog_seconds(environment: Mapping[str, str]) -> float | None:
    """The watchdog's patience in seconds; None where systemd does not watch this process."""
    microseconds = environment.get("WATCHDOG_USEC", "")
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(microseconds) / 1e6 if microseconds.isdigit() and int(microseconds) else None
