"""Rules that the configuration adds to those of pods: profiles, racks and resource sets.

Racks and resource sets are shorthand: what they come to is written as an author would write it and
read as any other text, so `pinfold lint --expand` shows exactly what counts.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, cast

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import replace

from ....topology.model.machine import Level
from ....topology.sets.base_errors import quoted
from ...annotations.annotation_keys import RACK_LABEL, RESOURCE_SET_LABEL
from ...configuration.affinity_fields import LabelSelectorFields, Profile, Rack
from ...configuration.annotation_rule_fields import LoadClass, LoadLevel
from ...configuration.config import Config
from ...configuration.idle_rules import opposed_replicas, replicas_advice, replicas_text
from ...model.container import Pod
from ...model.selector_operator import LabelOperator
from ...text.errors import Problem
from ...text.glob import compile_glob
from ...text.suggestion import suggestion
from ...text.yaml_nodes import Position, TextList, TextMap, TextNode, TextScalar
from .affinity_text import PREFERRED_FIELD, read_affinity
from .label_selector import LabelRequirement, LabelSelector
from .namespace_scope import NamespaceLabels
from .term import POD_UID
from .written_rules import NO_WRITTEN_RULES, WrittenRules

LOAD_LABEL: Final = "load.pinfold.dev"
"""The label that stands for the class of load of a container; its annotation gives it."""
_LOAD_LEVELS: Final = {LoadLevel.CORE: "core", LoadLevel.L2: "cluster", LoadLevel.L3: "l3"}
_REQUIRED_FIELD: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_SHORTHAND_WEIGHT: Final = 100
_RACKS_MAX: Final = 32
"""Of those that are compared with one that is not known."""


class AddedRules(Struct, frozen=True, kw_only=True):
    """Rules for the containers of some namespaces and with some labels."""

    name: str
    namespaces: tuple[str, ...]
    """Globs."""
    selector: LabelSelector
    written: Mapping[str, object]
    """The rules in the shape of the annotation."""
    rules: WrittenRules

    def is_for(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether containers of a namespace with these labels have the rules."""
        return self.selector.matches(labels) and any(
            compile_glob(pattern).matches(namespace) for pattern in self.namespaces
        )


class ConfiguredRules(Struct, frozen=True, kw_only=True):
    """All rules of a configuration."""

    added: tuple[AddedRules, ...]
    racks: tuple[str, ...]
    parted_racks: Mapping[str, tuple[Level, Level]]
    """Racks whose pods it wants together at a level, and those of one set apart at another one."""
    namespace_labels: NamespaceLabels

    def for_pod(self, pod: Pod) -> tuple[AddedRules, ...]:
        """The rules that the containers of a pod get."""
        return tuple([one for one in self.added if one.is_for(pod.namespace, pod.labels)])

    def problems(self, pod: Pod) -> Iterator[Problem]:
        """Problems of the labels of a pod that name a rack, and beside it a resource set."""
        rack = pod.labels.get(RACK_LABEL)
        if rack is None:
            return
        if rack not in self.racks:
            yield Problem(
                where=f"label {RACK_LABEL} of {pod.namespace}/{pod.name}",
                what=f"the node's configuration has no rack {quoted(rack)}",
                fix=_rack_advice(rack, self.racks),
                is_advice=True,
            )
        if rack in self.parted_racks and RESOURCE_SET_LABEL in pod.labels:
            level, other = self.parted_racks[rack]
            yield Problem(
                where=f"label {RACK_LABEL} of {pod.namespace}/{pod.name}",
                what=f"rack {quoted(rack)} {replicas_text(level, other)}, of which the pod is one",
                fix=f"leave one of the labels out, or {replicas_advice(other)}",
                is_advice=True,
            )


