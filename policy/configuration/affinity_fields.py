"""Fields of the configuration about required and preferred rules.

Profiles, racks, resource sets, and limits of anti-affinity. The schema of `addedAffinity` is
that of the affinity annotation.
"""

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from ...topology.model.machine import Level
from ..model.level_name import RULE_LEVELS
from ..model.selector_operator import LabelOperator, PoolOperator
from ..text.glob import compile_glob
from .section import Section

RULES_MAX: Final = 16
"""Of one annotation or profile, all kinds together; and so many terms of a pool requirement."""
REQUIREMENTS_MAX: Final = 512
"""Of all its rules: every label, expression and label key."""
ITEMS_MAX: Final = 256
"""Of a list of words."""
WORD_MAX: Final = 512
"""Characters of a word; Kubernetes allows 380 to a label with its value."""
RULE_WEIGHT_MAX: Final = 100


class KubeCompat(enum.Enum):
    """The meaning of several required affinity terms of one container."""

    DOCUMENT = "document"
    """Each term asks for its own containers, as Kubernetes' design document has it."""
    STRICT = "strict"
    """A container counts only if it matches all of the terms, as Kubernetes' code has it."""


class LabelExpressionFields(Section, frozen=True, kw_only=True):
    """One requirement on labels."""

    key: str
    operator: LabelOperator
    values: tuple[str, ...] = ()


class LabelSelectorFields(Section, frozen=True, kw_only=True):
    """Requirements on labels, all of which hold."""

    match_labels: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    match_expressions: tuple[LabelExpressionFields, ...] = ()


class TermFields(Section, frozen=True, kw_only=True):
    """Containers that a rule is about, and the level."""

    topology_key: str
    label_selector: LabelSelectorFields | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelectorFields | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()
    scope: str | None = None


class WeightedTermFields(Section, frozen=True, kw_only=True):
    """A term that is preferred, from 1 to 100."""

    weight: int
    pod_affinity_term: TermFields


class PodAffinityFields(Section, frozen=True, kw_only=True):
    """Rules between containers of one kind."""

    required_during_scheduling_ignored_during_execution: tuple[TermFields, ...] = ()
    required_during_scheduling_required_during_execution: tuple[TermFields, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedTermFields, ...] = ()


class PoolExpressionFields(Section, frozen=True, kw_only=True):
    """One expression over a pool's labels."""

    key: str
    operator: PoolOperator
    values: tuple[str, ...] = ()


class PoolTermFields(Section, frozen=True, kw_only=True):
    """Expressions over a pool's labels, all of which hold."""

    match_expressions: tuple[PoolExpressionFields, ...] = ()


class PoolRequirementFields(Section, frozen=True, kw_only=True):
    """Terms of which one holds."""

    node_selector_terms: tuple[PoolTermFields, ...]


class PoolPreferenceFields(Section, frozen=True, kw_only=True):
    """A term over a pool's labels that is preferred, from 1 to 100."""

    weight: int
    preference: PoolTermFields


class PoolAffinityFields(Section, frozen=True, kw_only=True):
    """Rules about pools."""

    required_during_scheduling_ignored_during_execution: PoolRequirementFields | None = None
    required_during_scheduling_required_during_execution: PoolRequirementFields | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PoolPreferenceFields, ...] = ()


class AddedAffinity(Section, frozen=True, kw_only=True):
    """Rules that containers have beside their own."""

    pod_affinity: PodAffinityFields | None = None
    pod_anti_affinity: PodAffinityFields | None = None
    pool_affinity: PoolAffinityFields | None = None


class Profile(Section, frozen=True, kw_only=True):
    """Rules for the containers of some namespaces, as globs, and with some labels."""

    name: str
    namespaces: tuple[str, ...] = ("*",)
    label_selector: LabelSelectorFields = LabelSelectorFields()
    added_affinity: AddedAffinity = AddedAffinity()


class RackLevel(Section, frozen=True, kw_only=True):
    """Rules of a rack at one level; without `enabled` none of them."""

    enabled: bool = False
    require_rack_affinity: bool = False
    require_rack_anti_affinity: bool = True
    enable_numa_anti_affinity: bool | None = None
    """Whether its pods keep apart, one level further in; unless said otherwise, of a socket."""
    require_rack_numa_anti_affinity: bool = True
    enable_die_anti_affinity: bool = False
    require_rack_die_anti_affinity: bool = True
    enable_l3_anti_affinity: bool = False
    require_rack_l3_anti_affinity: bool = True
    enable_cluster_anti_affinity: bool = False
    require_rack_cluster_anti_affinity: bool = True
    enable_core_anti_affinity: bool = False
    require_rack_core_anti_affinity: bool = True

    def inner_levels(self, outer: Level) -> tuple[tuple[Level, bool], ...]:
        """Levels at which the rack's pods keep apart, and whether they must."""
        found: list[tuple[Level, bool]] = []
        for level in RULE_LEVELS:
            is_enabled = getattr(self, f"enable_{level.value}_anti_affinity", False)
            if level is Level.NUMA and is_enabled is None:
                is_enabled = outer is Level.SOCKET
            if is_enabled:
                found.append((level, getattr(self, f"require_rack_{level.value}_anti_affinity")))
        return tuple(found)


