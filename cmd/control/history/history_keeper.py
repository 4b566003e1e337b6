"""Keeps decisions in the history soon after they were made, in a thread of its own."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, structs

from ....nri.dispatch.front import Front, take_snapshot
from ....nri.dispatch.pacer import Pacer
from ....nri.dispatch.report import Decided, Happening, Identified, Released, Synchronized
from ....policy.engine.decision import KEPT, rule_names
from ....policy.engine.snapshot import Snapshot
from ....policy.model.container import Container, ContainerId
from ....policy.model.grant import Grant, Refusal
from ...state.keeper import Keeper
from ...state.saved_container import PlacedContainer
from .history_file import BYTES_MAX, HistoryFile, parse_line
from .owed_candidates import STAY_SECONDS, OwedCandidates
from .saved_candidates import SavedCandidates, candidates_by_decision, parse_candidates_line
from .saved_decision import (
    PRESENT,
    RELEASE,
    RETURN,
    SavedDecision,
    present_container,
    released,
    saved_decision,
)

_PAUSE_SECONDS: Final = 5.0
_PAUSES: Final = 50
"""A pause is so many times as long as the writing before it took: two hundredths of a processor."""
_TABLES_WAITING_MAX: Final = 64
"""Decisions that wait with all they were made from; further ones are kept without candidates."""
_WAITING_MAX: Final = 4096
_BUSY_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 10.0
"""After a fault it is seen so often whether it is over, although nothing is decided."""
_LINES_AT_ONCE: Final = 32
"""A line takes up to a few kilobytes, and memory for all of a busy time would hardly be had back.
"""
_NONE: Final = frozenset[str]()


class _Waiting(Struct, frozen=True):
    at: float
    happening: Decided | Identified | Released | Synchronized


class HistoryKeeper(Keeper):
    """A report: call it with every happening, from any thread.

    The pools a container was held against are kept of the refused, and of those that stay for a
    while: what came and went in a minute leaves a line without them.
    """

    takes = (Decided, Identified, Released, Synchronized)

    def __init__(
        self,
        folder: Path,
        log: logging.Logger,
        pause_seconds: float = _PAUSE_SECONDS,
        clock: Callable[[], float] = time.time,
        bytes_max: int = BYTES_MAX,
        again_seconds: float = _AGAIN_SECONDS,
        stay_seconds: float = STAY_SECONDS,
    ) -> None:
        """`clock`: seconds since 1970; `bytes_max`: of the file."""
        super().__init__("history", folder, log, again_seconds, "decisions are lost")
        self.file = HistoryFile(folder, log, bytes_max)
        self._pause_seconds = pause_seconds
        self._clock = clock
        self._waiting: deque[_Waiting] = deque(maxlen=_WAITING_MAX)
        self._paths: dict[ContainerId, str] = {}
        """Of containers that were decided about and not released, as far as was written."""
        self._unmet: dict[ContainerId, frozenset[str]] = {}
        """The names of rules that do not hold at some of them, as was written last: who breaks them
        may be others at every restart, at each of a thousand owners."""
        self._results: dict[ContainerId, Grant | Refusal] = {}
        """What was decided last about some of them, as far as this daemon wrote it."""
        self._owed = OwedCandidates(stay_seconds)
        self._unnamed: dict[ContainerId, list[_Waiting]] = {}
        """Decisions about containers to which the runtime gives an id afterwards: under that one
        they are found after a restart."""
        self._has_begun = False
        self._listed: set[ContainerId] = set()
        """The containers of the list that is being looked at."""
        self._has_lost = False
        """Whether more happened at once than can wait to be written."""

    def __call__(self, happening: Happening) -> None:
        """Note a decision or the end of a container."""
        match happening:
            case Decided(decision=decision):
                if decision.lineup is not None and len(self._waiting) >= _TABLES_WAITING_MAX:
                    slim = structs.replace(decision, lineup=None)
                    happening = structs.replace(happening, decision=slim)
            case Released() | Synchronized() | Identified():
                pass
            case _:
                return
        self._has_lost |= len(self._waiting) == _WAITING_MAX
        self._waiting.append(_Waiting(self._clock(), happening))
        if not self._is_changed.is_set():
            self._is_changed.set()

    def last_of(self, container_id: str) -> SavedDecision | None:
        """The last decision that was written of a container, and that gave it a place. O(bytes)."""
        mark, later = f'"id":"{container_id}"'.encode(), None
        known: dict[tuple[str, float], SavedCandidates] = {}
        for line in self.file.newest():
            # They were written after their decision, so they come first here.
            known.update(candidates_by_decision([parse_candidates_line(line, container_id)]))
            found = parse_line(line) if mark in line else None
            if found is None or found.id != container_id or found.decision is None:
                continue
            if not found.is_of_rules:
                return found.with_candidates(known).with_rules_of(later)
            # Why it is there was told before.
            later = later or found
        return later

    def past(self) -> Iterator[SavedDecision]:
        """Containers that are known from the history, each with its last decision. O(bytes)."""
        seen, later = set[str](), dict[str, SavedDecision]()
        known: dict[tuple[str, float], SavedCandidates] = {}
        for line in self.file.newest():
            known.update(candidates_by_decision([parse_candidates_line(line)]))
            found = parse_line(line)
            if found is None or found.decision is None or found.id in seen:
                continue
            if found.is_of_rules:
                later.setdefault(found.id, found)
                continue
            seen.add(found.id)
            yield found.with_candidates(known).with_rules_of(later.pop(found.id, None))
        yield from later.values()

    def _pause_seconds_left(self) -> float:
        # What ends meanwhile is told in fewer words, and many starts are written at once.
        return max(self._pause_seconds, _PAUSES * self._cost_seconds)

    def _idle_seconds(self) -> float | None:
        again_seconds = super()._idle_seconds()
        return self._owed.seconds_left() if again_seconds is None else again_seconds

    def _keep(self, front: Front, *, is_last: bool) -> None:
        left_seconds = self._owed.seconds_left()
        is_due = left_seconds == 0 or (is_last and left_seconds is not None)
        if not self._waiting and not is_due and not (is_last and self._unnamed):
            if self._complaint:
                # A blank line is no decision, and tells whether there is room again.
                self.file.append([b""])
            return
        pacer = front.owner.pacer
        if not self._has_begun:
            self._has_begun = True
            for one in self._living():
                self._remember(ContainerId(one.id), one.path, one.unmet)
        snapshot = self._snapshot(front) if is_due or is_last or self.file.is_full else None
        batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
        present: Iterator[SavedDecision] = iter(())
        candidates: Iterator[SavedCandidates] = iter(())
        if snapshot is not None:
            if self.file.is_full:
                self.file.turn()
                at = batch[0].at if batch else self._clock()
                present = self._present(snapshot, at, pacer)
            candidates = self._owed.settle(snapshot, pacer, is_last=is_last)
        self._append(chain(present, self._saved(batch, pacer, is_last=is_last), candidates))

    def _snapshot(self, front: Front) -> Snapshot | None:
        """The snapshot of now; None where the policy is busy: decisions do not wait for it.

        Raises `TimeoutError` where a part of the file is to begin with it.
        """
        try:
            return take_snapshot(front, "history", _BUSY_SECONDS)
        except TimeoutError:
            if self.file.is_full:
                raise
            return None

    def _append(self, saved: Iterator[SavedDecision | SavedCandidates]) -> None:
        try:
            while lines := list(map(msgspec.json.encode, islice(saved, _LINES_AT_ONCE))):
                self.file.append(lines)
        finally:
            # What could not be written has happened all the same.
            deque(saved, maxlen=0)

    def _present(self, snapshot: Snapshot, at: float, pacer: Pacer) -> Iterator[SavedDecision]:
        """Containers that an earlier part of the file tells of, as they are."""
        for container_id, grant in pacer.among(snapshot.grants.items()):
            # The others are told of by what waits, or will: a snapshot may know of them before.
            if container_id in self._paths and container_id not in self._unnamed:
                yield present_container(
                    at,
                    PlacedContainer(
                        container=snapshot.containers[container_id],
                        cpus=snapshot.cpus_of(container_id),
                        mems=snapshot.memory_of(container_id),
                        grant=grant,
                        pool=snapshot.tree.pools[grant.pool_id],
                        unmet=snapshot.unmet_of(container_id),
                    ),
                )

    def _saved(
        self, batch: list[_Waiting], pacer: Pacer, *, is_last: bool
    ) -> Iterator[SavedDecision]:
        gone = {one.happening.container.id for one in batch if isinstance(one.happening, Released)}
        for one in pacer.among(batch):
            match one.happening:
                case Released(container=container):
                    yield from self._named(container.id, container, gone)
                    self._let_go(container.id)
                    if self._paths.pop(container.id, None) is not None:
                        yield released(one.at, container.shown_id, container.path)
                case Synchronized():
                    yield from self._ended_unseen(one.at)
                case Identified(container=container):
                    yield from self._named(container.id, container, gone)
                case Decided(container=container) as decided:
                    if _is_named_later(decided):
                        self._paths[container.id] = container.path
                        self._unnamed.setdefault(container.id, []).append(one)
                    else:
                        yield from self._decided(one.at, decided, gone)
        if is_last:
            # Nobody will tell how they are called.
            for container_id in tuple(self._unnamed):
                yield from self._named(container_id, None, gone)

    def _named(
        self, container_id: ContainerId, container: Container | None, gone: set[ContainerId]
    ) -> Iterator[SavedDecision]:
        """The decisions about a container that has got an id, or never gets one."""
        for one in self._unnamed.pop(container_id, ()):
            if isinstance(one.happening, Decided):
                named = container or one.happening.container
                decided = structs.replace(one.happening, container=named)
                yield from self._decided(one.at, decided, gone)

    def _decided(
        self, at: float, decided: Decided, gone: set[ContainerId]
    ) -> Iterator[SavedDecision]:
        container, decision = decided.container, decided.decision
        is_kept = decision.decided_by == KEPT and decided.event != RETURN
        if decided.event == "synchronize":
            self._listed.add(container.id)
            # The same daemon that is connected anew knows why they are there.
            is_kept |= decision.result == self._results.get(container.id)
        is_known = is_kept and container.id in self._paths
        if is_known and _names(decision.unmet) == self._unmet.get(container.id, _NONE):
            # A list of what runs decides nothing about those that stay where they are.
            return
        is_refused = isinstance(decision.result, Refusal)
        if not is_refused:
            self._remember(container.id, container.path, decision.unmet)
            self._results[container.id] = decision.result
        is_there = container.id not in gone
        # Without its candidates one that is kept would look as if only its rules were told.
        is_whole = is_refused or (is_there and decision.decided_by == KEPT)
        if is_there and not is_whole and isinstance(decision.result, Grant):
            self._owed.note(container, at, decision.result)
        yield saved_decision(
            *(at, decided.event, container, decision, self._paths),
            with_against=is_refused or is_there,
            with_candidates=is_whole,
        )

    def _ended_unseen(self, at: float) -> Iterator[SavedDecision]:
        """The ends of those that a list of what runs does not have any more."""
        if not self._has_lost:
            for container_id in self._paths.keys() - self._listed:
                self._let_go(container_id)
                yield released(at, container_id, self._paths.pop(container_id))
        self._listed.clear()
        self._has_lost = False

    def _let_go(self, container_id: ContainerId) -> None:
        """Forget what was written of a container that has ended, but for its name."""
        self._unmet.pop(container_id, None)
        self._results.pop(container_id, None)
        self._owed.forget(container_id)

    def _remember(self, container_id: ContainerId, path: str, unmet: tuple[str, ...]) -> None:
        """Remember a container of which is written, and the rules that are told there."""
        self._paths[container_id] = path
        self._unmet.pop(container_id, None)
        if unmet:
            self._unmet[container_id] = _names(unmet)

    def _living(self) -> Iterator[SavedDecision]:
        """The containers that ran when an earlier daemon wrote last."""
        over: set[str] = set()
        for line in self.file.newest():
            found = parse_line(line)
            if found is None or found.id in over:
                continue
            over.add(found.id)
            is_placed = found.decision is not None and found.decision.pool is not None
            if found.event != RELEASE and (is_placed or found.event == PRESENT):
                yield found


def _names(unmet: tuple[str, ...]) -> frozenset[str]:
    # Hardly any container has one.
    return frozenset(rule_names(unmet)) if unmet else _NONE


def _is_named_later(decided: Decided) -> bool:
    is_refused = isinstance(decided.decision.result, Refusal)
    return decided.container.awaits_id and not is_refused
