"""Pods with required and preferred rules, and engines to place them, for tests."""

import json
from collections.abc import Mapping
from typing import Any

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import (
    Container,
    ContainerId,
    Pod,
    PodId,
    QosClass,
    Resources,
)
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine

IGNORED = "requiredDuringSchedulingIgnoredDuringExecution"
LASTING = "requiredDuringSchedulingRequiredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
GIB = 2**30
NODES = "socket:2 numa:2 core:2 thread:2 mem:2G"
"""NUMA nodes 0-3, 4-7 (socket 0), 8-11, 12-15 (socket 1)."""
NEVER = {"move.pinfold.dev/pod": "never"}


def engine_of(machine: str | Machine, reserved: str = "cpuset:0", **config: Any) -> Engine:
    """An engine; `config`: fields as in the configuration's text."""
    found = Config(reserved_resources=Amounts(cpu=reserved))
    if config:
        found = config_from_values({"reservedResources": {"cpu": reserved}, **config})
    return Engine(machine_from_spec(machine) if isinstance(machine, str) else machine, found)


def term(level: str, app: str | None = None, **more: Any) -> dict[str, Any]:
    """A term about the pods of an app; `more`: further fields, which may replace the selector."""
    selector = {} if app is None else {"labelSelector": {"matchLabels": {"app": app}}}
    return {**selector, "topologyKey": level, **more}


def near(*terms: Mapping[str, Any]) -> dict[str, Any]:
    """Required affinity."""
    return {"podAffinity": {IGNORED: [*terms]}}


def apart(*terms: Mapping[str, Any]) -> dict[str, Any]:
    """Required anti-affinity."""
    return {"podAntiAffinity": {IGNORED: [*terms]}}


def prefer(weight: int, one: Mapping[str, Any], *, is_anti: bool = False) -> dict[str, Any]:
    """A preferred rule."""
    kind = "podAntiAffinity" if is_anti else "podAffinity"
    return {kind: {PREFERRED: [{"weight": weight, "podAffinityTerm": one}]}}


def container_of(
    name: str,
    cpu: float = 0.5,
    rules: Mapping[str, Any] | None = None,
    *,
    app: str = "",
    fails: bool = False,
    namespace: str = "default",
    pod: str = "",
    main: str = "main",
    instance: str = "",
    shares: bool = False,
    is_guaranteed: bool = False,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Container:
    """A container of a pod called `name`; whole cpus are its own unless it `shares`.

    `is_guaranteed`: of others, too, and it shares the rest.
    """
    milli = round(cpu * 1000)
    told = dict(annotations or {})
    if rules is not None:
        told["affinity.pinfold.dev/pod"] = json.dumps(rules)
    if fails:
        told["on-unsatisfiable.pinfold.dev/pod"] = "fail"
    is_own = is_guaranteed or (milli and milli % 1000 == 0 and not shares)
    limit = milli if is_own else None
    memory = GIB // 64 if is_own else 0
    return Container(
        id=ContainerId(instance or f"{pod or name}-{main}"),
        name=main,
        pod=Pod(
            id=PodId(pod or name),
            name=pod or name,
            namespace=namespace,
            uid=f"uid-{pod or name}",
            labels={"app": app or name, **(labels or {})},
            annotations=told,
            qos=QosClass.GUARANTEED if is_own else QosClass.BURSTABLE,
        ),
        resources=Resources(
            cpu_request_milli=milli,
            cpu_limit_milli=limit,
            memory_request_bytes=memory,
            memory_limit_bytes=memory or None,
        ),
    )


def cpus(engine: Engine, container: Container) -> str:
    """The cpus the kernel is told for a container."""
    pinning = engine.pinning(container.id)
    assert pinning is not None, f"{container.id} is not placed"
    return str(pinning.cpus)


def reason(decision: Decision) -> str:
    """The reason of a refusal."""
    assert isinstance(decision.result, Refusal), decision.result
    return decision.result.reason


def placed(engine: Engine, container: Container) -> str:
    """Create a container that must not be refused, and tell its cpus."""
    decision = engine.create(container)
    assert isinstance(decision.result, Grant), decision.result
    engine.check()
    return cpus(engine, container)
