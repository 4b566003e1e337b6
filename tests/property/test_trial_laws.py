"""The law of a trial: a container that is only planned for would get the pool it is told."""

import random

import pytest
from msgspec import structs

from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.snapshot import Snapshot
from pinfold.policy.inquiry.counted_rules import classified_of
from pinfold.policy.inquiry.trial_engine import TrialEngine
from pinfold.policy.model.container import Container, ContainerState
from pinfold.policy.model.grant import Refusal
from pinfold.policy.model.request import CpuType
from pinfold.topology.model.machine import Machine
from tests.property.kinds_walk import KindsWalk
from tests.property.walk_machines import MACHINES

STEPS = 240
EVERY = 12


def started(snapshot: Snapshot, container: Container) -> str:
    """The pool that a container really gets on a copy of the node on which it is no more."""
    unruled = structs.replace(snapshot, config=structs.replace(snapshot.config, rules=()))
    engine = Engine.of(unruled)
    engine.remove(container.id)
    engine.forget_places()
    fresh = structs.replace(container, state=ContainerState.CREATED, cpus=None, mems=None, given=())
    decision = engine.create(fresh)
    return "" if isinstance(decision.result, Refusal) else decision.pool


def larger(container: Container, times: int) -> Container:
    resources = container.resources
    milli, limit = times * resources.cpu_request_milli, resources.cpu_limit_milli
    more = structs.replace(
        resources,
        cpu_request_milli=milli,
        cpu_limit_milli=None if limit is None else times * limit,
    )
    return structs.replace(container, resources=more)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_a_trial_names_the_pool_that_a_start_comes_to(machine: Machine) -> None:
    walk, draw = KindsWalk(machine, seed=3), random.Random(3)
    asked = 0
    for step in range(STEPS):
        walk.step()
        if step % EVERY:
            continue
        snapshot = walk.engine.snapshot()
        ordinary = [
            one
            for one in snapshot.containers.values()
            if classified_of(snapshot, one).request.cpu_type is CpuType.NORMAL
        ]
        if not ordinary:
            continue
        container = draw.choice(ordinary)
        trial = TrialEngine(snapshot, container)
        for times in (1, 2, 3, 1):
            if trial.has_changed():
                break
            one = larger(container, times)
            assert trial.pool_of(one) == started(snapshot, one)
            asked += 1
    assert asked
