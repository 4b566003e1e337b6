"""Reviews of a pod's placement rules: what is redundant, contradictory or one-sided in them."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import Final

from msgspec import structs

from ....topology.model.machine import Level
from ...configuration.config import Config, OnUnsatisfiable
from ...model.container import Container, PodId
from ...model.level_name import level_noun
from ...model.selector_operator import LabelOperator, PoolOperator
from ...text.errors import Problem
from .label_selector import LabelRequirement, LabelSelector
from .rule_set import PlacementRules, RequiredTerm
from .rule_text import placement_rules
from .term import Term

_INNER: Final[Mapping[Level, frozenset[Level]]] = {
    Level.SOCKET: frozenset({Level.DIE, Level.NUMA, Level.L3, Level.CLUSTER, Level.CORE}),
    Level.DIE: frozenset({Level.L3, Level.CLUSTER, Level.CORE}),
    Level.NUMA: frozenset({Level.CLUSTER, Level.CORE}),
    Level.L3: frozenset({Level.CLUSTER, Level.CORE}),
    Level.CLUSTER: frozenset({Level.CORE}),
    Level.CORE: frozenset[Level](),
}
"""Levels whose domains lie inside those of a level on almost every machine; NUMA and L3 differ."""
_MAY_CROSS: Final = (Level.NUMA, Level.CLUSTER)
"""A machine without clusters has L3 caches in their place, and those may span NUMA nodes."""
_POOL_LEVELS: Final = {"socket": "socket", "die": "die", "NUMA node": "numa", "L3 cache": "l3"}
_POOL: Final = re.compile(
    rf"(?:.*/)?(?P<noun>{'|'.join(_POOL_LEVELS)}) #(?P<label>[0-9]+(?:/[0-9]+)*)"
)
"""The name of a pool, with what its parents' names add."""
Masks = Callable[[Level], Sequence[int]]
"""The domains of a level of a machine."""
Nest = Callable[[Level, Level], bool]
"""Whether each domain of a level is in one of another level, on a machine."""

_LEAVE_OUT: Final = "leave it out"
_REFUSED: Final = "under 'on-unsatisfiable: fail' this one is refused then"
_UNLESS_OTHERS: Final = ", unless another pod has such a container"
_OTHER_PODS: Final = "add 'mismatchLabelKeys: [pod.uid]' where other pods are meant"
_ONE_NAME: Final = "ask for 'container.name' in its labelSelector, too, to count one of each pod"
_ONE_OUT: Final = "leave one of them out, also of mismatchLabelKeys"


def reviewed_rules(
    containers: Sequence[Container], config: Config, nest: Nest | None = None
) -> Iterator[Problem]:
    """Findings about the rules of a pod's containers, which are given in the order of creation.

    Contradictions are faults, everything else is advice. `nest`: of a machine, where there is one.
    """
    rules = [placement_rules(container, config)[0] for container in containers]
    for container, own in zip(containers, rules, strict=True):
        for one, other in combinations(own.required, 2):
            yield from _review_pair(one, other, container, nest)
        yield from _review_terms(own, container)
    for place, own in enumerate(rules):
        for rule in own.required:
            if not rule.is_anti and is_written(rule.term):
                yield from _review_siblings(rule.term, place, containers, rules)
        others = [rule.term for rule in own.required if rule.is_anti]
        for term in (*others, *(rule.term for rule in own.preferred)):
            if is_written(term) and not any(
                term.matches(containers[place], one) for one in containers
            ):
                yield from _review_absence(term, containers[place])


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
            inner = _INNER[term.level]
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


def _review_pair(
    one: RequiredTerm, other: RequiredTerm, owner: Container, nest: Nest | None
) -> Iterator[Problem]:
    is_added = not is_written(one.term) and not is_written(other.term)
    if is_added or not _are_of_one_scope(one.term, other.term):
        return
    if one.is_anti is not other.is_anti:
        near, far = (other, one) if one.is_anti else (one, other)
        if not _includes(far.term, near.term):
            return
        levels = near.term.level, far.term.level
        is_always = is_apart_inside(far.term.level, near.term.level)
        if is_always if nest is None else nest(*levels):
            told, against = (near, far) if is_written(near.term) else (far, near)
            where = "" if is_always else " on this machine"
            what = f"contradicts {against.term.text}: it can never hold together with it{where}"
            yield term_finding(told.term, owner, what, "leave one of them out", is_advice=False)
        return
    if is_written(one.term) and is_written(other.term):
        yield from _review_alike(one, other, owner)


def _review_alike(one: RequiredTerm, other: RequiredTerm, owner: Container) -> Iterator[Problem]:
    """Advice about two rules to be with others, or two to keep apart, of which one is enough."""
    is_same = one.term.selector == other.term.selector
    if is_same and one.term.level is other.term.level:
        yield term_finding(other.term, owner, f"says the same as {one.term.text}", _LEAVE_OUT)
        return
    for outer, inner in ((one, other), (other, one)):
        if is_apart_inside(outer.term.level, inner.term.level):
            # Those that keep apart at the wider level do so inside; those together inside, outside.
            idle, strong = (inner, outer) if one.is_anti else (outer, inner)
            # With some of those meant it is also with one of all. While none of them is there and
            # its own pod is meant the first rule asks for nothing, and the other one still may.
            if is_same or (one.is_anti and _includes(strong.term, idle.term)):
                yield term_finding(idle.term, owner, f"follows from {strong.term.text}", _LEAVE_OUT)
                return


