"""Rebalances a running node now and then, a few moves at once, where that is configured."""

import logging
import time
from collections.abc import Callable
from typing import Final

from ...nri.dispatch.front import runtime_fault, take_snapshot
from ...nri.dispatch.owner import UnfinishedError
from ...policy.configuration.moving_fields import RebalanceFields
from ...policy.engine.settled_node import SettledNode
from ...policy.engine.snapshot import Snapshot
from ..daemon.daemon import Daemon
from ..daemon.moves.move_budget import MoveBudget
from ..report.log_fields import fields

REBALANCE_SECONDS: Final = 300.0
"""Between two looks at whether moves are worth it."""
_HOUR: Final = 3600.0
_POLICY_SECONDS: Final = 2.0
_MOVES_AT_ONCE: Final = 4
_SEARCH_STEPS: Final = 20_000
"""Less than a second: the plan is made in the daemon, beside the thread that answers."""


class BackgroundRebalance:
    """Plans moves on a snapshot and makes them one by one, as long as the node stays as it was."""

    def __init__(
        self, daemon: Daemon, log: logging.Logger, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock`: seconds that never go back."""
        self._daemon = daemon
        self._log = log
        self._clock = clock
        self._budget = MoveBudget(_HOUR)
        self._settled: tuple[SettledNode, int] | None = None
        """The node on which no move was worth it, and how many might have been made."""

    def look(self) -> None:
        """Make the moves that are worth it and in the budget; none unless it is configured."""
        settings = self._daemon.engine.config.rebalance
        left = self._budget.left(settings.moves_per_hour, self._clock())
        if not left or runtime_fault(self._daemon.front):
            return
        try:
            snapshot, moves = self._snapshot(), min(left, _MOVES_AT_ONCE)
            if not self._is_settled(snapshot, moves):
                self._rebalance(snapshot, moves, settings)
        except TimeoutError:
            # The policy is busy: there is a next time.
            self._log.debug("%s", fields(event="rebalance", stopped="the policy is busy"))

    def _is_settled(self, snapshot: Snapshot, moves: int) -> bool:
        """Whether so many moves are known to be for nothing: some go together, or not at all."""
        if self._settled is None:
            return False
        node, most = self._settled
        return moves <= most and SettledNode.of(snapshot) == node

    def _rebalance(self, snapshot: Snapshot, moves: int, settings: RebalanceFields) -> None:
        # Most nodes never rebalance, and need not have it in memory.
        from ...policy.engine.rebalance.plan import RebalanceBudget, rebalance
        from ...policy.engine.rebalance.promise import needed_moves
        from .container_names import ControlRequestError
        from .move_step import move_container
        from .plan_document import move_documents

        limits = RebalanceBudget(
            moves=moves, moves_exclusive=settings.move_exclusive, search_steps=_SEARCH_STEPS
        )
        plan = rebalance(snapshot, limits)
        if not plan.moves:
            self._settled = SettledNode.of(snapshot), moves
            return
        made, stopped = 0, ""
        for number, move in enumerate(plan.moves):
            if self._daemon.engine.config.rebalance != settings:
                # It may be switched off by now.
                stopped = "the configuration is another by now"
                break
            try:
                end = move_container(
                    self._daemon,
                    self._snapshot(),
                    move.container.id,
                    move.before.pool,
                    move.after.pool,
                    moves_exclusive=settings.move_exclusive,
                    promised=move_documents(needed_moves(plan.moves[number:])),
                )
            except (ControlRequestError, TimeoutError) as error:
                if isinstance(error, UnfinishedError):
                    # It is made all the same, though later.
                    self._budget.spend(self._clock())
                stopped = f"{move.container.path}: {error}"
                break
            if end.is_made:
                # The runtime may refuse it or be late: it is told again until it has it.
                self._budget.spend(self._clock())
            if not end.document.moved:
                stopped = f"{end.document.container}: {end.document.reason}"
                break
            made += 1
        about = {"stopped": stopped} if stopped else {}
        self._log.info(
            "%s", fields(event="rebalance", moves=made, planned=len(plan.moves), **about)
        )

    def _snapshot(self) -> Snapshot:
        return take_snapshot(self._daemon.front, "rebalance", _POLICY_SECONDS)
