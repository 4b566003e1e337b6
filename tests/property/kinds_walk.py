"""The random walk with pods of all kinds that Kubernetes and the annotations know, at once.

Beside those of the walks below: init and ephemeral containers, claimed cpus, devices, load
classes, idle cpus, annotations by central rule, rules between containers, pods that are resized,
restarts in place, moves, and looks at rules that are required during execution.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import structs

from pinfold.policy.annotations.annotation_keys import OWN_DOMAIN
from pinfold.policy.configuration.affinity_fields import AntiAffinityLimits
from pinfold.policy.configuration.annotation_rule_fields import (
    AnnotationRule,
    ContainerSelector,
    LoadClass,
    LoadLevel,
)
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.decision import Decision
from pinfold.policy.model.container import Container, ContainerId, QosClass, Resources
from pinfold.policy.model.grant import Grant, PoolId, Refusal
from pinfold.policy.model.hint import Hint, HintOrigin
from pinfold.policy.model.pinning import Pinning
from pinfold.policy.model.request import CpuType
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.property.test_pen_walk import PenWalk
from tests.property.test_rule_laws import LEVELS, Rule, touched
from tests.unit.policy.engine.ruled_pods import apart, near, prefer, term

DEVICE = "0000:3b:00.0"
RULES_KEY = f"affinity.{OWN_DOMAIN}/pod"
FAILS_KEY = f"on-unsatisfiable.{OWN_DOMAIN}/pod"
POOL_KEY = f"pool-name.{OWN_DOMAIN}/pod"
EPHEMERAL = "debugger-x7k2p"


class KindsWalk(PenWalk):
    """Pods of all kinds."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self.seen: set[tuple[str, str]] = set()
        self.is_new = False
        super().__init__(machine, seed)

    def configured(self, config: Config) -> Config:
        return msgspec.structs.replace(
            config,
            anti_affinity_limits=AntiAffinityLimits(max_blocked_cpus="100%"),
            load_classes=(
                LoadClass(name="vector", level=LoadLevel.CORE),
                LoadClass(name="cache", level=LoadLevel.L2),
                LoadClass(name="stream", level=LoadLevel.L3),
            ),
            rules=(
                AnnotationRule(
                    name="spread",
                    match=ContainerSelector(pods=("pod-1*", "pen-1")),
                    annotations={f"smt.{OWN_DOMAIN}": "spread"},
                ),
                AnnotationRule(
                    name="own cpus",
                    match=ContainerSelector(qos=(QosClass.BURSTABLE,), containers=("c2",)),
                    annotations={f"exclusive.{OWN_DOMAIN}": "request"},
                ),
            ),
        )

    def events(self) -> dict[Callable[[], None], int]:
        return {
            **super().events(),
            self.run_init_container: 4,
            self.restart_in_place: 4,
            self.resize_pod: 5,
            self.look_at_rules: 3,
            self.move: 2,
            self.forget_places: 1,
        }

    def newcomer(self) -> Container:
        container = super().newcomer()
        self.is_new = instance(container) not in self.seen
        self.seen.add(instance(container))
        return container

    def create(self) -> None:
        """Whoever is new, and not back where it was, breaks no rule that insists as it comes."""
        before = set(self.kernel)
        super().create()
        for container_id in self.kernel.keys() - before if self.is_new else ():
            if not self.is_reserved(container_id):
                self.check_arrival(container_id)

    def check_arrival(self, container_id: ContainerId) -> None:
        for rule, owner_id, other_id in self.broken_pairs():
            pen, other_pen = (self.engine.grants[one].pen for one in (owner_id, other_id))
            is_inside = pen is not None and pen == other_pen
            is_its = container_id in (owner_id, other_id) and not is_inside
            assert not is_its, f"{rule} of {owner_id} breaks by {other_id} as {container_id} comes"

    def new_container(self) -> Container:
        container = super().new_container()
        draw = self.random
        if draw.random() < 0.04:
            container = structs.replace(container, name=EPHEMERAL)
        if draw.random() < 0.2:
            node = draw.choice(self.machine.numa_nodes).id
            hint = Hint(
                provider=draw.choice((DEVICE, "0000:af:00.0", "podresourceapi:vendor.com/gpu")),
                origin=draw.choice((HintOrigin.DEVICE, HintOrigin.POD_RESOURCES, HintOrigin.CLAIM)),
                numa_nodes=NodeSet.collect((node,)),
            )
            container = structs.replace(container, hints=(hint,))
        if draw.random() < 0.04:
            count = draw.randrange(1, 3)
            cpus = CpuSet.collect(draw.sample(list(self.full.online), count))
            container = structs.replace(container, claimed=cpus)
        return container

    def annotations(self) -> dict[str, str]:
        found, draw = super().annotations(), self.random
        for key, values in (
            ("load", ("vector", "cache", "stream")),
            ("near-device", (DEVICE, "vendor.com/gpu", "0000:00:00.0")),
            ("quota", ("keep", "lift")),
            ("memory", ("interleave",)),
            ("pod-pool", ("true", "false")),
            ("group", ("red", "blue")),
            ("move", ("never",)),
            ("idle-cpus", ("l3", "numa", "socket")),
        ):
            if draw.random() < 0.06:
                found[f"{key}.{OWN_DOMAIN}/pod"] = draw.choice(values)
        if draw.random() < 0.15:
            found[RULES_KEY] = json.dumps(self.written_rules())
            if draw.random() < 0.6:
                found[FAILS_KEY] = "fail"
        if draw.random() < 0.03:
            found[POOL_KEY] = draw.choice(self.engine.tree.pools).name
        return found

    def written_rules(self) -> dict[str, Any]:
        draw = self.random
        one = term(draw.choice(LEVELS), f"app-{draw.randrange(5)}")
        shape: Callable[[dict[str, Any]], dict[str, Any]] = draw.choice(
            (
                apart,
                apart,
                near,
                lambda each: prefer(50, each),
                lambda each: prefer(50, each, is_anti=True),
            )
        )
        written = shape(one)
        if draw.random() < 0.3:
            text = json.dumps(written).replace("IgnoredDuring", "RequiredDuring")
            written = json.loads(text) if "required" in text else written
        return written

    def run_init_container(self) -> None:
        """A container that ends before others of its pod begin."""
        container = self.newcomer()
        decision = self.engine.create(container)
        self.told(decision)
        if isinstance(decision.result, Grant):
            self.running[container.id] = container
            self.kernel[container.id] = decision.pinning
            self.check()
            del self.running[container.id]
            del self.kernel[container.id]
        self.apply(self.engine.stop(container.id))
        self.apply(self.engine.remove(container.id))

    def has_firm_rules(self, container: Container) -> bool:
        """Whether rules of a container may refuse it where it ran."""
        return insists(container)

    def restart_in_place(self) -> None:
        """A container comes back to the cpus that it had, as nothing happened meanwhile."""
        if not self.running:
            return
        container_id = self.random.choice(sorted(self.running))
        container, held = self.running.pop(container_id), self.engine.grants[container_id]
        last, snapshot = self.engine.decisions[container_id], self.engine.snapshot()
        pen = None if held.pen is None else snapshot.pens[held.pen]
        # Who waits for cpus that it misses, or was told something, had no place to keep.
        is_settled = not last.degraded and not last.unmet and "runs already" not in last.decided_by
        is_settled &= min(snapshot.room.shared_milli) >= 0
        # A rule may want that others share what somebody gives back.
        held_by_all = (*snapshot.grants.values(), *snapshot.pens.values())
        is_settled &= not any(one.beside for one in held_by_all)
        # A rule of another that did not hold beside it may be met now.
        told = [text for one in self.running for text in self.engine.decisions[one].unmet]
        is_settled &= not any(container.path in text for text in told)
        del self.kernel[container_id]
        followers = self.engine.stop(container_id)
        self.apply(followers)
        self.count += 1
        again = structs.replace(container, id=ContainerId(f"{container_id}-{self.count}"))
        decision = self.engine.create(again)
        self.told(decision)
        if isinstance(decision.result, Refusal):
            self.engine.remove(again.id)
            is_refused_by_itself = self.has_firm_rules(container)
            assert is_refused_by_itself, f"no room where it was: {decision.result.reason}"
            return
        self.running[again.id], self.kernel[again.id] = again, decision.pinning
        if followers or not is_settled:
            return
        if pen is not None:
            now = self.engine.snapshot().pens.get(pen.container_id, pen).exclusive
            is_as_large = len(now) == len(pen.exclusive)
            assert now == pen.exclusive or not is_as_large, "others' cpus for its pen"
        elif container.claimed is not None or decision.result.pen is not None:
            # Of a claim, the cpus are booked that are free by now; and who was outside of its pod's
            # pen, and finds room in it, has a part of that.
            pass
        elif len(decision.result.exclusive) == len(held.exclusive):
            assert decision.result.exclusive == held.exclusive, "others' cpus for its own"

    def resize_pod(self) -> None:
        """Another size for a pod; now and then it is undone by the old one."""
        sized = [one for one in self.running.values() if one.pod.resources is not None]
        if not sized:
            return
        pod = self.random.choice(sorted(sized, key=lambda one: one.id)).pod
        size = pod.resources
        assert size is not None
        milli = 1000 * self.random.choice((1, 2, 3, 4, 6))
        limit = milli if pod.qos is QosClass.GUARANTEED else milli + 1000
        larger = structs.replace(size, cpu_request_milli=milli, cpu_limit_milli=limit)
        before = dict(self.kernel)
        self.take_size(pod, larger, before)
        if self.random.random() < 0.3:
            self.take_size(pod, size, dict(self.kernel))

    def take_size(self, pod: Any, size: Resources, before: dict[ContainerId, Pinning]) -> None:
        resized = self.engine.resize_pod(pod, size)
        if isinstance(resized, Refusal):
            now = {one: self.engine.pinning(one) for one in self.running}
            assert now == before, "a refused resize of a pod changes nothing"
            return
        self.apply(resized)
        # Whoever was driven out comes home at some event, a few at each, and may do so at this one:
        # nobody else's cpus of their own are others by that, and it comes to an end.
        held = self.held_alone()
        for _ in range(len(self.running) + 1):
            returns = self.engine.resize_pod(pod, size)
            assert not isinstance(returns, Refusal), "the size that it has is refused"
            assert self.held_alone() == held, "the same size again changes nothing"
            if not returns:
                return
            self.apply(returns)
        raise AssertionError("containers come home for ever")

    def held_alone(self) -> Mapping[ContainerId, tuple[CpuSet, CpuSet]]:
        """The cpus that containers and pens have for themselves."""
        snapshot = self.engine.snapshot()
        held = {**snapshot.grants, **snapshot.pens}
        return {key: (one.exclusive, one.rest) for key, one in held.items()}

    def look_at_rules(self) -> None:
        """Containers whose rules stopped holding are placed anew, or stay as they were."""
        for container_id in self.engine.look_at_rules():
            if container_id in self.running:
                self.take_place(self.engine.place_anew(container_id))

    def move(self) -> None:
        if not self.running:
            return
        container_id = self.random.choice(sorted(self.running))
        pool = PoolId(self.random.randrange(len(self.engine.tree.pools)))
        self.take_place(self.engine.move(container_id, pool))

    def take_place(self, decision: Decision) -> None:
        before = dict(self.kernel)
        self.told(decision)
        if isinstance(decision.result, Refusal):
            now = {one: self.engine.pinning(one) for one in self.running}
            assert now == before, "a refused move changes nothing"
        else:
            self.kernel[decision.container_id] = decision.pinning

    def restart(self) -> None:
        super().restart()
        self.forget_places()

    def forget_places(self) -> None:
        self.engine.forget_places()
        self.seen = {instance(one) for one in self.running.values()}

    def check_others(self, before: Mapping[ContainerId, Decision]) -> None:
        """Of rules that stop holding everybody is told; nothing else is decided."""
        super().check_others({})
        for container_id, was in before.items():
            now = self.engine.decisions[container_id]
            if self.engine.grants[container_id].pen is None:
                assert (now.decided_by, now.degraded) == (was.decided_by, was.degraded)

    def check(self) -> None:
        super().check()
        for container_id, container in self.running.items():
            grant = self.engine.grants[container_id]
            if container.name == EPHEMERAL:
                is_grouped = grant.pen is not None and grant.pen.startswith("group ")
                assert grant.pen is None or is_grouped, "an ephemeral container in a pod's pen"
            if container.claimed is not None:
                assert grant.cpu_type is CpuType.PRESERVE, "a claim is left alone"
                assert grant.exclusive <= container.claimed, "cpus beside its claim"
            if self.engine.lifts_quota(container_id):
                assert grant.exclusive, "no quota on cpus that others use"
        for broken in self.broken_rules():
            raise AssertionError(broken)

    def broken_rules(self) -> Iterator[str]:
        """Anti-affinity that insists, does not hold, and about which nobody is told."""
        for rule, key, other_key in self.broken_pairs():
            told = (*self.engine.decisions[key].unmet, *self.engine.decisions[other_key].unmet)
            if not any(self.running[key].path in text for text in told):
                yield f"{key} {rule} is broken by {other_key}"

    def broken_pairs(self) -> Iterator[tuple[Rule, ContainerId, ContainerId]]:
        """Anti-affinity that insists and does not hold, with its owner and another beside it.

        Whoever is in a pen is in all of it, but to the others in it.
        """
        ruled = [key for key in self.kernel if self.is_ruled(key)]
        pens = self.engine.snapshot().pens
        for key in ruled:
            owner, pen_id = self.running[key], self.engine.grants[key].pen
            rule = required_apart(owner)
            if rule is None:
                continue
            for other_key in ruled:
                other, other_pen_id = self.running[other_key], self.engine.grants[other_key].pen
                is_older = instance(other) == instance(owner)
                if is_older or other.pod.labels["app"] != rule.app:
                    continue
                places = [self.kernel[key].cpus, self.kernel[other_key].cpus]
                if pen_id != other_pen_id:
                    for index, one in enumerate((pen_id, other_pen_id)):
                        if one is not None and pens[one].exclusive:
                            places[index] = pens[one].exclusive
                mine, others = (
                    touched(self.machine, rule.level, frozenset(one or ())) for one in places
                )
                if mine & others:
                    yield rule, key, other_key

    def is_ruled(self, container_id: ContainerId) -> bool:
        """Whether rules hold for a container: it is neither exempt nor in a pen."""
        if self.engine.grants[container_id].cpu_type not in (CpuType.NORMAL, CpuType.PEN):
            return False
        return self.running[container_id].pod.namespace != "kube-system"


def instance(container: Container) -> tuple[str, str]:
    """What the instances of one container have in common."""
    return (container.pod.id, container.name)


def said_of(container: Container, key: str) -> str | None:
    """What the annotations say of a container, given the key for its pod."""
    annotations = container.pod.annotations
    own = f"{key.removesuffix('/pod')}/container.{container.name}"
    return annotations.get(own, annotations.get(key))


def insists(container: Container) -> bool:
    """Whether a container says that its rules are to refuse it where they do not hold."""
    return None not in (said_of(container, RULES_KEY), said_of(container, FAILS_KEY))


def required_apart(container: Container) -> Rule | None:
    """The anti-affinity that a container insists on."""
    if not insists(container):
        return None
    written = json.loads(said_of(container, RULES_KEY) or "").get("podAntiAffinity", {})
    for key, terms in written.items():
        if key.startswith("required"):
            (one,) = terms
            app = one["labelSelector"]["matchLabels"]["app"]
            return Rule(one["topologyKey"], app, True)
    return None
