"""Laws of rebalancing: near the true optimum, never worse, every step legal, no chance in it."""

import json
from collections.abc import Iterator, Mapping
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.rebalance.placement_score import placement_objective, pools_of
from pinfold.policy.engine.rebalance.plan import RebalanceBudget, RebalancePlan, rebalance
from pinfold.policy.engine.rebalance.satisfied_weight import SatisfiedWeight
from pinfold.policy.engine.rebalance.wishes import weigh_wishes
from pinfold.policy.engine.snapshot import Snapshot
from pinfold.policy.model.container import ContainerId, Resources
from pinfold.policy.model.grant import Grant, PoolId
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine
from tests.unit.policy.engine.pods_with_wishes import CONFIG, MACHINE, MIB, wishing
from tests.unit.policy.engine.ruled_pods import PREFERRED, term

NARROW = machine_from_spec("socket:2 numa:2 core:1 thread:2 mem:4G")
"""Two or three of the containers fit on a NUMA node."""
NAMES = "abcdef"
WEIGHTS = st.integers(-5, 5).filter(bool)
WISHES = st.dictionaries(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), WEIGHTS, max_size=12
)
SLOW = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def arrived(
    milli: tuple[int, ...],
    wishes: Mapping[tuple[str, str], int],
    machine: Machine = MACHINE,
) -> Engine:
    """An engine on which containers came one after the other, the refused ones left out."""
    engine = Engine(machine, CONFIG)
    for name, size in zip(NAMES, milli, strict=False):
        own = {other: weight for (one, other), weight in wishes.items() if one == name}
        if not isinstance(engine.create(wishing(name, size, own)).result, Grant):
            engine.remove(ContainerId(name))
    return engine


def replayed(snapshot: Snapshot, plan: RebalancePlan) -> Iterator[Engine]:
    """A copy of an engine after every step of a plan."""
    engine = Engine.of(snapshot)
    for move in plan.moves:
        container_id = move.container.id
        assert engine.pinning(container_id) is not None
        decision = engine.move(container_id, move.pool_id)
        assert isinstance(decision.result, Grant), decision.result
        assert (decision.pool, decision.pinning.cpus) == (move.after.pool, move.after.cpus)
        yield engine


def best_score(snapshot: Snapshot) -> int:
    """The highest score of all ways to distribute the shared containers over the NUMA nodes."""
    objective, pools = placement_objective(snapshot), pools_of(snapshot.grants)
    leaves = [pool for pool in snapshot.tree.pools if not pool.children]
    movable = [one for one, grant in snapshot.grants.items() if not grant.exclusive]
    best = objective.score(pools)
    for places in product(leaves, repeat=len(movable)):
        left = {leaf.id: 1000 * len(leaf.sharable) for leaf in leaves}
        for one, leaf in zip(movable, places, strict=True):
            left[leaf.id] -= snapshot.grants[one].shared_milli
        for grant in snapshot.grants.values():
            if grant.exclusive:
                left[grant.pool_id] -= 1000 * len(grant.exclusive) + grant.shared_milli
        if min(left.values()) >= 0:
            chosen = zip(movable, (leaf.id for leaf in places), strict=True)
            best = max(best, objective.score({**pools, **dict(chosen)}))
    return best


@SLOW
@given(st.tuples(*[st.sampled_from([100, 400, 500, 600, 900, 1000])] * 5), WISHES)
def test_a_plan_comes_within_two_percent_of_the_true_optimum(
    milli: tuple[int, ...], wishes: Mapping[tuple[str, str], int]
) -> None:
    # 1000m are an exclusive cpu, which stays.
    snapshot = arrived(milli, wishes, NARROW).snapshot()
    best = best_score(snapshot)
    plan = rebalance(snapshot)
    assert best - plan.score_after <= abs(best) // 50


@SLOW
@given(
    st.tuples(*[st.sampled_from([0, 100, 300, 700, 950, 1000, 1500, 2000, 3000])] * 6),
    WISHES,
    st.booleans(),
    st.none() | st.integers(0, 4),
)
def test_every_step_is_legal_and_the_score_is_what_the_plan_says(
    milli: tuple[int, ...],
    wishes: Mapping[tuple[str, str], int],
    moves_exclusive: bool,
    moves: int | None,
) -> None:
    engine = arrived(milli, wishes)
    snapshot = engine.snapshot()
    budget = RebalanceBudget(moves=moves, moves_exclusive=moves_exclusive)
    plan = rebalance(snapshot, budget)
    assert plan == rebalance(snapshot, budget)
    assert engine.grants == snapshot.grants
    assert plan.score == weigh_wishes(snapshot).satisfied
    assert plan.score_after >= plan.score
    assert moves is None or len(plan.moves) <= moves
    score = plan.score
    for trial, move in zip(replayed(snapshot, plan), plan.moves, strict=True):
        trial.check()
        score += move.gain
        assert weigh_wishes(trial.snapshot()).satisfied == score
        assert moves_exclusive or not trial.grants[move.container.id].exclusive
        assert 0 <= move.migrated_bytes <= 64 * MIB
    assert score == plan.score_after


