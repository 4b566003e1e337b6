"""The plugin: connects to the runtime, again and again, and sends what nobody asked for."""

import random
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ...policy.engine.engine import Engine
from ..dispatch.front import Front
from ..dispatch.report import Disconnected, Report
from ..dispatch.update_sender import ReadBack, UpdateSender
from ..hints.hint_finder import HintFinder
from .container_reader import ContainerReader
from .nri_updates import NriUpdates
from .service import Service
from .session import Identity, Session

FindSender = Callable[[str], UpdateSender | str]
"""A sender of updates beside the NRI socket, to the runtime of a name; or why there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeLink:
    """The link of a plugin to its runtime: its socket, a sender of updates, the reading back."""

    connect: Callable[[], socket.socket]
    """A connection to its NRI socket; raises `OSError`."""
    find_sender: FindSender | None = None
    read_back: ReadBack | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Time limits and pauses of a plugin, in seconds."""

    deadline_seconds: float = 0.150
    """After which the runtime gets an answer that changes nothing."""
    first_retry_seconds: float = 0.1
    last_retry_seconds: float = 2.0
    """Containers that start meanwhile start unpinned, and an attempt at a socket of this machine
    costs next to nothing: so never long."""
    lasting_seconds: float = 10.0
    """A connection that held so long was a good one: the next pause is the first one again."""
    handshake_seconds: float = 10.0
    check_seconds: float = 0.5
    """After which it is read back what came of an update in an answer."""


class Plugin(Front):
    """The policy behind a runtime's NRI socket; see `Front`."""

    def __init__(
        self,
        policy: Engine,
        link: RuntimeLink,
        report: Report,
        *,
        identity: Identity | None = None,
        timing: Timing | None = None,
        machine_memory_bytes: int | None = None,
        finder: HintFinder | None = None,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._timing = timing or Timing()
        super().__init__(
            policy,
            report,
            clock,
            read_back=link.read_back,
            machine_memory_bytes=machine_memory_bytes,
            check_seconds=self._timing.check_seconds,
        )
        self._link = link
        self._identity = identity or Identity()
        self._clock = clock
        self._draw = draw
        self._is_stopping = threading.Event()
        self._session: Session | None = None
        self._lock = threading.Lock()
        """For which connection the actuator has its senders from."""
        events = self.events
        self._reader = ContainerReader(
            finder, report, machine_memory_bytes, lambda one: events.policy.completed(one)
        )

    def run(self) -> None:
        """Serve until `stop`, reconnecting with growing, jittered pauses."""
        self.actuator.start()
        attempt = 0
        while not self._is_stopping.is_set():
            started = self._clock()
            reason = self._run_session()
            self._is_ready.clear()
            if self._is_stopping.is_set():
                break
            if self._identity.is_preinstalled:
                self._report(Disconnected(reason, None))
                break
            lasted = self._clock() - started
            attempt = 0 if lasted > self._timing.lasting_seconds else attempt + 1
            pause = retry_seconds(self._timing, attempt, self._draw())
            self._report(Disconnected(reason, pause))
            self._is_stopping.wait(pause)
        self.actuator.close()
        self.owner.close()

    def stop(self) -> None:
        """End `run` from another thread or a signal's handler; nothing is undone."""
        self._is_stopping.set()
        session = self._session
        if session is not None:
            session.close()

    def _run_session(self) -> str:
        try:
            sock = self._link.connect()
        except OSError as error:
            return f"cannot connect: {error.strerror or error}"
        service = Service(
            self.events,
            self._reader,
            self.owner,
            self._report,
            self._clock,
            self._timing.deadline_seconds,
        )
        self._session = session = Session(
            sock,
            service,
            self._identity,
            self._clock,
            lambda: self._become_ready(session, service),
            self._timing.handshake_seconds,
        )
        if self._is_stopping.is_set():
            session.close()
        try:
            return session.run()
        finally:
            with self._lock:
                self._session = None
                self.actuator.disconnect()

    def _become_ready(self, session: Session, service: Service) -> None:
        senders: list[UpdateSender] = []
        reason = "no CRI socket is known — name it with --cri-socket"
        if self._link.find_sender is not None:
            found = self._link.find_sender(service.runtime_name)
            if isinstance(found, str):
                reason = found
            else:
                senders.append(found)
        if service.abilities is not None and service.abilities.has_safe_updates:
            senders.append(NriUpdates(session))
        with self._lock:
            # Senders are found in the thread that read, and the other one may have seen the end.
            if self._session is session:
                self.actuator.connect(senders, reason)
                self._is_ready.set()


def retry_seconds(timing: Timing, attempt: int, draw: float) -> float:
    """The pause after so many short-lived attempts, half of it up to chance (`draw`, 0 to 1).

    Plugins of many nodes, or of one, do not come back at the same moment, and a runtime that is
    stopping is not bothered: it would hold up all its containers for the registration.
    """
    longest = min(timing.first_retry_seconds * (1 << min(attempt, 30)), timing.last_retry_seconds)
    return longest * (0.5 + 0.5 * draw)
