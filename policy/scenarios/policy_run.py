"""The policy of a scenario: it starts and ends, and gets configurations and lists of containers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from ...topology.made.online_cpus import with_online
from ...topology.model.machine import Machine
from ...topology.sets.base_errors import PinfoldError
from ...topology.sets.cpuset import NO_CPUS, NodeSet
from ...topology.sysfs.overrides import override_machine, parse_overrides
from ..annotations.cpu_claims import CLAIM_PREFIX
from ..configuration.config import Config
from ..configuration.config_text import CheckedConfig, config_from_values
from ..engine.engine import Engine
from ..engine.replacing.companies import company_of
from ..engine.replacing.joint_replacement import (
    JointStep,
    may_go_with_others,
    plan_together,
)
from ..engine.replacing.owners_due import SECOND, OwnersDue
from ..hints.hint_text import TEST_APIS
from ..manifests.pod_spec import ContainerSpec
from ..model.container import Container, ContainerId
from ..model.cpuset_conflicts import (
    NO_MANAGERS,
    driver_beside,
    manager_overruled,
    runc_warning,
)
from ..model.grant import Refusal
from ..tuning.interrupts import Interrupt
from .running_node import RunningNode
from .simulated_runtime import Runtime
from .step import Instance, Reconfigure, SetInterrupts, SetOnline, Start, Synchronize
from .verdict import Verdicts

_MINUTE: Final = 60 * SECOND
_LOOK: Final = 5 * SECOND
"""Between two looks at rules."""
_CPU_DRIVER: Final = "dra.cpu"
"""The name of the driver whose variables say which cpus are claimed. Source: dra-driver-cpu."""


class PolicyRun:
    """The policy of one scenario, which may run, and what it is started with."""

    def __init__(
        self, machine: Machine, config: CheckedConfig, runtime: Runtime, verdicts: Verdicts
    ) -> None:
        """Begin without a policy; `config`: of a start that has none."""
        self.machine = self._whole = machine
        self.engine: Engine | None = None
        """The last one that ran, or runs."""
        self.is_started = False
        self.interrupts: tuple[Interrupt, ...] = ()
        self.reads_test_hints = False
        self.managers = NO_MANAGERS
        self.warnings: tuple[str, ...] = ()
        """What its starts said to operators."""
        self.is_start_spoilt = False
        """Whether the next start depends on a step that was passed over."""
        self._told: set[str] = set()
        self._now_ns = 0
        self._due = OwnersDue()
        self._moves: list[int] = []
        """When owners were moved."""
        self._checked = config
        self._runtime = runtime
        self._verdicts = verdicts

    @property
    def config(self) -> Config:
        """The configuration in force, or the one to begin with."""
        return self.engine.config if self.engine is not None else self._checked.config

    def take_over(self, node: RunningNode) -> None:
        """Go on from what a node's policy holds."""
        self.interrupts = node.interrupts
        self.engine, self.is_started = node.engine(), True

    def start(self, step: Start) -> None:
        """A new engine takes over what runs; what the last one held is known, as from a file."""
        if self.is_start_spoilt:
            self.is_start_spoilt = False
            self._verdicts.skip("this start depends on a step that is not simulated")
            return
        if self.is_started:
            self._verdicts.note("start: the policy runs already")
        error = ""
        try:
            own = None if step.config is None else CheckedConfig(config_from_values(step.config))
            checked = own or self._checked
            if step.environment:
                self.reads_test_hints = bool(step.environment.get(TEST_APIS))
                overrides, online = parse_overrides(step.environment), self.machine.online
                self._whole = override_machine(self._whole, overrides)
                self.machine = with_online(self._whole, online)
            with checked.placing():
                engine = Engine(self.machine, checked.config, interrupts=self.interrupts)
        except PinfoldError as caught:
            error = str(caught)
        else:
            listing = self._runtime.listing()
            if self.engine is None:
                answer = engine.synchronize(listing)
            else:
                advice = self.engine.snapshot().advice(engine.config)
                answer = engine.synchronize(listing, advice)
            self.engine, self.is_started, self.managers = engine, True, step.managers
            self._due, self._moves = OwnersDue(), []
            said = (*engine.warnings, runc_warning(self.machine), *step.managers.warnings())
            self.warnings = (*self.warnings, *filter(None, said))
            self._runtime.apply(answer.changes)
        self._verdicts.expect_error("expect_start_error", step.expected_error, error)

    def stop(self) -> None:
        """The policy ends."""
        self.is_started = False

    def reconfigure(self, step: Reconfigure) -> None:
        """The old configuration stays in force where the new one cannot be used."""
        if self.engine is None or not self.is_started:
            self._verdicts.note("update_config: the policy does not run")
            return
        error = ""
        try:
            engine, answer = self.engine.reconfigured(config_from_values(step.config))
        except PinfoldError as caught:
            error = str(caught)
        else:
            self.engine = engine
            self._runtime.apply(answer.changes)
        self._verdicts.expect_error("expect_update_error", step.expected_error, error)

    def tell_of_kubelet(self, container: Container, spec: ContainerSpec) -> None:
        """Tell, once each, of its managers and of drivers that placed a container, too.

        The kubelet lists what they gave, where it is asked for devices.
        """
        if not self.config.agent.pod_resource_api:
            return
        where, cpus = container.path, spec.placed_on or NO_CPUS
        nodes = NodeSet.collect(one.id for one in self.machine.numa_nodes if one.cpus & cpus)
        found: dict[str, str] = {}
        if any(one.startswith(CLAIM_PREFIX) for one in spec.environment):
            claim = f"{container.pod.namespace}/{container.name}"
            found["driver"] = driver_beside(_CPU_DRIVER, where, claim)
        elif cpus:
            if self.managers.cpu:
                found["CPU"] = manager_overruled("CPU", where, cpus)
            if self.managers.memory:
                found["memory"] = manager_overruled("memory", where, nodes)
        for who, sentence in found.items():
            if who not in self._told:
                self._told.add(who)
                self.warnings = (*self.warnings, sentence)

    def pass_time(self, nanoseconds: int) -> None:
        """Time passes: owners of rules required during execution are moved after a while."""
        end = self._now_ns + nanoseconds
        while self.engine is not None and self.is_started:
            self._look_at_rules(self.engine)
            if not self.config.during_execution.moves_per_minute:
                # Nobody is ever moved, and what does not hold is told by now.
                break
            later = self._due.next(self._now_ns)
            if later is None or later > end:
                break
            self._now_ns = later
        self._now_ns = end

    def _look_at_rules(self, engine: Engine) -> None:
        """Move those whose grace period is over, as a daemon does."""
        self._runtime.apply(engine.widen())
        self._due.note(engine.look_at_rules(), engine, self._now_ns)
        self._moves = [when for when in self._moves if when > self._now_ns - _MINUTE]
        for container_id in self._due.due(self._now_ns):
            if container_id in self._due:
                self._place_anew(engine, container_id)

    def _place_anew(self, engine: Engine, container_id: ContainerId) -> None:
        settings = engine.config.during_execution
        if len(self._moves) >= settings.moves_per_minute:
            self._due.wait(container_id, self._now_ns + _LOOK)
            return
        most, left = settings.moves_per_minute, settings.moves_per_minute - len(self._moves)
        steps: Sequence[JointStep] = [JointStep(container_id)]
        reason = ""
        if not 1 < len(company_of(engine, container_id)) <= most:
            reason = self._make(engine, steps)
            if not reason:
                return
            steps = ()
        if not reason or may_go_with_others(engine, container_id, reason):
            steps = plan_together(engine.snapshot(), container_id, most)
        if len(steps) > left:
            self._due.wait(container_id, self._now_ns + _LOOK)
        elif not steps or self._make(engine, steps):
            self._due.stays(container_id, reason, engine, self._now_ns)

    def _make(self, engine: Engine, steps: Sequence[JointStep]) -> str:
        """Make moves until one is refused, for which reason; empty where none is."""
        for step in steps:
            decision = engine.place_anew(step.container_id, step.asked, mends_told=step.follows)
            self._runtime.apply(decision.changes)
            if isinstance(decision.result, Refusal):
                return decision.result.reason
            self._runtime.running[step.container_id].tell(decision.pinning)
            self._moves.append(self._now_ns)
            self._due.went(step.container_id, engine)
        return ""

    def set_interrupts(self, step: SetInterrupts) -> None:
        """The machine has these interrupts from here on."""
        self.interrupts = tuple(
            Interrupt(number=number, description=text, affinity=step.affinity)
            for number, text in step.descriptions.items()
        )
        if self.engine is not None:
            self.engine.interrupts = self.interrupts

    def set_online(self, step: SetOnline) -> None:
        """The machine has these cpus online from here on, and the policy looks again."""
        machine = with_online(self._whole, step.cpus)
        if self.engine is not None and self.is_started:
            try:
                self.engine, answer = self.engine.reconfigured(self.engine.config, machine)
            except PinfoldError as caught:
                self._verdicts.note(f"set_online: {caught}")
                return
            self._runtime.apply(answer.changes)
        self.machine = self._runtime.machine = machine

    def synchronize(self, step: Synchronize) -> None:
        """The runtime lists its containers, of one perhaps several instances."""
        if self.engine is None or not self.is_started:
            self._verdicts.note("synchronize: the policy does not run")
            return
        if step.container and self._runtime.find(step.container) is None:
            self._verdicts.note(self._runtime.missing(step.container))
        elif step.container and step.instances:
            self._multiply(step.container, step.instances)
        listing = self._runtime.listing()
        self._runtime.apply(self.engine.synchronize(listing).changes)
        # Of several instances the policy keeps one; the others are dead, whatever is listed.
        for container in listing:
            if container.id not in self.engine.grants:
                del self._runtime.running[container.id]

    def _multiply(self, name: str, instances: Sequence[Instance]) -> None:
        one = self._runtime.find(name)
        assert one is not None, name
        del self._runtime.running[one.container.id]
        for instance in sorted(instances, key=lambda each: each.created_at):
            container = structs.replace(
                one.container,
                id=ContainerId(instance.id),
                created_at=instance.created_at,
                state=instance.state,
            )
            self._runtime.running[container.id] = replace(one, container=container)
