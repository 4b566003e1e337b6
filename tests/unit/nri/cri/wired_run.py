"""A scenario over a wire, step by step."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from pinfold.cmd.daemon.moves.rule_watch import RULES_SECONDS, RuleWatch
from pinfold.cmd.state.saved_states import SavedStates
from pinfold.nri.api import nri_pb2
from pinfold.nri.dispatch.front import Front
from pinfold.nri.embedded.embedded_runtime import RequestError
from pinfold.nri.embedded.kubelet import resources_message
from pinfold.nri.hints.combined_hints import CombinedHints
from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.reason import reason_of
from pinfold.policy.hints.hint_text import TEST_APIS
from pinfold.policy.manifests.pod_spec import PodSpec
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.criterion_words import moved_text
from pinfold.policy.model.grant import Dropped, GrantKind
from pinfold.policy.model.kubelet_resources import linux_resources
from pinfold.policy.model.pinning import Pinning
from pinfold.policy.placing.rank import Rank
from pinfold.policy.scenarios.step import (
    AddContainer,
    CreatePod,
    DeletePods,
    EndContainer,
    Expect,
    Reconfigure,
    Remember,
    SetInterrupts,
    SetOnline,
    Start,
    Step,
    Stop,
    Synchronize,
    UnsupportedStep,
    UpdateContainer,
    UpdatePod,
    Wait,
)
from pinfold.policy.tuning.interrupts import Interrupt
from pinfold.topology.made.online_cpus import with_online
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.base_errors import PinfoldError
from pinfold.topology.sets.cpuset import NodeSet
from pinfold.topology.sysfs.overrides import override_machine, parse_overrides
from tests.scenarios.device_node import DeviceNode, PatientFinder
from tests.unit.nri.cri.wires import SECONDS, Started, Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a container came to, in words that every way of running it has.

    Without notes: they tell of others, and a simulation makes them when all of them are there.
    """

    pool: str
    cpus: str
    mems: str
    exclusive: str
    decided_by: str
    reason: str
    kind: GrantKind | None
    unmet: tuple[str, ...]
    candidates: tuple[Rank | Dropped, ...]
    """By pool, what spoke for it or against it."""
    moved: tuple[tuple[str, Pinning, Pinning], ...]
    """Whose pinning the decision changed, by path: from what to what."""


