"""Rules between containers of different pods: which never hold together, or count for nothing."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from ...topology.model.machine import Level
from ..configuration.config import Config, OnUnsatisfiable
from ..model.container import Container
from ..model.level_name import level_noun
from ..model.level_nesting import is_apart_inside
from ..rules.affinity_rule import AffinityRule
from ..rules.podaffinity.rule_set import RequiredTerm
from ..rules.podaffinity.term import Term
from ..rules.review.rule_finding import is_written, term_finding
from ..rules.review.unmatched_rules import rule_advice
from ..text.errors import Problem
from .reviewed_pod import Member, ReviewedPod

_CONTAINERS_MAX: Final = 256
"""Containers that are compared, each with each other: the first of all files."""

_WHICH: Final = "leave both out, or give the one that is meant a greater weight"


class DomainCount(NamedTuple):
    """The number of domains of a level on a machine, for containers that may be in some of them."""

    number: int
    """The domains in which some of the containers may be."""
    everywhere: int
    level: Level
    """The level of the domains where the machine lacks the one that is asked for."""


CountDomains = Callable[[Level, Sequence[Container]], DomainCount]


class Between(Struct, frozen=True):
    """A finding about a pod, by its place in the list of those that were reviewed."""

    place: int
    problem: Problem


def rules_between(
    pods: Sequence[ReviewedPod], config: Config, count_domains: CountDomains | None = None
) -> Iterator[Between]:
    """Advice about the rules of each pod that are about containers of the others.

    `count_domains`: of the machine, where there is one. Pods may run on different nodes, and others
    there that are in no file: so nothing is a fault. O(containers squared), of the first 256.
    """
    containers = [(place, pod, one) for place, pod in enumerate(pods) for one in pod.containers]
    every = [Member.of(place, pod, one, config) for place, pod, one in containers[:_CONTAINERS_MAX]]
    for one in every:
        if one.has_rules:
            others = [other for other in every if other.place != one.place]
            if len(every) == len(containers):
                # Else one that is left out may be near it.
                yield from _never_near(one, every)
            yield from _in_vain(one, others)
            yield from _one_sided(one, others)
    if len(every) == len(containers):
        yield from _deadlocked(every)
    if count_domains is not None:
        yield from _crowded(every, count_domains)


def _never_near(one: Member, every: Sequence[Member]) -> Iterator[Between]:
    """Required affinity to containers of which each keeps this one away."""
    for rule in one.placement.required:
        term = rule.term
        if rule.is_anti or term.includes(one.container, one.container):
            continue
        meant = [other for other in every if other is not one and one.is_about(term, other)]
        against = [(other, _barrier(other, one, term)) for other in meant]
        if not against or any(other.place == one.place for other in meant):
            continue
        other, barrier = against[0]
        if barrier is not None and all(found is not None for _, found in against):
            what = f"contradicts {barrier.term.text} of {other.path}: they never hold together"
            fix = "leave one of them out"
            yield Between(one.place, term_finding(term, one.container, what, fix))


def _deadlocked(every: Sequence[Member]) -> Iterator[Between]:
    """Required affinity whose owners wait for one another: each is refused until another is there.

    Those who wait for one of these, too. O(rules x containers, for each of them).
    """
    waiting: dict[Member, list[tuple[Term, list[Member]]]] = {}
    for one in every:
        rules = one.placement.required
        if one.placement.on_unsatisfiable is not OnUnsatisfiable.FAIL:
            continue
        terms = [rule.term for rule in rules if not rule.is_anti]
        terms = [term for term in terms if not term.includes(one.container, one.container)]
        meant = [(term, [other for other in every if one.is_about(term, other)]) for term in terms]
        if found := [(term, others) for term, others in meant if others]:
            waiting[one] = found
    count = 0
    while count != len(waiting):
        count = len(waiting)
        still = {
            one: [(term, others) for term, others in found if all(map(waiting.get, others))]
            for one, found in waiting.items()
        }
        waiting = {one: found for one, found in still.items() if found}
    for one, found in waiting.items():
        term, others = found[0]
        what = f"it is refused before {others[0].path} is there, which is refused before others are"
        fix = "let one of them come first: write on-unsatisfiable: degrade there, or prefer it"
        yield Between(one.place, term_finding(term, one.container, what, fix))


def _barrier(owner: Member, other: Member, near: Term) -> RequiredTerm | None:
    """A rule by which the owner keeps another one from where that one must be with it."""
    for rule in owner.placement.required:
        is_inside = rule.is_anti and is_apart_inside(rule.term.level, near.level)
        if is_inside and owner.is_about(rule.term, other):
            return rule
    return None


def _in_vain(one: Member, others: Sequence[Member]) -> Iterator[Between]:
    """Weights and preferred rules of two containers that cancel each other, or are opposed."""
    terms, rules = set[Term](), set[AffinityRule]()
    for other in others:
        if one.place < other.place:
            yield from _cancelling_terms(one, other, terms)
            yield from _opposed_weights(one, other, rules)


def _cancelling_terms(one: Member, other: Member, told: set[Term]) -> Iterator[Between]:
    """`told`: terms that were told of for another one already, and the next ones."""
    own, back = _sums(one, other), _sums(other, one)
    for level, weight in own.items():
        if not weight or back.get(level, 0) != -weight:
            continue
        term = next(
            rule.term
            for rule in one.placement.preferred
            if rule.term.level is level and one.is_about(rule.term, other)
        )
        if term in told:
            continue
        told.add(term)
        what = (
            f"weight {weight} here and {-weight} of {other.path} cancel each other: rules like"
            " these count in both directions"
        )
        yield Between(one.place, term_finding(term, one.container, what, _WHICH))


def _sums(one: Member, other: Member) -> dict[Level, int]:
    """The weights of preferred rules for another container, by level."""
    found: dict[Level, int] = {}
    for rule in one.placement.preferred:
        if one.is_about(rule.term, other):
            found[rule.term.level] = found.get(rule.term.level, 0) + rule.weight
    return found


def _opposed_weights(one: Member, other: Member, told: set[AffinityRule]) -> Iterator[Between]:
    """`told`: rules that were told of for another one already, and the next ones."""
    own, back = one.rules_about(other), other.rules_about(one)
    mine, theirs = sum(rule.weight for rule in own), sum(rule.weight for rule in back)
    if mine * theirs >= 0 or own[0] in told:
        return
    reverse = sum(rule.weight for rule in own if rule.is_symmetric)
    reverse_back = sum(rule.weight for rule in back if rule.is_symmetric)
    # What counts when the one is placed beside the other, and when the other is beside the one.
    counts = mine + reverse_back, theirs + reverse
    if counts == (0, 0):
        told.add(own[0])
        what = f"weight {mine} here and {theirs} of {other.path} cancel each other"
        yield Between(one.place, rule_advice(own[0], one.container, what, _WHICH))
    elif counts[0] * counts[1] < 0:
        told.add(own[0])
        what = (
            f"weight {mine} here and {theirs} of {other.path} are opposed: who is placed later"
            " decides"
        )
        yield Between(one.place, rule_advice(own[0], one.container, what, "leave one of them out"))


def _one_sided(one: Member, others: Sequence[Member]) -> Iterator[Between]:
    """Weights that count in one order of arrival alone, for others that say nothing themselves."""
    told: set[AffinityRule] = set()
    for other in others:
        for rule in one.rules_about(other):
            if rule.is_symmetric or rule in told or other.rules_about(one):
                continue
            told.add(rule)
            what = (
                f"the rule counts when {one.path} is placed, and not when {other.path} is, which"
                " has no rule about it"
            )
            fix = "write 'symmetric: true', so that it counts whoever comes first"
            yield Between(one.place, rule_advice(rule, one.container, what, fix))


def _crowded(every: Sequence[Member], count_domains: CountDomains) -> Iterator[Between]:
    """Containers that must all keep apart, more than the machine has domains."""
    told: set[Level] = set()
    apart_from: dict[Level, Sequence[int]] = {}
    for place, one in enumerate(every):
        for rule in one.placement.required:
            level = rule.term.level
            if not rule.is_anti or level in told or not is_written(rule.term):
                continue
            if level not in apart_from:
                apart_from[level] = _apart_from(every, level)
            left, apart = apart_from[level][place], [one]
            others = [other for number, other in enumerate(every) if left >> number & 1]
            if not others:
                continue
            count = count_domains(level, [one.container, *[other.container for other in others]])
            domains, found = count.number, count.level
            while left and len(apart) <= domains:
                number = (left & -left).bit_length() - 1
                apart.append(every[number])
                left &= apart_from[level][number]
            if len(apart) <= domains:
                continue
            told.add(level)
            names = ", ".join(other.path for other in apart[1:5]) + (", …" * (len(apart) > 5))
            has = f"{domains} {level_noun(found)}{'s' * (domains != 1)}"
            if found is not level:
                has += f" and no {level_noun(level)}s"
            if domains != count.everywhere:
                has += " with CPUs for them"
            what = f"it must keep apart from {names}, and this machine has {has}"
            fix = "not all of them can be on one such node: choose a narrower level or prefer it"
            yield Between(one.place, term_finding(rule.term, one.container, what, fix))


def _apart_from(every: Sequence[Member], level: Level) -> Sequence[int]:
    """Masks of places in the list: who must be in another domain of a level than each of them.

    A required rule of one of two pods is enough.
    """
    found = [0] * len(every)
    for place, owner in enumerate(every):
        terms = [
            rule.term
            for rule in owner.placement.required
            if rule.is_anti and is_apart_inside(rule.term.level, level)
        ]
        for number, other in enumerate(every) if terms else ():
            if other.place != owner.place and any(owner.is_about(term, other) for term in terms):
                found[place] |= 1 << number
                found[number] |= 1 << place
    return found
