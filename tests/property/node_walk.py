"""The random walk of pods of all kinds on a node that is looked after.

Beside those of the walks below: configurations with profiles, racks, resource sets and labels of
pools, daemons that are away for a while, runtimes that list everything or create a container
again, and plans of moves that are carried out.
"""

from collections.abc import Callable, Mapping

from msgspec import structs

from pinfold.policy.configuration.affinity_fields import (
    AddedAffinity,
    LabelSelectorFields,
    PodAffinityFields,
    Profile,
    Rack,
    RackLevel,
    ReplicaAntiAffinity,
    ReplicaLevel,
    TermFields,
)
from pinfold.policy.configuration.config import Config, PoolLabels
from pinfold.policy.engine.adoption import Advice
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.rebalance.plan import RebalanceBudget, rebalance
from pinfold.policy.engine.snapshot import Snapshot
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId
from pinfold.policy.model.grant import Grant, PoolId
from pinfold.policy.model.pinning import Pinning
from pinfold.policy.rules.podaffinity.configured_rules import RACK_LABEL, RESOURCE_SET_LABEL
from pinfold.topology.sets.cpuset import CpuSet
from tests.property.kinds_walk import FAILS_KEY, RULES_KEY, KindsWalk
from tests.property.test_rule_laws import LEVELS

RACKS = ("north", "south")


