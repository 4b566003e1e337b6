"""A random walk with rules, pools by name and reloads.

What is looked at is what the kernel is told, and the labels of pods as they were written.
"""

import dataclasses
from collections.abc import Iterator

import pytest
from msgspec import structs

from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.grant import Refusal
from tests.property import test_rule_laws as laws

RESERVED = ("cpuset:0", "cpuset:0-3", "cpuset:4-7", "cpuset:2-5", "cpuset:1,3", "750m")
LIMITS = {"maxBlockedCPUs": "100%"}


class World(laws.World):
    """The world of the laws; some pods name a pool, and a reload may reserve other cpus."""

    def __init__(
        self,
        seed: int,
        *,
        has_pools: bool,
        has_reloads: bool,
        is_lasting: bool = False,
        uses_idle: bool = False,
        has_pens: bool = False,
    ) -> None:
        self.has_pens = has_pens
        self.has_pools, self.has_reloads = has_pools, has_reloads
        self.is_lasting, self.uses_idle = is_lasting, uses_idle
        self.reserved = RESERVED[0]
        super().__init__(laws.MACHINES[seed % len(laws.MACHINES)], seed)

    def new_engine(self) -> Engine:
        self.reserved = RESERVED[0]
        return super().new_engine()

    def new_pod(self) -> laws.Pod:
        pod = super().new_pod()
        if self.is_lasting:
            own = pod.container.pod
            told = {
                key: text.replace("IgnoredDuring", "RequiredDuring")
                for key, text in own.annotations.items()
            }
            own = structs.replace(own, annotations=told)
            pod = dataclasses.replace(pod, container=structs.replace(pod.container, pod=own))
        if self.uses_idle:
            pod = self.with_idle_cpus(pod)
        if self.has_pens and self.random.random() < 0.5:
            own = pod.container.pod
            told = {**own.annotations, "pod-pool.pinfold.dev/pod": "true"}
            own = structs.replace(own, annotations=told)
            pod = dataclasses.replace(pod, container=structs.replace(pod.container, pod=own))
        if not self.has_pools or self.random.random() >= 0.25:
            return pod
        own = pod.container.pod
        name = self.random.choice(self.engine.tree.pools).name
        told = {**own.annotations, "pool-name.pinfold.dev/pod": name}
        own = structs.replace(own, annotations=told)
        return dataclasses.replace(pod, container=structs.replace(pod.container, pod=own))

    def with_idle_cpus(self, pod: laws.Pod) -> laws.Pod:
        """A pod that may use idle cpus; some of them no rule is about."""
        container = pod.container
        told = {**container.pod.annotations}
        told["idle-cpus.pinfold.dev/pod"] = self.random.choice(("l3", "numa", "socket"))
        labels = container.pod.labels
        if self.random.random() < 0.4:
            told.pop("affinity.pinfold.dev/pod", None)
            labels, pod = {"app": "nobody"}, dataclasses.replace(pod, app="nobody", rules=())
        milli = container.resources.cpu_request_milli
        limited = structs.replace(container.resources, cpu_limit_milli=milli + 100)
        own = structs.replace(container.pod, annotations=told, labels=labels)
        container = structs.replace(container, pod=own, resources=limited)
        return dataclasses.replace(pod, container=container)

    def step(self) -> None:
        kinds = (self.create, self.stop, self.crash, self.resize, self.restart, self.reload)
        self.random.choices(kinds, (50, 25, 5, 15, 5, 4))[0]()
        self.engine.check()
        self.replace()
        for broken in (*self.untold_pools(), *self.shared_cpus(), *self.broken()):
            raise AssertionError(broken)

    def replace(self) -> None:
        """Containers whose rules do not hold any more are placed anew, or stay as they were."""
        for one in self.engine.look_at_rules() if self.is_lasting else ():
            # Those before may have made room for it, or come too near.
            texts = self.engine.look_at_rules()[one]
            if not texts:
                continue
            assert set(texts) <= set(self.engine.decisions[one].unmet), "what is broken is told"
            before = {each: self.cpus(pod.container) for each, pod in self.pods.items()}
            decision = self.engine.place_anew(one)
            self.engine.check()
            self.note(f"replace {one}", decision.result)
            if isinstance(decision.result, Refusal):
                after = {each: self.cpus(pod.container) for each, pod in self.pods.items()}
                assert after == before, "a refusal changes nobody"
            else:
                left = self.engine.decisions[one].unmet
                assert not set(texts) <= set(left), "whoever is moved has more of its rules met"

    def restart(self) -> None:
        if self.reserved == RESERVED[0]:
            super().restart()

    def reload(self) -> None:
        if not self.has_reloads:
            return
        self.reserved = self.random.choice(RESERVED)
        values = {"reservedResources": {"cpu": self.reserved}, "antiAffinityLimits": LIMITS}
        self.engine, _ = self.engine.reconfigured(config_from_values(values))
        self.note(f"reload {self.reserved}", None)

    def shared_cpus(self) -> Iterator[str]:
        for one in self.pods:
            own = frozenset(self.engine.grants[one].exclusive)
            for other, pod in self.pods.items():
                if other != one and own & self.cpus(pod.container):
                    yield f"{other} runs on cpus that {one} has for itself"

    def untold_pools(self) -> Iterator[str]:
        for one, pod in self.pods.items():
            name = pod.container.pod.annotations.get("pool-name.pinfold.dev/pod")
            told = self.engine.decisions[one].unmet
            if name is None or not pod.fails or any("pool-name" in text for text in told):
                continue
            pools = [pool for pool in self.engine.tree.pools if pool.name == name]
            if not any(self.cpus(pod.container) <= frozenset(pool.cpus) for pool in pools):
                yield f"{one} is outside of {name}, and nobody says so"

    def is_told(self, owner: laws.Pod, other: laws.Pod) -> bool:
        return any(
            owner.container.path in text
            for one in (owner, other)
            for text in self.engine.decisions[one.container.id].unmet
        )


