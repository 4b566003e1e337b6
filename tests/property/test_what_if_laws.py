"""The law of a what-if: a node's saved state decides as the node itself does, bit for bit."""

import copy
import random

import pytest
from msgspec.structs import replace

from pinfold.cmd.commands.saved_node import saved_engine
from pinfold.cmd.state.saved_states import SavedStates
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container
from pinfold.topology.model.machine import Machine
from tests.property.test_engine_walk import MACHINES, Walk

STEPS = 160


def newcomer(walk: Walk, seed: int) -> Container:
    """A container that might come next; the walk goes on without it."""
    aside = copy.copy(walk)
    aside.random, aside.running, aside.kernel = random.Random(seed), {}, {}
    return aside.new_container()


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_a_saved_state_decides_about_a_newcomer_as_the_node_does(machine: Machine) -> None:
    walk = Walk(machine, seed=len(machine.online) + 1)
    for step in range(STEPS):
        walk.step()
        if step % 8:
            continue
        snapshot = walk.engine.snapshot()
        saved = saved_engine(SavedStates().of(snapshot), snapshot.machine)
        assert saved.grants == snapshot.grants
        assert saved.snapshot().pinnings == snapshot.pinnings
        container = newcomer(walk, step)
        # How much memory is in use at a moment is looked at, and not saved.
        node = Engine.of(replace(snapshot, memory_look=None))
        ours, theirs = saved.create(container), node.create(container)
        assert (ours.result, ours.candidates) == (theirs.result, theirs.candidates)
        assert (ours.pinning, ours.decided_by) == (theirs.pinning, theirs.decided_by)
        assert set(ours.changes) == set(theirs.changes)
