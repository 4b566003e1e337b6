"""Classification of containers: the `Request` and the affinity rules of each."""

from collections.abc import Sequence
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ...topology.model.machine import Machine, MemoryKind, NumaNode
from ...topology.sets.cpuset import CpuSet
from ..annotations.annotation_values import IrqAffinity, MemoryUse
from ..annotations.annotations import read_annotations
from ..annotations.preferences import NO_PREFERENCES, Preferences, parse_preferences
from ..configuration.config import Config, OnBadAnnotation, SchedulingClass
from ..hints.hint_filter import hints_of
from ..model.container import Container, ContainerId, Pod, PodId, QosClass
from ..model.cpu_preference import CpuPriority, QuotaUse, SmtPreference
from ..model.hint import Hint
from ..model.request import CpuType, Isolation, Request
from ..pools.memory_supply import read_memory_supply
from ..rules.affinity import affinity_rules, bind_rules, parse_affinity
from ..rules.affinity_rule import AffinityRule
from ..rules.central_rules import naming_rules
from ..rules.podaffinity.own_rules import has_label_keys
from ..rules.podaffinity.rule_set import NO_PLACEMENT_RULES, PlacementRules
from ..rules.podaffinity.rule_text import are_labels_heeded, placement_rules
from ..text.errors import PROBLEMS_MAX, Problem, first_problems
from ..text.text_cache import TextCache
from ..tuning.cpu_class import cpu_class_wish, suitable_cpus
from ..tuning.interrupts import Interrupt, InterruptTable, irq_wish
from ..tuning.resource_class import NO_CLASSES, ResourceClasses, resource_classes
from ..tuning.scheduling import scheduling_class
from .wishes.burst_level import awaits_friends, burst_level
from .wishes.cpu_demand import CpuDemand, demanded_cpus, wished_isolation
from .wishes.load_class import load_problems
from .wishes.own_cpus import can_yield, own_count, with_own_cpus

_DEFAULT_MEMORY = frozenset({MemoryKind.DRAM, MemoryKind.PMEM})
"""High-bandwidth memory is scarce: only for those who ask for it. PMEM can mean CXL memory."""


_PODS_KEPT: Final = 64
"""Pods begin a while before their containers, several at a time."""


class Classified(Struct, frozen=True, kw_only=True):
    """A container's demand, its wishes about others, and what is wrong with its annotations."""

    request: Request
    rules: tuple[AffinityRule, ...]
    problems: tuple[Problem, ...]
    scheduling: SchedulingClass | None = None
    irq: IrqAffinity | None = None
    cpu_class: str | None = None
    classes: ResourceClasses = NO_CLASSES
    quota: QuotaUse = QuotaUse.KEEP
    """The fate of its quota where all its cpus are its own."""
    placement: PlacementRules = NO_PLACEMENT_RULES
    """Its required and preferred rules, other than the weighted ones in `rules`."""
    preferences: Preferences = NO_PREFERENCES
    """What its annotations say, one value for all that say the same; its faults are `problems`."""


