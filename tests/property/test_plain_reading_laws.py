"""Laws of the engine beside a plain reading of the rules, on random small machines and pods.

What is granted breaks no rule that insists; what is refused has no place; what breaks is the least
that can, and is told; what is wished for is met as far as it can be. And no later event breaks what
held. See `plain_reading` for the reading, `ruled_worlds` for the machines and pods.
"""

import itertools
import os
import random
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import pytest
from msgspec import structs

from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, ContainerState
from pinfold.policy.model.grant import Grant
from pinfold.topology.sets.cpuset import CpuSet
from tests.property.plain_reading import (
    Bound,
    Cost,
    Cpus,
    Placed,
    PlainReading,
    RuleName,
    WrittenPod,
    cost,
)
from tests.property.ruled_worlds import NAMESPACES, draw_machine, draw_odds, draw_pod

WORLDS = int(os.environ.get("PINFOLD_READING_SEEDS", "600"))
"""So many machines for each of the two laws."""
STEPS = int(os.environ.get("PINFOLD_READING_STEPS", "12"))
"""Pods that come, change and go on each of them."""
PARTS = 20
_UNMET = re.compile(r"\(affinity\.pinfold\.dev/pod:(\d+)\) of (\S+): ")


class Arrival(NamedTuple):
    """A pod that comes, those that are there, and what rules make of it."""

    pod: WrittenPod
    before: Placed
    reading: PlainReading
    bounds: Sequence[Bound]

    def places(self) -> dict[Cpus, Cost]:
        """Every place of free cpus that breaks no rule that insists, and what it costs."""
        free = self.reading.usable.difference(*self.before.values())
        found: dict[Cpus, Cost] = {}
        for some in itertools.combinations(sorted(free), self.pod.size):
            broken = self.reading.broken(self.bounds, frozenset(some))
            if not any(one.must_hold for one in broken):
                found[frozenset(some)] = cost(broken)
        return found

    def wish(self, cpus: Cpus) -> Fraction:
        """The sum of preferred rules at a place."""
        return self.reading.wish(self.pod, cpus, self.before)


