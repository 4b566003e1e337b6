"""Laws of what decisions tell: the rules told as unmet are those that do not hold afterwards.

Held against the naive reading of the rules of `test_rule_laws`. And a restart tells the same.
"""

import os
import random
import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from pinfold.cmd.state.saved_states import SavedStates
from pinfold.cmd.state.state_file import State, parse_state
from pinfold.policy.engine.decision import Decision, rule_names
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import ContainerId, QosClass, Resources
from pinfold.policy.model.grant import Grant
from pinfold.policy.model.pinning import Pinning
from pinfold.policy.placing.judging.restriction import named_in
from tests.property.test_rule_laws import (
    APPS,
    LEVELS,
    MACHINES,
    Pod,
    Rule,
    World,
    touched,
    written,
)
from tests.unit.policy.engine.ruled_pods import GIB, container_of

STEPS = int(os.environ.get("PINFOLD_TOLD_STEPS", "40"))
SEEDS = (*range(int(os.environ.get("PINFOLD_TOLD_SEEDS", "60"))), 123, 238)
"""In the last two many make way for one, for whom another rule has to be given up."""
TOLD_MAX = 16
"""Of more rules some are told."""
PEN = "pod-pool.pinfold.dev/pod"


class TellingWorld(World):
    """Small pods whose rules give way as a rule, some of them with pens."""

    def new_pod(self) -> Pod:
        self.count += 1
        draw = self.random
        penned = [one for one in self.pods.values() if PEN in one.container.pod.annotations]
        if penned and draw.random() < 0.2:
            return self.sibling(draw.choice(penned))
        app = draw.choice(APPS)
        rules = tuple(
            Rule(draw.choice(LEVELS), draw.choice(APPS), draw.random() < 0.8)
            for _ in range(draw.choice((0, 0, 1, 2, 3, 4)))
        )
        fails, has_pen = draw.random() < 0.2, draw.random() < 0.2
        container = container_of(
            f"p{self.count}",
            draw.choice((0, 0.1, 0.1, 0.2, 0.5, 1, 1, 2)),
            written(rules),
            app=app,
            fails=fails,
            shares=draw.random() < 0.5,
            annotations={PEN: "true"} if has_pen else None,
        )
        if has_pen:
            milli, is_own = 1000 * draw.choice((1, 2, 3)), draw.random() < 0.5
            size = Resources(
                cpu_request_milli=milli,
                cpu_limit_milli=milli if is_own else milli + 500,
                memory_request_bytes=GIB // 64,
                memory_limit_bytes=GIB // 64,
            )
            qos = QosClass.GUARANTEED if is_own else QosClass.BURSTABLE
            pod = structs.replace(container.pod, resources=size, qos=qos)
            container = structs.replace(container, pod=pod)
        return Pod(container, app, rules, fails)

    def sibling(self, pod: Pod) -> Pod:
        name = f"c{self.count}"
        container_id = ContainerId(f"{pod.container.pod.name}-{name}")
        return Pod(
            structs.replace(pod.container, id=container_id, name=name),
            pod.app,
            pod.rules,
            pod.fails,
        )

    def step(self) -> None:
        event = self.random.choices(
            (self.create, self.stop, self.crash, self.resize), (50, 15, 5, 5)
        )[0]
        event()
        self.engine.check()
        for one in self.pods:
            # What others are told of waits until nobody waits for the policy.
            self.engine.compact(one)
        for pod in self.pods.values():
            self.named_by(pod)

    def named_by(self, pod: Pod) -> None:
        """Hold the texts of a container's own rules against those who break them."""
        decision = self.engine.decisions[pod.container.id]
        breakers = Counter(self.broken_by(pod)) if decision.unmet else Counter[str]()
        assert len({*rule_names(decision.unmet)}) == len(decision.unmet), "a rule is told once"
        for text in decision.unmet:
            (head,) = heads(structs.replace(decision, unmet=(text,))) or [""]
            if head.endswith(f" of {pod.container.path}"):
                names, more = named_in([text.rpartition(": ")[2]])
                assert len(names) + more == breakers[head], text

    def create(self) -> None:
        pod = self.new_pod()
        self.told_of(pod, self.engine.create(pod.container))

    def crash(self) -> None:
        if not self.pods:
            return
        pod = self.pods.pop(self.random.choice(sorted(self.pods)))
        self.engine.stop(pod.container.id)
        if self.random.random() < 0.5:
            self.create()
        self.count += 1
        again = ContainerId(f"{pod.container.id}-{self.count}")
        container = structs.replace(pod.container, id=again)
        pod = Pod(container, pod.app, pod.rules, pod.fails)
        self.told_of(pod, self.engine.create(container))

    def resize(self) -> None:
        if not self.pods:
            return
        pod = self.pods[self.random.choice(sorted(self.pods))]
        milli = self.random.choice((500, 1000, 2000, 3000))
        resources = structs.replace(pod.container.resources, cpu_request_milli=milli)
        if resources.cpu_limit_milli is not None:
            resources = structs.replace(resources, cpu_limit_milli=milli)
        untold = {*self.broken_at(pod)} - heads(self.engine.decisions[pod.container.id])
        decision = self.engine.update(pod.container.id, resources)
        if isinstance(decision.result, Grant):
            container = structs.replace(pod.container, resources=resources)
            self.told_of(Pod(container, pod.app, pod.rules, pod.fails), decision, untold)

    def told_of(self, pod: Pod, decision: Decision, untold: Collection[str] = ()) -> None:
        """Hold a decision against where everybody is. `untold`: what need not be told anew."""
        self.note(f"{pod.container.id} {pod.app} {pod.rules} -> {decision.unmet}", decision.result)
        if not isinstance(decision.result, Grant):
            self.engine.remove(pod.container.id)
            return
        self.pods[pod.container.id] = pod
        told, broken = heads(decision), {*self.broken_at(pod)}
        assert told <= broken, f"told, though it holds: {told - broken}"
        if len(decision.unmet) < TOLD_MAX:
            assert told >= broken.difference(untold), f"not told: {broken - told}"

    def broken_at(self, pod: Pod) -> Iterator[str]:
        """Anti-affinity of a container, and about it, that does not hold where all are."""
        for other in self.pods.values():
            if other.container.id == pod.container.id:
                continue
            here, there = self.place(pod), self.place(other)
            if here == there and self.is_in_pen(pod) and self.is_in_pen(other):
                # Between those in a pen rules speak of their parts of it.
                here, there = self.cpus(pod.container), self.cpus(other.container)
            for owner, beside in ((pod, other), (other, pod)):
                for rule in owner.rules:
                    near = touched(self.machine, rule.level, here)
                    near &= touched(self.machine, rule.level, there)
                    if rule.is_anti and rule.app == beside.app and near:
                        path = owner.container.path
                        yield f"anti-affinity at {rule.level} to app={rule.app} of {path}"

    def broken_by(self, pod: Pod) -> Iterator[str]:
        """Anti-affinity of a container once for each other one that breaks it."""
        whole, others = self.pods, [one for one in self.pods.values() if one is not pod]
        for one in others:
            self.pods = {pod.container.id: pod, one.container.id: one}
            path = pod.container.path
            yield from {text for text in self.broken_at(pod) if text.endswith(f" of {path}")}
        self.pods = whole

    def is_in_pen(self, pod: Pod) -> bool:
        pen = self.engine.grants[pod.container.id].pen
        return pen is not None and bool(self.engine.snapshot().pens[pen].exclusive)

    def place(self, pod: Pod) -> frozenset[int]:
        """Where a container is to others: in all of its pen, if that has cpus of its own."""
        pen = self.engine.grants[pod.container.id].pen
        if pen is not None and (own := self.engine.snapshot().pens[pen].exclusive):
            return frozenset(own)
        return self.cpus(pod.container)