class Classifier:
    """Classifies containers under one configuration."""

    def __init__(
        self,
        config: Config,
        interrupts: Sequence[Interrupt] = (),
        machine: Machine | None = None,
        problems_max: int = PROBLEMS_MAX,
    ) -> None:
        """Topology hints and starts without DRAM need a machine."""
        self._config, self._problems_max = config, problems_max
        nodes = _memory_nodes(machine, config) if machine else ()
        self._movable_kinds = _movable_kinds(nodes)
        self._machine = machine
        self._kinds = _kinds(nodes) if machine else frozenset(MemoryKind)
        self._class_cpus_by_name: dict[str, CpuSet] = {}
        self._interrupts = InterruptTable(interrupts, config.controllable_interrupts)
        self._alike = TextCache(self._classify_alike)
        self._heeded: dict[PodId, tuple[Pod, bool]] = {}
        """The last pods, and whether the configuration says anything for their labels' sake."""

    def classify(self, container: Container) -> Classified:
        """The request of a container, typed. Bad annotations become problems, never errors."""
        pod, config = container.pod, self._config
        is_ordinary = not (container.hints or pod.annotation_problems)
        if not is_ordinary or self._are_labels_heeded(pod):
            return self._classify(container)
        # Replicas differ in what they are called: their wishes are found out once for all of them.
        texts = tuple(chain.from_iterable(pod.annotations.items()))
        alike = self._alike(texts, container.name, pod.namespace, pod.qos)
        if alike is None:
            return self._classify(container)
        cpu = demanded_cpus(container, alike.preferences, config)
        cpu_class, _ = cpu_class_wish(container, alike.preferences, cpu.exclusive, config)
        return replace(
            alike,
            request=self._demand(alike.request, container, cpu, cpu_class),
            rules=bind_rules(alike.rules, pod) if alike.rules else (),
            cpu_class=cpu_class,
        )

    def expect(self, pod: Pod) -> None:
        """Read what the annotations of a pod, and its labels, say about all of its containers."""
        self._are_labels_heeded(pod)
        if pod.annotations:
            read_annotations(pod.annotations)
            parse_affinity(pod.annotations, pod, is_symmetric=self._config.symmetric_affinity)

    def _are_labels_heeded(self, pod: Pod) -> bool:
        known = self._heeded.get(pod.id)
        if known is None or known[0] is not pod:
            known = self._heeded[pod.id] = pod, are_labels_heeded(pod, self._config)
            if len(self._heeded) > _PODS_KEPT:
                del self._heeded[next(iter(self._heeded))]
        return known[1]

    def _classify_alike(
        self, annotations: tuple[str, ...], name: str, namespace: str, qos: QosClass
    ) -> Classified | None:
        """A container that asks for nothing; None where others of it have to be looked at.

        Annotations: keys and values in turn.
        """
        pairs = zip(annotations[::2], annotations[1::2], strict=True)
        pod = Pod(id=PodId(""), name="", namespace=namespace, annotations=dict(pairs), qos=qos)
        container = Container(id=ContainerId(""), name=name, pod=pod)
        preferences = parse_preferences(container)
        found = self._classify(container, preferences)
        # What can be had of these depends on how many cpus a container asks for.
        depends = preferences.cpu_class is not None or preferences.irq_affinity is not None
        depends |= preferences.exclusive is not None or preferences.whole_cores
        if found.placement:
            # And of these on what its pod is labelled.
            depends |= has_label_keys(container) or are_labels_heeded(pod, self._config)
        if depends or found.problems:
            return None
        return found

    def _demand(
        self, request: Request, container: Container, cpu: CpuDemand, cpu_class: str | None
    ) -> Request:
        """A request with the amounts that its container asks for."""
        resources = container.resources
        return replace(
            request,
            container_id=container.id,
            cpu_type=cpu.type,
            claimed=container.claimed,
            exclusive=cpu.exclusive,
            shared_milli=cpu.shared_milli,
            cpu_limit_milli=cpu.limit_milli,
            is_unlimited=cpu.is_unlimited,
            isolation=cpu.isolation,
            memory_bytes=resources.memory_request_bytes or resources.memory_limit_bytes or 0,
            may_request_memory=resources.may_request_memory,
            memory_limit_bytes=resources.memory_limit_bytes,
            hugepage_bytes=resources.hugepage_bytes,
            class_cpus=self._class_cpus(cpu_class) if cpu_class is not None else None,
        )

    def _classify(self, container: Container, preferences: Preferences | None = None) -> Classified:
        config = self._config
        preferences = parse_preferences(container) if preferences is None else preferences
        rules, problems = affinity_rules(
            container,
            is_symmetric=config.symmetric_affinity,
            colocate_pods=config.colocate_pods,
            colocate_namespaces=config.colocate_namespaces,
        )
        placement, more = placement_rules(container, config)
        problems = (*problems, *more)
        cpu = demanded_cpus(container, preferences, config)
        own = own_count(container, preferences, cpu.type)
        exclusive = own or cpu.exclusive
        cpu_class, class_problems = cpu_class_wish(container, preferences, exclusive, config)
        hints: tuple[Hint, ...] = ()
        if container.hints and self._machine is not None:
            hints, odd = hints_of(container, preferences, self._machine)
            problems = (*problems, *odd)
        wishes = self._wishes(container, preferences, rules, placement, hints)
        request = self._demand(wishes, container, cpu, cpu_class)
        if own or preferences.whole_cores:
            request = self._with_own_cpus(request, own, container, preferences)
        scheduling = scheduling_class(container, preferences, config)
        irq, irq_problems = irq_wish(container, preferences, exclusive, self._interrupts)
        classes, idle = resource_classes(container, preferences, config)
        problems = (*preferences.problems, *problems, *irq_problems, *class_problems, *idle)
        problems = (*problems, *load_problems(container, preferences, config))
        problems = (*problems, *self._memory_problems(container, preferences))
        if isinstance(scheduling, Problem):
            problems, scheduling = (*problems, scheduling), None
        path, most = container.path, self._problems_max
        problems = first_problems(problems, path, container.name, most)
        problems = naming_rules(problems, container.given)
        return Classified(
            request=request,
            rules=rules,
            problems=problems,
            scheduling=scheduling,
            irq=irq,
            cpu_class=cpu_class,
            classes=classes,
            quota=preferences.quota or config.exclusive_cpu_quota,
            placement=placement,
            preferences=replace(preferences, problems=()) if preferences.problems else preferences,
        )

    def _wishes(
        self,
        container: Container,
        preferences: Preferences,
        rules: tuple[AffinityRule, ...],
        placement: PlacementRules,
        hints: tuple[Hint, ...],
    ) -> Request:
        """The request of a container without the amounts that it asks for."""
        kinds, cold_start_ns = self._memory_kinds(preferences)
        config = self._config
        return Request(
            container_id=container.id,
            qos=container.pod.qos,
            burst_level=preferences.burst_level
            or burst_level(config.unlimited_burstable, rules, placement),
            awaits_friends=config.symmetric_affinity or awaits_friends(rules),
            priority=self._priority(container, preferences),
            smt=preferences.smt or SmtPreference.ANY,
            hide_hyperthreads=preferences.hide_hyperthreads
            or preferences.smt is SmtPreference.HIDE,
            idle_level=preferences.idle_cpus,
            memory_kinds=kinds,
            cold_start_ns=cold_start_ns,
            preserve_memory=preferences.preserve_memory,
            interleaves_memory=preferences.memory is MemoryUse.INTERLEAVE,
            hints=hints,
            is_strict=preferences.strict_hints and bool(hints),
            pick_by_hints=preferences.pick_by_hints,
        )

    def _with_own_cpus(
        self, request: Request, own: int, container: Container, preferences: Preferences
    ) -> Request:
        isolation, is_annotated = wished_isolation(preferences, self._config)
        return with_own_cpus(
            request,
            own,
            isolation if is_annotated or own == 1 else Isolation.NO,
            preferences,
            self._machine,
            can_yield=can_yield(container, self._config),
        )

    def _class_cpus(self, name: str) -> CpuSet | None:
        if self._machine is None:
            return None
        known = self._class_cpus_by_name.get(name)
        if known is None:
            known = suitable_cpus(name, self._config, self._machine)
            self._class_cpus_by_name[name] = known
        return known

    def _memory_kinds(self, preferences: Preferences) -> tuple[frozenset[MemoryKind], int]:
        """The kinds of memory to start with, and for how long without DRAM.

        The kernel cannot put all that a container needs into movable memory: with it goes DRAM,
        and no cold start is possible.
        """
        wanted = preferences.memory_types
        kinds = _DEFAULT_MEMORY if wanted is None else wanted.value
        if not kinds & self._kinds:
            # What the machine lacks is ignored, and scarce memory stays for those who ask for it.
            kinds = _DEFAULT_MEMORY
        if kinds <= self._movable_kinds:
            kinds |= {MemoryKind.DRAM}
        slow = kinds - {MemoryKind.DRAM}
        is_off = MemoryKind.PMEM in self._movable_kinds or bool(slow & self._movable_kinds)
        if not preferences.cold_start_ns or is_off or not slow & self._kinds:
            return kinds, 0
        return slow, preferences.cold_start_ns

    def _memory_problems(
        self, container: Container, preferences: Preferences
    ) -> tuple[Problem, ...]:
        """The problem of a container that asks for nothing but kinds of memory that are missing."""
        wanted = preferences.memory_types
        if wanted is None or wanted.value & self._kinds or preferences.preserve_memory:
            return ()
        missing = ", ".join(sorted(kind.name.lower() for kind in wanted.value))
        return (
            Problem(
                where=f"{wanted.key} of {container.path}",
                what=f"no memory of this node is {missing}: it gets what it would get without this",
                fix="name a kind that is there as well, or leave it out",
                container=container.name,
                is_advice=True,
            ),
        )

    def _priority(self, container: Container, preferences: Preferences) -> CpuPriority:
        """Priorities are for those who may have cpus for themselves; others take what there is."""
        if container.pod.qos is not QosClass.GUARANTEED and preferences.exclusive is None:
            return CpuPriority.NONE
        return preferences.cpu_priority or self._config.default_cpu_priority


