"""Preferences in a container's annotations, typed; the classifier decides what becomes of them."""

import dataclasses
from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ...topology.model.machine import Level, MemoryKind
from ...topology.sets.base_errors import quoted
from ..model.container import Container
from ..model.cpu_preference import (
    BurstLevel,
    CpuPriority,
    MovePreference,
    QuotaUse,
    SmtPreference,
)
from ..text.errors import Problem
from ..text.suggestion import suggestion
from ..text.text_cache import TextCache
from ..text.yaml_nodes import TextError
from .annotation_keys import RULE_KEYS
from .annotation_values import (
    ALL_HINTS,
    HiddenThreads,
    HintSource,
    IrqAffinity,
    MemoryUse,
    PathFilter,
    parse_bool,
    parse_burst_level,
    parse_cold_start,
    parse_cpu_priority,
    parse_device,
    parse_exclusive,
    parse_group,
    parse_hidden_threads,
    parse_hint_sources,
    parse_idle_level,
    parse_irq_affinity,
    parse_memory_types,
    parse_memory_use,
    parse_move,
    parse_path_filter,
    parse_preserve,
    parse_quota_use,
    parse_smt,
    parse_word,
)
from .annotations import (
    Annotations,
    Scope,
    Setting,
    annotation_problems,
    own_annotations,
    read_annotations,
)

T = TypeVar("T")

_UNKNOWN_MAX = 3
"""So many unknown kinds of hints are told."""


class Chosen(Struct, Generic[T], frozen=True):
    """A value somebody asked for, how specific that was, and the annotation."""

    value: T
    scope: Scope
    key: str


class Preferences(Struct, frozen=True, kw_only=True):
    """One field per key of the annotation table; None (or the default) where nothing valid is said.

    A preference that cannot be read is as good as absent and among `problems`; those that say
    `is_fatal` refuse the container.
    """

    prefer_isolated: Chosen[bool] | None = None
    require_isolated: Chosen[bool] | None = None
    prefer_shared: Chosen[bool] | None = None
    cpu_priority: CpuPriority | None = None
    prefer_reserved: bool | None = None
    hide_hyperthreads: bool = False
    whole_cores: bool = False
    near_device: str | None = None
    """A device by a path or a PCI address, or a resource of the kubelet."""
    load: Chosen[str] | None = None
    quota: QuotaUse | None = None
    memory: MemoryUse | None = None
    idle_cpus: Level | None = None
    """The level of the domains of which it may use idle cpus."""
    exclusive: int | None = None
    """How many cpus it wants for itself, or `AS_REQUESTED`."""
    memory_types: Chosen[frozenset[MemoryKind]] | None = None
    cold_start_ns: int = 0
    preserve_cpu: bool = False
    preserve_memory: bool = False
    pick_by_hints: bool = False
    burst_level: BurstLevel | None = None
    scheduling_class: str | None = None
    cpu_class: Chosen[str] | None = None
    irq_affinity: Chosen[IrqAffinity] | None = None
    hint_sources: frozenset[HintSource] = ALL_HINTS
    hint_allow: PathFilter | None = None
    hint_deny: PathFilter | None = None
    strict_hints: bool = False
    rdt_class: str | None = None
    blockio_class: str | None = None
    smt: SmtPreference | None = None
    move: MovePreference | None = None
    pod_pool: bool | None = None
    group: str | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def isolated(self) -> tuple[Chosen[bool] | None, bool]:
        """The isolated preference that counts, and whether it is a requirement.

        Requiring wins over preferring where its scope is the same or more specific.
        """
        prefer, require = self.prefer_isolated, self.require_isolated
        if require is not None and (prefer is None or require.scope >= prefer.scope):
            return require, require.value
        return prefer, False


NO_PREFERENCES = Preferences()


def parse_preferences(container: Container) -> Preferences:
    """Preferences of a container in its pod's annotations. Never raises.

    Its problems include those of the pod's annotation keys.
    """
    ours = own_annotations(container.pod.annotations)
    if not ours and not container.pod.annotation_problems:
        return NO_PREFERENCES
    preferences, faults = _parse(ours, container.name)
    if not faults and not preferences.problems and not container.pod.annotation_problems:
        return preferences
    problems = annotation_problems(container.pod)
    place = f"of {container.path}"
    own = [dataclasses.replace(one, where=f"{one.where} {place}") for one in preferences.problems]
    return replace(preferences, problems=(*problems, *own))


