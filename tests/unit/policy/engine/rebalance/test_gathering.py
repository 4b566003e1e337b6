"""Parts of cpus become whole ones by moves, each of which leaves one more cpu whole."""

import random

import pytest

from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.rebalance.gathering import whole_cpus
from pinfold.policy.engine.rebalance.plan import RebalanceBudget, rebalance
from pinfold.policy.model.container import Container, ContainerId
from pinfold.policy.model.criterion_words import CRITERIA, words_of
from pinfold.policy.model.grant import Grant
from pinfold.policy.model.move_purpose import MovePurpose
from tests.unit.policy.engine.pods_with_wishes import placed, wishing
from tests.unit.policy.engine.rebalance.made_moves import made
from tests.unit.policy.engine.ruled_pods import container_of, engine_of

NODE_0, NODE_1, NODE_2, NODE_3 = (f"NUMA node #{number}" for number in range(4))
STAYS = {
    "move.pinfold.dev/pod": "never",
    "prefer-shared-cpus.resource-policy.nri.io/pod": "true",
}


def crowded(*some: tuple[Container, str], first: int = 2000) -> Engine:
    """Four NUMA nodes of which nearly all is promised, the first one of three cpus."""
    return placed(
        (wishing("p", first, more=STAYS), NODE_0),
        (wishing("q", 3500, more=STAYS), NODE_1),
        (wishing("r", 3600, more=STAYS), NODE_2),
        (wishing("s", 3900, more=STAYS), NODE_3),
        *some,
    )


@pytest.mark.parametrize(
    ("what", "engine", "movers"),
    [
        (
            "the last one that asked for nothing leaves a cpu whole",
            crowded((wishing("a", 0), NODE_0)),
            ["a"],
        ),
        (
            "one of two that asked for nothing leaves it to the other one",
            crowded((wishing("a", 0), NODE_0), (wishing("b", 0), NODE_0)),
            [],
        ),
        (
            "a share leaves a cpu whole",
            crowded((wishing("a", 300), NODE_0), first=1900),
            ["a"],
        ),
        (
            "a share leaves nothing whole that those in wider pools are owed",
            crowded(
                (wishing("a", 300), NODE_0), (wishing("w", 900, more=STAYS), "root"), first=1900
            ),
            [],
        ),
    ],
)
def test_only_who_leaves_a_cpu_whole_is_moved(what: str, engine: Engine, movers: list[str]) -> None:
    plan = rebalance(engine.snapshot())
    assert [move.container.name for move in plan.moves] == movers, what
    assert {move.purpose for move in plan.moves} <= {MovePurpose.WHOLE_CPUS}
    assert not plan.moves or whole_cpus(engine.snapshot()) == 0


def test_no_more_is_gathered_than_the_budget_allows() -> None:
    engine = crowded((wishing("a", 0), NODE_0))
    assert not rebalance(engine.snapshot(), RebalanceBudget(moves=0)).moves


def world(seed: int) -> Engine:
    """Random containers that came and went, and wish nothing of each other."""
    draw, engine = random.Random(seed), engine_of("socket:2 numa:2 core:2 thread:1 mem:4G")
    ids: list[ContainerId] = []
    for number in range(40):
        if ids and draw.random() < 0.35:
            engine.remove(ids.pop(draw.randrange(len(ids))))
            continue
        cpu = draw.choice([0, 0, 0, 0.1, 0.3, 0.5, 0.7, 0.9, 1, 1])
        one = container_of(f"p{number}", cpu, shares=draw.random() < 0.3)
        if isinstance(engine.create(one).result, Grant):
            ids.append(one.id)
        else:
            engine.remove(one.id)
    return engine


@pytest.mark.parametrize("seed", range(40))
def test_no_move_is_for_nothing_and_nothing_is_left_for_the_next_plan(seed: int) -> None:
    """Holds for 1000 seeds."""
    engine = world(seed)
    for move in rebalance(engine.snapshot()).moves:
        before = engine.snapshot()
        decision = made(move, engine)
        assert isinstance(decision.result, Grant)
        assert decision.decided_by == move.purpose.value
        is_narrowed = move.purpose is MovePurpose.ONE_NUMA_NODE
        assert is_narrowed or whole_cpus(engine.snapshot()) > whole_cpus(before)
    assert not rebalance(engine.snapshot()).moves


@pytest.mark.parametrize("purpose", MovePurpose)
def test_every_purpose_has_words_for_people(purpose: MovePurpose) -> None:
    assert words_of(purpose.value) != purpose.value.replace("_", " ")
    assert purpose.value not in CRITERIA, "these have words of their own"