class World:
    """An engine on a random machine, and the pods that run there."""

    sizes_milli: Sequence[int] = (1000, 1000, 1000, 2000, 2000, 3000)

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = draw = random.Random(seed)
        self.machine = draw_machine(draw)
        self.compat = draw.choice(("document", "strict"))
        self.odds = draw_odds(draw)
        self.reserved = min(self.machine.online)
        self.engine = Engine(self.machine, self.config())
        self.pods: dict[WrittenPod, Container] = {}
        self.count: int = 0
        self.history: list[str] = []

    def config(self) -> Config:
        return config_from_values(
            {
                "reservedResources": {"cpu": f"cpuset:{self.reserved}"},
                "antiAffinityLimits": {"maxBlockedCPUs": "100%"},
                "namespaceLabels": NAMESPACES,
                "kubeCompat": self.compat,
            }
        )

    def reading(self) -> PlainReading:
        usable = frozenset(self.machine.online) - {self.reserved}
        return PlainReading(self.machine, usable, NAMESPACES, is_strict=self.compat == "strict")

    def cpus(self, container_id: ContainerId) -> Cpus:
        pinning = self.engine.pinning(container_id)
        assert pinning is not None
        assert pinning.cpus
        return frozenset(pinning.cpus)

    def placed(self) -> dict[WrittenPod, Cpus]:
        return {pod: self.cpus(one.id) for pod, one in self.pods.items()}

    def live(self, steps: int) -> None:
        """Take so many steps, each of which asserts the laws; where one breaks, print all."""
        events = (
            (self.arrive, 60),
            (self.leave, 12),
            (self.crash, 6),
            (self.resize, 12),
            (self.restart, 8),
            (self.reload, 4),
            (self.reserve, 4),
        )
        try:
            for _ in range(steps):
                (event,) = self.random.choices(*zip(*events, strict=True))
                event()
                self.engine.check()
                for one in self.pods.values():
                    # What others are told of waits until nobody waits for the policy.
                    self.engine.compact(one.id)
                self.hold_told()
        except AssertionError:
            print(f"seed {self.seed}", self.machine, self.compat, *self.history, sep="\n")
            raise

    def note(self, event: str, result: object = None) -> None:
        self.history.append(f"{event} -> {result}")

    def arrive(self) -> None:
        self.count += 1
        pod, container = self.drawn()
        before, reading = self.placed(), self.reading()
        arrival = Arrival(pod, before, reading, reading.bounds(pod, before))
        decision = self.engine.create(container)
        self.note(f"create {pod}", decision.result)
        if isinstance(decision.result, Grant):
            self.pods[pod] = container
            self.judge_grant(arrival, decision)
        else:
            self.engine.remove(container.id)
            assert self.placed() == before, "a refusal moves nobody"
            self.judge_refusal(arrival)

    def drawn(self) -> tuple[WrittenPod, Container]:
        return draw_pod(self.random, self.count, self.random.choice(self.sizes_milli), self.odds)

    def judge_refusal(self, arrival: Arrival) -> None:
        places = arrival.places()
        assert not places, f"refused, though there is a place on {sorted(next(iter(places)))}"

    def judge_grant(self, arrival: Arrival, decision: Decision) -> None:
        here = self.cpus(self.pods[arrival.pod].id)
        broken = arrival.reading.broken(arrival.bounds, here)
        self.judge_broken(broken, decision)
        places = arrival.places()
        assert here in places, "granted on cpus that are not free"
        least = min(places.values())
        assert cost(broken) == least, f"granted at {cost(broken)}, though {least} would do"
        if arrival.pod.size == 1:
            # Of one cpu there is only one way to take the best part of a pool.
            best = max(arrival.wish(one) for one, price in places.items() if price == least)
            assert arrival.wish(here) == best, f"wishes come to {arrival.wish(here)} of {best}"

    def judge_broken(self, broken: Sequence[Bound], decision: Decision) -> None:
        insisting = [one.name for one in broken if one.must_hold]
        assert not insisting, f"granted, though it breaks {insisting}"
        assert told(decision) == {one.name for one in broken}, "what breaks is told, and no more"

    def leave(self) -> None:
        if self.pods:
            pod = self.random.choice(list(self.pods))
            container = self.pods.pop(pod)
            self.note(f"leave {container.id}")
            self.engine.stop(container.id)
            self.engine.remove(container.id)

    def broken_of(self, pod: WrittenPod, placed: Placed) -> list[Bound]:
        """Rules of one who runs that do not hold by now."""
        others = {one: cpus for one, cpus in placed.items() if one is not pod}
        reading = self.reading()
        broken = reading.broken(reading.bounds(pod, others), placed[pod])
        return [one for one in broken if one.is_own]

    def broken(self) -> set[Bound]:
        """Anti-affinity of all who run that does not hold by now."""
        placed = self.placed()
        found = [one for pod in placed for one in self.broken_of(pod, placed)]
        return {one for one in found if one.kind == "anti-affinity"}

    def hold_told(self) -> None:
        """Anti-affinity that does not hold is told by its owner, and no other is."""
        broken = {one.name for one in self.broken()}
        for pod, container in self.pods.items():
            lines = {rule.line for rule in pod.rules if rule.kind == "anti-affinity"}
            own = {
                one
                for one in told(self.engine.decisions[container.id])
                if one.owner == pod.path and one.line in lines
            }
            assert own == {one for one in broken if one.owner == pod.path}, "told by its owner"

    def keep(self, before: Iterable[Bound], event: str) -> None:
        """No rule is broken by an event that insists; where others are, `hold_told` has it."""
        known = {one.name for one in before}
        for one in self.broken():
            assert one.name in known or not one.must_hold, f"{event} breaks {one.name}"

    def crash(self) -> None:
        """A container is started anew, and its place is free, if not of who shared it."""
        if self.pods:
            pod = self.random.choice(list(self.pods))
            before, known, gone = self.placed(), self.broken(), self.pods[pod]
            self.count += 1
            self.pods[pod] = structs.replace(gone, id=ContainerId(f"{gone.id}-{self.count}"))
            has_own = bool(self.engine.grants[gone.id].exclusive)
            self.engine.stop(gone.id)
            decision = self.engine.create(self.pods[pod])
            self.note(f"crash {gone.id}", decision.result)
            if has_own:
                assert self.placed()[pod] >= before[pod], "who comes back has its place again"
            elif not isinstance(decision.result, Grant):
                # Others who share may have grown into its place as it ended.
                self.engine.remove(self.pods.pop(pod).id)
            self.keep(known, "a crash")

    def resize(self) -> None:
        if not self.pods:
            return
        pod = self.random.choice(list(self.pods))
        container, before, places = self.pods[pod], self.broken(), self.placed()
        own = {one.name for one in self.broken_of(pod, places)}
        milli = self.random.choice((1000, 2000, 3000))
        limit = None if container.resources.cpu_limit_milli is None else milli
        resources = structs.replace(
            container.resources, cpu_request_milli=milli, cpu_limit_milli=limit
        )
        decision = self.engine.update(container.id, resources)
        self.note(f"resize {container.id} {milli}", decision.result)
        self.keep(before, "a resize")
        if not isinstance(decision.result, Grant):
            assert self.placed() == places, "a refused resize moves nobody"
            return
        del self.pods[pod]
        resized = WrittenPod(pod.path, pod.namespace, pod.labels, pod.rules, pod.fails, milli)
        self.pods[resized] = structs.replace(container, resources=resources)
        after = self.placed()
        if after[resized] != places[pod]:
            # Where it was it may stay, though it would fit one domain now.
            for one in self.broken_of(resized, after):
                assert one.name in own or not one.must_hold, f"a resize breaks {one.name}"

    def restart(self) -> None:
        before = self.placed()
        running = [
            structs.replace(one, state=ContainerState.RUNNING, cpus=CpuSet.collect(before[pod]))
            for pod, one in self.pods.items()
        ]
        is_saved = self.random.random() < 0.5
        advice = self.engine.snapshot().advice() if is_saved else dict[ContainerId, Advice]()
        self.note(f"restart {is_saved}")
        self.engine = Engine(self.machine, self.config())
        self.engine.synchronize(running, advice)
        assert self.placed() == before, "a restart moves nobody"

    def reload(self) -> None:
        before = self.placed()
        self.note("reload")
        self.engine, _ = self.engine.reconfigured(self.config())
        assert self.placed() == before, "a reload that changes nothing moves nobody"

    def reserve(self) -> None:
        """Another cpu is reserved: whoever has it for itself goes, and nobody else who has any."""
        before, broken = self.placed(), self.broken()
        owners = [pod for pod, one in self.pods.items() if self.engine.grants[one.id].exclusive]
        self.reserved = self.random.choice(sorted(self.machine.online))
        self.note(f"reserve {self.reserved}")
        self.engine, _ = self.engine.reconfigured(self.config())
        after = self.placed()
        for pod in owners:
            is_gone = self.reserved in before[pod]
            # Another one may have the last cpus that it shared beside its own.
            is_same = pod.milli % 1000 or after[pod] >= before[pod]
            assert is_gone or is_same, "a reload moves who need not"
        if not any(self.reserved in here for here in before.values()):
            # Who runs and has to go cannot be refused: what breaks then is told.
            self.keep(broken, "a reload")


