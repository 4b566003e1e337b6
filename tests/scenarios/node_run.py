"""A scenario on a node: the same steps as messages between the embedded runtime and the plugin."""

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import assert_never

from pinfold.cmd.daemon.kubelet_managers import read_managers
from pinfold.cmd.daemon.moves.rule_watch import RULES_SECONDS, RuleWatch
from pinfold.cmd.state.saved_states import SavedStates
from pinfold.nri.api import nri_pb2
from pinfold.nri.dispatch.report import Decided, Happening, HintsMissing, Unsupported
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime, RequestError
from pinfold.nri.embedded.embedded_updates import EmbeddedUpdates, kernel_reader
from pinfold.nri.embedded.kubelet import (
    container_message,
    resources_message,
    sandbox_message,
    start_pods,
)
from pinfold.nri.embedded.runtime_dialects import Dialect
from pinfold.nri.hints.combined_hints import CombinedHints
from pinfold.nri.plugin.plugin import Plugin, RuntimeLink, Timing
from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.engine import Engine
from pinfold.policy.hints.hint_text import TEST_APIS
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.model.container import ContainerId, GivenAnnotation
from pinfold.policy.model.cpuset_conflicts import (
    CPU_STATE,
    MEMORY_STATE,
    KubeletManagers,
    runc_warning,
)
from pinfold.policy.model.kubelet_resources import linux_resources
from pinfold.policy.model.memory_qos import memory_entries
from pinfold.policy.scenarios.scenario_file import Topology
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
from pinfold.topology.made.online_cpus import with_online
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

from .device_node import DeviceNode, PatientFinder

TIMING = Timing(deadline_seconds=7.0, first_retry_seconds=0.002, last_retry_seconds=0.004)


