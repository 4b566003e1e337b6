"""Pinnings wanted by the policy beside those the kernel is known to have; no clock, no I/O.

A runtime that was told a pinning may have lost it: an update of a container that is being started
reaches its specification alone, and a failed update in an answer is only logged. So a pinning
counts as acknowledged where it was read back from the kernel, or where the runtime confirmed an
update of a container that was running already when the update was sent.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from ...policy.model.container import ContainerId
from ...policy.model.pinning import Pinning
from .pin_state import (
    Mismatch,
    OpenPins,
    PinLook,
    PinningCounts,
    PinState,
    Stage,
    Telling,
    count_telling,
    is_other,
    landed,
)

FIRST_RETRY_SECONDS: Final = 0.5
LAST_RETRY_SECONDS: Final = 60.0
UNSEEN_START_SECONDS: Final = 2.0
"""After which a container that was listed before it ran is told again, unless it starts before."""
_DOUBLINGS_MAX: Final = 16
_BLIND_TELLS: Final = 2
"""How often a pinning that can neither be read back nor confirmed is told."""


class Acknowledgements:
    """Every placed container with the pinning it should have and the one it has.

    Times are seconds of one clock that never goes back; every method is O(containers named), except
    for those that say otherwise.
    """

    def __init__(self, check_seconds: float, *, can_read_back: bool) -> None:
        """`check_seconds`: how long after it was told the kernel is looked at."""
        self._check_seconds = check_seconds
        self._can_read_back = can_read_back
        self._entries: dict[ContainerId, PinState] = {}
        self._open = OpenPins()

    def wanted(self, container_id: ContainerId) -> Pinning | None:
        """The pinning a container should have; None for unknown ones."""
        return None if (entry := self._entries.get(container_id)) is None else entry.wanted

    def acknowledged(self, container_id: ContainerId) -> Pinning | None:
        """The pinning a container is known to run with; None where that is not known."""
        return None if (entry := self._entries.get(container_id)) is None else entry.acknowledged

    def sought(self, container_id: ContainerId) -> tuple[int, Pinning | None]:
        """The process of a container, and the pinning that it should have."""
        entry = self._entries.get(container_id)
        return (0, None) if entry is None else (entry.pid, entry.wanted)

    def create(self, container_id: ContainerId, pinning: Pinning) -> None:
        """A container is created with this pinning: it starts with it, as far as is known."""
        if container_id in self._entries:
            self.forget(container_id)
        self._entries[container_id] = PinState(wanted=pinning, is_running=False)

    def want(
        self, pinnings: Mapping[ContainerId, Pinning], now: float, *, is_likely: bool = False
    ) -> None:
        """Containers should have these from now on, and were not told yet.

        `is_likely`: the kernel is looked at first. A runtime that refuses all updates of a
        container would refuse also the one to what it has.
        """
        stage = Stage.CHECK if is_likely else Stage.TELL
        self._open.move(landed(self._want(pinnings)), stage, now)

    def told(self, pinnings: Mapping[ContainerId, Pinning], now: float) -> None:
        """Containers should have these from now on, and an answer to the runtime says so."""
        if not pinnings:
            return
        entries = self._want(pinnings)
        count_telling(entries.values())
        self._open.move(landed(entries), Stage.CHECK, self.check_time(now))
        self._open.tell_unseen(entries, now)

    def check_time(self, now: float) -> float:
        """The time at which the kernel is read back for a container that is told something now.

        Rounded up, so that several are read together: each alone would wake a thread.
        """
        due, step = now + self._check_seconds, self._check_seconds / 2
        return -(-due // step) * step if step else due

    def start(self, container_id: ContainerId, pid: int, now: float) -> float | None:
        """A container runs: whatever it was told before may have been lost.

        Returns when something is to be done about it, if anything.
        """
        entry = self._entries.get(container_id)
        if entry is None:
            return None
        entry.pid = pid or entry.pid
        if entry.is_running:
            return None
        entry.is_running = True
        # What was told before may have been lost, so it does not count.
        entry.tells_of_wanted = 0
        if self._can_read_back:
            # One that was told nothing runs with what it was created with, as far as is known.
            is_urgent = entry.tells > 0 or entry.stage is Stage.TELL
            due = now if is_urgent else self.check_time(now)
            self._open.move({container_id: entry}, Stage.CHECK, due)
        elif entry.tells or entry.stage is Stage.TELL:
            self._open.move({container_id: entry}, Stage.TELL, now)
        else:
            # Its creation would have failed without the pinning it was created with.
            entry.acknowledged = entry.wanted
            return None
        return entry.due

    def forget(self, container_id: ContainerId) -> None:
        """A container is gone, or holds nothing any more."""
        if (entry := self._entries.pop(container_id, None)) is not None:
            self._open.move({container_id: entry}, Stage.REST)

    def synchronize(
        self,
        placed: Mapping[ContainerId, Pinning],
        running: Mapping[ContainerId, int],
        now: float,
    ) -> None:
        """The runtime listed all there is. O(containers).

        `placed`: all that hold something, with what they should have; `running`: the process id of
        those that run. What the list says of a container's cpus is what the runtime was told, which
        is more than the kernel may have got.
        """
        before, self._entries = self._entries, {}
        self._open = OpenPins()
        for container_id, pinning in placed.items():
            old = before.get(container_id)
            pid = running.get(container_id, 0)
            entry = PinState(wanted=pinning, is_running=container_id in running, pid=pid)
            if old is not None:
                entry.pid = pid or old.pid
                entry.tells = old.tells
                entry.acknowledged = old.acknowledged if entry.is_running else None
            self._entries[container_id] = entry
            if entry.is_running and entry.acknowledged != pinning:
                stage = Stage.CHECK if self._can_read_back else Stage.TELL
                self._open.move({container_id: entry}, stage, now)
        # Their starts may have come between the list and our first event: nobody would tell.
        unseen = {one: entry for one, entry in self._entries.items() if not entry.is_running}
        self._open.expect_starts(unseen, now + UNSEEN_START_SECONDS)

    def for_answer(
        self, but: Iterable[ContainerId], at_most: int, now: float
    ) -> dict[ContainerId, Pinning]:
        """Pinnings that wait and go out in an answer to the runtime, noted as told.

        `but`: containers the answer speaks of already, or must not.
        """
        ahead = self._open.at(Stage.TELL)
        if not ahead:
            return {}
        excluded = set(but)
        ready = (
            (container_id, entry.wanted)
            for container_id, entry in ahead
            if container_id not in excluded and (entry.due <= now or entry.is_unsent)
        )
        found = dict(islice(ready, at_most))
        self.told(found, now)
        return found

    def next_due(self, *, can_tell: bool) -> float | None:
        """The time of the next check, or of the next telling if `can_tell`; None: neither is open.

        O(open ones).
        """
        open_pins = self._open
        times = [one.due for one in open_pins.entries(Stage.CHECK) if one.is_running]
        if can_tell:
            times.extend(one.due for one in open_pins.entries(Stage.TELL))
        return min(times, default=None)

    def due(self, stage: Stage, now: float) -> list[ContainerId]:
        """Containers for which this is to be done. O(open ones)."""
        return [
            container_id
            for container_id, one in self._open.at(stage)
            # Only what runs is read back.
            if one.due <= now and (one.is_running or stage is Stage.TELL)
        ]

    def has_landed(self, container_id: ContainerId) -> bool:
        """Whether nothing more is done about the pinning that a container should have.

        It has it, or is gone; or nobody can ever tell. One that has yet to run may lose its update.
        """
        entry = self._entries.get(container_id)
        return entry is None or (entry.is_running and entry.stage is Stage.REST)

    def hurry(self) -> None:
        """Check now what would be checked later. O(open ones)."""
        for one in self._open.entries(Stage.CHECK):
            one.due = 0.0

    def is_settled(self, now: float, *, can_tell: bool) -> bool:
        """Whether nothing is under way; what failed and is tried again later does not count."""
        open_pins = self._open
        return not (
            open_pins.entries(Stage.FLIGHT)
            or any(one.is_running for one in open_pins.entries(Stage.CHECK))
            or (can_tell and any(one.due <= now for one in open_pins.entries(Stage.TELL)))
        )

    def observe(
        self,
        container_id: ContainerId,
        found: Pinning | None,
        now: float,
        *,
        can_confirm: bool = False,
    ) -> Mismatch | None:
        """The kernel's pinning of a container that was to be checked; None: it cannot be read.

        `can_confirm`: whether the runtime can be sent an update that it answers. Then what cannot
        be read is told that way; else only so often, with answers that say nothing.
        """
        entry = self._entries.get(container_id)
        if entry is None or entry.stage is not Stage.CHECK:
            return None
        if found is None:
            is_open = can_confirm or entry.tells_of_wanted < _BLIND_TELLS
            if is_open and entry.acknowledged != entry.wanted:
                self._open.move({container_id: entry}, Stage.TELL, now)
            else:
                self._rest(container_id, entry)
            return None
        if not is_other(entry.wanted, found):
            self._agree(container_id, entry)
            return None
        entry.acknowledged = None
        if not entry.tells_of_wanted:
            # Nobody has told it yet: it started with what it was created with, or another program
            # changed it.
            self._open.move({container_id: entry}, Stage.TELL, now)
            return None
        return self._fail(container_id, entry, found, "the kernel does not have it", now)

    def batch(self, container_ids: Sequence[ContainerId], at_most: int) -> list[ContainerId]:
        """Containers to tell next, in the order given; one that failed goes alone, and last.

        One container with which the runtime hangs must not keep the others waiting every time.
        """
        fresh = [one for one in container_ids if not self._entries[one].failures]
        return fresh[:at_most] or list(container_ids[:1])

    def has_failed(self, container_id: ContainerId) -> bool:
        """Whether a container was told in vain."""
        return (entry := self._entries.get(container_id)) is not None and entry.failures > 0

    def confirm(self, container_id: ContainerId, found: Pinning) -> bool:
        """Whether the kernel has by now what a container was to be told: it need not be."""
        entry = self._entries.get(container_id)
        if entry is None or is_other(entry.wanted, found):
            return False
        self._agree(container_id, entry)
        return True

    def depart(self, container_ids: Iterable[ContainerId]) -> dict[ContainerId, Telling]:
        """Updates of these containers go to the runtime now."""
        found: dict[ContainerId, Telling] = {}
        for container_id in container_ids:
            entry = self._entries.get(container_id)
            if entry is not None and entry.stage is Stage.TELL:
                count_telling((entry,))
                self._open.move({container_id: entry}, Stage.FLIGHT)
                entry.flying = entry.wanted
                found[container_id] = Telling(entry.wanted, entry.tells)
        return found

    def arrive(
        self, container_id: ContainerId, telling: Telling, error: str, now: float
    ) -> Mismatch | None:
        """The runtime answered an update; `error` is empty where it confirms it."""
        entry = self._entries.get(container_id)
        if entry is None or entry.stage is not Stage.FLIGHT:
            return None
        if not entry.is_running and entry.tells_of_wanted:
            # Perhaps it starts with it, perhaps not: that is seen once it runs.
            self._rest(container_id, entry)
            self._open.tell_unseen({container_id: entry}, now)
            return None
        if error and entry.tells_of_wanted:
            return self._fail(container_id, entry, None, error, now)
        if not entry.tells_of_wanted:
            self._open.move({container_id: entry}, Stage.TELL, now)
        elif telling.tells != entry.tells or entry.flying != entry.wanted:
            # An answer told it something meanwhile: which of both came last, nobody knows.
            stage = Stage.CHECK if self._can_read_back else Stage.TELL
            self._open.move({container_id: entry}, stage, now)
        else:
            self._agree(container_id, entry)
        return None

    def echo(self, container_id: ContainerId) -> bool:
        """Whether the runtime asks about an update that we sent.

        It is answered with what is wanted then, so that is what the update says from here on.
        """
        entry = self._entries.get(container_id)
        if entry is None or entry.stage is not Stage.FLIGHT:
            return False
        entry.flying = entry.wanted
        entry.tells_of_wanted = max(1, entry.tells_of_wanted)
        return True

    def recall(self, now: float) -> None:
        """Updates under way will not be answered: the connection is over. O(open ones)."""
        self._open.move(dict(self._open.at(Stage.FLIGHT)), Stage.TELL, now)

    def looks(self) -> Mapping[ContainerId, PinLook]:
        """Running containers as they are seen here. O(containers)."""
        return {key: one.look() for key, one in self._entries.items() if one.is_running}

    def doubt(self, container_ids: Iterable[ContainerId], now: float) -> None:
        """The kernel was seen with something else: read it back, and tell it again if so."""
        for container_id in container_ids:
            entry = self._entries.get(container_id)
            if entry is None or not entry.is_running:
                continue
            if entry.stage is Stage.REST:
                # Another program's doing is no failure of what was told before.
                entry.acknowledged = None
                entry.tells_of_wanted = 0
                self._open.move({container_id: entry}, Stage.CHECK, now)
            elif entry.stage is Stage.TELL:
                entry.due = now

    def counts(self) -> PinningCounts:
        """Running containers, counted by their state. O(containers)."""
        return PinningCounts.of([one for one in self._entries.values() if one.is_running])

    def _want(self, pinnings: Mapping[ContainerId, Pinning]) -> dict[ContainerId, PinState]:
        """Entries of containers that should have these from now on."""
        found: dict[ContainerId, PinState] = {}
        old: Pinning | None = None
        new: Pinning | None = None
        is_other = False
        for container_id, pinning in pinnings.items():
            if (entry := self._entries.get(container_id)) is None:
                entry = self._entries[container_id] = PinState(wanted=pinning, is_running=False)
            # Those side by side mostly had one pinning, and get one: it is compared once.
            if entry.wanted is not old or pinning is not new:
                old, new, is_other = entry.wanted, pinning, entry.wanted != pinning
            if is_other:
                entry.wanted = pinning
                entry.tells_of_wanted = entry.failures = 0
                entry.problem = ""
            found[container_id] = entry
        return found

    def _rest(self, container_id: ContainerId, entry: PinState) -> None:
        self._open.move({container_id: entry}, Stage.REST)
        entry.failures = 0
        entry.problem = ""

    def _agree(self, container_id: ContainerId, entry: PinState) -> None:
        entry.acknowledged = entry.wanted
        self._rest(container_id, entry)

    def _fail(
        self,
        container_id: ContainerId,
        entry: PinState,
        found: Pinning | None,
        error: str,
        now: float,
    ) -> Mismatch:
        entry.failures += 1
        entry.problem = error
        times = 1 << min(entry.failures - 1, _DOUBLINGS_MAX)
        pause = min(FIRST_RETRY_SECONDS * times, LAST_RETRY_SECONDS)
        # What was read back once without success is told again at once: it was lost on its way.
        due = now if found is not None and entry.failures == 1 else now + pause
        self._open.move({container_id: entry}, Stage.TELL, due)
        entry.is_unsent = found is None
        return Mismatch(
            container_id=container_id,
            wanted=entry.wanted,
            found=found,
            error=error,
            failures=entry.failures,
        )
