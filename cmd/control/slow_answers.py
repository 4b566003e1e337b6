"""Answers of the control API that take long to work out: one of them at a time, in small parts."""

import contextlib
import threading
from collections.abc import Callable, Generator
from typing import Final

from ...nri.dispatch.pacer import Pacer
from ...policy.engine.snapshot import Snapshot
from ...topology.sets.base_errors import TopologyError
from ...topology.sysfs.sysfs_tree import open_tree
from .container_names import ControlRequestError
from .documents import PlanDocument

PLANNED_MAX: Final = 500
"""Containers for which the daemon plans itself; for more it is worth a process of its own."""
_SEARCH_STEPS: Final = 20_000
"""Less than a second: a plan is made beside the thread that answers the runtime."""
_ARCHIVE_BYTES_MAX: Final = 60 << 20
"""An answer may have a little more: thousands of cpus take twice as much if nothing packs them."""
_TURN_SECONDS: Final = 5.0


class SlowAnswers:
    """Plans and captures of one daemon. For several threads."""

    def __init__(self, root: str | None, pacer: Pacer) -> None:
        """`root`: where the machine's files are; None where it is on paper."""
        self._root = root
        self._pacer = pacer
        self._turn = threading.Lock()

    def plan(
        self, take: Callable[[], Snapshot], moves: int | None, *, moves_exclusive: bool
    ) -> PlanDocument:
        """The moves that place containers better. Raises `ControlRequestError`, `TimeoutError`."""
        # Most nodes are never asked for a plan, and need not have it in memory.
        from ...policy.engine.rebalance.plan import RebalanceBudget, rebalance
        from .plan_document import plan_document

        with self._alone():
            snapshot = take()
            if len(snapshot.grants) > PLANNED_MAX:
                raise ControlRequestError(
                    f"plan: {len(snapshot.grants)} containers are more than {PLANNED_MAX} — ask for"
                    " the state and plan outside the daemon, as 'pinfold rebalance' does"
                )
            budget = RebalanceBudget(
                moves=moves, moves_exclusive=moves_exclusive, search_steps=_SEARCH_STEPS
            )
            return plan_document(rebalance(snapshot, budget))

    def capture(self, name: str) -> bytes:
        """The files of this machine as an archive of the kind that a file name asks for.

        Raises `ControlRequestError`, `TimeoutError`.
        """
        from ...topology.made.snapshot import SUFFIXES, capture, pack

        if self._root is None:
            raise ControlRequestError(
                "capture: this daemon's machine is made up, or an archive — use its --machine or"
                " --sysfs-root instead of a capture"
            )
        if not name.endswith(SUFFIXES):
            endings = " or *".join(SUFFIXES)
            raise ControlRequestError(f"{name}: unknown kind of archive — name it *{endings}")
        with self._alone():
            try:
                _, snapshot = capture(open_tree(self._root), self._pacer.rest)
                content = pack(snapshot, name)
            except TopologyError as error:
                raise ControlRequestError(str(error)) from error
        if len(content) > _ARCHIVE_BYTES_MAX:
            raise ControlRequestError(
                f"{name}: {len(content)} bytes are too many for an answer — name it *{SUFFIXES[0]}"
            )
        return content

    @contextlib.contextmanager
    def _alone(self) -> Generator[None]:
        if not self._turn.acquire(timeout=_TURN_SECONDS):
            raise TimeoutError("another plan or capture is being made")
        try:
            yield
        finally:
            self._turn.release()
