"""Laws of required rules that are ignored during execution: told once they hold no more.

On a walk on which cpus go offline and come back, other ones are reserved or available, and pods
come, go, grow, shrink and are moved. What is told is held against a plain reading of the rules from
the cpus that the kernel is told.
"""

import os
import random
import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import pytest
from msgspec import structs

from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId
from pinfold.policy.model.grant import Grant, PoolId
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import CpuSet
from tests.property.test_rule_laws import APPS, Rule, groups, written
from tests.property.test_rule_laws import MACHINES as RULED_MACHINES
from tests.unit.policy.engine.ruled_pods import container_of
from tests.unit.topology.model.offline import without

STEPS = int(os.environ.get("PINFOLD_IGNORED_STEPS", "40"))
SEEDS = (
    *range(int(os.environ.get("PINFOLD_IGNORED_SEEDS", "16"))),
    *(27, 83, 95, 148, 162, 170, 268, 442, 985, 1151, 3616, 3871),
)
"""In the last ones partners leave, others grow, or somebody is forgotten that had ended."""
MACHINES = tuple(RULED_MACHINES[number] for number in (0, 1, 2, 4))
"""Without that in which a cluster is a core as soon as a cpu is offline."""
LEVELS = ("socket", "numa", "l3", "core")
SIZES = (0, 0.1, 0.2, 0.5, 1, 1, 1.5, 2)
PODS_MAX = 7

Places = Mapping[ContainerId, frozenset[int]]


class Pod(NamedTuple):
    """A container, and what was written for it."""

    container: Container
    app: str
    rules: tuple[Rule, ...]
    fails: bool


class Named(NamedTuple):
    """A required rule and the container that has it."""

    owner_id: ContainerId
    rule: Rule