@TextCache
def _parse(ours: tuple[tuple[str, str], ...], name: str) -> tuple[Preferences, tuple[Problem, ...]]:
    """Preferences of the containers of this name in pods with these texts, and faults of the keys.

    No problem names the pod.
    """
    annotations = read_annotations(dict(ours))
    # Rules between containers are all that most say: they are read elsewhere.
    if {key for key, _ in annotations.settings}.issubset(RULE_KEYS):
        return NO_PREFERENCES, annotations.problems
    return _Reader(annotations, name).read(), annotations.problems


class _Reader:
    def __init__(self, annotations: Annotations, name: str) -> None:
        self._annotations = annotations
        self._name = name
        self._problems: list[Problem] = []

    def read(self) -> Preferences:
        hidden = self._value("hide-hyperthreads", parse_hidden_threads, HiddenThreads.NONE)
        preferences = Preferences(
            prefer_isolated=self._chosen("prefer-isolated-cpus", parse_bool),
            require_isolated=self._chosen("require-isolated-cpus", parse_bool),
            prefer_shared=self._chosen("prefer-shared-cpus", parse_bool),
            cpu_priority=self._value("prefer-cpu-priority", parse_cpu_priority, None),
            prefer_reserved=self._value("prefer-reserved-cpus", parse_bool, None),
            hide_hyperthreads=hidden is not HiddenThreads.NONE,
            whole_cores=hidden is HiddenThreads.WHOLE_CORES,
            exclusive=self._value("exclusive", parse_exclusive, None),
            idle_cpus=self._value("idle-cpus", parse_idle_level, None),
            near_device=self._value("near-device", parse_device, None),
            load=self._chosen("load", parse_word),
            quota=self._value("quota", parse_quota_use, None),
            memory=self._value("memory", parse_memory_use, None),
            memory_types=self._chosen("memory-type", parse_memory_types),
            cold_start_ns=self._value("cold-start", parse_cold_start, 0),
            preserve_cpu=self._value("cpu.preserve", parse_preserve, False),
            preserve_memory=self._value("memory.preserve", parse_preserve, False),
            pick_by_hints=self._value("pick-resources-by-hints", parse_bool, False),
            burst_level=self._value("unlimited-burstable", parse_burst_level, None),
            scheduling_class=self._value("scheduling-class", parse_word, None),
            cpu_class=self._chosen("cpu-class", parse_word),
            irq_affinity=self._chosen("irq-affinity", parse_irq_affinity, is_fatal=True),
            hint_sources=self._hint_sources(),
            hint_allow=self._value("allow.topologyhints", parse_path_filter, None),
            hint_deny=self._value("deny.topologyhints", parse_path_filter, None),
            strict_hints=self._value("strict.topologyhints", parse_bool, False),
            rdt_class=self._value("rdtclass", parse_word, None),
            blockio_class=self._value("blockioclass", parse_word, None),
            smt=self._value("smt", parse_smt, None),
            move=self._value("move", parse_move, None),
            pod_pool=self._value("pod-pool", parse_bool, None),
            group=self._value("group", parse_group, None),
        )
        return replace(preferences, problems=tuple(self._problems))

    def _setting(self, key: str) -> Setting | None:
        return self._annotations.effective(key, self._name)

    def _chosen(
        self, key: str, parse: Callable[[str], T], *, is_fatal: bool = False
    ) -> Chosen[T] | None:
        setting = self._setting(key)
        if setting is None:
            return None
        try:
            return Chosen(parse(setting.value), setting.scope, setting.key)
        except TextError as error:
            self._problems.append(error.problem(setting.key, is_fatal=is_fatal))
            return None

    def _value(self, key: str, parse: Callable[[str], T], default: T) -> T:
        chosen = self._chosen(key, parse)
        return default if chosen is None else chosen.value

    def _hint_sources(self) -> frozenset[HintSource]:
        setting = self._setting("topologyhints")
        if setting is None:
            return ALL_HINTS
        sources, unknown = parse_hint_sources(setting.value)
        for item in unknown[:_UNKNOWN_MAX]:
            what = f"unknown kind of hint {quoted(item)}"
            if len(unknown) > _UNKNOWN_MAX:
                what += f", one of {len(unknown)}"
            fix = suggestion(item, ("all", "none", *(source.value for source in HintSource)))
            self._problems.append(Problem(where=setting.key, what=what, fix=fix))
        return sources
