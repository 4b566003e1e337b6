"""Decisions made again from a history, by another engine, and held against what they were."""

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ....policy.engine.advice import Advice
from ....policy.engine.decision import Decision
from ....policy.engine.engine import Engine
from ....policy.model.container import Container, ContainerId, ContainerState
from ....policy.model.grant import Refusal
from .saved_decision import PRESENT, RELEASE, SavedDecision

_RAN_BEFORE = frozenset({PRESENT, "synchronize", "adopt"})
"""Events of containers that ran when they were heard of: they keep what is legal."""


class ReplayOutcome(enum.Enum):
    """The outcome of a decision that was made again, compared with the first time."""

    SAME = "as it was"
    ELSEWHERE = "elsewhere"
    REFUSED = "refused now"
    GRANTED = "granted now"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedPlace:
    """A place that a decision gave, in the kernel's list format; or why it gave none."""

    pool: str = ""
    cpus: str | None = None
    mems: str | None = None
    refused: str | None = None

    @property
    def text(self) -> str:
        """The place in a few words."""
        if self.refused is not None:
            return f"refused: {self.refused}"
        cpus, mems = self.cpus or "any", self.mems or "any"
        return f"{self.pool}, cpus {cpus}, memory {mems}"

    @property
    def document(self) -> dict[str, str | None]:
        """The place for tools."""
        if self.refused is not None:
            return {"refused": self.refused}
        return {"pool": self.pool, "cpus": self.cpus, "mems": self.mems}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A decision that was made again."""

    at: float
    event: str
    path: str
    before: ReplayedPlace
    after: ReplayedPlace

    @property
    def outcome(self) -> ReplayOutcome:
        """The outcome: whether the two differ, and how."""
        was, now = self.before.refused is None, self.after.refused is None
        if was != now:
            return ReplayOutcome.GRANTED if now else ReplayOutcome.REFUSED
        if not was or self.before == self.after:
            # Why it is refused is in other words where other pools are.
            return ReplayOutcome.SAME
        return ReplayOutcome.ELSEWHERE


def replay(engine: Engine, kept: Sequence[SavedDecision]) -> tuple[Replayed, ...]:
    """The decisions made again by an engine without containers, in the order they are kept in.

    Those that ran when the history begins keep what they have, as at a restart.
    """
    first = next((at for at, one in enumerate(kept) if one.event != PRESENT), len(kept))
    present = list(_present(kept[:first]))
    if present:
        advice = {container.id: advice for container, advice in present}
        engine.synchronize([container for container, _ in present], advice)
    found: list[Replayed] = []
    known = {one.id for one in kept[:first]}
    for one in kept[first:]:
        if one.is_of_rules and one.id in known:
            # Who is refused here would not have run by then.
            continue
        known.add(one.id)
        container = one.container()
        if one.event == RELEASE or container is None:
            engine.remove(ContainerId(one.id))
            continue
        decision = _decide(engine, one, container)
        if decision is None or one.decision is None:
            continue
        before = ReplayedPlace(
            pool=one.decision.pool or "",
            cpus=one.decision.cpus,
            mems=one.decision.mems,
            refused=one.decision.decided_by if one.decision.pool is None else None,
        )
        after = _place(decision)
        found.append(
            Replayed(at=one.at, event=one.event, path=one.path, before=before, after=after)
        )
        if after.refused is not None and one.event != "update":
            engine.remove(container.id)
    return tuple(found)


def _present(kept: Sequence[SavedDecision]) -> Iterator[tuple[Container, Advice]]:
    for one in kept:
        if one.pod is not None:
            (saved,) = one.pod.containers
            for container in one.pod.running():
                yield container, saved.advice()


def _decide(engine: Engine, one: SavedDecision, container: Container) -> Decision | None:
    """The decision made again; None where there is nothing to decide."""
    is_known = container.id in engine.grants
    if one.event in _RAN_BEFORE:
        # What begins a later part of the file is known already.
        return None if is_known else engine.adopt(container)
    if one.event == "update":
        return engine.update(container.id, container.resources) if is_known else None
    if is_known:
        return None
    fresh = replace(container, cpus=None, mems=None, state=ContainerState.CREATED)
    decision = engine.create(fresh)
    engine.start(container.id)
    return decision


def _place(decision: Decision) -> ReplayedPlace:
    result = decision.result
    if isinstance(result, Refusal):
        return ReplayedPlace(refused=result.reason)
    pinning = decision.pinning
    return ReplayedPlace(
        pool=decision.pool,
        cpus=None if pinning.cpus is None else str(pinning.cpus),
        mems=None if pinning.mems is None else str(pinning.mems),
    )
