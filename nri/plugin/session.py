"""One connection to a runtime, from registration to its end."""

import socket
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from google.protobuf.message import Message
from msgspec import Struct

from ..api import nri_pb2
from ..dispatch.report import Answered
from ..wire.connection import BadCall, Call, Event, Rejection, Reply, Role
from ..wire.mux import WireError
from .reading_turns import ReadingTurns
from .runtime_versions import OUR_NRI_VERSION
from .service import RUNTIME_SERVICE, SAFE_ANSWER, ServedCall, Service
from .wire_socket import WireSocket

_QUIET_SECONDS: Final = 0.04
"""What nobody waits for is begun once the runtime has sent nothing for so long: each waking for it
alone finds nothing in the processor's caches."""
_LEFT_SECONDS: Final = 0.05
"""Or once it was left lying for so long."""
_UNTOLD_MAX: Final = 1024
"""So many reports wait behind one that takes its time; of more, the newest."""


class Identity(Struct, frozen=True, kw_only=True):
    """Name and index of a plugin; runtimes call plugins in the order of their index."""

    name: str = "pinfold"
    index: str = "90"
    """Exactly two digits."""
    is_preinstalled: bool = False
    """Whether the runtime started us; containerd 1.7 then never sends Synchronize."""


class Session:
    """A plugin's end of one connected socket.

    The thread that reads a call finds the answer and writes it, without waking anybody. Where it is
    at one call, or at something else, for too long, a second one answers safely and reads on.
    """

    def __init__(
        self,
        sock: socket.socket,
        service: Service,
        identity: Identity,
        clock: Callable[[], float],
        ready: Callable[[], None],
        handshake_seconds: float = 10.0,
    ) -> None:
        self._wire = WireSocket(sock, Role.PLUGIN, RUNTIME_SERVICE)
        self._service = service
        self._identity = identity
        self._clock = clock
        self._ready = ready
        self._handshake_until = clock() + handshake_seconds
        self._registered: Future[Reply] | None = None
        self._unread: deque[Event] = deque()
        self._serving: ServedCall | None = None
        """Put there by whoever reads, and taken away by whoever answers it."""
        self._untold: deque[Answered] = deque(maxlen=_UNTOLD_MAX)
        """Calls that were answered, and not reported yet."""
        self._telling = threading.Lock()
        """For whoever reports that: it may take its time, and the other thread does not wait."""
        self._tidied = clock()
        """When nothing was left to do, seen last."""
        self._is_ready = False
        self._noticing = threading.Lock()
        """For that flag."""
        self._reason = ""
        """Why the connection is over, as whoever noticed first says."""
        self._turns = ReadingTurns(
            self._read,
            self._due,
            self._stand_in,
            self._wire.release,
            clock,
            service.deadline_seconds,
        )

    def run(self) -> str:
        """Register and serve until the connection is over; returns why it is."""
        try:
            self._registered = self._register()
        except OSError as error:
            self._end()
            self._wire.release()
            return _words(error)
        try:
            return self._turns.run()
        finally:
            self._end()

    def request(self, method: str, message: Message, seconds: float) -> Reply | None:
        """The runtime's answer to a call of ours; None where it does not come in time.

        Never for use while a call of the runtime is being answered: it holds a lock meanwhile that
        ours would wait for.
        """
        try:
            return self._wire.request(method, message.SerializeToString()).result(seconds)
        except OSError:  # a timeout is one, too
            return None

    def close(self) -> None:
        """End `run` from another thread."""
        self._wire.close()

    def _register(self) -> Future[Reply]:
        request = nri_pb2.RegisterPluginRequest(
            plugin_name=self._identity.name,
            plugin_idx=self._identity.index,
            NRI_version=OUR_NRI_VERSION,
        )
        return self._wire.request("RegisterPlugin", request.SerializeToString())

    def _read(self) -> str:
        """One step; once it is over, the other thread does not wait at the socket any more."""
        reason = "a fault of ours"
        try:
            reason = self._step()
        finally:
            if reason:
                # Before the other thread sees the end that is made here, and takes it for another.
                reason = self._reason = self._reason or reason
                # Closing would not wake it, and the runtime would see no end.
                self.close()
        return reason

    def _step(self) -> str:
        """One event, read if need be once what is left is done; why it is over, if so."""
        try:
            if self._untold:
                self._tell()
            if not self._unread:
                if not self._is_ready:
                    self._watch_readiness()
                if self._service.owner.left:
                    self._tidy()
                if not self._turns.begin_wait():
                    return ""
                if reason := self._read_more():
                    return reason
            if self._unread:
                taken = self._turns.take(self._take)
                if taken is None:
                    return ""
                if isinstance(taken, ServedCall):
                    self._serve(taken)
                else:
                    self._wire.attend(taken)
            return "" if self._unread else self._look_around()
        except WireError as error:
            return str(error)
        except OSError as error:
            return _words(error)

    def _read_more(self) -> str:
        """Wait for the next bytes; why it is over, if so."""
        if not self._is_ready:
            left = max(0.0, self._handshake_until - self._clock())
            if not self._wire.is_readable(left * 1000):
                return "the runtime did not finish the handshake"
        chunk = self._wire.read()
        now = self._clock()
        if not self._service.owner.left:
            self._tidied = now
        if not chunk:
            return "the runtime closed the connection"
        self._unread.extend(self._wire.events(chunk))
        # Not before: whoever reads on must find these bytes in their place.
        self._turns.end_wait(now)
        return ""

    def _tidy(self, *, is_quiet: bool = False) -> None:
        """Do what is left, piece by piece, once the runtime `is_quiet` and while it is."""
        owner, quiet_seconds = self._service.owner, 0.0 if is_quiet else _QUIET_SECONDS
        while owner.left:
            pause = self._tidied + _LEFT_SECONDS - self._clock()
            is_late = owner.is_overloaded or pause <= 0
            pause = 0.0 if is_late else min(pause, quiet_seconds)
            is_called = self._wire.is_readable(pause * 1000)
            if is_called and not is_late:
                return
            # Else somebody else is at work with the policy, and does this afterwards.
            if not owner.tidy() or (is_called and not owner.is_overloaded):
                return
            quiet_seconds = 0.0

    def _look_around(self) -> str:
        """The reason why the connection is over, from the events so far; empty while it is not."""
        if self._wire.fault:
            return self._wire.fault
        registered = self._registered
        if registered is not None and registered.done():
            if (reply := registered.result()).code:
                return f"registration refused: {reply.message}"
            # To ask a future takes as long as to read a message.
            self._registered = None
        if self._service.forgotten:
            return self._service.forgotten
        if self._identity.is_preinstalled and self._is_left_in_the_dark():
            return (
                f"{self._service.runtime_name} {self._service.runtime_version} does not"
                " tell pre-installed plugins what runs already, so CPUs of running"
                " containers would be given away — take pinfoldd out of the runtime's"
                " plugin folder and run it as a service"
            )
        return ""

    def _take(self) -> BadCall | Reply | ServedCall:
        """The next event; a call is being served from here on."""
        event = self._unread.popleft()
        if not isinstance(event, Call):
            return event
        now, seconds = self._clock(), self._service.deadline_of(event)
        self._serving = served = ServedCall(
            call=event, started=now, seconds=seconds, deadline=now + seconds
        )
        if seconds < self._service.deadline_seconds:
            self._turns.hurry()
        return served

    def _serve(self, served: ServedCall) -> None:
        self._service.serve(served)
        notice, owner = served.notice, self._service.owner
        # Before the answer: whoever has seen that may rely on the event.
        is_held = notice is not None and owner.hold(notice)
        try:
            self._has_answered(served, served.answer)
        finally:
            if notice is not None and is_held:
                owner.do_held(notice)
        self._tell()
        if not owner.left or self._unread:
            return
        # Behind an event that was only told the thread is awake, and the runtime has other work.
        # And the one that reads could not do what is left while another one was at work.
        if is_held or not self._turns.is_reader:
            self._tidy(is_quiet=True)

    def _due(self, away_since: float) -> float:
        """The time at which another thread has to answer, or to read, for the one that does."""
        served = self._serving
        if served is not None:
            return served.deadline
        return away_since + self._service.deadline_seconds

    def _stand_in(self) -> bool:
        """The thread that reads is late: whether another one is to read on from here."""
        served = self._serving
        if served is None:
            return True
        if self._clock() < served.deadline or not self._service.give_up(served):
            # It is still being read, or its answer is as good as written.
            return False
        try:
            if not self._has_answered(served, SAFE_ANSWER):
                # The other one gave it up, too, and was faster.
                return False
        except OSError:
            # A runtime that is gone is noticed by whoever reads next.
            self._serving = None
            return True
        return True

    def _has_answered(self, served: ServedCall, answer: bytes | Rejection) -> bool:
        """Whether this is the answer to a call: each gets one, and the other thread may be first.

        Who gives it takes the call away. The other one does not read meanwhile, so that there is no
        further call in its place.
        """
        answered = Answered(served.call.method, self._clock() - served.started, served.outcome)
        is_first = self._wire.respond(served.call.stream_id, answer)
        # Else it was answered for us, and another call is being served by now.
        if is_first:
            self._serving = None
            self._untold.append(answered)
        return is_first

    def _tell(self) -> None:
        """Report what was answered; where the other thread is at that, it goes on with this."""
        # Looked at again once the lock is free: the other one may have left something just then.
        while self._untold and self._telling.acquire(blocking=False):
            try:
                while self._untold:
                    self._service.report(self._untold.popleft())
            finally:
                self._telling.release()

    def _watch_readiness(self) -> None:
        """Notice once that everything that runs is known."""
        if not self._service.is_synchronized:
            return
        with self._noticing:
            is_news, self._is_ready = not self._is_ready, True
        if is_news:
            self._ready()

    def _is_left_in_the_dark(self) -> bool:
        """Whether the runtime, which started us, will not tell what runs."""
        can = self._service.abilities
        return not (can is None or can.synchronizes_preinstalled)

    def _end(self) -> None:
        self._wire.end()
        self._tell()
        if self._service.owner.left:
            self._service.owner.submit("what is left", lambda: None)


def _words(error: OSError) -> str:
    return error.strerror or str(error)
