"""The connection to the runtime, what it was told and what went wrong there, as log lines."""

import logging
from typing import Final

from ...nri.dispatch.report import (
    Answered,
    Connected,
    Crashed,
    CreationUndone,
    Disconnected,
    Drifted,
    Happening,
    HintsMissing,
    Outcome,
    Recovered,
    SocketLost,
    Suspect,
    Synchronized,
    ThreadsNarrowed,
    Unapplied,
    Unsupported,
    Updated,
    Waiting,
)
from ...policy.model.container import ContainerId
from ...policy.model.pinning import Pinning
from .log_fields import fields, line, name_fields, pin_fields

_DRIFTS_REMEMBERED: Final = 1024
"""Containers known to be told already; the oldest is forgotten and may be told again."""
_BINDINGS_SHOWN: Final = 16
_BINDERS: Final = "the program itself, as pollers do, or somebody with taskset"


class RuntimeLog:
    """Writes events between the runtime and the policy to a logger."""

    def __init__(self, logger: logging.Logger, where: str) -> None:
        """`where` names the runtime's end: the path of its socket."""
        self._log = logger
        self._where = where
        self._last_reason = ""
        self._drifts: dict[ContainerId, Pinning] = {}
        self._narrowings: dict[ContainerId, None] = {}

    def __call__(self, happening: Happening) -> None:
        """Write the log lines of a happening; those of decisions are written elsewhere."""
        match happening:
            case Synchronized(containers=containers, updates=updates):
                self._last_reason = ""
                self._log.info(
                    "%s", fields(event="synchronized", containers=containers, updates=updates)
                )
            case Connected(runtime=runtime):
                self._log.info("%s", fields(event="connected", runtime=runtime))
            case Disconnected(reason=reason, retry_seconds=pause):
                self._disconnected(reason, is_last=pause is None)
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
            case Updated():
                self._updated(happening)
            case Unapplied():
                self._unapplied(happening)
            case Drifted():
                self._drifted(happening)
            case ThreadsNarrowed():
                self._narrowed(happening)
            case Waiting(containers=containers, reason=reason):
                self._log.warning(
                    "%s: %s; %d containers keep their cpus until the runtime calls next",
                    self._where,
                    reason,
                    containers,
                )
            case SocketLost(path=path, reason=""):
                self._log.warning("%s: the kubelet's socket was gone, and is made anew", path)
            case SocketLost(path=path, reason=reason):
                self._log.error(
                    "%s: the kubelet's socket is gone, and cannot be made again: %s — start"
                    " pinfoldd anew; containers keep their cpus",
                    path,
                    reason,
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
                self._log.warning("%s", line(what))
            case Crashed(what=what, error=error):
                self._log.error(
                    "%s", fields(event="fault", during=what, error=repr(error)), exc_info=error
                )
            case _:
                pass

    def _disconnected(self, reason: str, *, is_last: bool) -> None:
        level = logging.DEBUG if reason == self._last_reason else logging.WARNING
        self._last_reason = reason
        self._log.log(
            level, "%s: %s — %s", self._where, line(reason), _remedy(reason, is_last=is_last)
        )

    def _updated(self, happening: Updated) -> None:
        for container_id in happening.containers:
            if happening.error:
                self._log.error(
                    "%s", fields(event="update-failed", id=container_id, error=happening.error)
                )
            else:
                self._log.debug("%s", fields(event="updated", id=container_id))

    def _undone(self, happening: CreationUndone) -> None:
        reason = (
            "its cpus were set already when we were asked: another NRI plugin, or the kubelet's"
            " static CPU manager, sets cpus too"
            if happening.had_cpus
            else "another NRI plugin may set cpus too"
        )
        self._log.error(
            "%s: the runtime could not create it after our answer (%d times so far): %s — where the"
            " runtime's log says 'both tried to set', take one of the two plugins away",
            line(happening.container.path),
            happening.times,
            reason,
        )

    def _drifted(self, happening: Drifted) -> None:
        # A program that does it again and again is told of once.
        container, kernel = happening.container, happening.kernel
        is_known = self._drifts.get(container.id) == kernel
        self._drifts[container.id] = kernel
        if len(self._drifts) > _DRIFTS_REMEMBERED:
            del self._drifts[next(iter(self._drifts))]
        self._log.log(
            logging.DEBUG if is_known else logging.WARNING,
            "%s",
            fields(
                event="drift",
                **name_fields(container),
                **pin_fields(happening.intended),
                found=f"{kernel.cpus}/{kernel.mems}",
                likely=happening.likely,
            ),
        )

    def _narrowed(self, happening: ThreadsNarrowed) -> None:
        # A program that binds its threads anew all the time is told of once.
        container = happening.container
        is_known = container.id in self._narrowings
        self._narrowings[container.id] = None
        if len(self._narrowings) > _DRIFTS_REMEMBERED:
            del self._narrowings[next(iter(self._narrowings))]
        threads = sorted(happening.threads.items(), key=lambda one: one[0].mask)
        shown = [f"{count} on {cpus}" for cpus, count in threads[:_BINDINGS_SHOWN]]
        more = len(threads) - len(shown)
        self._log.log(
            logging.DEBUG if is_known else logging.INFO,
            "%s",
            fields(
                event="threads-bound",
                **name_fields(container),
                cpus=happening.intended,
                threads=", ".join(shown) + (f" and {more} more" if more else ""),
                likely=_BINDERS,
            ),
        )

    def _unapplied(self, happening: Unapplied) -> None:
        found = happening.found
        self._log.error(
            "%s",
            fields(
                event="not-applied",
                id=happening.container_id,
                **pin_fields(happening.wanted),
                found="unknown" if found is None else f"{found.cpus}/{found.mems}",
                error=happening.error,
            ),
        )


def _remedy(reason: str, *, is_last: bool) -> str:
    if is_last:
        return "pinfoldd ends; containers that run keep their cpus"
    if "No such file" in reason:
        return "enable NRI in the runtime's configuration, or name its socket with --nri-socket"
    if "Permission denied" in reason:
        return "run pinfoldd as root"
    if "refused" in reason:
        return "look at the runtime's log; is it running?"
    return "trying again; containers that run keep their cpus"
