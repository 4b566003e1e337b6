"""What happened as log lines: one a decision, key=value."""

import json
import logging
import re
from typing import Final

from ..nri.happening import (
    Adjusted,
    Answered,
    ColdStarted,
    Connected,
    Crashed,
    CreationUndone,
    Decided,
    Disconnected,
    Happening,
    HintsMissing,
    Outcome,
    Reconfigured,
    Recovered,
    Released,
    Suspect,
    Synchronized,
    Unapplied,
    Unsupported,
    Updated,
    Waiting,
)
from ..policy.container import Container, PodId
from ..policy.decision import Grant, Pinning, Refusal
from ..policy.move import Fate, Move
from ..policy.reason import request_text, runner_up, words_of

_PLAIN: Final = re.compile(r"[\w./:#,+@%*-]+", re.ASCII)
_VALUE_MAX: Final = 1000
"""Characters of a value; of what strangers wrote no more than that gets into a line."""
_REMEMBERED: Final = 4096
"""Problems of pods known to be told already; the oldest is forgotten and may be told again."""


class DecisionLog:
    """Writes what happens to a logger.

    INFO is what an operator may want to know of every container; repetitions are DEBUG.
    """

    def __init__(self, logger: logging.Logger, where: str) -> None:
        """`where` names the runtime's end: the path of its socket."""
        self._log = logger
        self._where = where
        self._last_reason = ""
        self._told: dict[tuple[PodId, str], None] = {}

    def __call__(self, happening: Happening) -> None:
        """Write it."""
        match happening:
            case Decided():
                self._decided(happening)
            case Released(container=container, changes=changes):
                self._log.info(
                    "%s",
                    fields(event="release", **_name(container), updates=len(changes)),
                )
            case Synchronized(containers=containers, updates=updates):
                self._last_reason = ""
                self._log.info(
                    "%s", fields(event="synchronized", containers=containers, updates=updates)
                )
            case Reconfigured(updates=updates, moves=moves):
                self._log.debug("%s", fields(event="readopted", updates=updates))
                for move in moves:
                    self._moved(move)
            case ColdStarted():
                pass
            case Adjusted(cause=cause, container=container, change=change):
                self._log.info(
                    "%s",
                    fields(
                        event="adjusted",
                        **_name(container),
                        cause=cause,
                        **_pinned(change.after),
                    ),
                )
            case Connected(runtime=runtime):
                self._log.info("%s", fields(event="connected", runtime=runtime))
            case Disconnected(reason=reason):
                level = logging.DEBUG if reason == self._last_reason else logging.WARNING
                self._last_reason = reason
                self._log.log(level, "%s: %s — %s", self._where, _line(reason), _remedy(reason))
            case Answered(outcome=Outcome.LATE, method=method, seconds=seconds):
                self._log.warning(
                    "%s", fields(event="late", method=method, milliseconds=int(seconds * 1000))
                )
            case Answered(method=method, seconds=seconds, outcome=outcome):
                microseconds = int(seconds * 1e6)
                self._log.debug(
                    "%s",
                    fields(method=method, outcome=outcome.value, microseconds=microseconds),
                )
            case Updated(containers=containers, error=error):
                for container_id in containers:
                    if error:
                        self._log.error(
                            "%s", fields(event="update-failed", id=container_id, error=error)
                        )
                    else:
                        self._log.debug("%s", fields(event="updated", id=container_id))
            case Unapplied():
                self._unapplied(happening)
            case Waiting(containers=containers, reason=reason):
                self._log.warning(
                    "%s: %s; %d containers keep their cpus until the runtime calls next",
                    self._where,
                    reason,
                    containers,
                )
            case Suspect(seconds=seconds):
                self._log.error(
                    "%s: the runtime hangs: no answer to an update and no call for %.0f s; nothing"
                    " is sent to it any more — restart the runtime",
                    self._where,
                    seconds,
                )
            case Recovered():
                self._log.info("%s", fields(event="recovered", runtime=self._where))
            case CreationUndone():
                self._undone(happening)
            case Unsupported(what=what) | HintsMissing(what=what):
                self._log.warning("%s", _line(what))
            case Crashed(what=what, error=error):
                self._log.error(
                    "%s", fields(event="fault", during=what, error=repr(error)), exc_info=error
                )

    def _undone(self, happening: CreationUndone) -> None:
        reason = (
            "its cpus were set already when we were asked: another plugin, or the kubelet's"
            " static CPU manager, sets cpus too"
            if happening.had_cpus
            else "another plugin may set cpus too"
        )
        self._log.error(
            "%s: the runtime could not create it after our answer (%d times so far): %s — where the"
            " runtime's log says 'both tried to set', take one of the two plugins away",
            happening.container.path,
            happening.times,
            reason,
        )

    def _unapplied(self, happening: Unapplied) -> None:
        found = happening.found
        self._log.error(
            "%s",
            fields(
                event="not-applied",
                id=happening.container_id,
                **_pinned(happening.wanted),
                found="unknown" if found is None else f"{found.cpus}/{found.mems}",
                error=happening.error,
            ),
        )

    def _moved(self, move: Move) -> None:
        if move.fate is Fate.STAYS:
            return
        self._log.log(
            logging.WARNING if move.fate is Fate.DEGRADED else logging.INFO,
            "%s",
            fields(
                event="degraded" if move.fate is Fate.DEGRADED else "moved",
                **_name(move.container),
                pool=move.pool_after,
                **_pinned(move.after),
                before=_pinned(move.before)["cpus"],
                reason=move.reason,
            ),
        )

    def _decided(self, happening: Decided) -> None:
        decision, container = happening.decision, happening.container
        for problem in (*happening.problems, *decision.problems):
            # Every container of a pod brings the problems of the whole pod along.
            told = container.pod.id, str(problem)
            level = logging.DEBUG if told in self._told else logging.WARNING
            self._log.log(level, "%s", _line(str(problem)))
            self._told[told] = None
            if len(self._told) > _REMEMBERED:
                del self._told[next(iter(self._told))]
        about = {
            "event": happening.event,
            **_name(container),
            "request": request_text(container, decision),
        }
        match decision.result:
            case Refusal(reason=reason):
                self._log.error("%s", fields(**about, refused=reason))
            case Grant(kind=kind):
                self._log.info(
                    "%s",
                    fields(
                        **about,
                        kind=kind.value,
                        pool=decision.pool,
                        **_pinned(decision.pinning),
                        decided_by=decision.decided_by,
                        why=words_of(decision.decided_by),
                        next_best=runner_up(decision) or "-",
                        updates=len(decision.changes),
                    ),
                )
                for change in decision.changes:
                    self._log.debug(
                        "%s",
                        fields(event="change", id=change.container_id, **_pinned(change.after)),
                    )


