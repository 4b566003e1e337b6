"""The random walk of pods of all kinds on a node that is looked after.

Beside those of the walks below: configurations with profiles, racks, resource sets and labels of
pools, annotations for single containers of a pod, huge pages, volumes, daemons that are away for a
while, runtimes that list everything or create a container again, and plans of moves that are
carried out.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping

from msgspec import structs

from pinfold.policy.annotations.annotation_keys import RACK_LABEL, RESOURCE_SET_LABEL
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
from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.rebalance.plan import RebalanceBudget, rebalance
from pinfold.policy.engine.replacing.unmet_names import unmet_after
from pinfold.policy.engine.snapshot import Snapshot
from pinfold.policy.model.container import (
    Container,
    ContainerId,
    Pod,
    PodId,
    QosClass,
    Resources,
)
from pinfold.policy.model.grant import Grant
from pinfold.policy.model.hint import Hint, HintOrigin
from pinfold.policy.model.pinning import Pinning
from pinfold.policy.model.request import CpuType
from pinfold.policy.pens.pen_name import pod_pen
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.property.kinds_walk import FAILS_KEY, KindsWalk, insists, said_of
from tests.property.test_engine_walk import PREFIX
from tests.property.test_rule_laws import LEVELS
from tests.unit.policy.engine.rebalance.made_moves import made

RACKS = ("north", "south")
PAGE = 2 * 2**20
"""Bytes of a huge page."""
PAGES = 64
"""Of every memory node."""


class NodeWalk(KindsWalk):
    """Pods of all kinds, and somebody who looks after their node."""

    def __init__(self, machine: Machine, seed: int) -> None:
        nodes = tuple(
            dataclasses.replace(one, hugepages={PAGE: PAGES}) if one.memory_bytes else one
            for one in machine.numa_nodes
        )
        super().__init__(dataclasses.replace(machine, numa_nodes=nodes), seed)

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
        if draw.random() < 0.1:
            container = structs.replace(container, hints=(*container.hints, self.volume()))
        if pod.id.startswith("pen-"):
            # Its labels are those of its other containers.
            return container
        labels = dict(pod.labels)
        if draw.random() < 0.1:
            labels[RACK_LABEL] = draw.choice(RACKS)
        if draw.random() < 0.1:
            labels[RESOURCE_SET_LABEL] = draw.choice(("db", "web"))
        return structs.replace(container, pod=structs.replace(pod, labels=labels))

    def annotations(self) -> dict[str, str]:
        """Some are for single containers, alone or beside those for the others of the pod."""
        found, draw = super().annotations(), self.random
        for key, values in (
            (f"topologyhints.{PREFIX}", ("true", "false", "mounts,devices", "none")),
            (f"strict.topologyhints.{PREFIX}", ("true", "false")),
            (f"pick-resources-by-hints.{PREFIX}", ("true", "false")),
        ):
            if draw.random() < 0.05:
                found[f"{key}/pod"] = draw.choice(values)
        for key in [one for one in found if one.endswith("/pod") and draw.random() < 0.3]:
            own = f"{key.removesuffix('/pod')}/container.c{draw.randrange(4)}"
            found[own] = found[key]
            if draw.random() < 0.6:
                del found[key]
        other = super().annotations() if draw.random() < 0.2 else {}
        for key in [one for one in other if one.endswith("/pod")]:
            found[f"{key.removesuffix('/pod')}/container.c{draw.randrange(4)}"] = other[key]
        return found

    def is_reserved(self, container_id: ContainerId) -> bool:
        container = self.running[container_id]
        asks = said_of(container, f"prefer-reserved-cpus.{PREFIX}/pod")
        return container.pod.namespace == "kube-system" if asks is None else asks == "true"

    def resources(self, qos: QosClass) -> Resources:
        found, draw = super().resources(qos), self.random
        if qos is QosClass.BEST_EFFORT or draw.random() < 0.8:
            return found
        pages = draw.choice((1, PAGES // 4, PAGES // 2, PAGES, PAGES + 1))
        return structs.replace(found, hugepage_bytes={PAGE: pages * PAGE})

    def has_firm_rules(self, container: Container) -> bool:
        """It may have rules by the configuration, too."""
        config = self.config
        has_more = config.profiles or config.racks or config.anti_affinity != ReplicaAntiAffinity()
        return insists(container) or bool(has_more and said_of(container, FAILS_KEY))

    def check_spread(self, container: Container, pinning: Pinning) -> None:
        """Strict hints keep the memory of whom nobody limits near as well, or near its devices."""
        is_picked = said_of(container, f"pick-resources-by-hints.{PREFIX}/pod") == "true"
        has_devices = any(one.origin is HintOrigin.POD_RESOURCES for one in container.hints)
        if not (self.engine.grants[container.id].is_strict or (is_picked and has_devices)):
            super().check_spread(container, pinning)

    def check_arrival(self, container_id: ContainerId) -> None:
        """Whoever is new has its huge pages, too, if nobody else had any."""
        super().check_arrival(container_id)
        asked = self.running[container_id].resources.hugepage_bytes.get(PAGE, 0)
        mems, grant = self.kernel[container_id].mems, self.engine.grants[container_id]
        if asked and mems is not None and grant.pen is None and not grant.preserve_memory:
            found = sum(
                one.hugepages.get(PAGE, 0) for one in self.machine.numa_nodes if one.id in mems
            )
            assert PAGE * found >= asked, f"{container_id} has {found} huge pages on {mems}"

    def new_pod(self, pod_id: str) -> Pod:
        pod, draw = super().new_pod(pod_id), self.random
        if pod.resources is not None and draw.random() < 0.15:
            pages = {PAGE: PAGE * draw.choice((1, PAGES // 2))}
            size = structs.replace(pod.resources, hugepage_bytes=pages)
            pod = structs.replace(pod, resources=size)
        if draw.random() < 0.2:
            labels = {**pod.labels, RACK_LABEL: draw.choice(RACKS)}
            return structs.replace(pod, labels=labels)
        return pod

    def volume(self) -> Hint:
        """The hint of a volume on some device, near some cpus, a NUMA node or a socket."""
        draw, node = self.random, self.random.choice(self.machine.numa_nodes)
        kind, socket = draw.randrange(3), draw.randrange(len(self.machine.sockets))
        path = f"/var/lib/volume-{draw.randrange(3)}"
        hint = Hint(provider="0000:5e:00.0", origin=HintOrigin.MOUNT, path=path)
        return (
            dataclasses.replace(hint, cpus=node.cpus),
            dataclasses.replace(hint, numa_nodes=NodeSet.of(node.id)),
            dataclasses.replace(hint, sockets=(socket,)),
        )[kind]

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
            is_waiting = any(
                before.decisions[one].degraded or self.is_lent(before, one) for one in stayed
            )
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
            if self.is_lent(before, key):
                # It is placed where somebody left, with what it asks for.
                continue
            if was.pen is None and not was.exclusive.mask & seized:
                assert now.grants[key].exclusive == was.exclusive, f"{key} had {was.exclusive}"
                if was.exclusive and not was.has_shared_part:
                    # Memory that it was lent goes back as with every event.
                    assert self.kernel[key].cpus == before.pinnings[key].cpus, f"{key} is moved"
        for pen_id, pen in before.pens.items():
            members = {key for key, one in before.grants.items() if one.pen == pen_id}
            if pen.exclusive and members <= now.grants.keys() and pen_id not in entered:
                assert now.pens[pen_id].exclusive == pen.exclusive, f"{pen_id} had {pen.exclusive}"
            for key in members & now.grants.keys():
                self.check_pod(before, now, key)
        self.check_shares(before, now, seized, pods, entered)

    def check_pod(self, before: Snapshot, now: Snapshot, key: ContainerId) -> None:
        """A pod keeps the cpus it asks for, whoever of it has ended or begun meanwhile."""
        pod, pen = self.running[key].pod, before.grants[key].pen
        size = before.pod_size_of(key) or pod.resources
        if size and pen and pen == pod_pen(pod).id and (had := before.pens[pen].exclusive):
            has = now.pens[pen].exclusive
            assert has == had or (has <= had and 1000 * len(has) >= size.cpu_request_milli), pen

    def is_lent(self, before: Snapshot, key: ContainerId) -> bool:
        """Whether a container was only lent the reserved cpus, as no others were left."""
        told, grant = before.pinnings[key].cpus, before.grants[key]
        if told is None or grant.exclusive or grant.cpu_type is not CpuType.NORMAL:
            return False
        return told <= self.engine.tree.root.reserved

    def check_shares(
        self,
        before: Snapshot,
        now: Snapshot,
        seized: int,
        pods: Collection[PodId],
        entered: Collection[ContainerId | None],
    ) -> None:
        """Whoever shared cpus stays on those that are left of them, if its pool has room for it.

        `seized`: the cpus that who began meanwhile has. `pods`: those of which somebody did;
        `entered`: pens into which somebody came, as another pool may have room for all.
        """
        taken = seized | self.taken_anew(before, now, seized)
        for key, was in before.grants.items():
            told = before.pinnings[key].cpus
            if key not in now.grants or self.running[key].pod.id in pods or told is None:
                continue
            held = was if was.pen is None else before.pens[was.pen]
            pool = self.engine.tree.pools[held.pool_id]
            is_share = held.cpu_type is CpuType.NORMAL and not held.exclusive
            is_share &= told <= pool.sharable
            if not is_share or before.decisions[key].degraded or not told.mask & ~seized:
                continue
            if now.grants[key].pen is not None and now.grants[key].pen in entered:
                continue
            room, after = now.room.grantable_milli[held.pool_id], now.pinnings[key].cpus
            is_room = not held.shared_milli or room >= held.shared_milli
            left = told.mask & ~(seized if held.shared_milli else taken)
            if not left:
                # It asks for nothing, and others were placed anew on all that it had.
                continue
            if held.hide_hyperthreads or was.hide_hyperthreads:
                # Of a core of which it has a thread it may be shown another one.
                left = sum(one.mask for one in self.machine.cores if one.mask & left)
            # Where one that is placed needs its room, it is lifted to a wider pool on the same.
            stays = after is None or after.mask & left
            assert stays or not is_room, f"{key} was on {told} in {pool.name}"

    def taken_anew(self, before: Snapshot, now: Snapshot, seized: int) -> int:
        """The cpus that who shared seized ones, and cannot any more, has for itself instead."""
        held = {**before.grants, **before.pens}
        members = {one.pen: key for key, one in before.grants.items() if one.pen is not None}
        taken = 0
        for key, one in {**now.grants, **now.pens}.items():
            told = before.pinnings.get(members.get(key, key), Pinning()).cpus
            is_driven = key in held and not held[key].exclusive
            if is_driven and told is not None and told.mask & seized:
                taken |= one.exclusive.mask
        return taken

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
            is_refused_by_itself = self.has_firm_rules(container)
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
        mending = sum(move.gain for move in plan.moves if move.mends or move.awaited)
        assert plan.score_after >= plan.score + mending
        for move in plan.moves:
            decision = made(move, self.engine)
            assert isinstance(decision.result, Grant), f"a planned move: {decision.result.reason}"
            self.take_place(decision)
            # Whoever comes after it is told first that its rule does not hold, as on a node.
            unmet_after(self.engine, move.container.id)
            assert decision.pool == move.after.pool
            if decision.pinning.cpus is not None:
                assert decision.pinning.cpus == move.after.cpus
            self.check()
