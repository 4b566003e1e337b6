"""Checks of pods before they are created: problems of their classification, and refusals.

The classifier and the engine are those of the daemon, so that what passes here is not refused there
for its annotations. What only a node knows (its interrupts, the devices near to something) is not
looked at.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial, reduce
from typing import Final

from msgspec import structs

from ...topology.model.machine import Machine
from ..annotations.annotation_keys import OWN_DOMAIN, RACK_LABEL, RULE_KEYS
from ..annotations.annotation_values import ALL_HINTS, HintSource, is_resource
from ..annotations.annotations import effective
from ..annotations.preferences import Preferences, parse_preferences
from ..configuration.affinity_fields import Rack
from ..configuration.annotation_rule_fields import LoadClass, LoadLevel
from ..configuration.config import (
    BlockIoControl,
    Config,
    Control,
    CpuClass,
    OnUnsatisfiable,
    RdtControl,
    SchedulingClass,
)
from ..engine.decision import Decision
from ..engine.engine import Engine
from ..hints.hint_text import annotated_hints
from ..manifests.annotation_lint import Finding, WrittenPod
from ..manifests.manifest import pod_of
from ..manifests.pod_spec import PodSpec
from ..manifests.rules_between_pods import CountDomains, ReviewedPod, rules_between
from ..model.container import Container, ContainerId, Pod, QosClass
from ..model.grant import Dropped, Refusal
from ..model.request import Request
from ..pens.pen_name import PenName, is_outside, pen_by_numbers, wished_pen
from ..pens.pen_slices import (
    slice_size,
    unheeded_cold_start,
    unheeded_whole_cpus,
    unheeded_wish,
)
from ..placing.classifier import Classified, Classifier, grave_problems
from ..placing.judging.rule_reading import ABSENT, ABSENT_OF_ALL
from ..placing.wishes.idle_wishes import idle_wishes
from ..pools.pool_labels import pool_labels
from ..pools.pool_tree import PoolTree
from ..rules.central_rules import CentralRules, naming_rules
from ..rules.podaffinity.own_rules import POOL_NAME_KEY, selected_namespace_labels
from ..rules.podaffinity.pool_review import (
    reach_of,
    reviewed_absences,
    reviewed_labels,
    reviewed_pools,
    reviewed_spreads,
)
from ..rules.podaffinity.rule_review import (
    reviewed_counts,
    reviewed_footprint,
    reviewed_mates,
    reviewed_rules,
)
from ..rules.podaffinity.rule_text import placement_rules
from ..rules.unmatched_rules import cancelled_rules, unmatched_rules
from ..text.errors import Problem
from ..text.yaml_fields import Field, FieldError
from ..text.yaml_nodes import TextNode
from .creation import NodeMemory, created_container, created_pod
from .eligible_domains import EligibleDomains

_WAITS: Final = "alone it is refused: it must be with containers that are not there"
_ARRIVAL: Final = "have those placed before it"
_BROKEN: Final = "under 'on-unsatisfiable: fail' it would be refused"
_ON_UNSATISFIABLE: Final = RULE_KEYS[-1]
_WITH_RESOURCES: Final = "agent.podResourceAPI: true"


class PodCheck:
    """Checks pods against a configuration and a machine, each as if it were alone there."""

    def __init__(self, config: Config | None, machine: Machine | None) -> None:
        """Without a configuration: one that has every class a pod names.

        Without a machine nothing is placed. Raises `ConfigError` where the two do not fit.
        """
        self._config = config
        self._machine = machine
        self._engine = Engine(machine, config or Config()) if machine is not None else None

    def __call__(
        self, name: str, namespace: str, template: TextNode | None
    ) -> Iterator[Problem | Finding]:
        """The problems of the pod that a manifest, or the template in one, describes."""
        line, column = (0, 0) if template is None else (template.line, template.column)
        field = Field(source="", path="", line=line, column=column, node=template)
        try:
            spec = pod_of(field, name, namespace)
        except FieldError as error:
            problem = error.problem or Problem(where="manifest", what=str(error))
            yield Finding(problem=problem, line=error.line, column=error.column)
            return
        yield from self.problems(spec)

    def between(self, written: Sequence[WrittenPod]) -> Iterator[tuple[WrittenPod, Finding]]:
        """Advice about rules of each pod for those of others, as of all files together.

        A pod that cannot be read is passed over: that has been said. So is an object of a name that
        another one before it has: both never run in one cluster.
        """
        first: dict[tuple[str, ...], TextNode] = {}
        readable: list[WrittenPod] = []
        pods: list[ReviewedPod] = []
        config = self._config or Config()
        central = CentralRules(config)
        for one in written:
            if one.identity and first.setdefault(one.identity, one.manifest) is not one.manifest:
                continue
            field = Field(source="", path="", line=0, column=0, node=one.template)
            try:
                spec = pod_of(field, one.name, one.namespace)
            except FieldError:
                continue
            pod = created_pod(spec, len(pods))
            containers = tuple(
                central.completed(created_container(each, pod, serial)[0])
                for serial, each in enumerate((*spec.init_containers, *spec.containers))
            )
            readable.append(one)
            pods.append(ReviewedPod(containers=containers, is_named=one.is_named))
        for found in rules_between(pods, config, self._count_domains(config)):
            yield readable[found.place], readable[found.place].finding(found.problem)

    @cached_property
    def _eligible(self) -> EligibleDomains | None:
        """The domains of the machine's levels; None without one."""
        if self._machine is None or self._engine is None:
            return None
        return EligibleDomains(self._machine, self._engine.supply)

    def _count_domains(self, config: Config) -> CountDomains | None:
        return None if self._eligible is None else partial(self._eligible.count, config)

    def problems(self, spec: PodSpec) -> Iterator[Problem]:
        """Problems and refusals that creation would report of the pod's containers."""
        config = self._config or _config_for(spec)
        containers: list[Container] = []
        for problem in self._problems(spec, config, containers):
            path = problem.where.partition(" of ")[2]
            given = next((one.given for one in containers if one.path == path), ())
            yield from naming_rules((problem,), given)

    def _problems(
        self, spec: PodSpec, config: Config, containers: list[Container]
    ) -> Iterator[Problem]:
        """The problems as those who find them tell them; `containers` is filled first."""
        pod = created_pod(spec, 0)
        central = CentralRules(config)
        memory = None if self._machine is None else NodeMemory.of(self._machine)
        for serial, one in enumerate((*spec.init_containers, *spec.containers), start=1):
            container, problems = created_container(one, pod, serial, memory=memory)
            containers.append(central.completed(container))
            yield from problems
        # A decision tells of the first problems; whoever asks here wants to know them all.
        classifier = Classifier(config, machine=self._machine, problems_max=sys.maxsize)
        specs = (*spec.init_containers, *spec.containers)
        lasting = [it for one, it in zip(specs, containers, strict=True) if one.keeps_running]
        loose, penned = set[ContainerId](), set[ContainerId]()
        requests: dict[ContainerId, Request] = {}
        for container in containers:
            classified = classifier.classify(container)
            requests[container.id] = classified.request
            yield from classified.problems
            preferences = parse_preferences(container)
            # They count on few nodes alone; what is wrong in them is wrong on all.
            yield from annotated_hints(container)[1]
            yield from self._idle_hints(container, preferences)
            pen = _pen_of(container, preferences, lasting)
            if pen is None and not classified.rules:
                loose.add(container.id)
            if pen is not None and preferences.cold_start_ns:
                yield unheeded_cold_start(container, is_group=pen.is_group)
            if pen is not None:
                penned.add(container.id)
                yield from _shared_cpus(container, classified, pen)
        yield from idle_wishes(containers, requests, penned)
        yield from unmatched_rules(containers, is_symmetric=config.symmetric_affinity)
        yield from cancelled_rules(containers, is_symmetric=config.symmetric_affinity)
        for container in containers:
            yield from placement_rules(container, config)[1]
        eligible = self._eligible
        nest = None if eligible is None else eligible.domains.nest
        yield from reviewed_rules(containers, config, nest)
        yield from reviewed_mates(lasting, config)
        yield from reviewed_counts(lasting, config)
        free = [one for one in lasting if one.id in loose]
        masks, reach = None, -1
        if eligible is not None:
            masks = eligible.domains.masks
            reach = self._reach(free, config) & eligible.cpus([requests[one.id] for one in free])
        yield from reviewed_footprint(free, config, masks, reach)
        if self._machine is None:
            yield from reviewed_labels(containers, config, is_nodes=self._config is not None)
            yield from reviewed_absences(containers, config)
        else:
            engine = self._engine_of(self._machine, config)
            idle = list(self._idle_pools(containers, requests, engine.tree, config, self._machine))
            yield from idle
            yield from self._refusals(spec, containers, config, engine, idle)

    def _idle_hints(self, container: Container, preferences: Preferences) -> Iterator[Problem]:
        """Wishes about devices of the kubelet, which a node may not ask for."""
        if self._config is not None and self._config.agent.pod_resource_api:
            return
        names_them = HintSource.POD_RESOURCES in preferences.hint_sources != ALL_HINTS
        for key, is_set in (
            ("topologyhints", names_them),
            ("pick-resources-by-hints", preferences.pick_by_hints),
            ("near-device", is_resource(preferences.near_device or "")),
        ):
            setting = effective(container.pod.annotations, key, container.name)
            if setting is None or not is_set:
                continue
            yield Problem(
                where=f"{setting.key} of {container.path}",
                what="the kubelet's devices count only where the node's configuration has them on",
                fix=f"configure {_WITH_RESOURCES!r} there",
                is_advice=True,
            )

    def _engine_of(self, machine: Machine, config: Config) -> Engine:
        """An empty node; the one of the pod before where the configuration is the same."""
        if self._engine is None or self._engine.config != config:
            self._engine = Engine(machine, config)
        return self._engine

    def _reach(self, containers: Sequence[Container], config: Config) -> int:
        """A mask of the cpus of pools in which rules let containers be; all without a machine."""
        rules = [placement_rules(container, config)[0] for container in containers]
        if self._machine is None or not any(one.pool_required or one.pool_name for one in rules):
            return -1
        tree = self._engine_of(self._machine, config).tree
        labels = pool_labels(tree, self._machine, config)
        return reduce(int.__or__, [reach_of(one, tree, labels) for one in rules])

    def _idle_pools(
        self,
        containers: Sequence[Container],
        requests: Mapping[ContainerId, Request],
        tree: PoolTree,
        config: Config,
        machine: Machine,
    ) -> Iterator[Problem]:
        """Rules about pools that the machine does not have. `requests`: of all containers."""
        rules = [placement_rules(container, config)[0] for container in containers]
        if any(one.pool_required or one.pool_preferred or one.pool_name for one in rules):
            labels = pool_labels(tree, machine, config)
            yield from reviewed_pools(containers, config, tree, labels)
            is_nodes = self._config is not None
            yield from reviewed_labels(containers, config, is_nodes=is_nodes, labels=labels)
            yield from reviewed_absences(containers, config, labels)
            if self._eligible is not None:
                cpus = {one: self._eligible.cpus((asked,)) for one, asked in requests.items()}
                masks = self._eligible.domains.masks
                yield from reviewed_spreads(containers, config, tree, labels, masks, cpus)

    def _refusals(
        self,
        spec: PodSpec,
        containers: Sequence[Container],
        config: Config,
        engine: Engine,
        idle: Sequence[Problem],
    ) -> Iterator[Problem]:
        """Why the engine refuses containers, for other reasons than their annotations' problems.

        And required rules that do not hold where it puts them. `idle`: what is known of rules about
        pools.
        """
        specs = (*spec.init_containers, *spec.containers)
        engine.forget_places()
        for one, container in zip(specs, containers, strict=True):
            decision = engine.create(container)
            if _waits(decision):
                # Alone it waits in vain: whether there is room for it can be said all the same.
                waiting = structs.replace(container, pod=_yielding(container.pod))
                yield Problem(where=container.path, what=_WAITS, fix=_ARRIVAL, is_advice=True)
                decision = engine.create(waiting)
            is_refused = isinstance(decision.result, Refusal)
            if isinstance(decision.result, Refusal) and not grave_problems(
                decision.problems, container, config
            ):
                yield Problem(where=container.path, what=f"refused: {decision.result.reason}")
            yield from _broken_alone(decision, container, idle)
            if is_refused and one in spec.init_containers:
                # Kubernetes starts nothing else before its init containers are done.
                break
            if is_refused or not one.keeps_running:
                engine.remove(container.id)
        for container in containers:
            engine.remove(container.id)