def _review_terms(rules: PlacementRules, owner: Container) -> Iterator[Problem]:
    near = [rule.term for rule in rules.required if not rule.is_anti and is_written(rule.term)]
    for term in near[1:]:
        if term.selector != near[0].selector:
            what = (
                f"asks for other containers than {near[0].text}; under 'kubeCompat: strict' only"
                " those count that both are about"
            )
            yield term_finding(term, owner, what, "write one term where the same are meant")
    terms = [rule.term for rule in rules.required] + [rule.term for rule in rules.preferred]
    for term in terms:
        if is_written(term) and term.selector is not None:
            yield from _review_selector(term, term.selector, owner)


def _review_selector(term: Term, selector: LabelSelector, owner: Container) -> Iterator[Problem]:
    """Advice about requirements of one label that no value of it can fulfil together."""
    by_key: dict[str, list[LabelRequirement]] = {}
    for one in selector.requirements:
        by_key.setdefault(one.key, []).append(one)
    for key, some in by_key.items():
        if not _can_be_met(some):
            both = ", ".join(map(str, some))
            what = f"is about nobody: it contradicts itself about the label {key} ({both})"
            yield term_finding(term, owner, what, _ONE_OUT)


def _can_be_met(requirements: Sequence[LabelRequirement]) -> bool:
    """Whether some value of their one label, or its absence, fulfils all of these."""
    if all(one.holds({}) for one in requirements):
        return True
    if any(one.operator is LabelOperator.DOES_NOT_EXIST for one in requirements):
        return False
    wanted = [{*one.values} for one in requirements if one.operator is LabelOperator.IN]
    unwanted = [one.values for one in requirements if one.operator is LabelOperator.NOT_IN]
    # Of all other values there are always some.
    return not wanted or bool(wanted[0].intersection(*wanted[1:]).difference(*unwanted))


def _review_siblings(
    term: Term, place: int, containers: Sequence[Container], rules: Sequence[PlacementRules]
) -> Iterator[Problem]:
    owner = containers[place]
    meant = [at for at, one in enumerate(containers) if term.matches(owner, one)]
    if not meant:
        yield from _review_absence(term, owner)
        return
    is_refused = rules[place].on_unsatisfiable is OnUnsatisfiable.FAIL
    if min(meant) > place and not term.includes(owner, owner) and (term.is_pod_scope or is_refused):
        what = f"container {containers[meant[0]].name!r} does not exist yet when the rule is judged"
        if is_refused:
            what += f": {_REFUSED}" + ("" if term.is_pod_scope else _UNLESS_OTHERS)
        yield term_finding(term, owner, what, "write the rule for the one that is created later")
        return
    for at in meant:
        back = rules[at]
        terms = [rule.term for rule in back.required if not rule.is_anti]
        terms += [rule.term for rule in back.preferred if rule.weight > 0]
        if not any(one.matches(containers[at], owner) for one in terms):
            what = (
                f"container {containers[at].name!r} has no such rule: started again, it may go"
                " away from this one"
            )
            yield term_finding(term, owner, what, "write the rule for both")


def _review_absence(term: Term, owner: Container) -> Iterator[Problem]:
    """Advice about a term that is about containers of the pod, and about none that it has."""
    if term.is_pod_scope and term.selector is not None and not term.includes(owner, owner):
        what = "the pod has no container that the rule is about"
        yield term_finding(term, owner, what, "name a container of the pod")


def is_written(term: Term) -> bool:
    """Whether the term stands in an annotation of the pod, not in the configuration."""
    return term.source.rpartition(":")[2].isdigit()


def is_apart_inside(apart: Level, level: Level) -> bool:
    """Whether those that keep apart at one level are never together at another one."""
    return apart is level or (level in _INNER[apart] and (apart, level) != _MAY_CROSS)


def _are_of_one_scope(one: Term, other: Term) -> bool:
    return (one.namespaces, one.is_pod_scope) == (other.namespaces, other.is_pod_scope)


def _includes(wide: Term, narrow: Term) -> bool:
    """Whether a term is about all that another one of the same scope is about."""
    if wide.selector is None or narrow.selector is None:
        return wide.selector is narrow.selector
    return wide.selector.includes(narrow.selector)


def term_finding(
    term: Term, owner: Container, what: str, fix: str, *, is_advice: bool = True
) -> Problem:
    """A finding about a term of a container, at its place in the annotation."""
    return finding(term.source, owner, what, fix, is_advice=is_advice)


def finding(
    source: str, owner: Container, what: str, fix: str, *, is_advice: bool = True
) -> Problem:
    """A finding about a rule of a container. `source`: where it is written, as terms have it."""
    key, _, line = source.rpartition(":")
    has_line = line.isdigit()
    return Problem(
        where=f"{key if has_line else source} of {owner.path}",
        what=what,
        fix=fix,
        line=int(line) if has_line else 0,
        is_advice=is_advice,
        container=owner.name,
    )
