"""Law of replicas: those that must be apart are all placed while there is a domain for each."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId
from pinfold.policy.model.grant import Refusal
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import apart, container_of, engine_of, near, term

_MACHINES: Final = {
    "socket:1 numa:2 core:3 thread:2 mem:2G": "core",
    "socket:2 numa:2 core:4 thread:2 mem:2G": "core",
    "socket:1 numa:3 core:3 thread:2 mem:2G": "core",
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


_RESERVED: Final = CpuSet.parse("0")
_STEPS: Final = 40
_LEAVING: Final = 0.4
_SIZES: Final = {"shared": 0.1, "mixed": 1.5}
"""Cpus of a replica: all shared, or one of its own and half of one that is shared."""


def _domains_by_node(spec: str, level: str, reserved: CpuSet, size: float) -> Sequence[int]:
    machine = machine_from_spec(spec)
    domains = machine.cores if level == "core" else machine.l3_groups
    return [
        sum(len((one & node.cpus) - reserved) >= size for one in domains)
        for node in machine.numa_nodes
    ]


@dataclass(frozen=True, slots=True)
class _Replicas:
    """Replicas that must be apart, on a machine on which there is a container to be with."""

    engine: Engine
    count: int
    """So many have a domain each, in whatever order they come and go."""
    size: float
    rules: Mapping[str, Any]
    annotations: Mapping[str, str]

    @classmethod
    def of(cls, spec: str, place: str, size: float) -> "_Replicas":
        level = _MACHINES[spec]
        free = _domains_by_node(spec, level, _RESERVED, size)
        last = len(free) - 1
        engine = engine_of(spec, f"cpuset:{_RESERVED}")
        named = {"pool-name.pinfold.dev/pod": f"NUMA node #{last}"}
        engine.create(container_of("cache", 0.1, annotations=named))
        twin = term(level, labelSelector={"matchLabels": {"app": "web", "container.name": "main"}})
        texts: Mapping[str, str] = _PLACES[place].get("annotations", {})
        counts = {
            "anywhere": sum(free),
            "spread": min(free) * len(free),
            "with each other": min(free),
        }
        return cls(
            engine=engine,
            count=counts.get(place, free[last]),
            size=size,
            rules={**apart(twin), **_PLACES[place].get("rules", {})},
            annotations={key: text.format(last) for key, text in texts.items()},
        )

    def create(self, number: int) -> Container:
        """One more, that must not be refused."""
        main = container_of(
            f"web-{number}",
            self.size,
            self.rules,
            app="web",
            fails=True,
            is_guaranteed=self.size > 1,
            annotations=self.annotations,
        )
        decision = self.engine.create(main)
        assert not isinstance(decision.result, Refusal), decision.result.reason
        return main


@pytest.mark.parametrize("spec", _MACHINES)
@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize("kind", _SIZES)
@pytest.mark.parametrize("has_sidecar", [False, True], ids=["alone", "sidecar"])
def test_replicas_that_must_be_apart_are_placed_while_there_is_a_domain_for_each(
    spec: str, place: str, kind: str, *, has_sidecar: bool
) -> None:
    replicas = _Replicas.of(spec, place, _SIZES[kind])
    engine = replicas.engine
    main_of_pod = {"matchLabels": {"container.name": "main"}}
    beside = near(term("numa", scope="pod", labelSelector=main_of_pod))
    assert replicas.count
    for number in range(replicas.count):
        replicas.create(number)
        if has_sidecar:
            name = f"web-{number}"
            side = container_of(name, 0.1, beside, app="web", fails=True, main="log")
            decision = engine.create(side)
            assert not isinstance(decision.result, Refusal), decision.result.reason
        engine.check()
    assert not any(one.unmet for one in engine.decisions.values())
    # Nobody moves where the daemon restarts, whether or not it remembers how all came to be there.
    before = engine.snapshot()
    nothing: Mapping[ContainerId, Advice] = {}
    for advice in (before.advice(), nothing):
        again = engine_of(spec, f"cpuset:{_RESERVED}")
        assert not again.synchronize(before.running(), advice).changes
        again.check()
        assert not any(one.unmet for one in again.decisions.values())


@pytest.mark.parametrize("spec", _MACHINES)
@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize("kind", _SIZES)
def test_replicas_that_must_be_apart_come_and_go(spec: str, place: str, kind: str) -> None:
    replicas, draw = _Replicas.of(spec, place, _SIZES[kind]), random.Random(spec)
    there = list[Container]()
    for number in range(_STEPS):
        if there and (len(there) == replicas.count or draw.random() < _LEAVING):
            gone = there.pop(draw.randrange(len(there)))
            replicas.engine.stop(gone.id)
            replicas.engine.remove(gone.id)
        else:
            there.append(replicas.create(number))
        replicas.engine.check()
        assert not any(one.unmet for one in replicas.engine.decisions.values())
