"""Decisions as log lines: one each, key=value."""

import logging
from functools import partial
from typing import Final

from ...nri.dispatch.report import (
    Adjusted,
    Answered,
    ColdStarted,
    Decided,
    Happening,
    Outcome,
    Reconfigured,
    Released,
    Unplaceable,
)
from ...policy.engine.decision import STUCK, UNMET
from ...policy.engine.reason import request_text, runner_up
from ...policy.engine.reconfiguration import Fate, Move
from ...policy.model.container import Container, PodId
from ...policy.model.criterion_words import words_of
from ...policy.model.grant import Grant, GrantKind, Refusal
from ...policy.model.pinning import Change
from .line_record import LateText
from .log_fields import fields, line, name_fields, pin_fields
from .runtime_log import RuntimeLog

_REMEMBERED: Final = 4096
"""Problems of pods known to be told already; the oldest is forgotten and may be told again."""


class DecisionLog:
    """Writes decisions and what follows from them to a logger.

    INFO is what an operator may want to know of every container; repetitions are DEBUG.
    """

    def __init__(self, logger: logging.Logger, where: str) -> None:
        """`where` names the runtime's end: the path of its socket."""
        self._log = logger
        self._runtime_log = RuntimeLog(logger, where)
        self._told: dict[tuple[PodId, str], None] = {}

    def __call__(self, happening: Happening) -> None:
        """Write the log lines of a happening."""
        if (
            isinstance(happening, Answered)
            and happening.outcome is not Outcome.LATE
            and not self._log.isEnabledFor(logging.DEBUG)
        ):
            return  # most of what happens
        match happening:
            case Decided():
                self._decided(happening)
            case Released(container=container, changes=changes):
                self._log.info("%s", LateText(partial(_released, container, changes)))
            case Reconfigured(updates=updates, moves=moves):
                self._log.debug("%s", fields(event="readopted", updates=updates))
                for move in moves:
                    self._moved(move)
            case ColdStarted():
                pass
            case Unplaceable(container=container, reason=reason):
                self._log.warning(
                    "%s", fields(event="degraded", **name_fields(container), reason=reason)
                )
            case Adjusted(cause=cause, container=container, change=change):
                self._log.info(
                    "%s",
                    fields(
                        event="adjusted",
                        **name_fields(container),
                        cause=cause,
                        **pin_fields(change.after),
                    ),
                )
            case _:
                self._runtime_log(happening)

    def _moved(self, move: Move) -> None:
        if move.fate is Fate.STAYS:
            return
        self._log.log(
            logging.WARNING if move.fate is Fate.DEGRADED else logging.INFO,
            "%s",
            fields(
                event="degraded" if move.fate is Fate.DEGRADED else "moved",
                **name_fields(move.container),
                pool=move.pool_after,
                **pin_fields(move.after),
                before=pin_fields(move.before)["cpus"],
                reason=move.reason,
            ),
        )

    def _decided(self, happening: Decided) -> None:
        decision, container = happening.decision, happening.container
        for problem in (*happening.problems, *decision.problems):
            # Every container of a pod brings the problems of the whole pod along.
            told = container.pod.id, str(problem)
            level = logging.DEBUG if told in self._told else logging.WARNING
            # It names the rule's owner, who may be another one, or who else is there.
            at = f"; at {container.path}" if problem.where in (UNMET, STUCK) else ""
            self._log.log(level, "%s", line(f"{problem}{at}"))
            self._told[told] = None
            if len(self._told) > _REMEMBERED:
                del self._told[next(iter(self._told))]
        match decision.result:
            case Refusal(reason=reason):
                self._log.error("%s", LateText(partial(_refused, happening, reason)))
            case Grant(kind=kind):
                self._log.info("%s", LateText(partial(_granted, happening, kind)))
                if self._log.isEnabledFor(logging.DEBUG):
                    for change in decision.changes:
                        self._log.debug("%s", LateText(partial(_changed, change)))


def _released(container: Container, changes: tuple[Change, ...]) -> str:
    return fields(event="release", **name_fields(container), updates=len(changes))


def _changed(change: Change) -> str:
    return fields(event="change", id=change.container_id, **pin_fields(change.after))


def _about(happening: Decided) -> dict[str, str]:
    container = happening.container
    about = {
        "event": happening.event,
        **name_fields(container),
        "request": request_text(container, happening.decision),
    }
    if container.given:
        about["rules"] = ",".join(dict.fromkeys(one.rule for one in container.given))
    return about


def _refused(happening: Decided, reason: str) -> str:
    return fields(**_about(happening), refused=reason)


def _granted(happening: Decided, kind: GrantKind) -> str:
    decision = happening.decision
    unmet = {"unmet": "; ".join(decision.unmet)} if decision.unmet else {}
    notes = {"notes": "; ".join(decision.notes)} if decision.notes else {}
    return fields(
        **_about(happening),
        kind=kind.value,
        pool=decision.pool,
        **pin_fields(decision.pinning),
        decided_by=decision.decided_by,
        why=words_of(decision.decided_by),
        next_best=runner_up(decision) or "-",
        **unmet,
        **notes,
        updates=len(decision.changes),
    )
