"""Racks, sets and profiles that come to no rule, or to rules that oppose each other."""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import structs

from ...topology.model.machine import Level
from ..model.level_name import RULE_LEVELS, level_noun
from ..model.level_nesting import is_apart_inside
from ..text.glob import has_wildcard
from ..text.yaml_document import Path
from .affinity_faults import values_in
from .affinity_fields import (
    AddedAffinity,
    PodAffinityFields,
    PoolAffinityFields,
    Rack,
    RackLevel,
    ReplicaAntiAffinity,
)
from .config import Config
from .shape import Fault

_PATTERN: Final = "is a pattern, and no namespace has such a name — write the names, {}"
_WITHOUT_RULES: Final = (None, PodAffinityFields(), PoolAffinityFields())


def idle_rules(config: Config) -> Iterator[Fault]:
    """Racks and profiles that come to no rule, or to rules that oppose each other."""
    for name, rack in config.racks.items():
        path: Path = ("racks", name)
        if not rack.levels:
            what = (
                "no level is enabled, so it has no rules — write one, as in numa: {enabled: true}"
            )
            yield Fault(path, what)
            continue
        for level in RULE_LEVELS:
            written: RackLevel = getattr(rack, level.value)
            if not written.enabled and written != RackLevel():
                what = "accepted, but has no effect — write enabled: true beside it"
                yield Fault((*path, level.value), what)
        yield from _opposed_levels(path, rack)
    yield from _opposed_replicas(config)
    for namespace in config.namespace_labels:
        if has_wildcard(namespace):
            yield Fault(("namespaceLabels", namespace), _PATTERN.format("each with its labels"))
    for index, profile in enumerate(config.profiles):
        yield from _patterns(("profiles", index, "addedAffinity"), profile.added_affinity)
        if all(one in _WITHOUT_RULES for one in structs.astuple(profile.added_affinity)):
            what = "adds no rules — write addedAffinity: {podAntiAffinity: ..}, or leave it out"
            yield Fault(("profiles", index), what)


def _opposed_levels(path: Path, rack: Rack) -> Iterator[Fault]:
    """Levels at which a rack's pods are wanted together, and apart by what another one says."""
    together = {level for level, _rules in rack.levels}
    for outer, rules in rack.levels:
        for level, _is_required in rules.inner_levels(outer):
            if level in together:
                name = f"enable{level.value.capitalize()}AntiAffinity"
                what = (
                    f"keeps its pods apart at {level.value}, where {'.'.join(map(str, path))}."
                    f"{level.value} wants them together — write {name}: false"
                )
                yield Fault((*path, outer.value), what)


def _opposed_replicas(config: Config) -> Iterator[Fault]:
    """Levels at which pods of racks are wanted together, and those of one set apart.

    Each level of sets once, for all racks. Where nothing is said of sets there are probably none: a
    pod of a rack that is of one is told by itself.
    """
    if config.anti_affinity == ReplicaAntiAffinity():
        return
    found: dict[Level, list[tuple[str, Level]]] = {}
    for name, rack in config.racks.items():
        for level, other in opposed_replicas(rack, config.anti_affinity):
            found.setdefault(other, []).append((name, level))
    for other, ((name, level), *more) in found.items():
        plural = "s" if len(more) > 1 else ""
        others = f" ({len(more)} other level{plural} of racks, too)" if more else ""
        what = (
            f"{replicas_text(level, other)}{others} — {replicas_advice(other)}, if they are of one"
        )
        yield Fault(("racks", name, level.value), what)


def opposed_replicas(rack: Rack, replicas: ReplicaAntiAffinity) -> Iterator[tuple[Level, Level]]:
    """Levels at which a rack's pods are wanted together, each with one that keeps sets apart."""
    for level, _rules in rack.levels:
        for other, _replicas in replicas.levels:
            if is_apart_inside(other, level):
                yield level, other


def replicas_text(level: Level, other: Level) -> str:
    """The fault of a rack whose pods are wanted together where another rule keeps sets apart."""
    return (
        f"wants its pods in one {level_noun(level)}, where antiAffinity.{other.value}"
        " keeps those of one resource set apart"
    )


def replicas_advice(other: Level) -> str:
    """The way to let pods of one set be together at a level."""
    return f"write antiAffinity: {{{other.value}: {{enabled: false}}}}"


def _patterns(path: Path, added: AddedAffinity) -> Iterator[Fault]:
    """Patterns among the namespaces of terms."""
    for at, value in values_in(path, msgspec.to_builtins(added)):
        is_name = at[-2:-1] == ("namespaces",) and isinstance(at[-1], int)
        if is_name and isinstance(value, str) and has_wildcard(value):
            yield Fault(at, _PATTERN.format("or a namespaceSelector: {} means all"))