def configured_rules(config: Config) -> ConfiguredRules:
    """The rules that a configuration adds, in the order of its fields."""
    return ConfiguredRules(
        added=(
            *map(_of_profile, config.profiles),
            *(one for name, rack in config.racks.items() for one in _of_rack(name, rack)),
            *_of_replicas(config),
            *map(_of_load_class, config.load_classes),
        ),
        racks=tuple(config.racks),
        parted_racks={
            name: pair
            for name, rack in config.racks.items()
            for pair in [*opposed_replicas(rack, config.anti_affinity)][:1]
        },
        namespace_labels=NamespaceLabels(config.namespace_labels),
    )


@lru_cache(maxsize=64)
def _rack_advice(rack: str, racks: tuple[str, ...]) -> str:
    # Found out once for all pods of a workload.
    return suggestion(rack, racks[:_RACKS_MAX]) if racks else "configure racks"


class _Latest:
    """The rules of the configuration that was asked for last: it changes when it is reloaded."""

    def __init__(self) -> None:
        self._latest: tuple[Config, ConfiguredRules] | None = None

    def of(self, config: Config) -> ConfiguredRules:
        # Read and replaced as one: several threads may ask.
        latest = self._latest
        if latest is None or latest[0] is not config:
            latest = self._latest = config, configured_rules(config)
        return latest[1]


latest_rules: Final = _Latest().of


def expansion(configured: ConfiguredRules) -> str:
    """All rules that a configuration adds, and for which pods: a YAML document for each."""
    return "".join(_documents(configured.added))


def pod_expansion(configured: ConfiguredRules, pod: Pod) -> str:
    """The rules that a configuration adds to those of one pod; empty without any."""
    path = f"{pod.namespace}/{pod.name}"
    return "".join(_documents(configured.for_pod(pod), path))


def _documents(added: Iterable[AddedRules], path: str = "") -> Iterator[str]:
    for one in added:
        whom = path or _whom(one)
        text: str = yaml.safe_dump(
            dict(one.written), sort_keys=False, default_flow_style=None, width=100
        )
        yield f"---\n# {one.name}, for {whom}\n{text}"


def _whom(added: AddedRules) -> str:
    labels = f"pods with {added.selector}" if added.selector.requirements else "all pods"
    if "*" in added.namespaces:
        return labels
    return f"{labels} in namespaces {', '.join(added.namespaces) or '(none)'}"


def _of_profile(profile: Profile) -> AddedRules:
    written = _without_defaults(msgspec.to_builtins(profile.added_affinity))
    return _added(
        f"profile {profile.name}",
        cast("Mapping[str, object]", written or {}),
        label_selector(profile.label_selector),
        profile.namespaces,
    )


def _of_rack(name: str, rack: Rack) -> Iterator[AddedRules]:
    own = {"matchLabels": {RACK_LABEL: name}}
    others = {
        "matchExpressions": [
            {"key": RACK_LABEL, "operator": "Exists"},
            {"key": RACK_LABEL, "operator": "NotIn", "values": [name]},
        ]
    }
    is_of_rack = LabelSelector((LabelRequirement(RACK_LABEL, LabelOperator.IN, (name,)),))
    for level, rules in rack.levels:
        near = {"labelSelector": own, "topologyKey": level.value}
        far = {"labelSelector": others, "topologyKey": level.value}
        written = {
            "podAffinity": _wish(near, is_required=rules.require_rack_affinity),
            "podAntiAffinity": _wish(far, is_required=rules.require_rack_anti_affinity),
        }
        yield _added(f"racks.{name}.{level.value}", written, is_of_rack)
        for inner, is_required in rules.inner_levels(level):
            apart: dict[str, object] = {
                "labelSelector": own,
                "topologyKey": inner.value,
                "mismatchLabelKeys": [POD_UID],
            }
            inside: dict[str, object] = {"podAntiAffinity": _wish(apart, is_required=is_required)}
            title = f"racks.{name}.{level.value}, {inner.value} inside"
            yield _added(title, inside, is_of_rack)
            yield _together(title, inner, is_of_rack)


