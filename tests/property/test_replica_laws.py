"""Law of replicas: those that must be apart are all placed while there is a domain for each."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from pinfold.policy.model.grant import Refusal
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import apart, container_of, engine_of, near, term

_MACHINES: Final = {
    "socket:1 numa:2 core:3 thread:2 mem:2G": "core",
    "socket:2 numa:2 core:4 thread:2 mem:2G": "core",
    "socket:1 numa:3 core:4 thread:1 mem:2G": "core",
    "socket:2 numa:2 l3:2 core:2 thread:2 mem:2G": "l3",
    "socket:1 numa:2 l3:3 core:3 thread:1 mem:2G": "l3",
}
"""Machines, with the level at which replicas must be apart: each domain is in one NUMA node."""
_SPREAD: Final[Mapping[str, Any]] = {
    "maxSkew": 1,
    "topologyKey": "numa",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web", "container.name": "main"}},
}
_PLACES: Final[Mapping[str, Mapping[str, Any]]] = {
    "anywhere": {},
    "in a pool": {"annotations": {"pool-selector.pinfold.dev/pod": "numa={}"}},
    "in a pool by its name": {"annotations": {"pool-name.pinfold.dev/pod": "NUMA node #{}"}},
    "with another container": {"rules": near(term("numa", "cache"))},
    "with each other": {"rules": near(term("numa", "web"))},
    "spread": {"rules": {"topologySpread": [_SPREAD]}},
}
"""Where the replicas must be; the number of the last NUMA node is filled in."""


def _domains_by_node(spec: str, level: str, reserved: CpuSet) -> Sequence[int]:
    machine = machine_from_spec(spec)
    domains = machine.cores if level == "core" else machine.l3_groups
    return [
        sum(bool((one & node.cpus) - reserved) for one in domains) for node in machine.numa_nodes
    ]


@pytest.mark.parametrize(("spec", "level"), _MACHINES.items(), ids=_MACHINES)
@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize("has_sidecar", [False, True], ids=["alone", "sidecar"])
def test_replicas_that_must_be_apart_are_placed_while_there_is_a_domain_for_each(
    spec: str, place: str, level: str, *, has_sidecar: bool
) -> None:
    reserved = CpuSet.parse("0")
    free = _domains_by_node(spec, level, reserved)
    last = len(free) - 1
    count = {
        "anywhere": sum(free),
        "spread": min(free) * len(free),
        "with each other": min(free),
    }.get(place, free[last])
    engine = engine_of(spec, f"cpuset:{reserved}")
    named = {"pool-name.pinfold.dev/pod": f"NUMA node #{last}"}
    engine.create(container_of("cache", 0.1, annotations=named))
    twin = term(level, labelSelector={"matchLabels": {"app": "web", "container.name": "main"}})
    own = {**apart(twin), **_PLACES[place].get("rules", {})}
    texts: Mapping[str, str] = _PLACES[place].get("annotations", {})
    told = {key: text.format(last) for key, text in texts.items()}
    beside = near(
        term("numa", scope="pod", labelSelector={"matchLabels": {"container.name": "main"}})
    )
    for number in range(count):
        pod = f"web-{number}"
        main = container_of(
            pod, 0.1, own, app="web", fails=True, annotations=told, pod=pod, main="main"
        )
        decision = engine.create(main)
        assert not isinstance(decision.result, Refusal), decision.result.reason
        if has_sidecar:
            side = container_of(pod, 0.1, beside, app="web", fails=True, pod=pod, main="log")
            decision = engine.create(side)
            assert not isinstance(decision.result, Refusal), decision.result.reason
        engine.check()
    assert not any(one.unmet for one in engine.decisions.values())
    # Nobody moves where the daemon restarts, whether or not it remembers how all came to be there.
    before = engine.snapshot()
    for advice in (before.advice(), {}):
        again = engine_of(spec, f"cpuset:{reserved}")
        assert not again.synchronize(before.running(), advice).changes
        again.check()
        assert not any(one.unmet for one in again.decisions.values())
