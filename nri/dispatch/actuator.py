"""The actuator: the only way out to a runtime, and it goes on until the kernel has what is wanted.

Updates leave in three ways, in this order: in the answer to a call of the runtime; over the
runtime's CRI socket; as an NRI `UpdateContainers`, which older runtimes take their two locks for in
the wrong order, so that one of them may hang for good (containerd/nri pull request 301).
"""

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from ...policy.model.container import ContainerId
from ...policy.model.pinning import Pinning
from .acknowledgements import Acknowledgements
from .pin_state import Mismatch, PinLook, PinningCounts, Stage, Telling, is_other
from .report import Crashed, Recovered, Report, Suspect, Unapplied, Updated, Waiting
from .update_sender import NoAnswerError, ReadBack, UpdateSender

SUSPECT: Final = "the runtime hangs: it answers no update and sends nothing — restart it"
ANSWER_MAX: Final = 32
"""Pinnings that wait and go out with one answer: the runtime writes them while others wait."""
SILENCE_SECONDS: Final = 5.0
"""A runtime that neither answers an update nor sends any event for so long is suspect."""
CHECK_SECONDS: Final = 0.5
"""After which the kernel is looked at."""
_LOOK_SECONDS: Final = 0.25
_BATCH_MAX: Final = 16
"""Updates sent at once: what is wanted may have changed until the last of them is made."""
_TOLD_OF_FAILURES: Final = 3
"""Failures in a row after which somebody should know; most are over with the second attempt."""


