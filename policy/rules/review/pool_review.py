"""Reviews of rules about pools: names and labels that no pool has, of one machine or of any."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ....topology.model.machine import Level
from ....topology.sets.base_errors import quoted
from ...annotations.annotations import effective
from ...configuration.config import Config
from ...configuration.pool_label_names import FLAG_LABEL, MACHINE_LABELS, MEASURED_LABELS
from ...model.container import Container, ContainerId
from ...model.level_name import level_noun
from ...model.selector_operator import PoolOperator
from ...pools.pool_tree import PoolTree
from ...text.errors import Problem
from ...text.suggestion import nearest, suggestion
from ..podaffinity.own_rules import POOL_NAME_KEY
from ..podaffinity.pool_term import PoolExpression, PoolTerm
from ..podaffinity.rule_set import PlacementRules
from ..podaffinity.rule_text import placement_rules
from .mate_review import Masks
from .rule_finding import finding

_LEVELS: Final = ("socket", "die", "numa", "l3")
"""Labels of domains, the widest first: a pool that lies in several of a level has none of it."""
_WIDER: Final = {level: ("system", *_LEVELS[:at]) for at, level in enumerate(_LEVELS)}
"""The kinds of pools that may lie in several."""
_DIGITS: Final = re.compile(r"[0-9]+")
_POOLS_SHOWN: Final = 16
_SPREAD_FIX: Final = "raise 'maxSkew', or keep them apart by podAntiAffinity"
_ALIKE: Final = 0.75
"""Labels of which so much is the same are slips of one another."""


def reviewed_pools(
    containers: Sequence[Container],
    config: Config,
    tree: PoolTree,
    labels: Sequence[Mapping[str, str]],
) -> Iterator[Problem]:
    """Findings about a pod's rules about pools; `labels` are those of the tree's pools."""
    names = [pool.name for pool in tree.pools]
    for container in containers:
        rules = placement_rules(container, config)[0]
        if rules.pool_name is not None and rules.pool_name not in names:
            setting = effective(container.pod.annotations, POOL_NAME_KEY, container.name)
            key = setting.key if setting is not None else POOL_NAME_KEY
            what = f"this machine has no pool {quoted(rules.pool_name)}"
            fix = _fix_of(rules.pool_name, names)
            yield finding(key, container, what, fix, is_advice=False)
        for requirement in rules.pool_required:
            if not any(map(requirement.holds, labels)):
                what = f"no pool of this machine is {requirement.text}"
                fix = _advice(requirement.terms, labels, config)
                yield finding(requirement.source, container, what, fix, is_advice=False)


def reviewed_labels(
    containers: Sequence[Container],
    config: Config,
    *,
    is_nodes: bool,
    labels: Sequence[Mapping[str, str]] = (),
) -> Iterator[Problem]:
    """Findings about labels of pools in a pod's rules, on any machine.

    `is_nodes`: whether the configuration is that of the nodes, and other labels are nobody's. A
    label that is much like a known one is taken for that one anyway. `labels` are those of a
    machine's pools: what none of them meets is found by `reviewed_pools`.
    """
    known = _known_labels(config)
    for container in containers:
        rules = placement_rules(container, config)[0]
        written = [
            (one.source, f"{one.text} asks for", one.terms)
            for one in rules.pool_required
            if not labels or any(map(one.holds, labels))
        ]
        written += [
            (one.source, f"the {one.text} asks for", (one.term,)) for one in rules.pool_preferred
        ]
        for source, asking, terms in written:
            for key in dict.fromkeys(_keys(terms)):
                near = nearest(key, known, _ALIKE)
                if key in known or key.startswith(FLAG_LABEL) or not (is_nodes or near):
                    continue
                what = f"no pool has a label {quoted(key)}, which {asking}"
                fix = suggestion(key, known)
                yield finding(source, container, what, fix, is_advice=False)


def reviewed_absences(
    containers: Sequence[Container],
    config: Config,
    labels: Sequence[Mapping[str, str]] = (),
) -> Iterator[Problem]:
    """Advice about terms that pools meet because they lie in several domains, and have no label.

    `labels` are those of a machine's pools; without them it may be any machine.
    """
    for container in containers:
        rules = placement_rules(container, config)[0]
        written = [(one.source, one.terms) for one in rules.pool_required]
        written += [(one.source, (one.term,)) for one in rules.pool_preferred]
        for source, terms in written:
            told = (found for term in terms for found in _absences(term, labels))
            for what, fix in dict.fromkeys(told):
                yield finding(source, container, what, fix)


def reviewed_spreads(
    containers: Sequence[Container],
    config: Config,
    tree: PoolTree,
    labels: Sequence[Mapping[str, str]],
    masks: Masks,
    eligible: Mapping[ContainerId, int],
) -> Iterator[Problem]:
    """Advice about spread rules that count domains in which rules about pools leave no place.

    `eligible`: masks of the cpus that each container may ever get; others count in no domain.
    """
    for container in containers:
        rules = placement_rules(container, config)[0]
        usable = eligible[container.id]
        reach = reach_of(rules, tree, labels) & usable
        for one in rules.spread:
            idle = sum([bool(mask & usable and not mask & reach) for mask in masks(one.level)])
            if not (one.is_required and reach and idle and one.counts_itself(container)):
                continue
            noun = f"{level_noun(one.level)}{'s' * (idle != 1)}"
            what = (
                f"{one.text}: it counts {idle} {noun} as well in which its rules about pools do"
                f" not let it be: while those are empty no other one gets more than {one.max_skew}"
            )
            yield finding(one.source, container, what, _SPREAD_FIX)


def reach_of(rules: PlacementRules, tree: PoolTree, labels: Sequence[Mapping[str, str]]) -> int:
    """A mask of the cpus of all pools in which rules about pools let a container be."""
    reach = 0
    for pool in tree.pools:
        is_asked = rules.pool_name in (None, pool.name)
        if is_asked and all(one.holds(labels[pool.id]) for one in rules.pool_required):
            reach |= pool.cpus.mask
    return reach


def _absences(term: PoolTerm, labels: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """What a term says that is met without a label, and what to write instead."""
    names_kind = any(one.key == "kind" for one in term.expressions)
    for one in term.expressions:
        if one.key not in _WIDER or not _is_met_without(one.key, term, labels):
            continue
        wide = f"in no single {level_noun(Level(one.key))}, such as the root"
        if one.operator is PoolOperator.NOT_IN:
            what = f"{quoted(str(one))} is met by pools {wide}, too: they have no such label"
            fix = f"add {{key: {one.key}, operator: Exists}} to the same term"
            has_any = _is_met_with(one.key, term, labels)
            yield what, fix if has_any else "leave it out: the term admits no pool that has one"
        elif one.operator is PoolOperator.DOES_NOT_EXIST and not names_kind:
            what = f"{quoted(str(one))} is met by those pools alone that are {wide}"
            kinds = ", ".join(_WIDER[one.key])
            fix = f"add {{key: kind, operator: In, values: [{kinds}]}} if those are meant"
            yield what, f"{fix}, else leave it out"


def _is_met_without(key: str, term: PoolTerm, labels: Sequence[Mapping[str, str]]) -> bool:
    """Whether a term holds for a pool without a label; without `labels`, whether it may."""
    if labels:
        return any(key not in one and term.matches(one) for one in labels)
    return any(all(_may_hold(one, kind) for one in term.expressions) for kind in _WIDER[key])


def _is_met_with(key: str, term: PoolTerm, labels: Sequence[Mapping[str, str]]) -> bool:
    """Whether a term holds for a pool that has a label; without `labels`, whether it may."""
    if labels:
        return any(key in one and term.matches(one) for one in labels)
    # Pools of its own level and of narrower ones have the label.
    kinds = [one for one in _LEVELS if one not in _WIDER[key]]
    decisive = [one for one in term.expressions if one.key == "kind"]
    if any(
        one.key == key and one.operator is PoolOperator.DOES_NOT_EXIST for one in term.expressions
    ):
        return False
    return any(all(one.holds({"kind": kind}) for one in decisive) for kind in kinds)


def _may_hold(expression: PoolExpression, kind: str) -> bool:
    """Whether an expression may hold for a pool of a kind that has only labels of wider levels."""
    if expression.key == "kind":
        return expression.holds({"kind": kind})
    # What else a pool has depends on the machine.
    has_none = kind in _WIDER.get(expression.key, ())
    return expression.holds({}) if has_none else True


def _fix_of(name: str, names: Sequence[str]) -> str:
    """Pools that may be meant: which other number is, nobody can tell."""
    kind = _DIGITS.sub("", name).casefold()
    alike = [one for one in names if _DIGITS.sub("", one).casefold() == kind]
    meant = suggestion(name, names)
    if not alike or meant.casefold().startswith(f"did you mean {name.casefold()!r}"):
        return meant
    more = len(alike) - _POOLS_SHOWN
    return f"one of {', '.join(alike[:_POOLS_SHOWN])}{f' and {more} more' if more > 0 else ''}"


def _keys(terms: Sequence[PoolTerm]) -> Iterator[str]:
    return (one.key for term in terms for one in term.expressions)


def _advice(terms: Sequence[PoolTerm], labels: Sequence[Mapping[str, str]], config: Config) -> str:
    here = {key for one in labels for key in one if not key.startswith(FLAG_LABEL)}
    known = _known_labels(config)
    for term in terms:
        for one in term.expressions:
            if any(one.holds(found) for found in labels):
                continue
            if values := sorted({found[one.key] for found in labels if one.key in found}):
                return f"here {one.key} is {', '.join(values[:16])}"
            if one.key in known or one.key.startswith(FLAG_LABEL):
                return f"no pool here has the label {quoted(one.key)}"
            return f"label {quoted(one.key)}: {suggestion(one.key, sorted(here))}"
    return "see 'pinfold pools'"


def _known_labels(config: Config) -> tuple[str, ...]:
    """Labels that pools of some machine have."""
    configured = (key for one in config.pool_labels for key in one.labels)
    return (*MACHINE_LABELS, *MEASURED_LABELS, *configured)