def _pen_of(
    container: Container, preferences: Preferences, lasting: Sequence[Container]
) -> PenName | None:
    """The pen that a container is in once all of its pod run: those are the `lasting` ones."""
    wished = wished_pen(container, preferences)
    if wished is not None or container not in lasting:
        return wished
    others = [one for one in lasting if one is not container and not is_outside(one)]
    return pen_by_numbers(container, others, container.pod.resources)


def _shared_cpus(container: Container, classified: Classified, pen: PenName) -> Iterator[Problem]:
    """What a container that would have cpus for itself does not get in its pen."""
    whole = container.pod.resources
    milli = 0 if whole is None else whole.cpu_request_milli
    is_own = container.pod.qos is QosClass.GUARANTEED and not milli % 1000
    if is_own and slice_size(pen, container, classified, whole):
        return
    problem = unheeded_wish(container, is_group=pen.is_group)
    if problem is not None:
        yield problem
    elif classified.request.exclusive and milli % 1000 and not pen.is_group:
        yield unheeded_whole_cpus(container, milli)


def _waits(decision: Decision) -> bool:
    """Whether a container is refused for nothing but that those it must be with are not there."""
    if not isinstance(decision.result, Refusal) or not decision.candidates:
        return False
    absent = ABSENT, ABSENT_OF_ALL
    return all(isinstance(one, Dropped) and one.wanted in absent for one in decision.candidates)