@pytest.mark.parametrize(
    ("milli", "wishes"),
    [
        ((100, 1900, 1000, 100, 1500, 900), {("f", "e"): 5, ("c", "e"): 3}),
        (
            (1900, 900, 100, 1900, 1500, 900),
            {("a", "f"): -5, ("a", "e"): -5, ("c", "f"): -1, ("c", "b"): -5, ("d", "c"): 1},
        ),
    ],
)
def test_nobody_makes_way_for_a_move_that_cannot_follow(
    milli: tuple[int, ...], wishes: Mapping[tuple[str, str], int]
) -> None:
    """There and back again, or only there."""
    plan = rebalance(
        arrived(milli, wishes, NARROW).snapshot(), RebalanceBudget(moves_exclusive=True)
    )
    assert plan.score_after > plan.score or not plan.moves


@SLOW
@given(st.tuples(*[st.sampled_from([100, 500, 900])] * 6), WISHES)
def test_what_is_rebalanced_stays_nearly_as_it_is(
    milli: tuple[int, ...], wishes: Mapping[tuple[str, str], int]
) -> None:
    engine = arrived(milli, wishes)
    plan = rebalance(engine.snapshot())
    for move in plan.moves:
        engine.move(move.container.id, PoolId(move.pool_id))
    again = rebalance(engine.snapshot())
    assert again.score == plan.score_after
    assert not again.moves or again.score_after > again.score


@SLOW
@given(WISHES, WISHES, st.sampled_from(NAMES), st.integers(0, 6))
def test_what_a_move_gains_is_known_from_the_pairs_of_who_moves(
    wishes: Mapping[tuple[str, str], int],
    at_levels: Mapping[tuple[str, str], int],
    mover: str,
    pool: int,
) -> None:
    engine = Engine(MACHINE, CONFIG)
    for name in NAMES:
        own, level = (
            {other: weight for (one, other), weight in some.items() if one == name}
            for some in (wishes, at_levels)
        )
        assert isinstance(
            engine.create(wishing(name, 300, own, more=preferring(level))).result, Grant
        )
    snapshot = engine.snapshot()
    pools = pools_of(snapshot.grants)
    after = {**pools, ContainerId(mover): engine.tree.pools[pool].id}
    whole, about = (placement_objective(snapshot, some) for some in (None, {ContainerId(mover)}))
    assert about.score(after) - about.score(pools) == whole.score(after) - whole.score(pools)


_HISTORY = st.lists(
    st.tuples(
        st.sampled_from(["create", "create", "remove", "update", "move"]),
        st.sampled_from(NAMES),
        st.integers(0, 6),
        st.dictionaries(st.sampled_from(NAMES), WEIGHTS, max_size=4),
        st.dictionaries(st.sampled_from(NAMES), WEIGHTS, max_size=2),
    ),
    max_size=24,
)


@SLOW
@given(WISHES, _HISTORY)
def test_a_weight_kept_from_snapshot_to_snapshot_is_that_of_each_by_itself(
    first: Mapping[tuple[str, str], int],
    history: list[tuple[str, str, int, dict[str, int], dict[str, int]]],
) -> None:
    engine, kept = arrived((100,) * len(NAMES), first), SatisfiedWeight()
    kept.wishes(engine.snapshot())
    for what, name, number, wishes, at_levels in history:
        container_id = ContainerId(name)
        match what:
            case "create":
                more = preferring(at_levels)
                engine.create(wishing(name, 100 * number, wishes, more=more))
            case "remove":
                engine.remove(container_id)
            case "update" if container_id in engine.grants:
                engine.update(container_id, Resources(cpu_request_milli=50 * number))
            case "move" if container_id in engine.grants:
                engine.move(container_id, engine.tree.pools[number].id)
            case _:
                pass
        snapshot = engine.snapshot()
        assert kept.wishes(snapshot) == weigh_wishes(snapshot)
        assert satisfied(kept, snapshot) == whole_weight(snapshot)
    snapshot = engine.reconfigured(engine.config, engine.machine)[0].snapshot()
    assert satisfied(kept, snapshot) == whole_weight(snapshot)


def preferring(wishes: Mapping[str, int]) -> Mapping[str, str]:
    """Annotations with a preferred rule at a level for each weight by name."""
    rules: dict[str, dict[str, list[object]]] = {}
    for app, weight in wishes.items():
        kind = "podAffinity" if weight > 0 else "podAntiAffinity"
        one = {"weight": abs(weight), "podAffinityTerm": term("numa" if weight % 2 else "l3", app)}
        rules.setdefault(kind, {}).setdefault(PREFERRED, []).append(one)
    return {"affinity.pinfold.dev/pod": json.dumps(rules)}


def satisfied(kept: SatisfiedWeight, snapshot: Snapshot) -> float:
    found = kept.wishes(snapshot)
    return found.satisfied / found.scale


def whole_weight(snapshot: Snapshot) -> float:
    """The satisfied weight by the objective of all pairs."""
    objective = placement_objective(snapshot)
    return objective.score(pools_of(snapshot.grants)) / objective.scale
