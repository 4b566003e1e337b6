"""Reviews of a pod's placement rules: what is redundant, contradictory or one-sided in them."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Final

from ....topology.model.machine import Level
from ...configuration.config import Config, OnUnsatisfiable
from ...model.container import Container
from ...model.level_nesting import is_apart_inside
from ...model.selector_operator import LabelOperator
from ...text.errors import Problem
from ..podaffinity.label_selector import LabelRequirement, LabelSelector
from ..podaffinity.rule_set import PlacementRules, RequiredTerm
from ..podaffinity.rule_text import placement_rules
from ..podaffinity.term import Term
from .rule_finding import is_written, term_finding

Nest = Callable[[Level, Level], bool]
"""Whether each domain of a level is in one of another level, on a machine."""

_LEAVE_OUT: Final = "leave it out"
_REFUSED: Final = "under 'on-unsatisfiable: fail' this one is refused then"
_UNLESS_OTHERS: Final = ", unless another pod has such a container"
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


def _are_of_one_scope(one: Term, other: Term) -> bool:
    return (one.namespaces, one.is_pod_scope) == (other.namespaces, other.is_pod_scope)


def _includes(wide: Term, narrow: Term) -> bool:
    """Whether a term is about all that another one of the same scope is about."""
    if wide.selector is None or narrow.selector is None:
        return wide.selector is narrow.selector
    return wide.selector.includes(narrow.selector)
