"""Telling systemd how we are: sd_notify(3) and the watchdog."""

import os
import socket
import time
from collections.abc import Mapping

from ..nri.happening import Connected, Disconnected, Happening, Synchronized


class Notifier:
    """Sends states to the socket systemd named; does nothing where it named none."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # "@" stands for the zero byte of an abstract socket's name.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._is_ready = False
        self.watchdog_seconds = _watchdog_seconds(environment)
        """How often `alive` must be called, or None."""

    def __call__(self, happening: Happening) -> None:
        """Report: ready with the first Synchronize, and what the connection is like."""
        match happening:
            case Synchronized(containers=containers):
                self.ready(f"connected, {containers} containers at start")
            case Connected(runtime=runtime):
                self._send(f"STATUS=connected to {runtime}")
            case Disconnected(reason=reason):
                self._send(f"STATUS=waiting for the runtime: {reason}")
            case _:
                pass

    def ready(self, status: str) -> None:
        """We do our work."""
        self._send(f"STATUS={status}" if self._is_ready else f"READY=1\nSTATUS={status}")
        self._is_ready = True

    def reloading(self) -> None:
        """The configuration is read again; `reloaded` must follow."""
        microseconds = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send(f"RELOADING=1\nMONOTONIC_USEC={microseconds}")

    def reloaded(self, status: str) -> None:
        """The configuration was read, with or without success."""
        self._send(f"READY=1\nSTATUS={status}" if self._is_ready else f"STATUS={status}")

    def alive(self) -> None:
        """We are not stuck."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """We are on our way out."""
        self._send("STOPPING=1")

    def _send(self, state: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.connect(self._address)
                sock.send(state.encode())
        except OSError:
            return  # whoever waited for it is gone, which is no reason to stop placing containers


def _watchdog_seconds(environment: Mapping[str, str]) -> float | None:
    """Half of what systemd waits, where it watches this process."""
    microseconds = environment.get("WATCHDOG_USEC", "")
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(microseconds) / 2e6 if microseconds.isdigit() and int(microseconds) else None
