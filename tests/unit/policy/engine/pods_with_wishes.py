"""Containers that wish something of each other, one to a pod, for tests of placements."""

from collections.abc import Mapping
from types import MappingProxyType

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.grant import Grant, PoolId
from pinfold.topology.made.spec import machine_from_spec

MIB = 2**20
MACHINE = machine_from_spec("socket:2 numa:2 core:4 thread:1 mem:4G")
CONFIG = Config(reserved_resources=Amounts(cpu="cpuset:0"))

_RULE = """\
- scope: {{operator: AlwaysTrue}}
  match: {{key: pod/labels/app, operator: Equals, values: [{app}]}}
  weight: {weight}
"""


def wishing(
    name: str,
    milli: int = 100,
    wishes: Mapping[str, int] = MappingProxyType({}),
    *,
    memory_mib: int = 64,
    more: Mapping[str, str] = MappingProxyType({}),
) -> Container:
    """A container with a limit, whose wishes are weights by the names of others."""
    rules = "".join(_RULE.format(app=app, weight=weight) for app, weight in wishes.items())
    annotations = {"pinfold.dev/affinity": f"{name}:\n{rules}"} if rules else {}
    pod = Pod(
        id=PodId(f"pod-{name}"),
        name=name,
        uid=f"uid-{name}",
        labels={"app": name},
        annotations={**annotations, **more},
        qos=QosClass.GUARANTEED if milli else QosClass.BEST_EFFORT,
    )
    resources = Resources(
        cpu_request_milli=milli,
        cpu_limit_milli=milli,
        memory_request_bytes=memory_mib * MIB,
        memory_limit_bytes=memory_mib * MIB,
    )
    return Container(
        id=ContainerId(name),
        name=name,
        pod=pod,
        resources=resources if milli else Resources(),
    )


def pool_named(engine: Engine, name: str) -> PoolId:
    """The pool of a name."""
    return next(pool.id for pool in engine.tree.pools if pool.name == name)


def placed(*places: tuple[Container, str]) -> Engine:
    """An engine with containers in the pools of these names."""
    engine = Engine(MACHINE, CONFIG)
    for container, name in places:
        assert isinstance(engine.create(container).result, Grant)
        decision = engine.move(container.id, pool_named(engine, name))
        assert isinstance(decision.result, Grant), decision.result
    engine.check()
    return engine
