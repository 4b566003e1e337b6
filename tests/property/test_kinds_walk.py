"""Pods of all kinds on eight machines: every law holds after every step.

A short way; `make walk` takes 100 000 steps on each, `PINFOLD_WALK_SEED` another way.
"""

import os

import pytest

from pinfold.topology.model.machine import Machine
from tests.property.kinds_walk import KindsWalk
from tests.property.walk_machines import MACHINES

STEPS = int(os.environ.get("PINFOLD_WALK_STEPS", "600"))
SEED = int(os.environ.get("PINFOLD_WALK_SEED", "1"))


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_every_law_holds_for_pods_of_all_kinds(machine: Machine) -> None:
    walk = KindsWalk(machine, SEED)
    for _ in range(STEPS):
        walk.step()
    walk.leave_nothing()
