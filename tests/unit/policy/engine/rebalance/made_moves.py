"""Moves of a plan, made on an engine that is as the plan has it by then."""

from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.rebalance.plan import RebalanceMove
from pinfold.policy.engine.replacing.asked_move import AskedMove
from pinfold.policy.engine.replacing.joint_replacement import make_move


def made(move: RebalanceMove, engine: Engine) -> Decision:
    awaited = tuple(one.id for one in move.awaited)
    return make_move(engine, move.container.id, AskedMove(move.pool_id, move.purpose, awaited))