class Reading:
    """A plain reading of rules where containers are, on the cpus that there are."""

    def __init__(
        self,
        machine: Machine,
        allowed: Collection[int],
        usable: Collection[int],
        pods: Mapping[ContainerId, Pod],
        places: Places,
    ) -> None:
        self.machine = machine
        self.allowed, self.usable = frozenset(allowed), frozenset(usable)
        self.pods = dict(pods)
        self.places = dict(places)

    def domains(self, level: str) -> list[frozenset[int]]:
        """The domains of a level: what is there, and may be used, of its groups."""
        parts = [one & self.allowed for one in groups(self.machine, level)]
        return [one for one in parts if one]

    def touched(self, level: str, cpus: Collection[int]) -> set[frozenset[int]]:
        return {one for one in self.domains(level) if not one.isdisjoint(cpus)}

    def beside(self, owner: Pod, rule: Rule) -> list[frozenset[int]]:
        return [
            self.places[one.container.id]
            for one in self.pods.values()
            if one.app == rule.app and one.container.id != owner.container.id
        ]

    def holds(self, named: Named) -> bool:
        """Whether a rule holds where its owner is and those are that it is about."""
        owner, rule = self.pods[named.owner_id], named.rule
        own = self.touched(rule.level, self.places[named.owner_id])
        others = self.beside(owner, rule)
        theirs: set[frozenset[int]] = set()
        for one in others:
            theirs |= self.touched(rule.level, one)
        if rule.is_anti:
            return not own & theirs
        if not others:
            return rule.app == owner.app
        wanted = max(-(-owner.container.resources.cpu_request_milli // 1000), 1)
        fits = any(len(one & self.usable) >= wanted for one in self.domains(rule.level))
        return own <= theirs and (len(own) == 1 or not fits)

    def with_others(self, pods: Mapping[ContainerId, Pod], places: Places) -> "Reading":
        """The reading where these are there as well, at these places."""
        return Reading(
            self.machine,
            self.allowed,
            self.usable,
            {**pods, **self.pods},
            {**places, **self.places},
        )

    def but_for(self, gone: Collection[ContainerId]) -> "Reading":
        """The reading where these are not there."""
        pods = {key: one for key, one in self.pods.items() if key not in gone}
        return Reading(self.machine, self.allowed, self.usable, pods, self.places)

    def all_rules(self) -> Iterator[Named]:
        for key, pod in self.pods.items():
            for rule in dict.fromkeys(pod.rules):
                yield Named(key, rule)


class IgnoredRulesWalk:
    """A node of few cpus, its pods, and whatever happens to them."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self.random = random.Random(seed)
        self.full = self.machine = machine
        self.reserved = CpuSet.of(0)
        self.available = machine.online
        self.pods: dict[ContainerId, Pod] = {}
        self.count = 0
        self.history: list[str] = []
        self.engine = Engine(machine, self.config())

    def config(self) -> Config:
        return config_from_values(
            {
                "reservedResources": {"cpu": f"cpuset:{self.reserved}"},
                "availableResources": {"cpu": f"cpuset:{self.available}"},
                "antiAffinityLimits": {"maxBlockedCPUs": "100%"},
            }
        )

    def reading(self) -> Reading:
        places = dict[ContainerId, frozenset[int]]()
        for key in self.pods:
            pinning = self.engine.pinning(key)
            assert pinning is not None
            assert pinning.cpus
            places[key] = frozenset(pinning.cpus)
        supply = self.engine.supply
        return Reading(self.full, supply.allowed, supply.usable, self.pods, places)

    def told(self) -> set[Named]:
        """The required rules that decisions of their owners tell as unmet."""
        found = set[Named]()
        for key, pod in self.pods.items():
            for text in self.engine.decisions[key].unmet:
                head = re.sub(r" \(affinity[^)]*\)", "", text.rpartition(": ")[0])
                for rule in pod.rules:
                    kind = "anti-affinity" if rule.is_anti else "affinity"
                    path = pod.container.path
                    if head == f"{kind} at {rule.level} to app={rule.app} of {path}":
                        found.add(Named(key, rule))
        return found

    def step(self) -> None:
        draw = self.random
        before = self.reading()
        event = draw.choices(
            (self.create, self.remove, self.resize, self.hotplug, self.reload, self.move),
            (40 if len(self.pods) < PODS_MAX else 0, 12, 12, 12, 12, 8),
        )[0]
        words = event()
        self.engine.check()
        for one in self.pods:
            while self.engine.compact(one):
                pass
        after, told = self.reading(), self.told()
        places = {key: str(CpuSet.collect(one)) for key, one in after.places.items()}
        self.history.append(f"{words}\n   {places}\n   told {sorted(map(str, told))}")
        self.check(before, after, told)

    def check(self, before: Reading, after: Reading, told: set[Named]) -> None:
        """What is told does not hold, and what stopped holding is told."""
        for one in told:
            assert not after.holds(one), f"told, though it holds: {one}"
        # By what it asks for at present: who shrinks may stay where it is.
        before.pods.update({key: one for key, one in after.pods.items() if key in before.pods})
        gone = before.pods.keys() - after.pods.keys()
        come = after.pods.keys() - before.pods.keys()
        unmoved = before.with_others(after.pods, after.places).but_for(gone)
        for one in after.all_rules():
            if after.holds(one) or one in told:
                continue
            assert one.owner_id not in come, f"not told as it came: {one}"
            if one.rule.is_anti:
                assert not before.holds(one), f"stopped holding untold: {one}"
            elif before.holds(one):
                # Whom it must be with may leave, or another one begin elsewhere.
                assert not unmoved.holds(one), f"stopped holding untold: {one}"

    def live(self, steps: int) -> None:
        try:
            for _ in range(steps):
                self.step()
        except AssertionError:
            print(*self.history[-8:], sep="\n")
            raise

    def create(self) -> str:
        draw = self.random
        self.count += 1
        app = draw.choice(APPS)
        rules = tuple(
            Rule(draw.choice(LEVELS), draw.choice(APPS), draw.random() < 0.4)
            for _ in range(draw.choice((0, 0, 1, 1, 2)))
        )
        fails = draw.random() < 0.5
        container = container_of(
            f"p{self.count}",
            draw.choice(SIZES),
            written(rules),
            app=app,
            fails=fails,
            shares=draw.random() < 0.3,
        )
        pod = Pod(container, app, rules, fails)
        decision = self.engine.create(container)
        if isinstance(decision.result, Grant):
            self.pods[container.id] = pod
        else:
            self.engine.remove(container.id)
        return f"create {container.id} {app} {rules} {fails} {decision.pinning.cpus}"

    def any_pod(self) -> ContainerId | None:
        return self.random.choice(sorted(self.pods)) if self.pods else None

    def remove(self) -> str:
        if (key := self.any_pod()) is None:
            return "nothing"
        del self.pods[key]
        self.engine.stop(key)
        self.engine.remove(key)
        return f"remove {key}"

    def resize(self) -> str:
        if (key := self.any_pod()) is None:
            return "nothing"
        pod, milli = self.pods[key], self.random.choice((200, 500, 1000, 2000, 3000))
        resources = structs.replace(pod.container.resources, cpu_request_milli=milli)
        if resources.cpu_limit_milli is not None:
            resources = structs.replace(resources, cpu_limit_milli=milli)
        decision = self.engine.update(key, resources)
        if isinstance(decision.result, Grant):
            container = structs.replace(pod.container, resources=resources)
            self.pods[key] = pod._replace(container=container)
        return f"resize {key} {milli} {type(decision.result).__name__}"

    def move(self) -> str:
        if (key := self.any_pod()) is None:
            return "nothing"
        pool = self.random.choice(self.engine.tree.pools)
        decision = self.engine.move(key, PoolId(pool.id))
        return f"move {key} {pool.name} {type(decision.result).__name__}"

    def hotplug(self) -> str:
        draw, full = self.random, self.full
        cpus = [one for one in full.online if one not in self.reserved]
        gone = CpuSet.collect(draw.sample(cpus, draw.choice((0, 1, 1, 2, 4))))
        if not (full.online - gone) & self.available - self.reserved:
            return "nothing"
        self.machine = without(full, gone)
        self.engine, _ = self.engine.reconfigured(self.engine.config, self.machine)
        return f"offline {gone}"

    def reload(self) -> str:
        draw = self.random
        online = list(self.full.online)
        if draw.random() < 0.5:
            self.available = self.full.online
        else:
            out = CpuSet.collect(draw.sample(online, draw.choice((1, 2))))
            self.available = self.full.online - out
        candidates = [one for one in self.machine.online & self.available]
        self.reserved = CpuSet.collect(draw.sample(candidates, draw.choice((1, 1, 2))))
        if not self.machine.online & self.available - self.reserved:
            self.reserved = CpuSet.of(candidates[0])
        self.engine, _ = self.engine.reconfigured(self.config())
        return f"reserved {self.reserved} available {self.available}"


@pytest.mark.parametrize("seed", SEEDS)
def test_what_holds_no_more_is_told_and_what_holds_is_not(seed: int) -> None:
    IgnoredRulesWalk(MACHINES[seed % len(MACHINES)], seed).live(STEPS)