class NodeRun:
    """Takes a scenario's steps over NRI, in one dialect."""

    def __init__(self, topology: Topology, dialect: Dialect, kubelet: Path) -> None:
        """`kubelet`: a folder for the state files of its managers."""
        machine = self.machine = self._whole = topology.machine
        self._memory_qos = topology.memory_qos
        self.runtime = EmbeddedRuntime(dialect, 10.0)
        self.refused: list[str] = []
        self._memory_bytes = sum(node.memory_bytes or 0 for node in machine.numa_nodes)
        self._pods: dict[tuple[str, str], PodSpec] = {}
        self._ids: dict[str, str] = {}
        """Ids of containers by path."""
        self._attempts = 0
        self._plugin: Plugin | None = None
        self._watch: RuleWatch | None = None
        self._seconds = 100.0
        self._thread: threading.Thread | None = None
        self.happenings: list[Happening] = []
        self.told: set[str] = set()
        """Sentences that operators were told."""
        self._kubelet = kubelet
        self._devices = DeviceNode(topology) if topology.machine.devices else None
        self._finder: CombinedHints | PatientFinder | None = None
        self._advice: Mapping[ContainerId, Advice] = {}
        """What the state file of a plugin that ended tells the next one."""

    def take(self, step: Step) -> None:
        """Do what a step says, and wait until the kernel has all that follows."""
        match step:
            case Start():
                self._start(step)
            case Stop():
                self.stop()
            case Reconfigure():
                self._reconfigure(step)
            case CreatePod():
                self._create(step.pod)
            case AddContainer():
                self._add(step)
            case DeletePods():
                for (namespace, name), pod in [*self._pods.items()]:
                    if namespace == step.namespace and (step.names is None or name in step.names):
                        self.runtime.remove_pod(sandbox_message(pod).id)
                        del self._pods[namespace, name]
                        if self._devices is not None:
                            self._devices.forget(namespace, name)
            case EndContainer():
                self._end(step)
            case UpdateContainer():
                self._update(step)
            case UpdatePod():
                self._update_pod(step)
            case Synchronize():
                self.runtime.drop()
                self._wait()
            case Wait():
                self._pass_time(step.nanoseconds)
            case SetOnline():
                self.machine = with_online(self._whole, step.cpus)
                if (plugin := self._plugin) is not None:
                    plugin.owner.ask("online", self._look_at_cpus, 5)
            case Expect() | Remember():
                pass
            case SetInterrupts() | UnsupportedStep():
                raise AssertionError(f"no node takes this step: {step}")
            case _:
                assert_never(step)
        if self._plugin is not None:
            assert self._plugin.settle()
            self._note_told(self._plugin)

    def _note_told(self, plugin: Plugin) -> None:
        """Note what the log says of problems."""
        for one in self.happenings:
            if isinstance(one, Decided):
                self.told.update(map(str, (*one.problems, *one.decision.problems)))
            elif isinstance(one, HintsMissing | Unsupported):
                self.told.add(one.what)
        self.told.update(plugin.events.policy.warnings)

    def stop(self) -> None:
        """End the plugin; what runs goes on."""
        plugin = self._plugin
        if plugin is not None and self._thread is not None:
            snapshot = plugin.owner.ask("state", lambda: plugin.events.policy.snapshot(), 5)
            self._advice = SavedStates().of(snapshot).advice()
            plugin.stop()
            self._thread.join(10)
            assert not self._thread.is_alive()
        if self._finder is not None:
            self._finder.close()
        self._plugin = self._thread = self._finder = None

    def close(self) -> None:
        """End all."""
        self.stop()
        if self._devices is not None:
            self._devices.close()

    def pins(self) -> Mapping[str, tuple[CpuSet, NodeSet]]:
        """Cpus and memory nodes that the kernel has, by the path of a container that runs."""
        online = self.machine.online
        nodes = NodeSet.collect(one.id for one in self.machine.numa_nodes if one.memory_bytes != 0)
        return {
            path: (
                CpuSet.parse(cpu.cpus) if cpu.cpus else online,
                NodeSet.parse(cpu.mems) if cpu.mems else nodes,
            )
            for path, container_id in self._ids.items()
            if (cpu := self.runtime.kernel.get(container_id)) is not None
        }

    def given(self) -> Mapping[str, tuple[GivenAnnotation, ...]]:
        """Annotations that central rules gave, with their names, by the path of a container."""
        if self._plugin is None:
            return {}
        return {one.path: one.given for one in self._plugin.events.policy.containers.values()}

    def _start(self, step: Start) -> None:
        assert not step.expected_error, "no scenario needs it so far"
        config = Config() if step.config is None else config_from_values(step.config)
        self._finder = CombinedHints(has_test_hints=bool(step.environment.get(TEST_APIS)))
        if self._devices is not None:
            self._finder = self._devices.finder(step.environment)
        self._plugin = Plugin(
            Engine(self.machine, config),
            RuntimeLink(
                connect=self.runtime.connect,
                find_sender=lambda _runtime: EmbeddedUpdates(self.runtime),
                read_back=kernel_reader(self.runtime),
            ),
            self.happenings.append,
            timing=TIMING,
            finder=self._finder,
            machine_memory_bytes=self._memory_bytes,
        )
        self._watch = RuleWatch(self._plugin, self.happenings.append, lambda: self._seconds)
        self._plugin.events.advice = self._advice
        managers = self._managers(step)
        if self._devices is not None:
            self._devices.managers = managers
        self._plugin.events.foreign_pins.kubelet_pins = managers.pins_cpus
        self.told.update(managers.warnings(), filter(None, (runc_warning(self.machine),)))
        self._thread = threading.Thread(target=self._plugin.run, name="plugin")
        self._thread.start()
        self._wait()

    def _managers(self, step: Start) -> KubeletManagers:
        """The kubelet's managers, as they are found by their files."""
        for name, policy in ((CPU_STATE, step.managers.cpu), (MEMORY_STATE, step.managers.memory)):
            (self._kubelet / name).write_text(json.dumps({"policyName": policy or "None"}))
        return read_managers(self._kubelet)

    def _wait(self) -> None:
        assert self._plugin is not None
        assert self.runtime.wait_until_synchronized(5)
        assert self._plugin.wait_until_ready(5)

    def _pass_time(self, nanoseconds: int) -> None:
        """Time passes for rules required during execution; nobody of ours starts cold."""
        assert self._plugin is not None
        assert self._watch is not None
        end = self._seconds + nanoseconds / 1e9
        while True:
            self._watch.look()
            assert self._plugin.settle()
            if self._seconds >= end:
                break
            self._seconds = min(end, self._seconds + RULES_SECONDS)
        decisions = self._plugin.events.policy.decisions.values()
        assert not any(one.cold_start_ns for one in decisions)

    def _look_at_cpus(self) -> None:
        assert self._plugin is not None
        self._plugin.events.reconfigure(machine=self.machine)

    def _reconfigure(self, step: Reconfigure) -> None:
        plugin = self._plugin
        assert plugin is not None
        assert not step.expected_error, "no scenario needs it so far"
        config = config_from_values(step.config)
        plugin.owner.ask("reload", lambda: plugin.events.reconfigure(config), 5)

    def _create(self, pod: PodSpec) -> None:
        self._pods[pod.namespace, pod.name] = pod
        if self._devices is not None:
            self._devices.admit(pod)
        refused = start_pods(self.runtime, (pod,), self._memory_bytes, self._memory_qos)
        self.refused.extend(one.reason for one in refused)
        for one in (*pod.init_containers, *pod.containers):
            self._ids[path_of(pod, one)] = container_message(one, pod, None).id

    def _add(self, step: AddContainer) -> None:
        pod = self._pods[step.namespace, step.pod]
        pod = replace(pod, containers=(*pod.containers, step.container))
        self._pods[step.namespace, step.pod] = pod
        message = container_message(
            step.container, pod, self._memory_bytes, memory_qos=self._memory_qos
        )
        self._ids[path_of(pod, step.container)] = message.id
        self._start_container(message)

    def _start_container(self, message: nri_pb2.Container) -> None:
        try:
            self.runtime.create(message)
        except RequestError as error:
            self.refused.append(str(error.__cause__))
        else:
            self.runtime.start(message.id)

    def _update_pod(self, step: UpdatePod) -> None:
        """Older runtimes do not know of it: there, only what containers show changes by it."""
        pod = self._pods[step.namespace, step.pod]
        size = resources_message(linux_resources(step.resources, pod.qos, None))
        try:
            self.runtime.update_pod(sandbox_message(pod).id, size)
        except RequestError as error:
            self.refused.append(str(error.__cause__ or error))

    def _end(self, step: EndContainer) -> None:
        pod, spec = self._find(step.container)
        path = path_of(pod, spec)
        self.runtime.stop(self._ids[path])
        self.runtime.remove(self._ids.pop(path))
        if step.restarts:
            self._attempts += 1
            message = container_message(
                spec, pod, self._memory_bytes, self._attempts, self._memory_qos
            )
            self._ids[path] = message.id
            self._start_container(message)

    def _update(self, step: UpdateContainer) -> None:
        pod, spec = self._find(step.container)
        linux = linux_resources(step.resources, pod.qos, self._memory_bytes)
        try:
            message = resources_message(linux)
            message.unified.update(
                memory_entries(step.resources, pod.qos, self._memory_bytes, self._memory_qos)
            )
            self.runtime.update(self._ids[path_of(pod, spec)], message)
        except RequestError as error:
            self.refused.append(str(error.__cause__))

    def _find(self, name: str) -> tuple[PodSpec, ContainerSpec]:
        for pod in reversed(self._pods.values()):
            for one in (*pod.init_containers, *pod.containers):
                if name in (one.name, path_of(pod, one)):
                    return pod, one
        raise AssertionError(name)


def path_of(pod: PodSpec, container: ContainerSpec) -> str:
    """`namespace/pod/container`."""
    return f"{pod.namespace}/{pod.name}/{container.name}"
