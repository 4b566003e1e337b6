"""Reviews of rules about pools: names and labels that no pool has, of one machine or of any."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ....topology.sets.base_errors import quoted
from ...annotations.annotations import effective
from ...configuration.check import FLAG_LABEL, MACHINE_LABELS, MEASURED_LABELS
from ...configuration.config import Config
from ...model.container import Container
from ...pools.pool_tree import PoolTree
from ...text.errors import Problem
from ...text.suggestion import nearest, suggestion
from .own_rules import POOL_NAME_KEY
from .pool_term import PoolTerm
from .rule_text import placement_rules

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
            yield _finding(key, container, what, suggestion(rules.pool_name, names))
        for requirement in rules.pool_required:
            if not any(map(requirement.holds, labels)):
                what = f"no pool of this machine is {requirement.text}"
                yield _finding(
                    requirement.source, container, what, _advice(requirement.terms, labels)
                )


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
    known = (
        *MACHINE_LABELS,
        *MEASURED_LABELS,
        *(key for one in config.pool_labels for key in one.labels),
    )
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
                yield _finding(source, container, what, suggestion(key, known))


def _keys(terms: Sequence[PoolTerm]) -> Iterator[str]:
    return (one.key for term in terms for one in term.expressions)


def _advice(terms: Sequence[PoolTerm], labels: Sequence[Mapping[str, str]]) -> str:
    known = {key for one in labels for key in one if not key.startswith(FLAG_LABEL)}
    for term in terms:
        for one in term.expressions:
            values = sorted({found[one.key] for found in labels if one.key in found})
            if not values:
                return f"label {quoted(one.key)}: {suggestion(one.key, sorted(known))}"
            if not any(one.holds(found) for found in labels):
                return f"here {one.key} is {', '.join(values[:16])}"
    return "see 'pinfold pools'"


def _finding(source: str, owner: Container, what: str, fix: str) -> Problem:
    key, _, line = source.rpartition(":")
    has_line = line.isdigit()
    return Problem(
        where=f"{key if has_line else source} of {owner.path}",
        what=what,
        fix=fix,
        line=int(line) if has_line else 0,
        container=owner.name,
    )
