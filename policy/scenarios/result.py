"""Results of scenarios, and the one JSON document made of them."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import asdict

from ...topology.model.machine import Machine
from ..engine.decision import Decision
from ..engine.engine import Engine
from ..engine.pool_drawing import SpareSupply
from ..engine.reason import reason_of
from ..engine.rebalance.plan import PlacementQuality
from ..model.container import GivenAnnotation
from ..model.criterion_words import moved_text
from ..model.grant import Grant, GrantKind
from ..model.pinning import Pinning
from ..model.request import CpuType
from ..pools.pool_tree import PoolTree
from ..text.errors import Problem
from .simulated_runtime import Running, Runtime


class MovedContainer(Struct, frozen=True, kw_only=True):
    """A container that was told other cpus or memory nodes for another one."""

    path: str
    before: Pinning
    after: Pinning


class NodePlace(Struct, frozen=True, kw_only=True):
    """The pool, cpus and memory nodes of a container on a node, in the kernel's list format."""

    pool: str
    cpus: str
    mems: str


class NodeDiff(Struct, frozen=True, kw_only=True):
    """The difference that a scenario made on a node that runs, by the paths of containers."""

    added: Mapping[str, NodePlace]
    moved: Mapping[str, tuple[NodePlace, NodePlace]]
    """From where to where."""
    gone: Mapping[str, NodePlace]


class ContainerResult(Struct, frozen=True, kw_only=True):
    """The place of a container after the last step. Sets are in the kernel's list format."""

    name: str
    pod: str
    namespace: str
    pool: str = ""
    cpus: str = ""
    exclusive: str = ""
    shared: str = ""
    mems: str = ""
    decided_by: str = ""
    refused: str | None = None
    kind: GrantKind | None = None
    unmet: tuple[str, ...] = ()
    """Required rules that do not hold where it is."""
    notes: tuple[str, ...] = ()
    """Preferred rules that are not met there, and levels that the machine lacks."""
    reason: str = ""
    """Why it is there in words, with the runner-up."""
    given: tuple[GivenAnnotation, ...] = ()
    """Annotations that rules of the configuration gave it."""
    moved: tuple[MovedContainer, ...] = ()
    """Containers that were told something else when it was decided about."""


class Expectation(Struct, frozen=True, kw_only=True):
    """One expression of a step; `error` where it has no truth value."""

    step: int
    expression: str
    holds: bool
    error: str | None = None
    values: tuple[str, ...] = ()
    """Values inside the expression, where it is false. For people: no document has them."""

    @property
    def failure(self) -> str:
        """The reason that it does not hold, for people; empty where it does."""
        if self.holds or self.error:
            return self.error or ""
        return ": ".join(filter(None, ("does not hold", "; ".join(self.values))))


class Skipped(Struct, frozen=True):
    """A step, or a part of it, that was passed over."""

    step: int
    reason: str


class RefusedContainer(Struct, frozen=True, kw_only=True):
    """A container that was not created although no step waited for that."""

    step: int
    path: str
    reason: str


class ScenarioResult(Struct, frozen=True, kw_only=True):
    """The state after the last step and everything judged on the way.

    Steps count from 0. `updates`: how often a running container was told something else.
    `problems`: broken invariants and steps that made no sense. `remarks`: what is wrong, or
    needless, in the annotations of pods; that fails no scenario.
    """

    id: str
    topology: str
    containers: Mapping[str, ContainerResult]
    expectations: tuple[Expectation, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    updates: int = 0
    problems: tuple[str, ...] = ()
    remarks: tuple[Problem, ...] = ()
    machine: Machine
    tree: PoolTree | None = None
    """The pools of the last policy that ran; None where none did."""
    spare: tuple[SpareSupply, ...] = ()
    """By pool id, what is left of each pool."""
    refusals: tuple[RefusedContainer, ...] = ()
    """Also of containers that are gone."""
    quality: PlacementQuality | None = None
    """How far the weights are satisfied; None where no container wishes anything of another."""
    diff: NodeDiff | None = None
    """None where it began on an empty node."""

    @property
    def has_failed(self) -> bool:
        """Whether an expectation does not hold or something went wrong; refusals aside."""
        return bool(self.problems) or not all(one.holds for one in self.expectations)


def result_document(results: Sequence[ScenarioResult]) -> dict[str, object]:
    """The results as plain values, in a fixed order."""
    return {"scenarios": [_scenario(one) for one in results]}


def _scenario(result: ScenarioResult) -> dict[str, object]:
    return {
        "id": result.id,
        "topology": result.topology,
        "containers": {
            key: _container(result.containers[key]) for key in sorted(result.containers)
        },
        "expectations": [
            {
                "step": one.step,
                "expression": one.expression,
                "holds": one.holds,
                "error": one.error,
            }
            for one in result.expectations
        ],
        "skipped": [asdict(one) for one in result.skipped],
        **({} if result.quality is None else {"satisfied_weight": asdict(result.quality)}),
        **({} if result.diff is None else {"diff": _diff(result.diff)}),
        "updates": result.updates,
        "problems": [*result.problems, *map(str, result.remarks)],
    }


def _container(one: ContainerResult) -> dict[str, object]:
    document: dict[str, object] = {
        "pod": one.pod,
        "namespace": one.namespace,
        "pool": one.pool,
        "cpus": one.cpus,
        "exclusive": one.exclusive,
        "shared": one.shared,
        "mems": one.mems,
        "decided_by": one.decided_by,
        "refused": one.refused,
        "unmet": list(one.unmet),
    }
    # Beyond the contract, and only where there is something to say.
    if one.notes:
        document["notes"] = list(one.notes)
    if one.moved:
        document["moved"] = [
            {"container": other.path, "from": _pin(other.before), "to": _pin(other.after)}
            for other in one.moved
        ]
    if one.given:
        document["given"] = {
            given.key: {"value": given.value, "rule": given.rule} for given in one.given
        }
    return document


def _pin(pinning: Pinning) -> dict[str, str | None]:
    return {
        "cpus": None if pinning.cpus is None else str(pinning.cpus),
        "mems": None if pinning.mems is None else str(pinning.mems),
    }


def _diff(diff: NodeDiff) -> dict[str, object]:
    return {
        "added": [{"container": path, "to": asdict(to)} for path, to in diff.added.items()],
        "moved": [
            {"container": path, "from": asdict(before), "to": asdict(after)}
            for path, (before, after) in diff.moved.items()
        ],
        "gone": [{"container": path, "from": asdict(one)} for path, one in diff.gone.items()],
    }


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