class Rack(Section, frozen=True, kw_only=True):
    """A fault domain: pods labelled with its name go together, and apart from other racks."""

    socket: RackLevel = RackLevel()
    die: RackLevel = RackLevel()
    numa: RackLevel = RackLevel()
    l3: RackLevel = RackLevel()
    cluster: RackLevel = RackLevel()
    core: RackLevel = RackLevel()

    @property
    def levels(self) -> tuple[tuple[Level, RackLevel], ...]:
        """The levels at which it has rules."""
        every = [(level, getattr(self, level.value)) for level in RULE_LEVELS]
        return tuple((level, rules) for level, rules in every if rules.enabled)


class ReplicaLevel(Section, frozen=True, kw_only=True):
    """Whether replicas keep apart at a level, and whether they must."""

    enabled: bool = False
    required: bool = False


class ReplicaAntiAffinity(Section, frozen=True, kw_only=True):
    """Levels at which the pods of one resource set keep apart."""

    socket: ReplicaLevel = ReplicaLevel()
    die: ReplicaLevel = ReplicaLevel()
    numa: ReplicaLevel = ReplicaLevel(enabled=True, required=True)
    l3: ReplicaLevel = ReplicaLevel()
    cluster: ReplicaLevel = ReplicaLevel()
    core: ReplicaLevel = ReplicaLevel()

    @property
    def levels(self) -> tuple[tuple[Level, ReplicaLevel], ...]:
        """The levels at which there are rules."""
        every = [(level, getattr(self, level.value)) for level in RULE_LEVELS]
        return tuple((level, rules) for level, rules in every if rules.enabled)


DEFAULT_BLOCKED_CPUS: Final = "50%"


class NamespaceLimits(Section, frozen=True, kw_only=True):
    """Limits of a namespace's required anti-affinity against containers of other namespaces."""

    levels: tuple[str, ...] | None = None
    """Levels at which it may be required; None: all."""
    max_blocked_cpus: str | int | None = None

    @property
    def allowed_levels(self) -> frozenset[Level]:
        """The levels at which it may be required."""
        if self.levels is None:
            return frozenset(RULE_LEVELS)
        return frozenset(level for level in RULE_LEVELS if level.value in self.levels)


class AntiAffinityLimits(Section, frozen=True, kw_only=True):
    """Limits of required anti-affinity, so that nobody blocks the machine for others."""

    max_blocked_cpus: str | int = DEFAULT_BLOCKED_CPUS
    namespaces: Mapping[str, NamespaceLimits] = msgspec.field(
        default_factory=dict[str, NamespaceLimits]
    )
    """By glob; of several that match, the first counts."""

    def allowed_levels(self, namespace: str) -> frozenset[Level]:
        """The levels at which containers of a namespace may require to be alone."""
        found = self._of(namespace)
        return frozenset(RULE_LEVELS) if found is None else found.allowed_levels

    def max_blocked(self, namespace: str, cpus: int) -> int:
        """The cpus, of so many of the machine, that a namespace may block for others."""
        found = self._of(namespace)
        written = self.max_blocked_cpus
        if found is not None and found.max_blocked_cpus is not None:
            written = found.max_blocked_cpus
        return parse_share(written, cpus)

    def _of(self, namespace: str) -> NamespaceLimits | None:
        for pattern, limits in self.namespaces.items():
            if compile_glob(pattern).matches(namespace):
                return limits
        return None


def parse_share(written: str | int, whole: int) -> int:
    """A number of cpus, or a percentage of so many, rounded down. Raises `ValueError`.

    >>> parse_share("50%", 15), parse_share(4, 15), parse_share("4", 15)
    (7, 4, 4)
    """
    text = str(written).strip()
    digits = text.removesuffix("%").strip()
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 9:
        raise ValueError(f"{text!r} is neither a number of cpus nor a percentage")
    number = int(digits)
    if text.endswith("%"):
        if number > 100:
            raise ValueError(f"{text!r} is more than all cpus")
        return whole * number // 100
    return number