def _broken_alone(
    decision: Decision, container: Container, idle: Sequence[Problem]
) -> Iterator[Problem]:
    """Advice about required rules that give way although nobody else is there."""
    known = tuple(
        _source(one) for one in idle if not one.is_advice and one.container == container.name
    )
    for text in decision.unmet:
        is_known = any(one in text for one in known)
        if not is_known and not text.endswith((ABSENT, ABSENT_OF_ALL)):
            what = f"even alone it breaks a required rule: {text}"
            yield Problem(where=container.path, what=what, fix=_BROKEN, is_advice=True)


def _source(problem: Problem) -> str:
    """Where a problem is, as the texts of rules about pools say it."""
    key = problem.where.partition(" of ")[0]
    if key.startswith(f"{POOL_NAME_KEY}."):
        return f"{POOL_NAME_KEY} '"
    return f"({key}:{problem.line})" if problem.line else f"({key})"


def _yielding(pod: Pod) -> Pod:
    """The pod with rules that give way."""
    kept = {
        key: text
        for key, text in pod.annotations.items()
        if not key.startswith(f"{_ON_UNSATISFIABLE}.")
    }
    degrade = {f"{_ON_UNSATISFIABLE}.{OWN_DOMAIN}/pod": OnUnsatisfiable.DEGRADE.value}
    return structs.replace(pod, annotations=kept | degrade)