def fields(**values: object) -> str:
    """`key=value` pairs; values with other than plain characters are quoted as in JSON.

    >>> fields(pool="NUMA node #0", cpus="0-3")
    'pool="NUMA node #0" cpus=0-3'
    """
    return " ".join(f"{key}={_quoted(_cut(str(value)))}" for key, value in values.items())


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    return _escaped(json.dumps(text, ensure_ascii=False))


def _line(text: str) -> str:
    return _escaped(_cut(text))


def _cut(text: str) -> str:
    return text if len(text) <= _VALUE_MAX else text[: _VALUE_MAX - 1] + "…"


def _escaped(text: str) -> str:
    """What could end a line, or steer the terminal of who reads it, as JSON would write it."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)


def _name(container: Container) -> dict[str, str]:
    return {
        "pod": f"{container.pod.namespace}/{container.pod.name}",
        "container": container.name,
        "id": container.id,
    }


def _pinned(pinning: Pinning) -> dict[str, str]:
    return {
        "cpus": "-" if pinning.cpus is None else str(pinning.cpus),
        "mems": "-" if pinning.mems is None else str(pinning.mems),
    }


def _remedy(reason: str) -> str:
    if "No such file" in reason:
        return "enable NRI in the runtime's configuration, or name its socket with --nri-socket"
    if "Permission denied" in reason:
        return "run pinfoldd as root"
    if "refused" in reason:
        return "look at the runtime's log; is it running?"
    return "trying again; containers that run keep their cpus"
