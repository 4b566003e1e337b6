"""The audit of a running daemon: reads back what the kernel has, and has drift told again."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ...nri.dispatch.front import Front, take_snapshot
from ...nri.dispatch.pin_state import PinLook
from ...nri.dispatch.report import Drifted, Report, ThreadsNarrowed
from ...policy.engine.snapshot import Snapshot
from ...policy.inquiry.audit import Drift, find_drift, is_drift
from ...policy.model.container import ContainerId
from ...policy.model.pinning import Pinning

if TYPE_CHECKING:
    from ..kernel.thread_watch import ThreadWatch

AUDIT_SECONDS: Final = 10.0
"""Between two looks at what the kernel has."""

_BUSY_SECONDS: Final = 2.0
_REPAIR_SECONDS: Final = 3.0


class AuditResult(Struct, frozen=True, kw_only=True):
    """The containers that could be read back, and those that have drifted."""

    containers: int
    drifts: tuple[Drift, ...]
    problems: Mapping[ContainerId, str]
    """What went wrong with drifted containers when they were told, if anything."""
    repaired: frozenset[ContainerId] = frozenset()
    """Containers that have again what they should."""


class DriftAudit:
    """Compares every running container's cgroup with the policy. For several threads."""

    def __init__(self, front: Front, report: Report, busy_seconds: float = _BUSY_SECONDS) -> None:
        """`busy_seconds`: how long the policy may be busy."""
        self._front = front
        self._report = report
        self._busy_seconds = busy_seconds
        self._threads: ThreadWatch | None = None

    @property
    def bound_threads(self) -> int:
        """The number of threads that are bound to fewer cpus than their containers have."""
        return 0 if self._threads is None else self._threads.bound_threads

    def look(self) -> AuditResult:
        """The drift of this moment, of which nothing else is told. O(containers).

        Raises `TimeoutError` where the policy is busy.
        """
        actuator, pacer = self._front.actuator, self._front.owner.pacer
        before = actuator.looks()
        snapshot = self._snapshot()
        settled = [one for one in pacer.among(before) if _is_settled(one, before, snapshot)]
        kernel = self.read(settled)
        pacer.rest()
        drifts = find_drift(snapshot, kernel)
        # Who was told in vain may have it by now: that is read back at once.
        failed = [one for one in kernel if before[one].problem]
        actuator.doubt(one for one in failed if not is_drift(before[one].wanted, kernel[one]))
        if drifts:
            # What was changed meanwhile looks the same: only what stayed as it was counts.
            now = actuator.looks()
            drifts = tuple(
                one
                for one in drifts
                if now.get(one.container.id) == before[one.container.id]
                and actuator.kernel(one.container.id) == one.kernel
            )
        return AuditResult(
            containers=len(kernel),
            drifts=drifts,
            problems={one.container.id: before[one.container.id].problem for one in drifts},
        )

    def read(self, container_ids: Iterable[ContainerId]) -> dict[ContainerId, Pinning]:
        """The pinnings that the kernel has, where they can be read."""
        actuator = self._front.actuator
        found = (
            (one, actuator.kernel(one)) for one in self._front.owner.pacer.among(container_ids)
        )
        return {one: pinning for one, pinning in found if pinning is not None}

    def repair(self) -> None:
        """Look, tell of drift, and have it told to the runtime again; waits for nobody."""
        # A policy that is busy is asked the next time.
        with suppress(TimeoutError):
            self._tell(self.look())

    def look_at_threads(self, root: str) -> None:
        """Tell of threads that are bound to fewer cpus than their containers have.

        They are left as they are: programs bind their own, and no runtime can unbind them. For one
        thread. `root`: the folder that holds proc/ and sys/.
        """
        if self._threads is None:
            # Imported here: it is for later than the start.
            from ..kernel.thread_watch import ThreadWatch

            self._threads = ThreadWatch(Path(root), self._front.owner.pacer)
        try:
            snapshot = self._snapshot()
        except TimeoutError:
            # A policy that is busy is asked the next time.
            return
        intended = {
            one: pinning.cpus
            for one, pinning in snapshot.pinnings.items()
            if pinning.cpus is not None
        }
        for one, threads in self._threads.look(intended).items():
            container = snapshot.containers[one]
            self._report(
                ThreadsNarrowed(container=container, intended=intended[one], threads=threads)
            )

    def look_and_repair(self) -> AuditResult:
        """The drift of this moment, told again; waits some seconds for what comes of it."""
        result = self.look()
        if not result.drifts:
            return result
        self._tell(result)
        self._front.actuator.settle(_REPAIR_SECONDS)
        kernel = self.read(one.container.id for one in result.drifts)
        repaired = frozenset(
            one.container.id
            for one in result.drifts
            if one.container.id in kernel and not is_drift(one.intended, kernel[one.container.id])
        )
        return AuditResult(
            containers=result.containers,
            drifts=result.drifts,
            problems=result.problems,
            repaired=repaired,
        )

    def _snapshot(self) -> Snapshot:
        return take_snapshot(self._front, "audit", self._busy_seconds)

    def _tell(self, result: AuditResult) -> None:
        for one in result.drifts:
            if not result.problems[one.container.id]:
                # Otherwise the actuator is at it, and has told.
                self._report(
                    Drifted(
                        container=one.container,
                        intended=one.intended,
                        kernel=one.kernel,
                        likely=one.likely,
                    )
                )
        if result.drifts:
            self._front.actuator.doubt(one.container.id for one in result.drifts)


def _is_settled(
    container_id: ContainerId, looks: Mapping[ContainerId, PinLook], snapshot: Snapshot
) -> bool:
    look = looks[container_id]
    return look.is_settled and look.wanted == snapshot.pinnings.get(container_id)