class WiredRun:
    """One scenario on its way over a wire: `take` a step, then see the `places`."""

    def __init__(
        self, wire: Wire, machine: Machine, config: Config, devices: DeviceNode | None = None
    ) -> None:
        self.wire = wire
        self._devices = devices
        self._finder: CombinedHints | PatientFinder | None = None
        self.refused: dict[str, str] = {}
        self._machine = self._whole = machine
        self._config = config
        self._pods: dict[tuple[str, str], tuple[PodSpec, str]] = {}
        self._running: dict[str, Started] = {}
        self._advice: Mapping[ContainerId, Advice] = {}
        self._interrupts: tuple[Interrupt, ...] = ()
        self._has_test_hints = False
        self._is_start_spoilt = False
        self._paths: dict[ContainerId, str] = {}
        self._now_ns = 0
        self._seconds = 0.0
        self._watch: RuleWatch | None = None
        self._cold_until_ns: dict[ContainerId, int] = {}

    def take(self, step: Step) -> None:
        """Do what a step says."""
        match step:
            case Start():
                self._start(step)
            case Stop():
                self._stop()
            case Reconfigure():
                self._reconfigure(step)
            case CreatePod():
                self._create_pod(step.pod)
            case AddContainer():
                pod, pod_id = self._pods[step.namespace, step.pod]
                self._create(Started(pod=pod, spec=step.container, pod_id=pod_id, id=""))
            case DeletePods():
                names = [name for space, name in self._pods if space == step.namespace]
                for name in names if step.names is None else step.names:
                    self._delete_pod(step.namespace, name)
            case EndContainer():
                self._end(step)
            case UpdateContainer():
                self._update(step)
            case UpdatePod():
                pod, pod_id = self._pods[step.namespace, step.pod]
                size = linux_resources(step.resources, pod.qos, None)
                with suppress(RequestError):
                    self.wire.update_pod(pod_id, resources_message(size))
            case SetInterrupts():
                self._interrupts = tuple(
                    Interrupt(number=number, description=text, affinity=step.affinity)
                    for number, text in step.descriptions.items()
                )
                self._front().events.policy.interrupts = self._interrupts
            case SetOnline():
                self._machine = with_online(self._whole, step.cpus)
                if self.wire.front is not None:
                    self.wire.front.owner.ask("online", self._look_at_cpus)
            case Wait():
                self._wait(step.nanoseconds)
            case UnsupportedStep():
                self._is_start_spoilt |= step.spoils_start
            case Synchronize():
                instances = sorted(step.instances, key=lambda one: one.created_at)
                attempts = {one.id: number for number, one in enumerate(instances)}
                self.wire.come_back(attempts, lambda: self._list_instances(step))
            case Expect() | Remember():
                pass
        if self.wire.front is not None:
            assert self.wire.front.settle(SECONDS)

    def places(self) -> dict[str, Place]:
        """Where the containers that run are, by path; while no policy runs nobody says."""
        if self.wire.front is None:
            return {}
        front = self.wire.front
        now = front.owner.ask("places", lambda: front.events.policy.snapshot())
        # Decisions name containers that may be gone by now.
        self._paths |= {one: container.path for one, container in now.containers.items()}
        found: dict[str, Place] = {}
        for container_id, grant in now.grants.items():
            container, decision = now.containers[container_id], now.decisions[container_id]
            kernel = self.wire.runtime.kernel[container.shown_id]
            pool = now.tree.pools[grant.pool_id].name
            is_moved = decision.pool != pool
            found[container.path] = Place(
                pool=pool,
                cpus=kernel.cpus or str(self._machine.online),
                mems=kernel.mems or str(_all_memory(self._machine)),
                exclusive=str(grant.exclusive),
                decided_by=decision.decided_by,
                reason=moved_text(decision.pool, pool) if is_moved else reason_of(decision),
                kind=grant.kind,
                unmet=decision.unmet,
                candidates=decision.candidates,
                moved=tuple(
                    (self._paths[one.container_id], one.before, one.after)
                    for one in decision.changes
                ),
            )
        return found

    def _front(self) -> Front:
        assert self.wire.front is not None, "the policy does not run"
        return self.wire.front

    def _start(self, step: Start) -> None:
        if self._is_start_spoilt:
            self._is_start_spoilt = False
            return
        with suppress(PinfoldError):
            self._begin(step)

    def _begin(self, step: Start) -> None:
        config = self._config if step.config is None else config_from_values(step.config)
        if step.environment:
            self._has_test_hints = bool(step.environment.get(TEST_APIS))
            self._whole = override_machine(self._whole, parse_overrides(step.environment))
            self._machine = with_online(self._whole, self._machine.online)
        engine = Engine(self._machine, config, interrupts=self._interrupts)
        self._finder = CombinedHints(has_test_hints=self._has_test_hints)
        if self._devices is not None:
            self._devices.managers = step.managers
            self._finder = self._devices.finder(step.environment)
        self.wire.begin(engine, self._advice, self._finder)
        self._watch = RuleWatch(self._front(), self.wire.happenings.append, lambda: self._seconds)
        self._front().events.foreign_pins.kubelet_pins = step.managers.pins_cpus

    def _look_at_cpus(self) -> None:
        self._front().events.reconfigure(machine=self._machine)

    def _reconfigure(self, step: Reconfigure) -> None:
        front = self._front()

        def reconfigure() -> None:
            with suppress(PinfoldError):
                front.events.reconfigure(config_from_values(step.config))

        front.owner.ask("reconfigure", reconfigure)

    def _stop(self) -> None:
        front = self.wire.front
        if front is None:
            return
        snapshot = front.owner.ask("state", lambda: front.events.policy.snapshot())
        # As the state file keeps it: under the runtime's ids.
        self._advice = SavedStates().of(snapshot).advice()
        self.wire.end()
        self.close()

    def close(self) -> None:
        if self._finder is not None:
            self._finder.close()
        self._finder = None

    def _create_pod(self, pod: PodSpec) -> None:
        if self._devices is not None:
            self._devices.admit(pod)
        pod_id = self.wire.run_pod(pod)
        self._pods[pod.namespace, pod.name] = pod, pod_id
        for spec in (*pod.init_containers, *pod.containers):
            one = Started(pod=pod, spec=spec, pod_id=pod_id, id="")
            if not self._create(one) and spec in pod.init_containers:
                break
            if one.id and not spec.keeps_running:
                self._remove(one)

    def _create(self, one: Started) -> bool:
        path = _path(one)
        try:
            one.id = self.wire.start(one)
        except RequestError as error:
            self.refused[path] = str(error)
            return False
        self.refused.pop(path, None)
        self._running[path] = one
        if (front := self.wire.front) is not None:
            now = front.owner.ask("decisions", lambda: front.events.policy.snapshot())
            for container_id, decision in now.decisions.items():
                if decision.cold_start_ns and now.containers[container_id].shown_id == one.id:
                    self._cold_until_ns[container_id] = self._now_ns + decision.cold_start_ns
        return True

    def _wait(self, nanoseconds: int) -> None:
        self._now_ns += nanoseconds
        over = [one for one, until in self._cold_until_ns.items() if until <= self._now_ns]
        for container_id in sorted(over, key=self._cold_until_ns.__getitem__):
            del self._cold_until_ns[container_id]
            end = partial(self._front().events.end_cold_start, container_id)
            self._front().owner.ask("end of a cold start", end)
        if self._watch is None:
            return
        while True:
            self._watch.look()
            assert self._front().settle(SECONDS)
            if self._seconds >= self._now_ns / 1e9:
                break
            self._seconds = min(self._now_ns / 1e9, self._seconds + RULES_SECONDS)

    def _remove(self, one: Started) -> None:
        del self._running[_path(one)]
        self.wire.remove(one.id)

    def _delete_pod(self, namespace: str, name: str) -> None:
        _, pod_id = self._pods.pop((namespace, name))
        self.wire.remove_pod(pod_id)
        if self._devices is not None:
            self._devices.forget(namespace, name)
        for known in (self._running, self.refused):
            for path in [one for one in known if one.startswith(f"{namespace}/{name}/")]:
                del known[path]

    def _end(self, step: EndContainer) -> None:
        one = self._find(step.container)
        self._remove(one)
        if step.restarts:
            one.attempt += 1
            self._create(one)

    def _update(self, step: UpdateContainer) -> None:
        one = self._find(step.container)
        with suppress(RequestError):
            self.wire.update(one.id, step.resources, one.pod.qos)

    def _list_instances(self, step: Synchronize) -> None:
        """The runtime lists several instances of a container instead of the one that ran."""
        if not step.container:
            return
        one, runtime = self._find(step.container), self.wire.runtime
        message, kernel = runtime.containers.pop(one.id), runtime.kernel.pop(one.id)
        for each in sorted(step.instances, key=lambda each: each.created_at):
            found = nri_pb2.Container()
            found.CopyFrom(message)
            found.id, found.created_at = each.id, each.created_at
            runtime.containers[each.id], runtime.kernel[each.id] = found, kernel
            one.id = each.id

    def _find(self, name: str) -> Started:
        return next(
            one for path, one in reversed(self._running.items()) if name in (path, one.spec.name)
        )


def _all_memory(machine: Machine) -> NodeSet:
    """What a container may use that nobody restricted."""
    return NodeSet.collect(one.id for one in machine.numa_nodes if one.memory_bytes != 0)


def _path(one: Started) -> str:
    return f"{one.pod.namespace}/{one.pod.name}/{one.spec.name}"
