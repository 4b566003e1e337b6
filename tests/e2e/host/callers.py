"""Callers of the runtime that change containers over and over, as kubelets do, only faster."""

import random
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import grpc

from tests.e2e.api import cri_pb2 as api
from tests.e2e.cri import HANGS_AFTER_SECONDS, Cri, is_unanswered

_MEMORY_LIMITS: Final = (64 << 20, 96 << 20, 128 << 20)
_SHARES: Final = (2, 3, 4)


class Caller:
    """A thread that changes the memory limit or the shares of one container until it is stopped.

    A call without an answer ends it. Where the runtime is restarted meanwhile, errors are passed
    over.
    """

    def __init__(
        self, socket: Path, container: str, draw: random.Random, *, passes_errors: bool
    ) -> None:
        self.calls = 0
        self.errors = 0
        self.slowest_seconds = 0.0
        self.fault = ""
        self._container = container
        self._draw = draw
        self._passes_errors = passes_errors
        self._is_stopping = threading.Event()
        self._cri = Cri(socket, HANGS_AFTER_SECONDS)
        self._thread = threading.Thread(target=self._run, name="caller", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; waits for the call it is in."""
        self._is_stopping.set()
        self._thread.join()
        self._cri.close()

    def _run(self) -> None:
        while not self._is_stopping.is_set() and not self.fault:
            began = time.monotonic()
            try:
                self._cri.update_resources(self._container, self._resources())
            except grpc.RpcError as error:
                self._note(error)
            self.calls += 1
            self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)

    def _resources(self) -> api.LinuxContainerResources:
        if self._draw.random() < 0.5:
            limit = self._draw.choice(_MEMORY_LIMITS)
            return api.LinuxContainerResources(memory_limit_in_bytes=limit)
        return api.LinuxContainerResources(cpu_shares=self._draw.choice(_SHARES))

    def _note(self, error: grpc.RpcError) -> None:
        self.errors += 1
        if not self._passes_errors or is_unanswered(error):
            self.fault = str(error)


@contextmanager
def callers(
    socket: Path, containers: Sequence[str], draw: random.Random, *, passes_errors: bool = False
) -> Generator[Sequence[Caller]]:
    """One caller for each container."""
    running = [
        Caller(socket, one, random.Random(draw.random()), passes_errors=passes_errors)
        for one in containers
    ]
    try:
        yield running
    finally:
        for one in running:
            one.stop()


def faults(running: Sequence[Caller]) -> list[str]:
    """What ended callers before they were stopped."""
    return [one.fault for one in running if one.fault]
