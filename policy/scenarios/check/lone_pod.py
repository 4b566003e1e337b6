"""A pod alone on an empty node: which of its containers are refused there, and why."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import structs

from ...annotations.annotation_keys import OWN_DOMAIN, RULE_KEYS
from ...configuration.config import OnUnsatisfiable
from ...engine.decision import Decision
from ...engine.engine import Engine
from ...manifests.pod_spec import PodSpec
from ...model.container import Container, Pod
from ...model.grant import Dropped, Refusal
from ...placing.classifier import grave_problems
from ...placing.judging.rule_reading import ABSENT, ABSENT_OF_ALL
from ...rules.podaffinity.own_rules import POOL_NAME_KEY
from ...text.errors import Problem

_WAITS: Final = "alone it is refused: it must be with containers that are not there"
_ARRIVAL: Final = "have those placed before it"
_BROKEN: Final = "under 'on-unsatisfiable: fail' it would be refused"
_ON_UNSATISFIABLE: Final = RULE_KEYS[-1]


def lone_problems(
    spec: PodSpec, containers: Sequence[Container], engine: Engine, idle: Sequence[Problem]
) -> Iterator[Problem]:
    """Refusals of an empty engine, but for the problems of annotations.

    And required rules that do not hold where it puts containers. `containers`: those of the
    specification, in its order; `idle`: what is known of rules about pools.
    """
    engine.forget_places()
    for one, container in zip(spec.all_containers, containers, strict=True):
        decision = engine.create(container)
        if _waits(decision):
            # Alone it waits in vain: whether there is room for it can be said all the same.
            waiting = structs.replace(container, pod=_yielding(container.pod))
            yield Problem(where=container.path, what=_WAITS, fix=_ARRIVAL, is_advice=True)
            decision = engine.create(waiting)
        refusal = decision.result if isinstance(decision.result, Refusal) else None
        if refusal and not grave_problems(decision.problems, container, engine.config):
            yield Problem(where=container.path, what=f"refused: {refusal.reason}")
        yield from _broken_alone(decision, container, idle)
        if refusal and one in spec.init_containers:
            # Kubernetes starts nothing else before its init containers are done.
            break
        if refusal or not one.keeps_running:
            engine.remove(container.id)
    for container in containers:
        engine.remove(container.id)


def _waits(decision: Decision) -> bool:
    """Whether a container is refused for nothing but that those it must be with are not there."""
    if not isinstance(decision.result, Refusal) or not decision.candidates:
        return False
    absent = ABSENT, ABSENT_OF_ALL
    return all(isinstance(one, Dropped) and one.wanted in absent for one in decision.candidates)


def _broken_alone(
    decision: Decision, container: Container, idle: Sequence[Problem]
) -> Iterator[Problem]:
    """Advice about required rules that give way although nobody else is there."""
    known = tuple(
        _source(one) for one in idle if not one.is_advice and one.container == container.name
    )
    for text in decision.unmet:
        is_known = any(one in text for one in known)
        if not is_known and not text.endswith((ABSENT, ABSENT_OF_ALL)):
            what = f"even alone it breaks a required rule: {text}"
            yield Problem(where=container.path, what=what, fix=_BROKEN, is_advice=True)


def _source(problem: Problem) -> str:
    """Where a problem is, as the texts of rules about pools say it."""
    key = problem.where.partition(" of ")[0]
    if key.startswith(f"{POOL_NAME_KEY}."):
        return f"{POOL_NAME_KEY} '"
    return f"({key}:{problem.line})" if problem.line else f"({key})"


def _yielding(pod: Pod) -> Pod:
    """The pod with rules that give way."""
    kept = {
        key: text
        for key, text in pod.annotations.items()
        if not key.startswith(f"{_ON_UNSATISFIABLE}.")
    }
    degrade = {f"{_ON_UNSATISFIABLE}.{OWN_DOMAIN}/pod": OnUnsatisfiable.DEGRADE.value}
    return structs.replace(pod, annotations=kept | degrade)