def _config_for(spec: PodSpec) -> Config:
    """A configuration with all that a pod names, so that only the pod can be wrong."""
    cpu_classes: dict[str, None] = {}
    scheduling_classes: dict[str, None] = {}
    namespace_labels: dict[str, str] = {}
    loads: dict[str, None] = {}
    pod = created_pod(spec, 0)
    for one in (*spec.init_containers, *spec.containers):
        container = created_container(one, pod, 0)[0]
        namespace_labels.update(dict.fromkeys(selected_namespace_labels(container), ""))
        preferences = parse_preferences(container)
        if preferences.load is not None:
            loads[preferences.load.value] = None
        if preferences.cpu_class is not None:
            cpu_classes[preferences.cpu_class.value] = None
        if preferences.scheduling_class is not None:
            scheduling_classes[preferences.scheduling_class] = None
    return Config(
        load_classes=tuple(LoadClass(name=name, level=LoadLevel.CORE) for name in loads),
        cpu_classes=tuple(CpuClass(name=name) for name in cpu_classes),
        scheduling_classes=tuple(SchedulingClass(name=name) for name in scheduling_classes),
        # Of a namespace that cannot exist.
        namespace_labels={"": namespace_labels},
        racks={spec.labels[RACK_LABEL]: Rack()} if RACK_LABEL in spec.labels else {},
        control=Control(rdt=RdtControl(enable=True), blockio=BlockIoControl(enable=True)),
    )