class SharedWorld(World):
    """The same with pods that share cpus: others make way for them, and they for others."""

    sizes_milli: Sequence[int] = (100, 300, 500, 1000, 1500, 2200)

    def drawn(self) -> tuple[WrittenPod, Container]:
        milli = self.random.choice(self.sizes_milli)
        shares = self.random.random() < 0.5
        return draw_pod(self.random, self.count, milli, self.odds, shares=shares)

    def judge_refusal(self, arrival: Arrival) -> None:
        """Nothing: whether others could have made way is not asked here."""

    def judge_grant(self, arrival: Arrival, decision: Decision) -> None:
        placed = self.placed()
        here, reading = placed.pop(arrival.pod), arrival.reading
        self.judge_broken(reading.broken(reading.bounds(arrival.pod, placed), here), decision)


def told(decision: Decision) -> set[RuleName]:
    """The rules that a decision tells to be broken."""
    found = set[RuleName]()
    for text in decision.unmet:
        where = _UNMET.search(text)
        assert where is not None, f"no rule of a pod: {text}"
        found.add(RuleName(where[2], int(where[1])))
    return found


@pytest.mark.parametrize("part", range(PARTS))
def test_cpus_of_their_own_are_granted_and_refused_as_the_rules_read(part: int) -> None:
    for seed in range(part, WORLDS, PARTS):
        World(seed).live(STEPS)


@pytest.mark.parametrize("part", range(PARTS))
def test_shared_cpus_keep_all_rules_that_insist(part: int) -> None:
    for seed in range(part, WORLDS, PARTS):
        SharedWorld(seed).live(STEPS)
