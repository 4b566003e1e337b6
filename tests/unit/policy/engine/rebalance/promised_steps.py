"""Steps of a plan as whoever carries it out sends them: by ids, to be held against the node."""

from collections.abc import Sequence

from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.rebalance.plan import RebalanceMove
from pinfold.policy.engine.rebalance.promise import PromisedStep


def promised(engine: Engine, moves: Sequence[RebalanceMove]) -> Sequence[PromisedStep]:
    """The steps of some moves."""
    pools = {pool.name: pool.id for pool in engine.tree.pools}
    return [
        PromisedStep(
            container_id=move.container.id,
            before=pools[move.before.pool],
            after=move.pool_id,
            gain=move.gain,
            purpose=move.purpose,
            mends=move.mends,
            awaited=tuple(one.id for one in move.awaited),
        )
        for move in moves
    ]
