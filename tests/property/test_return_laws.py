"""Laws of crashes: who is back with nobody new in between has its place again.

Unless a rule that insists would break by that, and then it is told.
"""

import dataclasses

import pytest
from msgspec import structs

from pinfold.policy.model.container import Container, ContainerId
from pinfold.policy.model.grant import Grant
from pinfold.policy.placing.restart import MADE_WAY
from pinfold.topology.sets.cpuset import CpuSet
from tests.property.test_rule_laws import MACHINES, SEEDS, STEPS, Pod, World, touched

FOUND = (
    *(67, 74, 158, 173, 190, 214, 228, 234, 250, 252, 253, 324, 403, 440, 445, 481, 499),
    *(849, 974, 1359, 1779, 1942, 1988, 2217, 2305, 2418, 2625, 2724),
)
"""In these somebody was back on others' cpus: who shares had grown onto its own, or a rule that may
break did not hold there before, or others had made way for one that crashed with them."""
LENGTH = max(STEPS, 60)


class Crashes(World):
    """A node of which containers crash, one by one or together, and the kubelet creates again."""

    def crash(self) -> None:
        """No rule between others that insists breaks by it, see `World.crash`."""
        count = 1 if self.random.random() < 0.5 else self.random.randint(2, 6)
        crashed = self.random.sample(sorted(self.pods), min(count, len(self.pods)))
        pods = {one: self.pods[one] for one in crashed}
        held = {one: (self.engine.grants[one], self.cpus(pods[one].container)) for one in crashed}
        self.was_overbooked = self.is_overbooked()
        # Once they are removed they count as gone for good: who could not make way once more has
        # their cpus then, as others may be with it there.
        self.are_gone = self.random.random() < 0.3
        for one in crashed:
            self.engine.stop(one)
            del self.pods[one]
        for one in crashed if self.are_gone else ():
            self.engine.remove(one)
        self.random.shuffle(crashed)
        for one in crashed:
            self.count += 1
            before = set(self.broken_pairs())
            again = structs.replace(pods[one].container, id=ContainerId(f"{one}-{self.count}"))
            self.create_again(pods[one], again, *held[one])
            for owner, other, rule in set(self.broken_pairs()) - before:
                assert again.id in (owner, other), f"{owner} {rule} is broken by {other}"

    def create_again(self, pod: Pod, again: Container, held: Grant, cpus: frozenset[int]) -> None:
        """The container of a pod that crashed has its own cpus again, and its pool."""
        is_kept_out = self.breaks_rules(pod, cpus) or self.is_overbooked(*held.exclusive)
        is_kept_out &= self.are_gone
        decision = self.engine.create(again)
        self.note(f"crash {pod.container.id} {pod.app} {pod.rules} {pod.fails}", decision.result)
        if isinstance(decision.result, Grant):
            self.pods[again.id] = dataclasses.replace(pod, container=again)
            has = decision.result.exclusive, decision.result.pool_id
            is_back = has == (held.exclusive, held.pool_id) or decision.decided_by == MADE_WAY
            assert is_back or self.was_overbooked or is_kept_out
        else:
            self.engine.remove(again.id)
            told = decision.result.reason
            assert "would have to leave them" in told or (is_kept_out and "affinity" in told)

    def breaks_rules(self, pod: Pod, cpus: frozenset[int]) -> bool:
        """Whether a rule would not hold between a pod on these cpus and another one."""
        return any(
            touched(self.machine, rule.level, cpus)
            & touched(self.machine, rule.level, self.cpus(other.container))
            for other in self.pods.values()
            for owner, about in ((pod, other), (other, pod))
            for rule in owner.rules
            if rule.is_anti and rule.app == about.app
        )

    def is_overbooked(self, *others: int) -> bool:
        """Whether more is promised on some cpus than they are, as to those who are adopted.

        `others`: cpus that count as taken, too.
        """
        grants = self.engine.grants.values()
        taken = {cpu for one in grants for cpu in one.exclusive}.union(others)
        wanted: dict[frozenset[int], int] = {}
        for one in grants:
            pool = self.engine.tree.pools[one.pool_id].sharable
            cpus = frozenset(pool if one.within is None else pool & one.within) - taken
            wanted[cpus] = wanted.get(cpus, 0) + one.shared_milli
        unions = {frozenset[int]()}
        for cpus in wanted:
            unions |= {cpus | one for one in unions}
        return any(
            sum(milli for cpus, milli in wanted.items() if cpus <= one) > 1000 * len(one)
            for one in unions
        )


class CrashesOfAll(Crashes):
    """The same, of a daemon too that dies before they are back, with its state file or without."""

    def crash(self) -> None:
        """Who runs meanwhile keeps its own cpus, and no rule between others breaks."""
        draw = self.random
        count = draw.randint(1, 6)
        crashed = draw.sample(sorted(self.pods), min(count, len(self.pods)))
        pods = [self.pods.pop(one) for one in crashed]
        for one in crashed:
            self.engine.stop(one)
        self.restart()
        self.engine.check()
        draw.shuffle(pods)
        for pod in pods:
            self.count += 1
            before, others = set(self.broken_pairs()), self.places()
            again = structs.replace(
                pod.container, id=ContainerId(f"{pod.container.id}-{self.count}")
            )
            decision = self.engine.create(again)
            self.note(f"back {again.id} {pod.app} {pod.rules} {pod.fails}", decision.result)
            own = {one: self.engine.grants[one].exclusive for one in others}
            assert own == {one: exclusive for one, (exclusive, _) in others.items()}
            if isinstance(decision.result, Grant):
                self.pods[again.id] = dataclasses.replace(pod, container=again)
            else:
                self.engine.remove(again.id)
                assert self.places() == others, "a refusal changes nobody"
            for owner, other, rule in set(self.broken_pairs()) - before:
                assert again.id in (owner, other), f"{owner} {rule} is broken by {other}"

    def places(self) -> dict[ContainerId, tuple[CpuSet, frozenset[int]]]:
        """By container the cpus that it has for itself, and all that it has."""
        grants = self.engine.grants
        return {
            one: (grants[one].exclusive, self.cpus(pod.container)) for one, pod in self.pods.items()
        }


@pytest.mark.parametrize("seed", dict.fromkeys((*SEEDS, *FOUND)))
def test_who_crashes_and_is_back_with_nobody_new_in_between_has_its_place_again(seed: int) -> None:
    Crashes(MACHINES[seed % len(MACHINES)], seed).live(LENGTH)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_daemon_that_dies_between_a_crash_and_a_return_moves_nobody(seed: int) -> None:
    CrashesOfAll(MACHINES[seed % len(MACHINES)], seed).live(LENGTH)
