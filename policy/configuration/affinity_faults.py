"""Faults of the fields about required and preferred rules, beyond their types."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

import msgspec

from ..model.container import QosClass
from ..model.level_name import RULE_LEVELS, parse_level
from ..model.selector_operator import PSEUDO_LABEL_NAMES, values_fault
from ..text.glob import GlobError, compile_glob
from ..text.yaml_document import Path
from .affinity_fields import (
    ITEMS_MAX,
    REQUIREMENTS_MAX,
    RULE_WEIGHT_MAX,
    RULES_MAX,
    WORD_MAX,
    AddedAffinity,
    AntiAffinityLimits,
    LabelExpressionFields,
    LabelSelectorFields,
    PodAffinityFields,
    PoolAffinityFields,
    PoolExpressionFields,
    PoolTermFields,
    Profile,
    TermFields,
    parse_share,
)
from .config import Config
from .section import yaml_name
from .shape import Fault, name_advice, name_faults, range_faults

_IGNORED: Final = "required_during_scheduling_ignored_during_execution"
_REQUIRED: Final = "required_during_scheduling_required_during_execution"
_POD_QOS: Final = "pod.qos"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def affinity_faults(config: Config) -> Iterator[Fault]:
    """Faults of profiles, limits and the weight of required affinity."""
    names = [profile.name for profile in config.profiles]
    for index, profile in enumerate(config.profiles):
        path: Path = ("profiles", index)
        yield from name_faults(path, profile.name, names[:index], "profile")
        yield from _profile(path, profile)
    yield from range_faults(
        ("hardAffinityWeight",), config.hard_affinity_weight, 0, RULE_WEIGHT_MAX
    )
    yield from _limits(("antiAffinityLimits",), config.anti_affinity_limits)


def _profile(path: Path, profile: Profile) -> Iterator[Fault]:
    for index, pattern in enumerate(profile.namespaces):
        yield from pattern_faults((*path, "namespaces", index), pattern)
    yield from selector_faults((*path, "labelSelector"), profile.label_selector)
    at: Path = (*path, "addedAffinity")
    yield from _added(at, profile.added_affinity)
    yield from _sizes(at, msgspec.to_builtins(profile.added_affinity))


def _added(path: Path, added: AddedAffinity) -> Iterator[Fault]:
    for name, section in (
        ("podAffinity", added.pod_affinity),
        ("podAntiAffinity", added.pod_anti_affinity),
    ):
        if section is not None:
            yield from _pods((*path, name), section)
    if added.pool_affinity is not None:
        yield from _pools((*path, "poolAffinity"), added.pool_affinity)


def _pods(path: Path, section: PodAffinityFields) -> Iterator[Fault]:
    for field in (_IGNORED, _REQUIRED):
        for index, term in enumerate(getattr(section, field)):
            yield from _term((*path, yaml_name(field), index), term)
    preferred = section.preferred_during_scheduling_ignored_during_execution
    for index, one in enumerate(preferred):
        at: Path = (*path, _PREFERRED, index)
        yield from range_faults((*at, "weight"), one.weight, 1, RULE_WEIGHT_MAX)
        yield from _term((*at, "podAffinityTerm"), one.pod_affinity_term)


def _pools(path: Path, section: PoolAffinityFields) -> Iterator[Fault]:
    for field in (_IGNORED, _REQUIRED):
        required = getattr(section, field)
        if required is None:
            continue
        at: Path = (*path, yaml_name(field), "nodeSelectorTerms")
        if not required.node_selector_terms:
            yield Fault(at, "no terms — write at least one")
        for index, term in enumerate(required.node_selector_terms):
            yield from selector_faults((*at, index), term)
    preferred = section.preferred_during_scheduling_ignored_during_execution
    for index, one in enumerate(preferred):
        at = (*path, _PREFERRED, index)
        yield from range_faults((*at, "weight"), one.weight, 1, RULE_WEIGHT_MAX)
        yield from selector_faults((*at, "preference"), one.preference)


def pool_label_keys(section: PoolAffinityFields) -> Iterator[tuple[Path, str]]:
    """The labels that rules about pools ask for, and where in them."""
    for at, value in values_in((), msgspec.to_builtins(section)):
        if at and at[-1] == "key":
            yield at, str(value)


def _term(path: Path, term: TermFields) -> Iterator[Fault]:
    yield from _level((*path, "topologyKey"), term.topology_key)
    selector = term.label_selector
    for name, one in (("labelSelector", selector), ("namespaceSelector", term.namespace_selector)):
        if one is not None:
            yield from selector_faults((*path, name), one)
    yield from _classes((*path, "labelSelector"), selector or LabelSelectorFields())
    if selector is None:
        yield Fault(path, "without labelSelector it is about nobody — write {} to mean all")
    if term.scope is not None:
        yield from _scope(path, term)
    own = _keys(selector)
    for index, key in enumerate(term.match_label_keys):
        if key in own or key in term.mismatch_label_keys:
            what = f"{key!r} is also in labelSelector or mismatchLabelKeys — leave it out of one"
            yield Fault((*path, "matchLabelKeys", index), what)


def _classes(path: Path, selector: LabelSelectorFields) -> Iterator[Fault]:
    """Classes of pods that are none."""
    accepted = [one.value for one in QosClass]
    named = [
        ((*path, "matchLabels", key), value)
        for key, value in selector.match_labels.items()
        if key == _POD_QOS
    ]
    named += [
        ((*path, "matchExpressions", index, "values", place), value)
        for index, one in enumerate(selector.match_expressions)
        if one.key == _POD_QOS
        for place, value in enumerate(one.values)
    ]
    for at, value in named:
        if value not in accepted:
            yield Fault(at, f"unknown QoS class {value!r} — {name_advice(value, accepted)}")


def _scope(path: Path, term: TermFields) -> Iterator[Fault]:
    if term.scope != "pod":
        yield Fault((*path, "scope"), f"{term.scope!r} is not accepted — write pod")
    for name, is_given in (
        ("namespaces", bool(term.namespaces)),
        ("namespaceSelector", term.namespace_selector is not None),
        ("matchLabelKeys", bool(term.match_label_keys)),
        ("mismatchLabelKeys", bool(term.mismatch_label_keys)),
    ):
        if is_given:
            what = "stands beside 'scope: pod', which is about one pod — leave one of them out"
            yield Fault((*path, name), what)
    for key in _keys(term.label_selector):
        if key not in PSEUDO_LABEL_NAMES:
            what = (
                f"the label {key!r} is the same in a pod's containers — under 'scope: pod' use"
                f" {', '.join(PSEUDO_LABEL_NAMES)}"
            )
            yield Fault((*path, "labelSelector"), what)


def _keys(selector: LabelSelectorFields | None) -> tuple[str, ...]:
    if selector is None:
        return ()
    return (*selector.match_labels, *(one.key for one in selector.match_expressions))


def _sizes(path: Path, added: object) -> Iterator[Fault]:
    """Faults of rules that are more than an annotation may hold."""
    rules = requirements = 0
    for at, value in values_in(path, added):
        if at[-1] == "topologyKey" or at[-2:-1] == (_PREFERRED,):
            rules += 1
        if at[-1] == "key" or at[-2] in ("matchLabels", "matchLabelKeys", "mismatchLabelKeys"):
            requirements += 1
        if isinstance(value, str) and len(value) > WORD_MAX:
            yield Fault(at, f"has {len(value)} characters — write at most {WORD_MAX}")
        if isinstance(value, list | tuple):
            limit = RULES_MAX if at[-1] == "nodeSelectorTerms" else ITEMS_MAX
            count = len(cast("Sequence[object]", value))
            if count > limit:
                yield Fault(at, f"has {count} items — write at most {limit}")
    for count, limit, noun in (
        (rules, RULES_MAX, "rules"),
        (requirements, REQUIREMENTS_MAX, "labels, expressions and label keys"),
    ):
        if count > limit:
            yield Fault(path, f"has {count} {noun} — write at most {limit}")


def values_in(path: Path, value: object) -> Iterator[tuple[Path, object]]:
    """All values in a value, and their paths."""
    yield path, value
    if isinstance(value, dict):
        for key, one in cast("Mapping[str, object]", value).items():
            yield from values_in((*path, key), one)
    elif isinstance(value, list | tuple):
        for index, one in enumerate(cast("Sequence[object]", value)):
            yield from values_in((*path, index), one)


def selector_faults(path: Path, selector: LabelSelectorFields | PoolTermFields) -> Iterator[Fault]:
    """Faults of a selector of labels: operators with too few or too many values."""
    expressions: Sequence[LabelExpressionFields | PoolExpressionFields] = selector.match_expressions
    for index, one in enumerate(expressions):
        fault = values_fault(one.operator, one.values)
        if fault is not None:
            yield Fault((*path, "matchExpressions", index), " — ".join(fault))


def _limits(path: Path, limits: AntiAffinityLimits) -> Iterator[Fault]:
    yield from _share((*path, "maxBlockedCPUs"), limits.max_blocked_cpus)
    for pattern, one in limits.namespaces.items():
        at: Path = (*path, "namespaces", pattern)
        yield from pattern_faults(at, pattern)
        if one.max_blocked_cpus is not None:
            yield from _share((*at, "maxBlockedCPUs"), one.max_blocked_cpus)
        names = [level.value for level in RULE_LEVELS]
        for index, name in enumerate(one.levels or ()):
            if name not in names:
                what = f"unknown level {name!r} — {name_advice(name, names)}"
                yield Fault((*at, "levels", index), what)


def _level(path: Path, text: str) -> Iterator[Fault]:
    try:
        parse_level(text)
    except ValueError as error:
        yield Fault(path, " — ".join(map(str, error.args)))


def _share(path: Path, written: str | int) -> Iterator[Fault]:
    try:
        parse_share(written, 1)
    except ValueError as error:
        yield Fault(path, f"{error} — write 50%, or 16")


def pattern_faults(path: Path, pattern: str) -> Iterator[Fault]:
    """The fault of a text that is no pattern."""
    try:
        compile_glob(pattern)
    except GlobError as error:
        yield Fault(path, f"{pattern!r} is no pattern: {error} — {error.fix}")