class Actuator:
    """Tells containers their pinnings, and again until the kernel is known to have them.

    Safe for several threads. `want`, `answer` and the events of containers only take notes and
    never wait for a runtime; a thread of its own sends and reads back.
    """

    def __init__(
        self,
        report: Report,
        clock: Callable[[], float],
        *,
        read_back: ReadBack | None = None,
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        self._report = report
        self._clock = clock
        self._read_back = read_back
        # Taken by itself, as a condition takes and leaves it by calls of Python.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._books = Acknowledgements(check_seconds, can_read_back=read_back is not None)
        self.wanted: Final = self._books.wanted
        """The pinning that a container should have, and was told, or will be. For any thread."""
        self._senders: tuple[UpdateSender, ...] = ()
        self._reason = "there is no connection"
        self._heard_at = clock()
        self._is_suspect = False
        self.looked: list[Callable[[], None]] = []
        """Called in the actuator's thread after whatever that has done."""
        self.failed: Callable[[Mismatch], None] | None = None
        """Called, if there is any, in the same thread for each container that was told in vain."""
        self._is_open = False
        self._is_closed = False
        self._is_ending = False
        self._has_said_waiting = False
        self._is_echoed = False
        """Whether the updates under way raise events that ask about them."""
        self._sleeps_until = -math.inf
        """When the thread wakes by itself: an answer wakes it only for something earlier, since
        whoever writes the answer would wait for it. Before all times where it was woken, and has
        yet to look at what there is to do."""
        self._thread = threading.Thread(target=self._run, name="actuator", daemon=True)

    def start(self) -> None:
        """Begin to send and to read back."""
        self._thread.start()

    def close(self) -> None:
        """Send nothing more."""
        with self._lock:
            self._is_closed = True
            senders, self._senders = self._senders, ()
            self._wake()
        for sender in senders:
            sender.close()
        if self._thread.is_alive():
            self._thread.join()

    def connect(self, senders: Iterable[UpdateSender], reason: str) -> None:
        """A runtime that knows what runs is there; `reason`: why there are no senders, if so."""
        with self._lock:
            self._senders, self._reason, self._is_open = tuple(senders), reason, True
            self._heard_at = self._clock()
            self._is_suspect = self._has_said_waiting = False
            self._wake()

    def disconnect(self) -> None:
        """The runtime is gone: keep its updates for the next one."""
        with self._lock:
            senders, self._senders, self._is_open = self._senders, (), False
            self._books.recall(self._clock())
            self._wake()
        for sender in senders:
            sender.close()

    def heard(self) -> None:
        """The runtime called: it does not hang."""
        self._heard_at = self._clock()
        if self._is_suspect:
            with self._lock:
                was_suspect, self._is_suspect = self._is_suspect, False
                self._wake()
            if was_suspect:
                self._report(Recovered())

    def create(self, container_id: ContainerId, pinning: Pinning) -> None:
        """A container is created with this pinning."""
        with self._lock:
            self._books.create(container_id, pinning)

    def want(self, pinnings: Mapping[ContainerId, Pinning], *, is_likely: bool = False) -> None:
        """Containers should have these from now on; they are told soon.

        `is_likely`: they seem to have them, and are told if the kernel has others.
        """
        if pinnings:
            with self._lock:
                self._books.want(pinnings, self._clock(), is_likely=is_likely)
                self._wake()

    def answer(
        self, pinnings: Mapping[ContainerId, Pinning], but: ContainerId | None = None
    ) -> dict[ContainerId, Pinning]:
        """The updates of an answer to the runtime: these, and others that wait.

        `but`: a container that must not be updated in this answer.
        """
        with self._lock:
            now = self._clock()
            excluded = pinnings.keys() if but is None else {*pinnings, but}
            waiting = self._books.for_answer(excluded, ANSWER_MAX, now)
            self._books.told(pinnings, now)
            if pinnings or waiting:
                self._wake_for(self._books.check_time(now))
        return {**pinnings, **waiting}

    def run(self, container_id: ContainerId, pid: int) -> None:
        """A container has begun to run."""
        with self._lock:
            if (due := self._books.start(container_id, pid, self._clock())) is not None:
                self._wake_for(due)

    def forget(self, container_id: ContainerId) -> None:
        """A container is gone, or holds nothing any more."""
        with self._lock:
            is_awaited = not self._books.has_landed(container_id)
            self._books.forget(container_id)
            if is_awaited:
                # Others may have waited for it, and perhaps the thread would not wake for long.
                self._wake()

    def synchronize(
        self, placed: Mapping[ContainerId, Pinning], running: Mapping[ContainerId, int]
    ) -> None:
        """The runtime listed all there is; see `Acknowledgements.synchronize`."""
        with self._lock:
            self._books.synchronize(placed, running, self._clock())
            self._wake()

    def echo(
        self, container_id: ContainerId, others: Mapping[ContainerId, Pinning]
    ) -> dict[ContainerId, Pinning] | None:
        """The updates of other containers in the answer to a call that our own update raised.

        None where there is no update of this container under way.
        """
        with self._lock:
            # Else it is somebody else's, and nobody knows which of the two comes last.
            if not self._is_echoed or not self._books.echo(container_id):
                return None
        return self.answer(others, but=container_id)

    def acknowledged(self, container_id: ContainerId) -> Pinning | None:
        """The pinning a container is known to run with."""
        with self._lock:
            return self._books.acknowledged(container_id)

    def counts(self) -> PinningCounts:
        """Running containers, counted by their state. O(containers)."""
        with self._lock:
            return self._books.counts()

    def looks(self) -> Mapping[ContainerId, PinLook]:
        """Running containers with what they should have, and whether that is settled."""
        with self._lock:
            return self._books.looks()

    def kernel(self, container_id: ContainerId) -> Pinning | None:
        """The kernel's pinning of a container, read in the caller's thread; None: it cannot be."""
        with self._lock:
            pid, wanted = self._books.sought(container_id)
        return self._read(container_id, pid, wanted)

    def have_landed(self, container_ids: Iterable[ContainerId]) -> bool:
        """Whether all of these have what they should have, as far as that can ever be told."""
        with self._lock:
            return all(map(self._books.has_landed, container_ids))

    def doubt(self, container_ids: Iterable[ContainerId]) -> None:
        """Containers were seen with another pinning: read back soon, and tell again if so."""
        with self._lock:
            self._books.doubt(container_ids, self._clock())
            self._wake()

    @property
    def is_suspect(self) -> bool:
        """Whether the runtime seems to hang."""
        return self._is_suspect

    def settle(self, seconds: float) -> bool:
        """Whether all that can be told was told and read back in this time."""
        with self._lock:
            self._books.hurry()
            self._wake()
            self._changed.wait_for(lambda: self._is_ending or self._is_settled(), seconds)
            return self._is_settled()

    def let_go(self) -> None:
        """Have nobody wait in `settle` from here on: the end is near."""
        with self._lock:
            self._is_ending = True
            self._changed.notify_all()

    def _is_settled(self) -> bool:
        # Whoever waits for this does not want to wait for the time of the next check either.
        self._books.hurry()
        if self._sleeps_until == -math.inf and self._thread.is_alive():
            # It may still have to report what it did.
            return False
        can_tell = bool(self._senders) and self._is_open and not self._is_suspect
        return self._books.is_settled(self._clock(), can_tell=can_tell)

    def _wake(self) -> None:
        # Until it has looked, nobody can say that all is settled.
        self._sleeps_until = -math.inf
        self._changed.notify_all()

    def _wake_for(self, due: float) -> None:
        # Whoever wakes the thread without need pays for it: a runtime waits for this one.
        if due < self._sleeps_until:
            self._wake()

    def _run(self) -> None:
        waiting: Waiting | None = None
        while True:
            for look in self.looked:
                look()
            if waiting is not None:
                # Outside the lock, which whoever answers the runtime takes.
                self._report(waiting)
                waiting = None
            with self._lock:
                if self._is_closed:
                    return
                now = self._clock()
                checks = self._books.due(Stage.CHECK, now) if self._is_open else []
                tells = self._books.due(Stage.TELL, now) if self._is_open else []
                batch = self._books.batch(tells, _BATCH_MAX)
                can_tell = bool(self._senders) and not self._is_suspect
                if not checks and not (tells and can_tell):
                    if tells and not self._senders and not self._has_said_waiting:
                        self._has_said_waiting = True
                        waiting = Waiting(len(tells), self._reason)
                        continue
                    self._wait(now, can_tell=can_tell)
                    continue
            if checks:
                self._check(checks)
            elif not self._are_there(batch):
                self._tell(batch)

    def _wait(self, now: float, *, can_tell: bool) -> None:
        # Whoever waits until all is settled looks again.
        self._changed.notify_all()
        due = self._books.next_due(can_tell=can_tell) if self._is_open else None
        self._sleeps_until = math.inf if due is None else due
        self._changed.wait(None if due is None else max(0.0, due - now))
        self._sleeps_until = -math.inf

    def _check(self, container_ids: Iterable[ContainerId]) -> None:
        for container_id in container_ids:
            with self._lock:
                pid, wanted = self._books.sought(container_id)
            found = self._read(container_id, pid, wanted)
            with self._lock:
                now, can_confirm = self._clock(), bool(self._senders)
                mismatch = self._books.observe(container_id, found, now, can_confirm=can_confirm)
            if mismatch is not None:
                self._tell_of(mismatch)
        with self._lock:
            self._changed.notify_all()

    def _are_there(self, batch: Sequence[ContainerId]) -> bool:
        """Whether a container that was told in vain has what it should have, and is not told."""
        with self._lock:
            is_again = len(batch) == 1 and self._books.has_failed(batch[0])
        found = self.kernel(batch[0]) if is_again else None
        with self._lock:
            return found is not None and self._books.confirm(batch[0], found)

    def _has(self, container_id: ContainerId, telling: Mapping[ContainerId, Telling]) -> bool:
        found = self.kernel(container_id)
        return found is not None and not is_other(telling[container_id].pinning, found)

    def _read(self, container_id: ContainerId, pid: int, likely: Pinning | None) -> Pinning | None:
        if self._read_back is None:
            return None
        try:
            return self._read_back(container_id, pid, likely)
        except Exception as error:
            # A fault of ours with one container must not end the thread that serves all of them.
            self._report(Crashed(f"reading back of container {container_id}", error))
            return None

    def _tell(self, container_ids: list[ContainerId]) -> None:
        with self._lock:
            if not self._senders:
                return
            sender, telling = self._senders[0], self._books.depart(container_ids)
            self._is_echoed = sender.raises_events
        errors = self._send(sender, {one: told.pinning for one, told in telling.items()})
        # The kernel is believed: a runtime may fail once it has made an update.
        failed = {one: error for one, error in errors.items() if not self._has(one, telling)}
        with self._lock:
            mismatches = [
                self._books.arrive(one, told, failed.get(one, ""), self._clock())
                for one, told in telling.items()
            ]
            self._changed.notify_all()
        if done := tuple(one for one in telling if one not in errors):
            self._report(Updated(done))
        for one in errors.keys() - failed.keys():
            self._report(Updated((one,), errors[one]))
        for mismatch in mismatches:
            # Others failed as they are gone, or were not there yet, or are to have other cpus.
            if mismatch is not None:
                self._report(Updated((mismatch.container_id,), mismatch.error))
                self._tell_of(mismatch)

    def _tell_of(self, mismatch: Mismatch) -> None:
        if self.failed is not None:
            self.failed(mismatch)
        if mismatch.failures == _TOLD_OF_FAILURES:
            self._report(
                Unapplied(mismatch.container_id, mismatch.wanted, mismatch.found, mismatch.error)
            )

    def _send(
        self, sender: UpdateSender, updates: Mapping[ContainerId, Pinning]
    ) -> Mapping[ContainerId, str]:
        """Send in a thread of its own: the runtime may hang for good. Returns what failed."""
        answers: list[Mapping[ContainerId, str]] = []

        def send() -> None:
            try:
                answers.append(sender.send(updates))
            except NoAnswerError as error:
                reason = str(error)
                answers.append(dict.fromkeys(updates, reason))
            except Exception as error:
                self._report(Crashed("update", error))
                answers.append(dict.fromkeys(updates, repr(error)))
            else:
                self.heard()

        begun = self._clock()
        thread = threading.Thread(target=send, name="update", daemon=True)
        thread.start()
        while True:
            thread.join(_LOOK_SECONDS)
            if not thread.is_alive():
                return answers[0]
            self._suspect(self._clock() - max(begun, self._heard_at))
            with self._lock:
                if self._is_closed or sender not in self._senders:
                    return dict.fromkeys(updates, "the connection is over")

    def _suspect(self, silence: float) -> None:
        if silence < SILENCE_SECONDS or self._is_suspect:
            return
        with self._lock:
            self._is_suspect = True
            self._changed.notify_all()
        self._report(Suspect(silence))
