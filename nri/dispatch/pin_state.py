"""Pins on their way to the kernel: one container's, and those of all that are not at rest."""

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from ...policy.model.container import ContainerId
from ...policy.model.pinning import Pinning


class Stage(enum.Enum):
    """The next thing to be done about one container."""

    REST = "rest"
    """Nothing: kernel and policy agree, or nothing can be seen before the container runs."""
    CHECK = "check"
    """It was told; what the kernel has is to be read back."""
    TELL = "tell"
    """It has to be told, by whatever way is open."""
    FLIGHT = "flight"
    """An update is with the runtime."""

    # Members are compared by identity, and the hash of the name is a call of Python.
    __hash__ = object.__hash__


class PinLook(Struct, frozen=True):
    """A running container as the actuator sees it, for comparison with the kernel."""

    wanted: Pinning
    tells: int
    """How often it was told anything: two looks with the same number saw the same."""
    is_settled: bool
    """Nothing is under way, or only what failed before."""
    problem: str


class PinState(Struct, kw_only=True):
    """The pinning a container should have, the one it has, and what is done about it next."""

    wanted: Pinning
    is_running: bool
    pid: int = 0
    acknowledged: Pinning | None = None
    stage: Stage = Stage.REST
    due: float = 0.0
    tells: int = 0
    """How often it was told anything since it is known, by all ways."""
    flying: Pinning | None = None
    """What the update says that is with the runtime."""
    tells_of_wanted: int = 0
    """How often it was told what is wanted at present."""
    failures: int = 0
    """How often in a row the kernel was seen without what it was told, or the runtime failed."""
    problem: str = ""
    is_unsent: bool = False
    """No other way took the last update: the next answer may carry it though it is not due."""

    def look(self) -> PinLook:
        """The container for a comparison with the kernel."""
        is_settled = self.stage is Stage.REST or self.failures > 0
        return PinLook(self.wanted, self.tells, is_settled, self.problem)


def count_telling(entries: Iterable[PinState]) -> None:
    """Count a telling: from here on the kernel may have the wanted pinning or the old one."""
    # Those side by side mostly have one pinning, and had one: it is compared once.
    old: Pinning | None = None
    new: Pinning | None = None
    is_known = False
    for entry in entries:
        entry.tells += 1
        entry.tells_of_wanted += 1
        if entry.acknowledged is not old or entry.wanted is not new:
            old, new = entry.acknowledged, entry.wanted
            is_known = old == new
        if not is_known:
            entry.acknowledged = None


class Telling(NamedTuple):
    """One update that is sent: what, and the number of earlier ones."""

    pinning: Pinning
    tells: int


class Mismatch(Struct, frozen=True, kw_only=True):
    """A container that has not got what it was told, so many times in a row."""

    container_id: ContainerId
    wanted: Pinning
    found: Pinning | None
    """None where it cannot be read."""
    error: str
    failures: int


def is_other(wanted: Pinning, found: Pinning) -> bool:
    """Whether the kernel has other cpus or memory nodes than it should."""
    if found is wanted:
        # As it was read mostly.
        return False
    return (wanted.cpus is not None and found.cpus != wanted.cpus) or (
        wanted.mems is not None and found.mems is not None and found.mems != wanted.mems
    )


def landed(entries: Mapping[ContainerId, PinState]) -> Mapping[ContainerId, PinState]:
    """Entries without those whose update is with the runtime: its answer says what is next."""
    return {one: entry for one, entry in entries.items() if entry.stage is not Stage.FLIGHT}


class PinningCounts(Struct, frozen=True, kw_only=True):
    """Running containers counted by what is known of their pinning, for metrics and health."""

    acknowledged: int
    waiting: int
    """To be told, or to be told again."""
    failing: int
    """The last attempt failed, or the kernel did not have what it was told."""
    blind: int
    """Told, and nobody can say whether the kernel has it."""

    @classmethod
    def of(cls, running: Sequence[PinState]) -> "PinningCounts":
        """The counts of containers that run. O(containers)."""
        # Most are at rest, and known by one object to have what they should: what two pinnings
        # have in common is found by a slow way, and so is an enum's member.
        rest = Stage.REST
        others = [
            one
            for one in running
            if one.acknowledged is not one.wanted or one.stage is not rest or one.failures
        ]
        acknowledged, waiting, failing, blind = len(running) - len(others), 0, 0, 0
        for one in others:
            is_acknowledged = one.acknowledged == one.wanted
            acknowledged += is_acknowledged
            waiting += one.stage in (Stage.TELL, Stage.FLIGHT)
            failing += one.failures > 0
            blind += one.stage is rest and not is_acknowledged
        return cls(acknowledged=acknowledged, waiting=waiting, failing=failing, blind=blind)


class OpenPins:
    """Entries by their stage, those at rest left out; an answer must not go through all there are.

    The stage of an entry is changed by `move` alone.
    """

    def __init__(self) -> None:
        self._by_stage: dict[Stage, dict[ContainerId, PinState]] = {stage: {} for stage in Stage}
        self._unseen: Mapping[ContainerId, PinState] = {}
        self._unseen_due = -math.inf

    def move(
        self, entries: Mapping[ContainerId, PinState], stage: Stage, due: float = math.inf
    ) -> None:
        """Entries are at this stage from now on, the last of those there. O(entries).

        `due`: the time of the next thing to be done; never, where that is up to somebody else.
        """
        by_stage = self._by_stage
        for container_id, entry in entries.items():
            by_stage[entry.stage].pop(container_id, None)
            entry.stage, entry.due, entry.is_unsent = stage, due, False
        if stage is not Stage.REST:
            by_stage[stage].update(entries)

    def expect_starts(self, entries: Mapping[ContainerId, PinState], due: float) -> None:
        """Entries of containers that do not run yet are told then, unless they start before."""
        self._unseen, self._unseen_due = entries, due
        self.move(entries, Stage.TELL, due)

    def tell_unseen(self, entries: Mapping[ContainerId, PinState], now: float) -> None:
        """Entries told just now go back to where they were if a start of theirs is expected.

        It may be under way: what the runtime was told is too late for it then. O(1) but shortly
        after starts are expected.
        """
        if now < self._unseen_due:
            kept = {
                container_id: entry
                for container_id, entry in entries.items()
                if self._unseen.get(container_id) is entry
                and not entry.is_running
                and entry.stage is not Stage.FLIGHT
            }
            self.move(kept, Stage.TELL, self._unseen_due)

    def at(self, stage: Stage) -> Iterable[tuple[ContainerId, PinState]]:
        """Entries at a stage with their containers, in the order in which they came there."""
        return self._by_stage[stage].items()

    def entries(self, stage: Stage) -> Iterable[PinState]:
        """Entries at a stage, without their containers."""
        return self._by_stage[stage].values()
