"""Laws of required rules: what the engine does agrees with a naive reading of the rules.

The reading below is written for itself: from the machine's own groups, the labels of pods and the
cpus that the kernel is told, without any part of the policy that places.
"""

import dataclasses
import os
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from msgspec import structs

from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, ContainerState
from pinfold.policy.model.grant import Grant
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import apart, container_of, engine_of, near, term

STEPS = int(os.environ.get("PINFOLD_RULE_STEPS", "40"))
SEEDS = (*range(int(os.environ.get("PINFOLD_RULE_SEEDS", "60"))), 2468, 3283)
"""In the last two a container is back to cpus on which a rule keeps another one, or from which that
one makes way."""
NO_ROOM_MADE = re.compile(" — (rules hold .* where (it is|they are), else|without rules, )")
"""In a refusal: rules that may break keep nobody from cpus that are free, but others from making
room."""
APPS = ("a", "b", "c")
LEVELS = ("socket", "numa", "l3", "cluster", "core")


def snc() -> Machine:
    plain = machine_from_spec("socket:1 numa:4 core:2 thread:2 mem:2G")
    groups = CpuSet.parse("0-7"), CpuSet.parse("8-15")
    return dataclasses.replace(plain, l3_groups=groups)


MACHINES = (
    machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:2G"),
    machine_from_spec("socket:1 l3:4 core:2 thread:2 mem:4G"),
    machine_from_spec("socket:1 core:4 thread:2 mem:4G"),
    machine_from_spec("socket:1 cluster:3 core:2 mem:4G"),
    snc(),
)


@dataclasses.dataclass(frozen=True)
class Rule:
    """A required rule as it was written."""

    level: str
    app: str
    is_anti: bool


@dataclasses.dataclass(frozen=True)
class Pod:
    """A container, and what it was written to ask for."""

    container: Container
    app: str
    rules: tuple[Rule, ...]
    fails: bool


def written(rules: Sequence[Rule]) -> dict[str, Any] | None:
    """Rules as an author would write them."""
    found: dict[str, Any] = {}
    for is_anti, shape in ((True, apart), (False, near)):
        terms = [term(one.level, one.app) for one in rules if one.is_anti is is_anti]
        found |= shape(*terms) if terms else {}
    return found or None


def groups(machine: Machine, level: str) -> list[frozenset[int]]:
    """The domains of a level as a reader of the machine sees them."""
    sockets = [frozenset(one.cpus) for one in machine.sockets]
    nodes = [frozenset(one.cpus) for one in machine.numa_nodes if one.cpus]
    caches = [frozenset(one) for one in machine.l3_groups] or nodes
    cores = [frozenset(one) for one in machine.cores]
    clusters = [frozenset(one.cpus) for one in machine.clusters]
    clusters = [one for one in clusters if one not in cores] or caches
    return {
        "socket": sockets,
        "numa": nodes,
        "l3": caches,
        "cluster": clusters,
        "core": cores,
    }[level]


def touched(machine: Machine, level: str, cpus: frozenset[int]) -> set[frozenset[int]]:
    return {one for one in groups(machine, level) if one & cpus}


