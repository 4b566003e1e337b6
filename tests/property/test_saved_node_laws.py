"""Laws of a node that is rebuilt from its saved state: it holds the same, and plans the same."""

import logging
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from pinfold.cmd.commands.saved_node import saved_engine
from pinfold.cmd.control.plan_document import plan_document
from pinfold.cmd.state.saved_states import SavedStates
from pinfold.cmd.state.state_file import State, StateFile, read_state
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.rebalance.plan import RebalanceBudget, rebalance
from pinfold.policy.engine.replacing.unmet_names import unmet_after
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import Grant
from tests.property.test_homecoming_laws import CROWDED, CrowdedLife
from tests.property.test_rule_laws import MACHINES, World
from tests.unit.policy.engine.rebalance.made_moves import made

LOG = logging.getLogger("test_saved_node_laws")
STEPS = 40
BUDGET = RebalanceBudget(moves_exclusive=True, search_steps=2000)


def restarted(engine: Engine, folder: Path) -> Engine:
    """The engine of a daemon that finds the state file of the one before it."""
    StateFile(folder, LOG).write(SavedStates().of(engine.snapshot()))
    again = Engine(engine.machine, engine.config)
    advice = read_state(folder, LOG).advice(engine.config)
    again.synchronize(engine.snapshot().running(), advice)
    return again


def planned_with(engine: Engine) -> Engine:
    """The engine with which a command plans that asks the daemon what runs."""
    answer = msgspec.json.encode(SavedStates().of(engine.snapshot()))
    return saved_engine(msgspec.json.decode(answer, type=State), engine.machine)


def held(engine: Engine) -> dict[ContainerId, Grant]:
    """Grants of containers and pens, but for what rules leave of pools, which is judged anew."""
    grants = {**engine.grants, **engine.snapshot().pens}
    return {one: replace(grant, within=None) for one, grant in grants.items()}


def kept_shared(engine: Engine) -> dict[ContainerId, object]:
    return {one: grant.beside for one, grant in held(engine).items()}


@pytest.mark.parametrize("seed", [*range(8), 94, 102, 126])
def test_a_restart_and_a_plan_begin_with_the_grants_that_are_held(
    seed: int, tmp_path: Path
) -> None:
    """Holds for 150 seeds. In the last ones two rules of one owner are about the same cpus."""
    world = World(MACHINES[seed % len(MACHINES)], seed)
    for number in range(STEPS):
        world.step()
        if number % 4 == 0:
            assert held(restarted(world.engine, tmp_path)) == held(world.engine)
            assert held(planned_with(world.engine)) == held(world.engine)


LIVES = [(spec, nodes, seed) for spec, nodes in CROWDED.items() for seed in range(3)]


@pytest.mark.parametrize(("spec", "nodes", "seed"), LIVES)
def test_a_plan_is_the_one_that_the_node_itself_would_make(
    spec: str, nodes: int, seed: int, tmp_path: Path
) -> None:
    """Also where all is so full that containers without a request are driven out. For 25 seeds."""
    life = CrowdedLife(spec, nodes, seed)
    for number in range(STEPS + 1):
        life.step()
        if number % 10:
            continue
        engine, copy = life.engine, planned_with(life.engine)
        assert kept_shared(restarted(engine, tmp_path)) == kept_shared(engine)
        assert kept_shared(copy) == kept_shared(engine)
        plan = rebalance(copy.snapshot(), BUDGET)
        assert plan_document(plan) == plan_document(rebalance(engine.snapshot(), BUDGET))
        # It lives on as it was, but for the last time.
        node = engine if number == STEPS else Engine.of(engine.snapshot())
        for move in plan.moves:
            decision = made(move, node)
            assert isinstance(decision.result, Grant), decision.result
            assert decision.pinning.cpus == move.after.cpus
            assert decision.decided_by == move.purpose.value
            unmet_after(node, move.container.id)
