"""A plan of moves as a document."""

from ....policy.engine.rebalance.plan import RebalancePlan, Site
from ..documents import PlanDocument, PlannedMoveDocument, SiteDocument


def plan_document(plan: RebalancePlan) -> PlanDocument:
    """The document of a plan."""
    return PlanDocument(
        score=plan.score,
        score_after=plan.score_after,
        moves=tuple(
            PlannedMoveDocument(
                container=move.container.path,
                from_=_site(move.before),
                to=_site(move.after),
                gain=move.gain,
                bytes=move.migrated_bytes,
                mends=move.mends,
            )
            for move in plan.moves
        ),
    )


def _site(site: Site) -> SiteDocument:
    return SiteDocument(pool=site.pool, cpus=str(site.cpus), mems=str(site.mems))
