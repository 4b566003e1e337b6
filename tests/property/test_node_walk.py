"""Pods of all kinds on eight machines that are looked after: every law holds after every step.

A short way; `make walk` takes 100 000 steps on each, `PINFOLD_WALK_SEED` another way.
"""

import os

import pytest

from pinfold.topology.model.machine import Machine
from tests.property.node_walk import NodeWalk
from tests.property.walk_machines import MACHINES

STEPS = int(os.environ.get("PINFOLD_WALK_STEPS", "600"))
SEED = int(os.environ.get("PINFOLD_WALK_SEED", "1"))


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_every_law_holds_on_a_node_that_is_looked_after(machine: Machine) -> None:
    walk = NodeWalk(machine, SEED)
    for _ in range(STEPS):
        walk.step()
    walk.leave_nothing()