def request_as_it_runs(container: Container) -> Request:
    """The request of a container that runs, and is left alone with all that it has."""
    memory = container.resources.memory_request_bytes or container.resources.memory_limit_bytes
    return Request(
        container_id=container.id,
        qos=container.pod.qos,
        cpu_type=CpuType.PRESERVE,
        memory_bytes=memory or 0,
        preserve_memory=True,
    )


def grave_problems(
    problems: Sequence[Problem], container: Container, config: Config
) -> tuple[Problem, ...]:
    """The problems for which a container is refused: not those of others of its pod."""
    is_strict = config.on_bad_annotation is OnBadAnnotation.FAIL
    return tuple(
        one
        for one in problems
        if not one.is_advice
        and (one.is_fatal or is_strict)
        and one.container in ("", container.name)
    )


def _memory_nodes(machine: Machine, config: Config) -> tuple[NumaNode, ...]:
    supply = read_memory_supply(machine, config)
    nodes = [machine.node_by_id[one] for one in machine.nodes_with_memory]
    return tuple(node for node in nodes if not supply.excludes(node.id))


def _kinds(nodes: Sequence[NumaNode]) -> frozenset[MemoryKind]:
    """The kinds of memory that can be asked for."""
    kinds = {node.kind for node in nodes}
    return frozenset(kinds | {MemoryKind.PMEM} if MemoryKind.CXL in kinds else kinds)


def _movable_kinds(nodes: Sequence[NumaNode]) -> frozenset[MemoryKind]:
    """The slower kinds of which there is movable memory."""
    slower = {MemoryKind.PMEM, MemoryKind.CXL}
    found = {node.kind for node in nodes if node.kind in slower and not node.is_normal}
    if MemoryKind.CXL in found and all(node.kind is not MemoryKind.PMEM for node in nodes):
        # Who asks for PMEM gets CXL memory where there is no other.
        found.add(MemoryKind.PMEM)
    return frozenset(found)
