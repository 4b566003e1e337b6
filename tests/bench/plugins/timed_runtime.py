"""The embedded runtime at a real socket, in one thread, with a stopwatch at each call."""

import socket
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pinfold.nri.api import nri_pb2
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime
from pinfold.nri.embedded.plugin_link import PluginLink
from pinfold.nri.plugin.service import PLUGIN_SERVICE
from pinfold.nri.plugin.wire_socket import WireSocket
from pinfold.nri.wire.connection import Call, Reply, Role
from pinfold.nri.wire.mux import WireError
from tests.bench.plugins.paper_kernel import PaperKernel

_PATIENCE_SECONDS: Final = 120.0
"""So long that no answer is given up: it is to be measured, however long it takes."""


@dataclass(slots=True)
class Pace:
    """When calls go out, and how long their answers took."""

    pause_seconds: float = 0.0
    """Before each call: a runtime has other work between two of them, such as starting processes.
    Both ends sleep meanwhile, and the plugin may do what it put off."""
    times: dict[str, list[int]] = field(default_factory=lambda: defaultdict[str, list[int]](list))
    """Nanoseconds by method."""


class TimedSocket(WireSocket):
    """A socket that knows when its last message went out."""

    sent_at_ns = 0

    def _send(self, data: bytes) -> None:
        self.sent_at_ns = time.perf_counter_ns()
        super()._send(data)


class TimedLink(PluginLink):
    """The runtime's end of a connection, without a thread: callers wait for their answer.

    So what is timed is the plugin, and no hand-over between threads on this side. What the plugin
    asks for by itself waits until `take_calls`, as it waits in a real runtime for the end of the
    event.
    """

    def __init__(
        self,
        sock: socket.socket,
        answer: Callable[[PluginLink, Call], None],
        ended: Callable[[PluginLink], None],
        pace: Pace,
    ) -> None:
        super().__init__(sock, answer, ended)
        self._wire = self._timed = TimedSocket(sock, Role.RUNTIME, PLUGIN_SERVICE)
        sock.settimeout(_PATIENCE_SECONDS)
        self._pace = pace
        self._calls: list[Call] = []

    def start(self) -> None:
        """Wait for the plugin's registration; it is synchronized when this returns."""
        while not self._calls:
            self._receive()
        self.take_calls(0)

    def exchange(self, method: str, payload: bytes, seconds: float) -> Reply:
        """The plugin's answer; the time from its first byte out to its last byte in is noted."""
        if self._pace.pause_seconds:
            time.sleep(self._pace.pause_seconds)
        waiting = self._wire.request(method, payload, int(seconds * 1e9))
        start = end = self._timed.sent_at_ns
        while not waiting.done():
            end = self._receive()
        self._pace.times[method].append(end - start)
        return waiting.result()

    def take_calls(self, seconds: float) -> None:
        """Answer what the plugin asked for, and what it asks for within this time."""
        while True:
            calls, self._calls = self._calls, []
            for call in calls:
                self._answer(self, call)
            if not self._wire.is_readable(seconds * 1000):
                return
            self._receive()

    def close(self) -> None:
        """End the connection."""
        self._wire.release()

    def _receive(self) -> int:
        """Take the bytes that come next; returns when they were understood."""
        chunk = self._wire.read()
        if not chunk:
            raise ConnectionError("the plugin closed the connection")
        try:
            events = self._wire.events(chunk)
        except WireError as error:
            raise ConnectionError(str(error)) from error
        if self._wire.fault:
            raise ConnectionError(self._wire.fault)
        understood = time.perf_counter_ns()
        for event in events:
            if isinstance(event, Call):
                self._calls.append(event)
            else:
                self._wire.attend(event)
        return understood


class TimedRuntime(EmbeddedRuntime):
    """A runtime whose calls are timed, and what its kernel has is in files, too."""

    def __init__(self, files: PaperKernel, first_pid: int) -> None:
        """`first_pid` tells the processes of several runtimes apart."""
        super().__init__(request_timeout_seconds=_PATIENCE_SECONDS)
        self.pace = Pace()
        self._files = files
        self._next_pid = first_pid

    def serve(self, sock: socket.socket) -> None:
        """Let the plugin register; returns when it has answered Synchronize.

        Raises `ConnectionError` where it does not get that far.
        """
        self._is_synchronized.clear()
        self._link = link = TimedLink(sock, self._answer, self._forget, self.pace)
        link.start()
        self.check()

    def finish_start(self, container_id: str) -> None:
        """The process runs, and its cgroup is there when the plugin is told."""
        self._files.begin(container_id, self._next_pid + 1, self._starting[container_id])
        super().finish_start(container_id)

    def stop(self, container_id: str) -> None:
        """A container ends, and its cgroup with it."""
        if container_id in self.kernel:
            self._files.end(container_id, self.containers[container_id].pid)
        super().stop(container_id)

    def _write(self, container: nri_pb2.Container, resources: nri_pb2.LinuxResources) -> None:
        super()._write(container, resources)
        if container.id in self.kernel:
            self._files.write(container.id, self.kernel[container.id])

    def settle(self, seconds: float) -> None:
        """Do what the plugin asks for by itself within this time."""
        self.check()
        if isinstance(self._link, TimedLink):
            self._link.take_calls(seconds)

    def check(self) -> None:
        """Raise `ConnectionError` if the plugin was dropped, as by an answer that never came."""
        if not self.wait_until_synchronized(0):
            raise ConnectionError("the plugin was dropped by the runtime")