def _of_replicas(config: Config) -> Iterator[AddedRules]:
    has_set = LabelSelector((LabelRequirement(RESOURCE_SET_LABEL, LabelOperator.EXISTS),))
    for level, rules in config.anti_affinity.levels:
        apart: dict[str, object] = {
            "labelSelector": {},
            "topologyKey": level.value,
            "matchLabelKeys": [RESOURCE_SET_LABEL],
            "mismatchLabelKeys": [POD_UID],
        }
        written: dict[str, object] = {"podAntiAffinity": _wish(apart, is_required=rules.required)}
        title = f"antiAffinity.{level.value}"
        yield _added(title, written, has_set)
        yield _together(title, level, has_set)


def _together(title: str, level: Level, selector: LabelSelector) -> AddedRules:
    """Pods keep apart as wholes: a sidecar in a domain of its own would keep the next pod out."""
    near: dict[str, object] = {
        "labelSelector": {},
        "topologyKey": level.value,
        "scope": "pod",
    }
    written: dict[str, object] = {"podAffinity": _wish(near, is_required=False)}
    return _added(f"{title}, each pod together", written, selector)


def _of_load_class(one: LoadClass) -> AddedRules:
    """Containers of a class rather keep apart, whosever they are."""
    like: dict[str, object] = {
        "labelSelector": {"matchLabels": {LOAD_LABEL: one.name}},
        "topologyKey": _LOAD_LEVELS[one.level],
        "namespaceSelector": {},
    }
    is_of_class = LabelSelector((LabelRequirement(LOAD_LABEL, LabelOperator.IN, (one.name,)),))
    written: dict[str, object] = {"podAntiAffinity": _wish(like, is_required=False)}
    return _added(f"loadClasses.{one.name}", written, is_of_class)


def _wish(term: Mapping[str, object], *, is_required: bool) -> Mapping[str, object]:
    if is_required:
        return {_REQUIRED_FIELD: [term]}
    return {PREFERRED_FIELD: [{"weight": _SHORTHAND_WEIGHT, "podAffinityTerm": term}]}


def _added(
    name: str,
    written: Mapping[str, object],
    selector: LabelSelector,
    namespaces: tuple[str, ...] = ("*",),
) -> AddedRules:
    rules = read_affinity(text_node(written), name) if written else NO_WRITTEN_RULES
    # Advice is for authors. What the check of the configuration let pass is told of each container.
    rules = replace(rules, problems=tuple(one for one in rules.problems if not one.is_advice))
    return AddedRules(
        name=name, namespaces=namespaces, selector=selector, written=written, rules=rules
    )


def label_selector(fields: LabelSelectorFields) -> LabelSelector:
    """The label selector that fields of the configuration describe."""
    labels = [
        LabelRequirement(key, LabelOperator.IN, (value,))
        for key, value in fields.match_labels.items()
    ]
    expressions = [
        LabelRequirement(one.key, one.operator, one.values) for one in fields.match_expressions
    ]
    return LabelSelector((*labels, *expressions))


_HERE: Final = Position(-1, -1)


def text_node(value: object) -> TextNode:
    """Plain values as a text's reader would have them; without lines."""
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, object]", value).items()
        return TextMap(
            _HERE, tuple((TextScalar(key, _HERE, '"'), text_node(one)) for key, one in entries)
        )
    if isinstance(value, list | tuple):
        return TextList(_HERE, tuple(map(text_node, cast("list[object]", value))))
    return TextScalar(str(value), _HERE, None if isinstance(value, int) else '"')


def _without_defaults(value: object) -> object:
    """Values without fields that say nothing; an empty selector says that all are meant."""
    if isinstance(value, Mapping):
        given = cast("Mapping[str, object]", value)
        return {
            key: _without_defaults(one)
            for key, one in given.items()
            if one not in (None, [], ()) and not (one == {} and key == "matchLabels")
        }
    if isinstance(value, list | tuple):
        return [_without_defaults(one) for one in cast("list[object]", value)]
    return value
