"""Pods without end, by chance but the same in every run."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pinfold.nri.embedded.kubelet import stable_id
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec, qos_class
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from tests.bench.sizes import RuleKind, Size

_NAMES: Final = ("main", "sidecar", "log")
_POD_SIZES: Final = (1, 1, 1, 2, 2, 3)
_APPS: Final = 40
_TEAMS: Final = 8
_SIDECAR_MILLI: Final = 50
_CONTAINERS_PER_WORKLOAD: Final = 8

UNREAD_PERCENT: Final = 2
"""So many pods are of a workload that has never been on the machine."""

# One rule in shorthand (for pods of several containers), one that pulls towards other pods and
# one that pushes away from them and counts in both directions.
_AFFINITY: Final = """\
main:
{friend}- scope: {{key: pod/namespace, operator: Equals, values: [{namespace}]}}
  match: {{key: pod/labels/app, operator: In, values: [{near}, {nearer}]}}
  weight: 5
"""
_ANTI_AFFINITY: Final = """\
main:
- scope: {{key: qosclass, operator: NotIn, values: [BestEffort]}}
  match: {{key: pod/labels/app, operator: Equals, values: [{far}]}}
  weight: 3
  symmetric: true
"""

# What the API of Kubernetes offers, at levels of the machine: replicas apart, or beside a friend,
# or spread, each with a wish besides.
_REQUIRED: Final = (
    """\
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
  - labelSelector: {{matchLabels: {{app: {app}, container.name: main}}}}
    topologyKey: l3
podAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 50
    podAffinityTerm: {{labelSelector: {{matchLabels: {{app: {near}}}}}, topologyKey: numa}}
""",
    """\
podAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
  - labelSelector: {{matchExpressions: [{{key: app, operator: In, values: [{app}, {near}]}}]}}
    topologyKey: socket
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 20
    podAffinityTerm: {{labelSelector: {{matchLabels: {{app: {far}}}}}, topologyKey: numa}}
""",
    """\
topologySpread:
- maxSkew: 2
  topologyKey: numa
  whenUnsatisfiable: DoNotSchedule
  labelSelector: {{matchLabels: {{app: {app}, container.name: main}}}}
podAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 10
    podAffinityTerm: {{labelSelector: {{matchLabels: {{app: {nearer}}}}}, topologyKey: socket}}
""",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Workload:
    """What its replicas have in common, their annotations above all."""

    namespace: str
    app: str
    labels: dict[str, str]
    annotations: dict[str, str]
    containers: tuple[str, ...]


def pods(
    size: Size,
    unread_percent: int = UNREAD_PERCENT,
    seed: int = 1,
) -> Iterator[PodSpec]:
    """Pods of one to three containers that suit a machine. Half of them have the size's rules.

    They are replicas of some workloads, but for those whose annotations nobody has read before.
    """
    chance = random.Random(seed)
    count = -(-size.containers // _CONTAINERS_PER_WORKLOAD)
    workloads = [_workload(chance, size.kind) for _ in range(count)]
    number = 0
    while True:
        is_unread = chance.randrange(100) < unread_percent
        workload = _workload(chance, size.kind) if is_unread else chance.choice(workloads)
        yield _pod(size, chance, workload, number)
        number += 1


def containers(
    size: Size,
    unread_percent: int = UNREAD_PERCENT,
    seed: int = 1,
) -> Iterator[Container]:
    """The containers of `pods`, as the policy gets them."""
    for spec in pods(size, unread_percent, seed):
        pod = Pod(
            id=PodId(stable_id(f"sandbox/{spec.name}")),
            name=spec.name,
            namespace=spec.namespace,
            uid=stable_id(f"pod/{spec.name}")[:32],
            labels=spec.labels,
            annotations=spec.annotations,
            qos=spec.qos,
        )
        for one in spec.containers:
            yield Container(
                id=ContainerId(stable_id(f"container/{spec.name}/{one.name}")),
                name=one.name,
                pod=pod,
                labels={
                    "io.kubernetes.container.name": one.name,
                    "io.kubernetes.pod.name": spec.name,
                    "io.kubernetes.pod.namespace": spec.namespace,
                },
                resources=one.resources,
            )


def _workload(chance: random.Random, kind: RuleKind) -> _Workload:
    names = _NAMES[: chance.choice(_POD_SIZES)]
    namespace = f"team-{chance.randrange(_TEAMS)}"
    app = _app(chance)
    return _Workload(
        namespace=namespace,
        app=app,
        labels={"app": app, "release": f"r{chance.randrange(5)}", "team": namespace},
        annotations=_RULES[kind](chance, namespace, names, app) if chance.randrange(2) else {},
        containers=names,
    )


def _pod(size: Size, chance: random.Random, workload: _Workload, number: int) -> PodSpec:
    names = workload.containers
    specs = tuple(
        ContainerSpec(name=name, resources=one)
        for name, one in zip(names, _resources(size, chance, len(names)), strict=True)
    )
    return PodSpec(
        name=f"{workload.app}-{number}",
        namespace=workload.namespace,
        labels=workload.labels,
        annotations=workload.annotations,
        qos=qos_class(specs),
        containers=specs,
    )


def _app(chance: random.Random) -> str:
    return f"app-{chance.randrange(_APPS)}"


def _weighted(
    chance: random.Random, namespace: str, names: tuple[str, ...], app: str
) -> dict[str, str]:
    del app
    friend = f"- {names[-1]}\n" if len(names) > 1 else ""
    near, nearer, far = _app(chance), _app(chance), _app(chance)
    return {
        "resource-policy.nri.io/affinity": _AFFINITY.format(
            friend=friend, namespace=namespace, near=near, nearer=nearer
        ),
        "resource-policy.nri.io/anti-affinity": _ANTI_AFFINITY.format(far=far),
    }


def _required(
    chance: random.Random, namespace: str, names: tuple[str, ...], app: str
) -> dict[str, str]:
    del namespace, names
    near, nearer, far = _app(chance), _app(chance), _app(chance)
    text = chance.choice(_REQUIRED).format(app=app, near=near, nearer=nearer, far=far)
    return {"affinity.pinfold.dev/container.main": text}


_RULES: Final = {RuleKind.WEIGHTED: _weighted, RuleKind.REQUIRED: _required}


def _resources(size: Size, chance: random.Random, count: int) -> list[Resources]:
    """What the containers of one pod ask for: whole cpus, equal limits, requests, or nothing."""
    share_bytes = size.memory_bytes // size.containers
    draw = chance.randrange(100)
    if draw < size.exclusive_percent:
        qos, milli = QosClass.GUARANTEED, 1000 * chance.randint(1, size.exclusive_max)
    elif draw < size.exclusive_percent + 15:
        qos, milli = QosClass.GUARANTEED, chance.randint(1, size.shared_max_milli // 10) * 10 + 1
    elif draw < 90:
        qos, milli = QosClass.BURSTABLE, chance.randint(1, size.shared_max_milli)
    else:
        return [Resources()] * count
    found: list[Resources] = []
    for index in range(count):
        wanted = _SIDECAR_MILLI if index else milli
        memory_bytes = share_bytes * chance.randint(10, 80) // 100
        is_limited = qos is QosClass.GUARANTEED
        found.append(
            Resources(
                cpu_request_milli=wanted,
                cpu_limit_milli=wanted if is_limited else None,
                memory_request_bytes=memory_bytes,
                memory_limit_bytes=memory_bytes if is_limited else None,
            )
        )
    return found
