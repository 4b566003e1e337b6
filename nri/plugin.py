"""The plugin: connects to the runtime, again and again, and sends what nobody asked for."""

import random
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ..policy.container import ContainerId
from ..policy.decision import Pinning
from ..policy.engine import Engine
from .api import nri_pb2
from .convert import update_messages
from .events import Events
from .happening import Crashed, Disconnected, Report, Updated
from .hintfinder import HintFinder
from .outbox import Outbox
from .owner import Owner
from .service import Service
from .session import Identity, Session

_UPDATE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long things may take."""

    deadline_seconds: float = 0.150
    """After which the runtime gets an answer that changes nothing."""
    first_retry_seconds: float = 0.1
    last_retry_seconds: float = 2.0
    """Containers that start meanwhile start unpinned, and an attempt at a socket of this machine
    costs next to nothing: so never long."""
    lasting_seconds: float = 10.0
    """A connection that held so long was a good one: the next pause is the first one again."""
    handshake_seconds: float = 10.0


class Plugin:
    """The policy behind a runtime's NRI socket.

    `events` and `owner` are for the other parts of the daemon: whatever touches the policy goes
    through `owner`.
    """

    def __init__(
        self,
        policy: Engine,
        connect: Callable[[], socket.socket],
        report: Report,
        *,
        identity: Identity | None = None,
        timing: Timing | None = None,
        machine_memory_bytes: int | None = None,
        finder: HintFinder | None = None,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._connect = connect
        self._report = report
        self._identity = identity or Identity()
        self._timing = timing or Timing()
        self._clock = clock
        self._draw = draw
        self._is_stopping = threading.Event()
        self._is_ready = threading.Event()
        self._session: Session | None = None
        self._lock = threading.Lock()
        self.outbox = Outbox()
        self.owner = Owner(lambda what, error: report(Crashed(what, error)))
        self.events = Events(policy, self.outbox, self.owner, report, machine_memory_bytes, finder)

    def run(self) -> None:
        """Serve until `stop`, reconnecting with growing, jittered pauses."""
        updater = threading.Thread(target=self._send_updates, name="updates", daemon=True)
        updater.start()
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
        self.outbox.close()
        updater.join()
        self.owner.close()

    def stop(self) -> None:
        """End `run` from another thread or a signal's handler; nothing is undone."""
        self._is_stopping.set()
        session = self._session
        if session is not None:
            session.close()

    def wait_until_ready(self, seconds: float) -> bool:
        """Whether everything that runs is known within this time."""
        return self._is_ready.wait(seconds)

    def settle(self, seconds: float = 5.0) -> bool:
        """Whether all events so far were thought through and all updates sent in this time."""
        self.owner.ask("settle", lambda: None, seconds)
        return self.outbox.wait_until_empty(seconds)

    def _run_session(self) -> str:
        try:
            sock = self._connect()
        except OSError as error:
            return f"cannot connect: {error.strerror or error}"
        service = Service(
            self.events,
            self.owner,
            self.outbox,
            self._report,
            self._clock,
            self._timing.deadline_seconds,
        )
        self._session = Session(
            sock,
            service,
            self._identity,
            self._clock,
            self._become_ready,
            self._timing.handshake_seconds,
        )
        if self._is_stopping.is_set():
            self._session.close()
        try:
            return self._session.run()
        finally:
            self._session = None
            self.outbox.shut()

    def _become_ready(self) -> None:
        self.outbox.open()
        self._is_ready.set()

    def _send_updates(self) -> None:
        while (batch := self.outbox.take()) is not None:
            error = self._send(batch)
            if error and len(batch) > 1:
                # The runtime does not say which of them failed.
                for container_id, pinning in batch.items():
                    alone = self._send({container_id: pinning})
                    self._report(Updated((container_id,), alone))
            else:
                self._report(Updated(tuple(batch), error))
            self.outbox.landed()

    def _send(self, batch: Mapping[ContainerId, Pinning]) -> str:
        session = self._session
        if session is None:
            return "no connection"
        message = nri_pb2.UpdateContainersRequest(update=update_messages(batch))
        reply = session.request("UpdateContainers", message, _UPDATE_SECONDS)
        if reply is None:
            return "no answer"
        return reply.message or f"code {reply.code}" if reply.code else ""


def retry_seconds(timing: Timing, attempt: int, draw: float) -> float:
    """The pause after so many short-lived attempts, half of it up to chance (`draw`, 0 to 1).

    Plugins of many nodes, or of one, do not come back at the same moment, and a runtime that is
    stopping is not bothered: it would hold up all its containers for the registration.
    """
    longest = min(timing.first_retry_seconds * (1 << min(attempt, 30)), timing.last_retry_seconds)
    return longest * (0.5 + 0.5 * draw)
