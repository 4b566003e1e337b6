"""Laws of containers that are driven out of their pools and come home, in short crowded lives.

The long walks have more room, where hardly anybody is driven out.
"""

import random
from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.decision import Decision
from pinfold.policy.model.container import Container, ContainerId
from pinfold.policy.model.grant import Grant
from pinfold.policy.model.pinning import Change, Pinning
from tests.unit.policy.engine.ruled_pods import apart, container_of, engine_of, near, term

CROWDED = {
    "socket:1 numa:3 core:2 mem:4G": 3,
    "socket:2 numa:2 core:2 thread:2 mem:4G": 4,
}
"""Machines, and how many NUMA nodes they have."""
STEPS = 60
LIVES = 50


class CrowdedLife:
    """Pods that name their pools, on a machine with room for few of them."""

    def __init__(self, spec: str, nodes: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._nodes = nodes
        self._count = 0
        self._ended: list[Container] = []
        self._told: dict[ContainerId, Pinning | None] = {}
        self.engine = engine_of(spec)

    def step(self) -> None:
        events = (self.create, self.resize, self.stop, self.restart, self.reload)
        self._random.choices(events, (5, 4, 2, 2, 1))[0]()

    def create(self) -> None:
        draw = self._random
        self._count += 1
        others = draw.choice("abc")
        near_by, away = near(term("numa", others)), apart(term("numa", others))
        rules = draw.choice([None, None, near_by, away, apart(term("core", others))])
        pool = {"pool-name.pinfold.dev/pod": f"NUMA node #{draw.randrange(self._nodes)}"}
        one = container_of(
            f"c{self._count}",
            draw.choice([0, 0, 0, 0.1, 1, 1, 2, 2]),
            rules,
            app=draw.choice("abc"),
            fails=draw.random() < 0.4,
            annotations=pool if draw.random() < 0.8 else {},
        )
        self._take(self.engine.create(one))

    def resize(self) -> None:
        if (one := self._any()) is None:
            return
        is_limited = one.resources.cpu_limit_milli is not None
        milli = self._random.choice([1000, 1500, 2000] if is_limited else [0, 50, 100, 300])
        limit = milli if is_limited else None
        wanted = replace(one.resources, cpu_request_milli=milli, cpu_limit_milli=limit)
        decision = self.engine.update(one.id, wanted)
        self._take(decision)
        if isinstance(decision.result, Grant) and wanted != one.resources:
            grant = self.engine.grants[one.id]
            pool = self.engine.tree.pools[grant.pool_id].name
            assert (decision.result, decision.pool) == (grant, pool)
            assert self.engine.decisions[one.id] == decision

    def stop(self) -> None:
        if (one := self._any()) is not None:
            self._ended.append(one)
            changes = self.engine.stop(one.id)
            del self._told[one.id]
            self._tell(changes)

    def restart(self) -> None:
        if self._ended:
            one = self._ended.pop(self._random.randrange(len(self._ended)))
            self._tell(self.engine.remove(one.id))
            self._count += 1
            self._take(self.engine.create(replace(one, id=ContainerId(f"{one.id}-{self._count}"))))

    def reload(self) -> None:
        """Nobody moves by it, whoever was driven out; that one may come home later."""
        self.engine, adopted = self.engine.reconfigured(self.engine.config)
        assert not adopted.changes
        self._tell(adopted.changes)

    def _any(self) -> Container | None:
        placed = [self.engine.containers[one] for one in self.engine.grants]
        return self._random.choice(placed) if placed else None

    def _take(self, decision: Decision) -> None:
        assert decision.container_id not in {one.container_id for one in decision.changes}
        if isinstance(decision.result, Grant):
            self._told[decision.container_id] = decision.pinning
        self._tell(decision.changes)

    def _tell(self, changes: Iterable[Change]) -> None:
        for one in changes:
            assert self._told[one.container_id] == one.before
            self._told[one.container_id] = one.after
        has = {one: self.engine.pinning(one) for one in self.engine.grants}
        assert self._told == has, "told once what it has"
        assert all(one is not None and one.cpus for one in has.values())
        self.engine.check()


@pytest.mark.parametrize(("spec", "nodes"), CROWDED.items())
def test_who_is_driven_out_and_comes_home_is_told_where_it_is(spec: str, nodes: int) -> None:
    for seed in range(LIVES):
        life = CrowdedLife(spec, nodes, seed)
        for _ in range(STEPS):
            life.step()
