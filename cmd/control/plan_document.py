"""A plan of moves as a document."""

from collections.abc import Iterable

from ...policy.engine.rebalance.plan import RebalanceMove, RebalancePlan, Site
from .documents import PlanDocument, PlannedMoveDocument, SiteDocument


def plan_document(plan: RebalancePlan) -> PlanDocument:
    """The document of a plan."""
    return PlanDocument(
        score=plan.score,
        score_after=plan.score_after,
        moves=move_documents(plan.moves),
    )


def move_documents(moves: Iterable[RebalanceMove]) -> tuple[PlannedMoveDocument, ...]:
    """The documents of some steps of a plan."""
    return tuple(
        PlannedMoveDocument(
            container=move.container.path,
            from_=_site(move.before),
            to=_site(move.after),
            gain=move.gain,
            bytes=move.migrated_bytes,
            purpose=move.purpose,
            mends=move.mends,
            awaited=tuple(one.path for one in move.awaited),
        )
        for move in moves
    )


def _site(site: Site) -> SiteDocument:
    return SiteDocument(pool=site.pool, cpus=str(site.cpus), mems=str(site.mems))