def heads(decision: Decision) -> set[str]:
    """The anti-affinity that a decision tells as unmet, with its owners."""
    told = {re.sub(r" \(affinity[^)]*\)", "", one.rpartition(": ")[0]) for one in decision.unmet}
    return {one for one in told if one.startswith("anti-affinity")}


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_told_of_who_comes_or_changes_is_what_does_not_hold(seed: int) -> None:
    TellingWorld(MACHINES[seed % len(MACHINES)], seed).live(STEPS)


def test_who_is_back_on_its_own_cpu_is_told_no_rule_of_those_who_leave_it() -> None:
    """They came onto the cpu while it was away, and nobody has to make way for it besides."""
    world = TellingWorld(MACHINES[3], 58)
    for _ in range(STEPS // 2):
        world.live(4)
        world.random.shuffle([*world.pods])


def saved(engine: Engine) -> State:
    """The state of an engine as it is read from a file."""
    return parse_state(Path("state.json"), msgspec.json.encode(SavedStates().of(engine.snapshot())))


def told(engine: Engine) -> dict[ContainerId, tuple[Pinning | None, tuple[str, ...]]]:
    """By container what the kernel is told of it, and the rules that are told as unmet.

    Of very many names in a text some are shown: others perhaps than before.
    """
    return {
        one: (
            engine.pinning(one),
            tuple(re.sub(r" with .*( and \d+ more)", r"\1", text) for text in decision.unmet),
        )
        for one, decision in engine.decisions.items()
        if one in engine.grants
    }


RESTARTED_SEEDS = (*range(len(SEEDS)), 118, 164, 217, 252, 319, 324)
"""In the last ones much is told of one container, or of one beside others in its pen."""


@pytest.mark.parametrize("world", [World, TellingWorld])
@pytest.mark.parametrize("seed", RESTARTED_SEEDS)
def test_a_restart_tells_of_everybody_what_was_told_before(world: type[World], seed: int) -> None:
    """Also where another configuration, which says the same, was loaded before it."""
    one, draw = world(MACHINES[seed % len(MACHINES)], seed), random.Random(seed)
    for _ in range(STEPS // 4):
        one.live(4)
        if seed % 2:
            one.engine, _ = one.engine.reconfigured(one.engine.config)
        before, running = told(one.engine), [*one.engine.snapshot().running()]
        draw.shuffle(running)
        again = one.new_engine()
        again.synchronize(running, saved(one.engine).advice())
        assert told(again) == before
