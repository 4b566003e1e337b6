"""Laws of promises: what those who share cpus were promised fits on these, after every event.

On no set of cpus more is promised to those who run nowhere else than there are cpus that nobody
has for itself. Held against the cpus that the kernel is told.
"""

import dataclasses
import os
from collections.abc import Iterable, Mapping

import pytest
from msgspec import structs

from pinfold.policy.engine.decision import Decision
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import Grant
from pinfold.topology.model.machine import Machine
from tests.property.test_rule_laws import APPS, LEVELS, MACHINES, Pod, Rule, World, written
from tests.unit.policy.engine.ruled_pods import IGNORED, LASTING, container_of

STEPS = int(os.environ.get("PINFOLD_PROMISE_STEPS", "60"))
SEEDS = (*range(int(os.environ.get("PINFOLD_PROMISE_SEEDS", "60"))),)


def overbooked(wanted: Mapping[frozenset[int], int]) -> str:
    """The cpus on which more milli-cpus are promised than there are; empty where that is nowhere.

    Every union of the sets is looked at, so there must be few cpus.
    """
    masks = {sum([1 << cpu for cpu in cpus]): milli for cpus, milli in wanted.items() if milli}
    unions = {0}
    for mask in masks:
        unions |= {one | mask for one in unions}
    for union in unions:
        milli = sum([more for mask, more in masks.items() if not mask & ~union])
        if milli > 1000 * union.bit_count():
            return f"{milli}m on {[cpu for cpu in range(union.bit_length()) if union >> cpu & 1]}"
    return ""


class PromisingWorld(World):
    """Small shares, many of them beside others of which rules speak."""

    def new_pod(self) -> Pod:
        self.count += 1
        draw = self.random
        app = draw.choice(APPS)
        rules = tuple(
            Rule(draw.choice(LEVELS), draw.choice(APPS), draw.random() < 0.8)
            for _ in range(draw.choice((0, 0, 1, 1, 2, 3)))
        )
        fails, found = draw.random() < 0.5, written(rules)
        if found and draw.random() < 0.2:
            found = {
                kind: {LASTING if when == IGNORED else when: some for when, some in terms.items()}
                for kind, terms in found.items()
            }
        cpus = draw.choice((0, 0, 0.1, 0.2, 0.5, 0.7, 1, 1, 2, 1.5, 2.3))
        shares = draw.random() < 0.5
        container = container_of(f"p{self.count}", cpus, found, app=app, fails=fails, shares=shares)
        return Pod(container, app, rules, fails)

    def __init__(self, machine: Machine, seed: int) -> None:
        super().__init__(machine, seed)
        self.adopted: set[ContainerId] = set()
        """Those who may have more cpus than they had when the daemon was started anew."""

    def granted(self, grant: Grant) -> frozenset[int]:
        """The cpus of a pool that a share may have."""
        pool = self.engine.tree.pools[grant.pool_id].sharable
        taken = {cpu for one in self.engine.grants.values() for cpu in one.exclusive}
        return frozenset(pool if grant.within is None else pool & grant.within) - taken

    def overbooked(self) -> str:
        """Where too much is promised, and how much; empty where that is nowhere."""
        wanted: dict[frozenset[int], int] = {}
        for one in self.pods.values():
            grant = self.engine.grants[one.container.id]
            shared = self.cpus(one.container) - frozenset(grant.exclusive)
            if one.container.id in self.adopted:
                shared |= self.granted(grant)
            wanted[shared] = wanted.get(shared, 0) + grant.shared_milli
        return overbooked(wanted)

    def step(self) -> None:
        """An event, and what is done from time to time; each leaves room for all promises."""
        events = self.create, self.stop, self.crash, self.resize, self.reload, self.restart
        weights = 50, 22, 15, 8, 2, 2
        self.random.choices(events, weights)[0]()
        if self.random.random() < 0.5:
            with_promises = self.overbooked()
            for one in self.pods:
                self.engine.compact(one)
            self.asserted(with_promises, "compacting")
        if self.random.random() < 0.1 and self.pods:
            with_promises = self.overbooked()
            self.engine.widen()
            self.engine.look_at_rules()
            self.asserted(with_promises, "looking at rules")
            self.move()
        self.engine.check()

    def move(self) -> None:
        """A step of a rebalance, or the mending of a rule."""
        before, draw = self.overbooked(), self.random
        one = draw.choice(sorted(self.pods))
        if draw.random() < 0.5:
            decision = self.engine.place_anew(one)
        else:
            decision = self.engine.move(one, draw.choice(self.engine.tree.pools).id)
        self.note(f"move {one}", decision.result)
        self.asserted(before, f"{one} moves")

    def asserted(self, before: str, event: str) -> None:
        """What has room before an event has it afterwards."""
        found = self.overbooked()
        assert before or not found, f"{event}: {found}"

    def create(self) -> None:
        self.add(self.new_pod())

    def add(self, pod: Pod) -> Decision:
        """A container that comes, or comes back.

        Who was there before its restart is back without room for it, and that is told.
        """
        before = self.overbooked()
        decision = self.engine.create(pod.container)
        self.note(f"create {pod.container.id} {pod.app} {pod.rules} {pod.fails}", decision.result)
        if isinstance(decision.result, Grant):
            self.pods[pod.container.id] = pod
        else:
            self.engine.remove(pod.container.id)
        if not is_short(decision):
            self.asserted(before, f"{pod.container.id} comes, {decision.decided_by}")
        return decision

    def stop(self) -> None:
        if self.pods:
            self.end(self.random.choice(sorted(self.pods)), is_gone=self.random.random() < 0.9)

    def end(self, container_id: ContainerId, *, is_gone: bool) -> None:
        before = self.overbooked()
        del self.pods[container_id]
        self.note(f"stop {container_id}", None)
        self.engine.stop(container_id)
        self.asserted(before, f"{container_id} stops")
        if is_gone:
            before = self.overbooked()
            self.engine.remove(container_id)
            self.asserted(before, f"{container_id} is removed")

    def crash(self) -> None:
        """Some end, another one may come, and they are started anew in another order."""
        draw = self.random
        count = 1 if draw.random() < 0.4 else draw.randint(2, 8)
        crashed = draw.sample(sorted(self.pods), min(count, len(self.pods)))
        pods = [self.pods[one] for one in crashed]
        is_gone = draw.random() < 0.3
        for one in crashed:
            self.end(one, is_gone=is_gone)
        if draw.random() < 0.3:
            self.create()
        draw.shuffle(pods)
        for pod in pods:
            self.count += 1
            again = structs.replace(
                pod.container, id=ContainerId(f"{pod.container.id}-{self.count}")
            )
            self.add(dataclasses.replace(pod, container=again))

    def resize(self) -> None:
        before = self.overbooked()
        super().resize()
        self.asserted(before, "resize")

    def reload(self) -> None:
        before = self.overbooked()
        super().reload()
        self.asserted(before, "reload")

    def restart(self) -> None:
        before = self.overbooked()
        super().restart()
        self.adopted = set(self.pods)
        self.asserted(before, "restart")


def is_short(decision: Decision) -> bool:
    """Whether a container is told to be back without room for it."""
    told: Iterable[str] = [str(one) for one in decision.problems]
    return any("without room for it" in one for one in told)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_promised_fits_after_every_event(seed: int) -> None:
    PromisingWorld(MACHINES[seed % len(MACHINES)], seed).live(STEPS)
