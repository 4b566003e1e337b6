"""Laws of refusals: once those that one names have left there is room, and it names its rules."""

import os
import re
from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, ContainerState
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import CpuSet
from tests.property import test_rule_laws as laws

STEPS = 60
KNOWN_SEEDS = (101, 370, 1085, 293, 452, 5529, 5603)
"""A narrowed container comes to share what somebody gives back, or has it alone, or comes to be
whom another must be with; one that asks for no cpu would be driven out; one cpu is kept for two."""
SEEDS = (*range(int(os.environ.get("PINFOLD_RULE_SEEDS", "60"))), *KNOWN_SEEDS)
LONG_STEPS = 150
LONG_SEEDS = (113, 142, 208, 324, 645, 676)
"""Worlds in which more comes together: one takes back what it gave up for who leaves."""
NAMES = r"([^ ,]+(?:, [^ ,]+)*)( and \d+ more)?"
TOLD = re.compile(rf" — to make room, stop or move (one of |all of |some of )?{NAMES}(?= — |$)")


class World(laws.World):
    """The world of the laws, in which every refusal is taken at its word."""

    pod: laws.Pod

    def __init__(self, machine: Machine, seed: int) -> None:
        super().__init__(machine, seed)
        self.verified = {"create": 0, "resize": 0, "all": 0, "rules": 0, "ruled": 0, "full": 0}

    def new_pod(self) -> laws.Pod:
        self.pod = super().new_pod()
        return self.pod

    def note(self, event: str, result: object) -> None:
        super().note(event, result)
        kind, _, rest = event.partition(" ")
        name, _, milli = rest.partition(" ")
        if kind not in ("create", "resize") or not isinstance(result, Refusal):
            return
        for rule in self.pod.rules if kind == "create" and self.pod.fails else ():
            if self.keeps_from_some(rule):
                what = "anti-affinity" if rule.is_anti else "affinity"
                text = f"{what} at {rule.level} to app={rule.app} "
                assert re.search(f"(?<!-){text}", result.reason), (text, result.reason)
                self.verified["rules"] += 1
        if kind == "create":
            self.judge_head(result.reason)
        told = list(TOLD.finditer(result.reason))
        assert len(told) == result.reason.count("to make room"), result.reason
        for found in told:
            # Of very many not all are named.
            if not found[3]:
                self.judge_told(found, kind, name, milli)

    def judge_head(self, reason: str) -> None:
        """Rules are the cause where the newcomer has a place on a node that knows none."""
        running = [
            replace(
                without_rules(each.container),
                state=ContainerState.RUNNING,
                cpus=CpuSet.collect(self.cpus(each.container)),
            )
            for each in self.pods.values()
        ]
        trial = self.new_engine()
        trial.synchronize(running, {})
        is_ruled = isinstance(trial.create(without_rules(self.pod.container)).result, Grant)
        head = "required rules leave no room for " if is_ruled else "no pool has room for "
        assert reason.startswith(head), reason
        self.verified["ruled" if is_ruled else "full"] += 1

    def judge_told(self, found: re.Match[str], kind: str, name: str, milli: str) -> None:
        by_path = {one.container.path: one.container for one in self.pods.values()}
        named = [by_path[one] for one in found[2].split(", ")]
        assert name not in [one.id for one in named], found.string
        assert (len(named) == 1) == (found[1] is None), found.string
        alternatives = [[one] for one in named] if found[1] == "one of " else [named]
        for leaving in alternatives:
            is_room = self.is_room_without(leaving, kind, name, milli)
            assert is_room, f"without {leaving}"
            self.verified[kind] += 1
        for one in named if found[1] == "all of " else ():
            others = [other for other in named if other is not one]
            is_room = self.is_room_without(others, kind, name, milli)
            assert not is_room, f"{one.id} could stay"
            self.verified["all"] += 1

    def keeps_from_some(self, rule: laws.Rule) -> bool:
        """Whether a rule of the newest pod leaves it fewer cpus than there are."""
        matches = self.matches(self.pod, rule)
        if not matches:
            return not rule.is_anti and rule.app != self.pod.app
        usable = frozenset(self.engine.supply.usable)
        cpus = frozenset[int]().union(*(self.cpus(one.container) for one in matches))
        domains = laws.touched(self.machine, rule.level, cpus)
        if rule.is_anti:
            return any(one & usable for one in domains)
        wanted = max(-(-self.pod.container.resources.cpu_request_milli // 1000), 1)
        if any(len(one & usable) >= wanted for one in laws.groups(self.machine, rule.level)):
            return any(usable - one for one in domains)
        return bool(usable.difference(*domains))

    def is_room_without(
        self, leaving: Sequence[Container], kind: str, name: str, milli: str
    ) -> bool:
        trial = Engine.of(self.engine.snapshot())
        if kind == "create":
            trial.remove(self.pod.container.id)
        for one in leaving:
            trial.stop(one.id)
            trial.remove(one.id)
        if kind == "create":
            return isinstance(trial.create(self.pod.container).result, Grant)
        resources = self.pods[ContainerId(name)].container.resources
        limit = resources.cpu_limit_milli and int(milli)
        resources = replace(resources, cpu_request_milli=int(milli), cpu_limit_milli=limit)
        return isinstance(trial.update(ContainerId(name), resources).result, Grant)


def without_rules(container: Container) -> Container:
    return replace(container, pod=replace(container.pod, annotations={}))


def walked(seed: int, steps: int = STEPS) -> Mapping[str, int]:
    world = World(laws.MACHINES[seed % len(laws.MACHINES)], seed)
    try:
        for _ in range(steps):
            world.step()
    except AssertionError:
        print(*world.history[-3:], sep="\n")
        raise
    return world.verified


@pytest.mark.parametrize("seed", SEEDS)
def test_who_is_named_makes_room_by_leaving(seed: int) -> None:
    walked(seed)


@pytest.mark.parametrize("seed", LONG_SEEDS)
def test_who_is_named_makes_room_where_others_take_back_what_they_gave_up(seed: int) -> None:
    walked(seed, LONG_STEPS)


@pytest.mark.parametrize(
    ("seed", "kind"),
    [(3, "create"), (10, "resize"), (9, "all"), (3, "rules"), (3, "ruled"), (3, "full")],
)
def test_some_are_named(seed: int, kind: str) -> None:
    assert walked(seed)[kind]
