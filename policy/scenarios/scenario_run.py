"""One scenario on its way: the policy's engine, a simulated runtime, verdicts on expectations."""

from typing import assert_never

from msgspec.structs import replace

from ..configuration.config import Config
from ..configuration.config_text import CheckedConfig
from ..engine.engine import Engine
from ..engine.pool_drawing import spare_supplies
from ..engine.rebalance.plan import placement_quality
from ..manifests.pod_spec import ContainerSpec
from ..model.container import Container, ContainerId, ContainerState, Pod
from ..model.grant import Grant, Refusal
from ..model.kubelet_resources import as_told
from ..text.errors import Problem
from ..tuning.scheduling import scheduling_values
from .creation import NodeMemory, created_container, created_pod, resized
from .expressions.values import Value
from .law_watch import LawWatch
from .policy_run import PolicyRun
from .present import Present
from .result import ContainerResult, ScenarioResult, container_result
from .running_node import RunningNode, node_diff
from .scenario_facts import MachineNames, not_simulated, settled
from .scenario_file import Topology
from .simulated_runtime import Running, Runtime, keys_of
from .step import (
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
from .verdict import Verdicts


class ScenarioRun:
    """One scenario on its way: `take` a step, then `look` whether every law holds."""

    def __init__(self, topology: Topology, config: Config | CheckedConfig) -> None:
        """Begin with an empty runtime, and without a policy."""
        self.verdicts = Verdicts()
        self.runtime = Runtime(topology.machine, topology.devices)
        checked = config if isinstance(config, CheckedConfig) else CheckedConfig(config)
        self.policy = PolicyRun(topology.machine, checked, self.runtime, self.verdicts)
        self._memory_qos = topology.memory_qos
        self._names = MachineNames(topology.machine)
        self._remembered: dict[str, Value] = dict(topology.aliases)
        self._refused: dict[str, tuple[Container, ContainerResult]] = {}
        self._serial = 0
        self._node: RunningNode | None = None
        self._watch: LawWatch | None = None

    @property
    def engine(self) -> Engine | None:
        """The engine of the policy that runs, or ran last."""
        return self.policy.engine

    @property
    def is_started(self) -> bool:
        """Whether the policy runs."""
        return self.policy.is_started

    @property
    def told(self) -> tuple[str, ...]:
        """Sentences that operators were told so far: at starts, and of containers."""
        return (*self.policy.warnings, *map(str, self.verdicts.remarks))

    def take_over(self, node: RunningNode) -> None:
        """Go on from a node with its containers, in place of a start."""
        self._node = node
        self.policy.take_over(node)
        self._serial = node.latest
        for one in node.running():
            self.runtime.run(one)
            self.runtime.stock.adopt(one.container)
            self.runtime.pods[one.container.pod.namespace, one.container.pod.name] = (
                one.container.pod
            )

    def take(self, step: Step) -> None:
        """Do what a step says; what goes wrong is noted, not raised."""
        match step:
            case Start():
                self.policy.start(step)
            case Stop():
                self._refresh()
                self.policy.stop()
            case Reconfigure():
                self.policy.reconfigure(step)
            case CreatePod():
                self._create_pod(step)
            case AddContainer():
                self._add_container(step)
            case DeletePods():
                self._delete_pods(step)
            case EndContainer():
                self._end_container(step)
            case UpdateContainer():
                self._update(step)
            case UpdatePod():
                self._update_pod(step)
            case Remember():
                value = self.verdicts.remembered(step.name, step.value, self._value)
                self._remembered[step.name] = settled(value)
            case Expect():
                for expression in step.that:
                    reason = not_simulated(expression, self.policy.machine)
                    self.verdicts.expect(expression, self._value, reason, self._values_in)
            case Synchronize():
                self.policy.synchronize(step)
            case SetInterrupts():
                self.policy.set_interrupts(step)
            case SetOnline():
                self.policy.set_online(step)
            case Wait():
                for container_id in self.runtime.wait(step.nanoseconds):
                    if self.engine is not None and self.is_started:
                        self.runtime.apply(self.engine.end_cold_start(container_id))
                self.policy.pass_time(step.nanoseconds)
            case UnsupportedStep():
                self.verdicts.skip(step.reason)
                self.policy.is_start_spoilt |= step.spoils_start
            case _:
                assert_never(step)

    def look(self) -> None:
        """Note every law that is broken; the same sentence once."""
        if self.engine is None or not self.is_started:
            return
        if self._watch is None or not self._watch.is_of(self.engine, self.runtime):
            self._watch = LawWatch(self.engine, self.runtime)
        for sentence in self._watch.broken():
            self.verdicts.note(sentence)

    def result(self, scenario_id: str, topology: str) -> ScenarioResult:
        """The present state and the verdicts so far."""
        self._refresh()
        running = list(self.runtime.by_key().values())
        keys = keys_of(
            [*(one.container for one in running), *(one for one, _ in self._refused.values())]
        )
        containers = {
            keys[one.container.path]: container_result(one, self.runtime, self.engine)
            for one in running
        }
        for path, (_, refused) in self._refused.items():
            containers[keys[path]] = refused
        return ScenarioResult(
            id=scenario_id,
            topology=topology,
            containers=containers,
            expectations=tuple(self.verdicts.expectations),
            skipped=tuple(self.verdicts.skipped),
            updates=self.runtime.updates,
            problems=self.verdicts.problems,
            remarks=self.verdicts.remarks,
            machine=self.policy.machine,
            tree=self.engine.tree if self.engine else None,
            spare=spare_supplies(self.engine.snapshot()) if self.engine else (),
            quality=placement_quality(self.engine.snapshot()) if self.engine else None,
            refusals=tuple(self.verdicts.refusals),
            diff=node_diff(self._node, self.engine) if self._node and self.engine else None,
        )

    def _refresh(self) -> None:
        if self.engine is not None and self.is_started:
            self.runtime.refresh(self.engine)

    def _create_pod(self, step: CreatePod) -> None:
        spec = step.pod
        if (spec.namespace, spec.name) in self.runtime.pods:
            self.verdicts.note(f"create_pod: {spec.namespace}/{spec.name} is there already")
            return
        self._serial += 1
        pod = created_pod(spec, self._serial)
        self.runtime.pods[pod.namespace, pod.name] = pod
        errors: list[str] = []
        for one in spec.all_containers:
            container = self._container(pod, one)
            error = self._create(container)
            errors.extend([error] if error else [])
            if error and not step.expected_error:
                self.verdicts.refuse(container.path, error)
            if error and one in spec.init_containers:
                # Kubernetes starts nothing else before its init containers are done.
                break
            if not error and not one.keeps_running:
                self._end(self._newest())
                self.runtime.stock.release(container.path)
        if step.expected_error:
            self.verdicts.expect_error(
                "expect_create_error", step.expected_error, "; ".join(errors)
            )

    def _add_container(self, step: AddContainer) -> None:
        pod = self._find_pod(step.namespace, step.pod)
        if pod is None:
            return
        container = self._container(pod, step.container)
        error = self._create(container)
        if step.expected_error:
            self.verdicts.expect_error("expect_create_error", step.expected_error, error)
        elif error:
            self.verdicts.refuse(container.path, error)

    def _container(self, pod: Pod, spec: ContainerSpec) -> Container:
        self._serial += 1
        memory = NodeMemory.of(self.policy.machine, self._memory_qos)
        container, problems = created_container(
            spec,
            pod,
            self._serial,
            memory=memory,
            reads_test_hints=self.policy.reads_test_hints,
            kubelet_pins=self.policy.managers.pins_cpus,
        )
        tells_places = self.policy.config.agent.pod_resource_api
        container, advice = self.runtime.stock.equipped(
            container, spec.devices, tells_places=tells_places
        )
        container, untaken = self.runtime.stock.claimed(container, spec.claims, spec.gpus)
        container, unknown = self._beside_device(container)
        for problem in (*problems, *advice, *untaken, *unknown):
            self.verdicts.remark(problem)
        self.policy.tell_of_kubelet(container, spec)
        return container

    def _beside_device(self, container: Container) -> tuple[Container, tuple[Problem, ...]]:
        """The container with hints of the device it wants to be near, by central rule as well."""
        if self.engine is None:
            return container, ()
        found, problems = self.runtime.stock.beside(self.engine.completed(container))
        return replace(container, hints=found.hints), problems

    def _newest(self) -> ContainerId:
        return next(reversed(self.runtime.running))

    def _refuse(self, container: Container, reason: str, notes: tuple[str, ...] = ()) -> None:
        self._refused[container.path] = (
            container,
            ContainerResult(
                name=container.name,
                pod=container.pod.name,
                namespace=container.pod.namespace,
                refused=reason,
                notes=notes,
            ),
        )

    def _create(self, container: Container) -> str:
        """Why the container was refused; empty where it runs."""
        if reason := self.runtime.stock.missing(container.path):
            self._refuse(container, reason)
            return reason
        one = Running(container, cpus=container.cpus)
        if self.engine is not None and self.is_started:
            decision = one.decision = self.engine.create(container)
            self.runtime.apply(decision.changes)
            for problem in decision.problems:
                self.verdicts.remark(problem)
            if isinstance(decision.result, Refusal):
                notes = self.engine.note(container.id)
                self.engine.remove(container.id)
                self._refuse(container, decision.result.reason, notes)
                return decision.result.reason
            one.tell(decision.pinning)
            if decision.scheduling is not None:
                one.scheduling = scheduling_values(decision.scheduling)
            self.engine.start(container.id)
        self._refused.pop(container.path, None)
        self.runtime.run(one)
        return ""

    def _end(self, container_id: ContainerId) -> None:
        del self.runtime.running[container_id]
        if self.engine is not None and self.is_started:
            self.runtime.apply(self.engine.stop(container_id))
            self.runtime.apply(self.engine.remove(container_id))

    def _delete_pods(self, step: DeletePods) -> None:
        of_namespace = {
            name: pod for (space, name), pod in self.runtime.pods.items() if space == step.namespace
        }
        for name in step.names if step.names is not None else tuple(of_namespace):
            pod = of_namespace.get(name)
            if pod is None:
                self.verdicts.note(f"delete_pods: no pod {step.namespace}/{name}")
                continue
            for container_id in self.runtime.of_pod(pod):
                self._end(container_id)
            del self.runtime.pods[step.namespace, name]
            self.runtime.stock.release_pod(step.namespace, name)
            for path in [key for key, (one, _) in self._refused.items() if one.pod is pod]:
                del self._refused[path]

    def _end_container(self, step: EndContainer) -> None:
        one = self._find(step.container)
        if one is None:
            return
        self._end(one.container.id)
        if step.restarts:
            self._serial += 1
            new_id = ContainerId(f"{one.container.name}-{self._serial}")
            again = replace(one.container, id=new_id, created_at=self._serial)
            error = self._create(replace(again, state=ContainerState.CREATED))
            if error:
                self.verdicts.refuse(again.path, error)

    def _update(self, step: UpdateContainer) -> None:
        one = self._find(step.container)
        if one is None or self.engine is None or not self.is_started:
            return
        memory = NodeMemory.of(self.policy.machine, self._memory_qos)
        resources = resized(one.container, step.resources, memory)
        decision = self.engine.update(one.container.id, resources)
        self.runtime.apply(decision.changes)
        error = ""
        if isinstance(decision.result, Grant):
            one.tell(decision.pinning)
            one.container = replace(one.container, resources=resources)
        else:
            error = decision.result.reason
        self.verdicts.expect_error("expect_update_error", step.expected_error, error)

    def _update_pod(self, step: UpdatePod) -> None:
        pod = self._find_pod(step.namespace, step.pod)
        if pod is None or self.engine is None or not self.is_started:
            return
        answer = self.engine.resize_pod(pod, as_told(step.resources, pod.qos))
        error = answer.reason if isinstance(answer, Refusal) else ""
        self.runtime.apply(() if isinstance(answer, Refusal) else answer)
        self.verdicts.expect_error("expect_update_error", step.expected_error, error)

    def _find_pod(self, namespace: str, name: str) -> Pod | None:
        pod = self.runtime.pods.get((namespace, name))
        if pod is None:
            self.verdicts.note(f"no pod {namespace}/{name}")
        return pod

    def _find(self, name: str) -> Running | None:
        one = self.runtime.find(name)
        if one is None:
            self.verdicts.note(self.runtime.missing(name))
        return one

    def _value(self, expression: str) -> Value:
        return self._present().value(expression, self._remembered)

    def _values_in(self, expression: str) -> tuple[str, ...]:
        return self._present().values_in(expression, self._remembered)

    def _present(self) -> Present:
        return Present(
            engine=self.engine,
            runtime=self.runtime,
            names=self._names,
            interrupts=self.policy.interrupts,
            told=self.told,
        )