def walked(seed: int, **kinds: bool) -> None:
    world = World(seed, **kinds)
    try:
        for _ in range(50):
            world.step()
    except AssertionError:
        print(*world.history[-6:], sep="\n")
        raise


@pytest.mark.parametrize("seed", range(1001, 1041))
def test_rules_between_containers_hold_or_are_told(seed: int) -> None:
    """Holds for 200 seeds."""
    walked(seed, has_pools=False, has_reloads=False)


@pytest.mark.parametrize("seed", [3012, 3016, 3023, 3031, 3044, 3055, 3060, 3071, 3072, 3073])
def test_rules_hold_or_are_told_where_pods_have_pens(seed: int) -> None:
    """Holds for the 120 seeds from 3000."""
    walked(seed, has_pools=False, has_reloads=False, has_pens=True)


@pytest.mark.parametrize("seed", range(2001, 2016))
def test_rules_hold_or_are_told_where_everybody_may_use_idle_cpus(seed: int) -> None:
    """Holds for 200 seeds."""
    walked(seed, has_pools=seed % 2 > 0, has_reloads=seed % 3 == 0, uses_idle=True)


@pytest.mark.parametrize(
    "seed",
    [1016, 1084, 1183],
)
def test_rules_about_pools_hold_or_are_told(seed: int) -> None:
    walked(seed, has_pools=True, has_reloads=False)


@pytest.mark.parametrize("seed", [3003, 3016, 3036, 3104, 3136, 3366])
def test_rules_hold_or_are_told_after_reloads(seed: int) -> None:
    walked(seed, has_pools=False, has_reloads=True)


@pytest.mark.parametrize("seed", [8020])
def test_rules_of_all_kinds_hold_or_are_told_after_reloads(seed: int) -> None:
    walked(seed, has_pools=True, has_reloads=True, is_lasting=True)


@pytest.mark.parametrize("seed", [*range(4001, 4031), 7062])
def test_rules_required_during_execution_hold_or_are_told(seed: int) -> None:
    walked(seed, has_pools=False, has_reloads=seed % 2 == 0, is_lasting=True)