class NodeWalk(KindsWalk):
    """Pods of all kinds, and somebody who looks after their node."""

    def configured(self, config: Config) -> Config:
        draw = self.random
        config = super().configured(config)
        if draw.random() < 0.4:
            return config
        profiles = tuple(self.new_profile(number) for number in range(draw.randrange(3)))
        racks = {
            name: structs.replace(Rack(), **{draw.choice(("socket", "numa", "l3")): self.rack()})
            for name in RACKS[: draw.randrange(3)]
        }
        replicas = ReplicaLevel(enabled=True, required=draw.random() < 0.5)
        labels = PoolLabels(pool=draw.choice(("NUMA*", "socket*", "*")), labels={"tier": "fast"})
        return structs.replace(
            config,
            profiles=profiles,
            racks=racks,
            anti_affinity=structs.replace(ReplicaAntiAffinity(), **{draw.choice(LEVELS): replicas}),
            pool_labels=(labels,) if draw.random() < 0.5 else (),
            symmetric_affinity=draw.random() < 0.3,
            prefer_shared_cpus=draw.random() < 0.2,
            colocate_pods=draw.random() < 0.2,
        )

    def new_profile(self, number: int) -> Profile:
        draw = self.random
        term = TermFields(
            topology_key=draw.choice(LEVELS),
            label_selector=LabelSelectorFields(match_labels={"app": f"app-{draw.randrange(5)}"}),
        )
        rules = PodAffinityFields(required_during_scheduling_ignored_during_execution=(term,))
        is_anti = draw.random() < 0.7
        return Profile(
            name=f"profile-{number}",
            label_selector=LabelSelectorFields(match_labels={"app": f"app-{draw.randrange(5)}"}),
            added_affinity=AddedAffinity(
                pod_affinity=None if is_anti else rules,
                pod_anti_affinity=rules if is_anti else None,
            ),
        )

    def rack(self) -> RackLevel:
        draw = self.random
        return RackLevel(
            enabled=True,
            require_rack_affinity=draw.random() < 0.5,
            require_rack_anti_affinity=draw.random() < 0.7,
            enable_core_anti_affinity=draw.random() < 0.3,
        )

    def events(self) -> dict[Callable[[], None], int]:
        return {
            **super().events(),
            self.be_away: 3,
            self.create_again: 2,
            self.rebalance: 1,
        }

    def new_container(self) -> Container:
        container, draw = super().new_container(), self.random
        pod = container.pod
        if pod.id.startswith("pen-"):
            # Its labels are those of its other containers.
            return container
        labels = dict(pod.labels)
        if draw.random() < 0.1:
            labels[RACK_LABEL] = draw.choice(RACKS)
        if draw.random() < 0.1:
            labels[RESOURCE_SET_LABEL] = draw.choice(("db", "web"))
        return structs.replace(container, pod=structs.replace(pod, labels=labels))

    def new_pod(self, pod_id: str) -> Pod:
        pod, draw = super().new_pod(pod_id), self.random
        if draw.random() < 0.2:
            labels = {**pod.labels, RACK_LABEL: draw.choice(RACKS)}
            return structs.replace(pod, labels=labels)
        return pod

    def be_away(self) -> None:
        """Nobody is told of what ends and begins meanwhile; then the runtime lists what runs."""
        draw, before, kernel = self.random, self.engine.snapshot(), dict(self.kernel)
        gone = [one for one in sorted(self.running) if draw.random() < 0.15]
        for container_id in gone:
            del self.running[container_id]
            del self.kernel[container_id]
        strangers: dict[ContainerId, Container] = {}
        for _ in range(draw.choice((0, 0, 1, 2))):
            # Known at once to the walk, so that another of its pod has the same pod.
            one = structs.replace(self.newcomer(), cpus=self.runs_anywhere())
            strangers[one.id] = self.running[one.id] = one
            self.kernel[one.id] = Pinning()
        strangers = {key: one for key, one in strangers.items() if key in self.running}
        stayed = {
            key: structs.replace(one, cpus=kernel[key].cpus, mems=kernel[key].mems)
            for key, one in self.running.items()
            if key not in strangers
        }
        advice: Mapping[ContainerId, Advice] = before.advice()
        if draw.random() < 0.5:
            # The daemon restarted; else the runtime did.
            self.engine = Engine(self.machine, self.config)
            advice = advice if draw.random() < 0.6 else {}
        listed = [*stayed.values(), *strangers.values()]
        draw.shuffle(listed)
        adopted = self.engine.synchronize(listed, advice)
        assert not adopted.faults
        assert len(adopted.decisions) == len(listed)
        for change in adopted.changes:
            if change.container_id in stayed:
                assert change.before == kernel[change.container_id]
        self.kernel = {key: self.engine.pinning(key) or kernel[key] for key in self.running}
        self.engine.check()
        self.forget_places()
        if advice:
            self.check_kept(before, strangers)
            # Who misses cpus of its own has them where somebody left.
            is_waiting = any(before.decisions[one].degraded for one in stayed)
            assert strangers or is_waiting or not adopted.changes, "a restart moves nobody"

    def check_kept(self, before: Snapshot, strangers: Mapping[ContainerId, Container]) -> None:
        """Whoever had cpus of its own has them still, however others began meanwhile."""
        now = self.engine.snapshot()
        seized, pods, entered = 0, set[PodId](), set[ContainerId | None]()
        for container_id, one in strangers.items():
            grant = now.grants[container_id]
            entered.add(grant.pen)
            pods.add(one.pod.id)
            # Of a driver's claim no cpuset tells, and a stranger may run where one is.
            seized |= (grant if grant.pen is None else now.pens[grant.pen]).exclusive.mask
        for key, was in before.grants.items():
            # With a stranger a pod may be one with a pen, and who misses cpus may have them by now.
            is_other = key in now.grants and self.running[key].pod.id in pods
            if key not in now.grants or is_other or before.decisions[key].degraded:
                continue
            if was.pen is None and not was.exclusive.mask & seized:
                assert now.grants[key].exclusive == was.exclusive, f"{key} had {was.exclusive}"
                if was.exclusive and not was.has_shared_part:
                    # Memory that it was lent goes back as with every event.
                    assert self.kernel[key].cpus == before.pinnings[key].cpus, f"{key} is moved"
        for pen_id, pen in before.pens.items():
            members = {key for key, one in before.grants.items() if one.pen == pen_id}
            # One that shares is placed anew where a driver claims some of its cpus.
            is_whole = members <= now.grants.keys() and pen_id not in entered
            if pen.exclusive and is_whole:
                assert now.pens[pen_id].exclusive == pen.exclusive, f"{pen_id} had {pen.exclusive}"

    def runs_anywhere(self) -> CpuSet | None:
        """Cpus of a container that began while nobody looked."""
        draw, cpus = self.random, list(self.machine.online)
        if draw.random() < 0.4:
            return draw.choice((None, self.machine.online))
        return CpuSet.collect(draw.sample(cpus, draw.randrange(1, min(4, len(cpus)) + 1)))

    def create_again(self) -> None:
        """A runtime that did not hear the answer creates the same container once more."""
        if not self.running:
            return
        container_id = self.random.choice(sorted(self.running))
        container = self.running.pop(container_id)
        del self.kernel[container_id]
        decision = self.engine.create(container)
        self.told(decision)
        if not isinstance(decision.result, Grant):
            self.engine.remove(container_id)
            is_refused_by_itself = {RULES_KEY, FAILS_KEY} <= container.pod.annotations.keys()
            assert is_refused_by_itself, f"no room where it was: {decision.result.reason}"
            return
        self.running[container_id], self.kernel[container_id] = container, decision.pinning

    def rebalance(self) -> None:
        """A plan of moves does what it says, step by step."""
        budget = RebalanceBudget(
            moves=3, moves_exclusive=self.random.random() < 0.5, search_steps=300
        )
        plan = rebalance(self.engine.snapshot(), budget)
        # What a rule costs that is mended is no matter; beyond that the score never falls.
        mending = sum(move.gain for move in plan.moves if move.mends)
        assert plan.score_after >= plan.score + mending
        for move in plan.moves:
            decision = self.engine.move(move.container.id, PoolId(move.pool_id))
            assert isinstance(decision.result, Grant), f"a planned move: {decision.result.reason}"
            self.take_place(decision)
            assert decision.pool == move.after.pool
            if decision.pinning.cpus is not None:
                assert decision.pinning.cpus == move.after.cpus
            self.check()
