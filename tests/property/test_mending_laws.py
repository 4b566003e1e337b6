"""Mending as laws: what a rebalance mends holds afterwards, and it breaks no rule of anybody."""

import pytest

from pinfold.policy.engine.rebalance.plan import RebalanceBudget, RebalanceMove, rebalance
from pinfold.policy.engine.replacing.unmet_names import unmet_after, unmet_names
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import Grant
from pinfold.topology.model.machine import Machine
from tests.property import test_rule_laws as laws
from tests.property.test_homecoming_laws import CROWDED, CrowdedLife
from tests.unit.policy.engine.rebalance.made_moves import made
from tests.unit.policy.engine.ruled_pods import container_of

STEPS, EVERY = 60, 6
TOGETHER = (15, 30, 40, 109, 205, 284)
"""Seeds by which some go together, of small containers that have to be with others."""
MENDED = (4, 15, 20, 30)
"""Seeds by which something is mended."""
MENDED_BY_OTHERS = (4, 15, 30, 169)
"""Seeds by which one moves of whom nothing is told."""


class World(laws.World):
    """The world of the laws, which is rebalanced now and then."""

    mended = mended_by_others = together = 0

    def __init__(self, machine: Machine, seed: int) -> None:
        super().__init__(machine, seed)
        self.together_with: set[ContainerId] = set()
        """Those who go together, of whom some have yet to come."""

    def unmet(self) -> set[str]:
        """The rules that are told as unmet, each with its owner."""
        decisions = [self.engine.decisions[one] for one in self.pods]
        return {text.split(": ")[0] for one in decisions for text in one.unmet}

    def with_company(self) -> set[tuple[ContainerId, laws.Rule]]:
        return {
            (one, rule)
            for one, pod in self.pods.items()
            for rule in pod.rules
            if not rule.is_anti and self.matches(pod, rule) and self.is_near(pod, rule)
        }

    def rebalance(self) -> None:
        budget = RebalanceBudget(moves_exclusive=True, search_steps=1)
        plan = rebalance(self.engine.snapshot(), budget)
        before, company = self.unmet(), self.with_company()
        for move in plan.moves:
            told = self.unmet()
            is_told = bool(self.engine.decisions[move.container.id].unmet)
            decision = made(move, self.engine)
            self.note(f"move {move.container.id} for {move.mends}", decision.result)
            assert isinstance(decision.result, Grant), "a step of a plan is legal where it is made"
            assert decision.pinning.cpus == move.after.cpus
            self.engine.check()
            unmet_after(self.engine, move.container.id)
            assert not self.unmet() & {*move.mends}, "what it mends holds for all"
            assert {*move.mends} <= told, "and did not before"
            self.note_step(move, before, company)
            for broken in self.broken():
                raise AssertionError(broken)
            self.mended += bool(move.mends)
            self.mended_by_others += bool(move.mends) and not is_told
            self.together += bool(move.awaited)
            if not move.awaited:
                before, company = self.unmet(), self.with_company()
        assert not plan.moves or not plan.moves[-1].awaited, "nobody is awaited for ever"

    def note_step(
        self, move: RebalanceMove, told: set[str], company: set[tuple[ContainerId, laws.Rule]]
    ) -> None:
        """A step was made. `told`, `company`: as of the last one that awaited nobody."""
        going = {one.id for one in (move.container, *move.awaited)}
        paths = tuple(f" of {self.pods[one].container.path}" for one in self.together_with | going)
        new, alone = self.unmet() - told, {one for one, _ in company - self.with_company()}
        if move.awaited:
            self.together_with |= going
            assert all(one.endswith(paths) for one in new), "only rules of those who go may break"
            assert alone <= self.together_with, "and they alone may be parted"
        else:
            self.together_with = set()
            assert not new, "it breaks no rule"
            assert not alone, "nobody is left alone"


class SociableWorld(World):
    """A world of small containers, most of which have to be with others."""

    def new_pod(self) -> laws.Pod:
        self.count += 1
        draw = self.random
        app = draw.choice(laws.APPS)
        rules = tuple(
            laws.Rule(draw.choice(laws.LEVELS), draw.choice(laws.APPS), draw.random() < 0.4)
            for _ in range(draw.choice((0, 1, 1, 2)))
        )
        fails = draw.random() < 0.4
        container = container_of(
            f"p{self.count}",
            draw.choice((0, 0.2, 0.5, 0.5, 1)),
            laws.written(rules),
            app=app,
            fails=fails,
            shares=draw.random() < 0.5,
        )
        return laws.Pod(container, app, rules, fails)


def walked(seed: int, kind: type[World] = World) -> World:
    world = kind(laws.MACHINES[seed % len(laws.MACHINES)], seed)
    try:
        for number in range(STEPS):
            world.step()
            if number % EVERY == 0:
                world.rebalance()
    except AssertionError:
        print(*world.history[-6:], sep="\n")
        raise
    return world


@pytest.mark.parametrize("seed", [*MENDED, 169, 5, 6, *range(40, 44), 109, 146, 179])
def test_what_is_mended_holds_and_nothing_breaks(seed: int) -> None:
    """Holds for 200 seeds."""
    world = walked(seed)
    assert world.mended or seed not in MENDED
    assert world.mended_by_others or seed not in MENDED_BY_OTHERS


@pytest.mark.parametrize("seed", TOGETHER)
def test_some_go_together_and_only_their_own_rules_break_on_the_way(seed: int) -> None:
    """Holds for 300 seeds."""
    assert walked(seed, SociableWorld).together


@pytest.mark.parametrize(("nodes", "seed", "steps"), [(4, 7015, 50), (3, 7072, 35)])
def test_who_stays_as_others_would_be_harmed_keeps_nobody_else_from_being_mended(
    nodes: int, seed: int, steps: int
) -> None:
    """The first one that is told of a rule would drive others to where theirs break."""
    spec = next(one for one, count in CROWDED.items() if count == nodes)
    life = CrowdedLife(spec, nodes, seed)
    for _ in range(steps):
        life.step()
    engine = life.engine
    before = set(unmet_names(engine.decisions, engine.grants))
    # No ways are compared, as on a node of many containers.
    budget = RebalanceBudget(moves_exclusive=True, search_steps=1)
    told = before
    for move in rebalance(engine.snapshot(), budget).moves:
        assert isinstance(made(move, engine).result, Grant)
        left = set(unmet_after(engine, move.container.id))
        if not move.awaited:
            assert left <= told
            told = left
    assert set(unmet_names(engine.decisions, engine.grants)) < before
