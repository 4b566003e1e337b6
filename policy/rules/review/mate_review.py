"""Reviews of a pod's rules that are about its own containers, as if these were other pods'."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import reduce
from typing import Final

from msgspec import structs

from ....topology.model.machine import Level
from ...configuration.config import Config
from ...model.container import Container, PodId
from ...model.level_name import level_noun
from ...model.level_nesting import INNER_LEVELS
from ...model.selector_operator import PoolOperator
from ...text.errors import Problem
from ..podaffinity.label_selector import LabelSelector
from ..podaffinity.rule_set import PlacementRules
from ..podaffinity.rule_text import placement_rules
from ..podaffinity.term import Term
from .rule_finding import finding, is_written, term_finding

_POOL_LEVELS: Final = {"socket": "socket", "die": "die", "NUMA node": "numa", "L3 cache": "l3"}
_POOL: Final = re.compile(
    rf"(?:.*/)?(?P<noun>{'|'.join(_POOL_LEVELS)}) #(?P<label>[0-9]+(?:/[0-9]+)*)"
)
"""The name of a pool, with what its parents' names add."""
Masks = Callable[[Level], Sequence[int]]
"""The domains of a level of a machine."""

_OTHER_PODS: Final = "add 'mismatchLabelKeys: [pod.uid]' where other pods are meant"
_ONE_NAME: Final = "ask for 'container.name' in its labelSelector, too, to count one of each pod"


def reviewed_mates(containers: Sequence[Container], config: Config) -> Iterator[Problem]:
    """Advice about anti-affinity to pods by their labels that keeps containers of one pod apart.

    `containers`: those of the pod that run at the same time.
    """
    told: set[str] = set()
    for owner in containers:
        rules = placement_rules(owner, config)[0]
        terms = [rule.term for rule in rules.required if rule.is_anti]
        terms += [rule.term for rule in rules.preferred if rule.weight < 0]
        for term in terms:
            if not is_written(term) or term.source in told:
                continue
            mates = [one.name for one in containers if term.matches(owner, one)]
            if mates and not _asks_for_containers(term):
                # One text in an annotation is the rule of each of them.
                told.add(term.source)
                names = ", ".join(map(repr, [owner.name, *mates]))
                what = f"keeps containers of the pod itself apart, too: {names}"
                yield term_finding(term, owner, what, _OTHER_PODS)


def reviewed_footprint(
    containers: Sequence[Container], config: Config, masks: Masks | None = None, reach: int = -1
) -> Iterator[Problem]:
    """Advice about pods that keep apart from each other, and may lie in more domains than one.

    A rule's unit is the container: a sidecar elsewhere keeps other pods out of one domain more.
    `containers`: those of the pod that run at the same time, each where it likes to be. `masks`:
    the domains of a machine, where there is one, and `reach`: the cpus of the pools there in which
    rules about pools let them be.
    """
    rules = [placement_rules(container, config)[0] for container in containers]
    near = _levels_together(containers, rules)
    told: set[str] = set()
    for owner, own in zip(containers, rules, strict=True):
        for term in [one.term for one in own.required if one.is_anti and is_written(one.term)]:
            inner = INNER_LEVELS[term.level]
            # Neither a cluster nor a core is a place for a whole pod.
            if Level.CLUSTER not in inner or near & {term.level, *inner} or term.source in told:
                continue
            if masks is None:
                is_single = _are_in_one(rules, {term.level, *inner})
            else:
                is_single = sum([bool(mask & reach) for mask in masks(term.level)]) < 2
            if is_single:
                continue
            if any(_is_about_others_alone(term, owner, one) for one in containers):
                told.add(term.source)
                noun = level_noun(term.level)
                what = (
                    f"the pod's containers may be in several {noun}s, and keep other pods like it"
                    " out of each"
                )
                fix = f"prefer podAffinity with 'topologyKey: {term.level.value}' and 'scope: pod'"
                yield term_finding(term, owner, what, f"{fix}, or give the pod a 'pod-pool'")


def reviewed_counts(containers: Sequence[Container], config: Config) -> Iterator[Problem]:
    """Advice about spread rules that count containers of several kinds of one pod as the same.

    `containers`: those of the pod that run at the same time. Alike in what they ask for, they are
    taken for replicas in one pod, which are to be spread themselves.
    """
    told: set[str] = set()
    for owner in containers:
        for rule in placement_rules(owner, config)[0].spread:
            counted = [one for one in containers if rule.matches(owner, one)]
            if not counted or not rule.counts_itself(owner) or rule.source in told:
                continue
            counted.append(owner)
            sizes = {one.resources.cpu_request_milli for one in counted}
            if len(sizes) > 1 and not _names_containers(rule.selector):
                told.add(rule.source)
                names = ", ".join(sorted([repr(one.name) for one in counted]))
                what = (
                    f"counts containers of the pod as the same: {names}. Those of one name may"
                    f" be in one {level_noun(rule.level)} while there are others without any"
                )
                yield finding(rule.source, owner, what, _ONE_NAME)


def _levels_together(
    containers: Sequence[Container], rules: Iterable[PlacementRules]
) -> frozenset[Level]:
    """The levels at which some containers of a pod are to be with others of it."""
    found: set[Level] = set()
    for owner, own in zip(containers, rules, strict=True):
        terms = [one.term for one in own.required if not one.is_anti]
        terms += [one.term for one in own.preferred if one.weight > 0]
        found |= {
            term.level for term in terms if any(term.matches(owner, one) for one in containers)
        }
    return frozenset(found)


def _are_in_one(rules: Iterable[PlacementRules], levels: Collection[Level]) -> bool:
    """Whether rules about pools name the same domain of these levels to all, on any machine."""
    names = [level.value for level in levels]
    named = [frozenset(_named_domains(one, names)) for one in rules]
    return bool(reduce(frozenset[str].intersection, named))


def _named_domains(rules: PlacementRules, levels: Collection[str]) -> Iterator[str]:
    """Domains of which a container must be in each, as labels of pools, or names of them."""
    pool = _POOL.fullmatch(rules.pool_name or "")
    level = "" if pool is None else _POOL_LEVELS[pool["noun"]]
    if pool is not None and level in levels:
        # The labels of L3 groups have other numbers.
        yield pool[0] if level == Level.L3.value else f"{level}={pool['label']}"
    for one in rules.pool_required:
        for each in one.terms[0].expressions if len(one.terms) == 1 else ():
            if each.key in levels and each.operator is PoolOperator.IN and len(each.values) == 1:
                yield str(each)


def _is_about_others_alone(term: Term, owner: Container, mate: Container) -> bool:
    """Whether a term is about the like of another container of the pod, but not about that one."""
    if mate.name == owner.name or term.matches(owner, mate):
        return False
    pod = structs.replace(mate.pod, id=PodId(f"{mate.pod.id}/other"), uid=f"{mate.pod.uid}/other")
    return term.matches(owner, structs.replace(mate, pod=pod))


def _asks_for_containers(term: Term) -> bool:
    return term.is_pod_scope or _names_containers(term.selector)


def _names_containers(selector: LabelSelector | None) -> bool:
    requirements = () if selector is None else selector.requirements
    return any(one.key.startswith("container.") for one in requirements)