class World:
    """An engine, and beside it what a runtime would have."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self.random = random.Random(seed)
        self.machine = machine
        self.engine = self.new_engine()
        self.pods: dict[ContainerId, Pod] = {}
        self.count: int = 0
        self.history: list[str] = []

    def new_engine(self) -> Engine:
        return engine_of(self.machine, antiAffinityLimits={"maxBlockedCPUs": "100%"})

    def cpus(self, one: Container) -> frozenset[int]:
        pinning = self.engine.pinning(one.id)
        assert pinning is not None
        assert pinning.cpus
        return frozenset(pinning.cpus)

    def new_pod(self) -> Pod:
        self.count += 1
        draw = self.random
        app = draw.choice(APPS)
        rules = tuple(
            Rule(draw.choice(LEVELS), draw.choice(APPS), draw.random() < 0.7)
            for _ in range(draw.choice((0, 0, 1, 1, 2)))
        )
        fails = draw.random() < 0.7
        container = container_of(
            f"p{self.count}",
            draw.choice((0, 0.2, 0.5, 1, 1, 2, 1.5)),
            written(rules),
            app=app,
            fails=fails,
            shares=draw.random() < 0.3,
        )
        return Pod(container, app, rules, fails)

    def step(self) -> None:
        event = self.random.choices(
            (self.create, self.stop, self.crash, self.resize, self.restart, self.reload),
            (50, 25, 5, 15, 5, 2),
        )[0]
        event()
        self.engine.check()
        for broken in self.broken():
            raise AssertionError(broken)

    def create(self) -> None:
        pod = self.new_pod()
        others = {one: self.cpus(each.container) for one, each in self.pods.items()}
        near = [
            (each, rule)
            for each in self.pods.values()
            for rule in each.rules
            if not rule.is_anti and self.matches(each, rule) and self.is_near(each, rule)
        ]
        before = set(self.broken_pairs())
        decision = self.engine.create(pod.container)
        assert before >= set(self.broken_pairs()), "no newcomer breaks a rule of two others"
        self.note(f"create {pod.container.id} {pod.app} {pod.rules} {pod.fails}", decision.result)
        if not isinstance(decision.result, Grant):
            self.engine.remove(pod.container.id)
            told = str(decision.result)
            is_firm = pod.fails or self.has_firm_neighbours(pod)
            assert is_firm or "rule" not in told or NO_ROOM_MADE.search(told)
            after = {one: self.cpus(each.container) for one, each in self.pods.items()}
            assert after == others, "a refusal changes nobody"
            return
        # The newcomer may be whom one has to be with.
        self.pods[pod.container.id] = pod
        for each, rule in near:
            if self.engine.grants[each.container.id].beside:
                assert self.is_near(each, rule), f"{each.container.id} is left alone: {rule}"
        for rule in pod.rules:
            if not rule.is_anti and not self.is_near(pod, rule):
                assert not pod.fails, f"{pod.container.id}: {rule} does not hold"
                assert decision.unmet, "what degrades is told"
        assert not decision.unmet or self.has_weak(pod, decision.unmet), decision.unmet

    def has_weak(self, pod: Pod, unmet: tuple[str, ...]) -> bool:
        """Whether only rules of containers that do not insist are told to be broken."""
        firm = [one.container.path for one in (*self.pods.values(), pod) if one.fails]
        return not any(f" of {path}: " in text for path in firm for text in unmet)

    def has_firm_neighbours(self, pod: Pod) -> bool:
        return any(
            one.fails and any(rule.is_anti and rule.app == pod.app for rule in one.rules)
            for one in self.pods.values()
        )

    def matches(self, pod: Pod, rule: Rule) -> list[Pod]:
        return [one for one in self.pods.values() if one.app == rule.app and one is not pod]

    def is_near(self, pod: Pod, rule: Rule) -> bool:
        """Whether required affinity holds for a container that has just come."""
        matches = [one for one in self.pods.values() if one.app == rule.app and one is not pod]
        if not matches:
            return rule.app == pod.app
        own = touched(self.machine, rule.level, self.cpus(pod.container))
        theirs: set[frozenset[int]] = set()
        for one in matches:
            theirs |= touched(self.machine, rule.level, self.cpus(one.container))
        wanted = -(-pod.container.resources.cpu_request_milli // 1000)
        usable = frozenset(self.engine.supply.usable)
        fits = any(len(one & usable) >= max(wanted, 1) for one in groups(self.machine, rule.level))
        return own <= theirs and (len(own) == 1 or not fits)

    def stop(self) -> None:
        if self.pods:
            container_id = self.random.choice(sorted(self.pods))
            del self.pods[container_id]
            self.note(f"stop {container_id}", None)
            self.engine.stop(container_id)
            self.engine.remove(container_id)

    def crash(self) -> None:
        """A container stops, another one may come, and the first is started anew.

        No rule between others that insists breaks by that.
        """
        if not self.pods:
            return
        container_id = self.random.choice(sorted(self.pods))
        pod = self.pods.pop(container_id)
        self.engine.stop(container_id)
        if self.random.random() < 0.5:
            self.create()
        self.count += 1
        again = structs.replace(pod.container, id=ContainerId(f"{container_id}-{self.count}"))
        before = set(self.broken_pairs())
        decision = self.engine.create(again)
        self.note(f"crash {container_id}", decision.result)
        if isinstance(decision.result, Grant):
            self.pods[again.id] = dataclasses.replace(pod, container=again)
        else:
            self.engine.remove(again.id)
        for owner_id, other_id, rule in self.broken_pairs():
            if again.id not in (owner_id, other_id):
                is_old = (owner_id, other_id, rule) in before
                assert is_old, f"{owner_id} {rule} is broken by {other_id} as {again.id} is back"

    def reload(self) -> None:
        """Another configuration, by which nobody has to move."""
        before = {one: self.cpus(each.container) for one, each in self.pods.items()}
        self.engine, _ = self.engine.reconfigured(self.engine.config)
        self.note("reload", None)
        assert {one: self.cpus(each.container) for one, each in self.pods.items()} == before

    def resize(self) -> None:
        if not self.pods:
            return
        pod = self.pods[self.random.choice(sorted(self.pods))]
        milli = self.random.choice((500, 1000, 2000, 3000))
        resources = structs.replace(pod.container.resources, cpu_request_milli=milli)
        if resources.cpu_limit_milli is not None:
            resources = structs.replace(resources, cpu_limit_milli=milli)
        decision = self.engine.update(pod.container.id, resources)
        self.note(f"resize {pod.container.id} {milli}", decision.result)
        if isinstance(decision.result, Grant):
            container = structs.replace(pod.container, resources=resources)
            self.pods[pod.container.id] = dataclasses.replace(pod, container=container)

    def restart(self) -> None:
        before = {one: self.cpus(each.container) for one, each in self.pods.items()}
        running = [
            structs.replace(
                each.container,
                state=ContainerState.RUNNING,
                cpus=CpuSet.collect(self.cpus(each.container)),
            )
            for each in self.pods.values()
        ]
        saved = self.random.random() < 0.5
        advice = self.engine.snapshot().advice() if saved else dict[ContainerId, Advice]()
        self.note(f"restart {bool(advice)}", None)
        self.engine = self.new_engine()
        self.engine.synchronize(running, advice)
        assert {one: self.cpus(each.container) for one, each in self.pods.items()} == before

    def live(self, steps: int) -> None:
        """Take so many steps, each of which asserts the laws; where one breaks, print the last."""
        try:
            for _ in range(steps):
                self.step()
        except AssertionError:
            print(*self.history[-12:], sep="\n")
            raise

    def broken(self) -> Iterator[str]:
        """Anti-affinity that insists and does not hold, whoever came first."""
        for owner_id, other_id, rule in self.broken_pairs():
            if not self.is_told(self.pods[owner_id], self.pods[other_id]):
                yield f"{owner_id} {rule} is broken by {other_id}"

    def broken_pairs(self) -> Iterator[tuple[ContainerId, ContainerId, Rule]]:
        """The same, told or not: the owner of each, and the one beside it."""
        for owner in self.pods.values():
            for rule in owner.rules if owner.fails else ():
                if not rule.is_anti:
                    continue
                own = touched(self.machine, rule.level, self.cpus(owner.container))
                for other in self.pods.values():
                    if other is owner or other.app != rule.app:
                        continue
                    theirs = touched(self.machine, rule.level, self.cpus(other.container))
                    if own & theirs:
                        yield owner.container.id, other.container.id, rule

    def is_told(self, owner: Pod, other: Pod) -> bool:
        """Whether one that asks for no cpu was left none where its rules hold, and that is told."""
        asks = [one.container.resources.cpu_request_milli for one in (owner, other)]
        told = [
            text for one in (owner, other) for text in self.engine.decisions[one.container.id].unmet
        ]
        return min(asks) == 0 and any(owner.container.path in text for text in told)

    def note(self, event: str, result: object) -> None:
        placed = {
            one: sorted(self.cpus(each.container))
            for one, each in self.pods.items()
            if self.engine.pinning(one)
        }
        self.history.append(f"{event} -> {result}\n    {placed}")


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_required_holds_after_every_event(seed: int) -> None:
    World(MACHINES[seed % len(MACHINES)], seed).live(STEPS)
