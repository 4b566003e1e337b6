"""Results of single containers: the place of each, and whom it moved."""

from collections.abc import Iterator

from ..engine.decision import Decision
from ..engine.engine import Engine
from ..engine.reason import reason_of
from ..model.criterion_words import moved_text
from ..model.grant import Grant
from ..model.request import CpuType
from .result import ContainerResult, MovedContainer
from .simulated_runtime import Running, Runtime


def container_result(one: Running, runtime: Runtime, engine: Engine | None) -> ContainerResult:
    """The result of a running container; `engine`: the policy, None where none ran."""
    cpus, grant, decision = runtime.effective_cpus(one), one.grant, one.decision
    notes = engine.note(one.container.id, is_anew=True) if engine else ()
    pool, reason = _pool_of(one, engine), reason_of(decision) if decision else "no policy ran"
    if decision is not None and isinstance(decision.result, Grant) and pool != decision.pool:
        # Why it was placed there says nothing of where it is.
        reason = moved_text(decision.pool, pool)
        notes = (*notes, reason)
    shared = ""
    if grant and (grant.has_shared_part or grant.cpu_type in (CpuType.RESERVED, CpuType.PEN)):
        shared = str(cpus - grant.exclusive)
    return ContainerResult(
        name=one.container.name,
        pod=one.container.pod.name,
        namespace=one.container.pod.namespace,
        pool=pool,
        cpus=str(cpus),
        exclusive=str(grant.exclusive) if grant else "",
        shared=shared,
        mems=str(runtime.effective_mems(one)),
        decided_by=decision.decided_by if decision else "no policy ran",
        unmet=decision.unmet if decision else (),
        notes=notes,
        kind=grant.kind if grant else None,
        reason=reason,
        given=one.given,
        moved=tuple(_moved(decision, runtime)) if decision else (),
    )


def _pool_of(one: Running, engine: Engine | None) -> str:
    """The pool a container is in at present; it may have been lifted since the decision."""
    if one.grant is None or engine is None:
        return one.decision.pool if one.decision else ""
    return engine.tree.pools[one.grant.pool_id].name


def _moved(decision: Decision, runtime: Runtime) -> Iterator[MovedContainer]:
    for change in decision.changes:
        yield MovedContainer(
            path=runtime.paths.get(change.container_id, change.container_id),
            before=change.before,
            after=change.after,
        )
