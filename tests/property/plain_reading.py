"""A plain reading of rules between containers: what is written, held against sets of cpus.

Written for itself from the words of the rules and the groups of the machine. No part of the policy
is in it, and nothing is looked up that could be counted.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from pinfold.topology.model.machine import Machine

Cpus = frozenset[int]
Labels = Mapping[str, str]
Written = Mapping[str, Any]
LEVELS = ("socket", "die", "numa", "l3", "cluster", "core")
"""From wide to narrow, as far as they nest."""


@dataclass(frozen=True, eq=False)
class WrittenRule:
    """A rule of a container as its author wrote it."""

    line: int
    """Where it is in the annotation of its owner."""
    kind: str
    """`affinity`, `anti-affinity` or `spread`."""
    term: Written
    weight: int = 0
    """0: it is required."""


@dataclass(frozen=True, eq=False)
class WrittenPod:
    """A pod of one container, with the rules that are written for it."""

    path: str
    namespace: str
    labels: Labels
    """Pseudo-labels are among them."""
    rules: tuple[WrittenRule, ...]
    fails: bool
    """Whether it would rather not run than have its required rules broken."""
    milli: int

    @property
    def size(self) -> int:
        """The cpus that hold its request."""
        return -(-self.milli // 1000)

    def required(self, kind: str) -> list[WrittenRule]:
        """Its required rules of a kind."""
        return [one for one in self.rules if one.kind == kind and not one.weight]


Placed = Mapping[WrittenPod, Cpus]


class RuleName(NamedTuple):
    """The owner of a rule, and the line where that is written."""

    owner: str
    line: int


class Bound(NamedTuple):
    """A required rule as a bound on the domains of one pod, at one level."""

    name: RuleName
    kind: str
    is_own: bool
    must_hold: bool
    level: str
    forbidden: frozenset[int]
    is_for_one_domain: bool = False


class Cost(NamedTuple):
    """How many rules a place breaks, and how many of these are of others: fewer are better."""

    broken: int
    of_others: int


def selects(selector: Written | None, labels: Labels) -> bool:
    """Whether a label selector is about labels: null about none, an empty one about all."""
    if selector is None:
        return False
    for key, value in selector.get("matchLabels", {}).items():
        if labels.get(key) != value:
            return False
    for one in selector.get("matchExpressions", ()):
        key, values = one["key"], one.get("values", ())
        holds = {
            "In": key in labels and labels[key] in values,
            "NotIn": key not in labels or labels[key] not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }
        if not holds[one["operator"]]:
            return False
    return True


def have_keys(term: Written, own: Labels, others: Labels) -> bool:
    """Whether others have the owner's values of `matchLabelKeys`, none of `mismatchLabelKeys`."""
    same = [key for key in term.get("matchLabelKeys", ()) if key in own]
    unlike = [key for key in term.get("mismatchLabelKeys", ()) if key in own]
    return all(others.get(key) == own[key] for key in same) and all(
        others.get(key) != own[key] for key in unlike
    )


class PlainReading:
    """A reader of rules on one machine under one configuration."""

    def __init__(
        self, machine: Machine, usable: Cpus, namespaces: Mapping[str, Labels], *, is_strict: bool
    ) -> None:
        """`usable`: the cpus that containers may have. `namespaces`: the labels of each."""
        self.usable = usable
        self.is_strict = is_strict
        self._namespaces = namespaces
        self._domains = dict(domains_of(machine))
        self._by_cpu = {
            level: {cpu: number for number, one in enumerate(found) for cpu in one}
            for level, found in self._domains.items()
        }

    def touched(self, level: str, cpus: Iterable[int]) -> set[int]:
        """The domains in which some cpus are, by number."""
        by_cpu = self._by_cpu[level]
        return {by_cpu[cpu] for cpu in cpus}

    def is_about(self, term: Written, owner: WrittenPod, other: WrittenPod) -> bool:
        """Whether a term of the owner is about another pod, or would be about the owner itself."""
        names, scope = term.get("namespaces"), term.get("namespaceSelector")
        known = {
            **self._namespaces.get(other.namespace, {}),
            "kubernetes.io/metadata.name": other.namespace,
        }
        if not names and scope is None:
            is_in_scope = other.namespace == owner.namespace
        else:
            is_in_scope = other.namespace in (names or ()) or selects(scope, known)
        return (
            is_in_scope
            and selects(term.get("labelSelector"), other.labels)
            and have_keys(term, owner.labels, other.labels)
        )

    def bounds(self, pod: WrittenPod, others: Placed) -> list[Bound]:
        """All required rules that bound the place of a pod among others."""
        return [
            *self._affinity(pod, others),
            *self._anti_affinity(pod, others),
            *self._spread(pod, others),
            *self._anti_affinity_of_others(pod, others),
        ]

    def broken(self, bounds: Iterable[Bound], cpus: Cpus) -> list[Bound]:
        """Those of some bounds that a place breaks."""
        found: list[Bound] = []
        touched: dict[str, set[int]] = {}
        for one in bounds:
            here = touched.get(one.level)
            if here is None:
                here = touched[one.level] = self.touched(one.level, cpus)
            is_wide = one.is_for_one_domain and len(here) > 1
            if is_wide or not here.isdisjoint(one.forbidden):
                found.append(one)
        return found

    def wish(self, pod: WrittenPod, cpus: Cpus, others: Placed) -> Fraction:
        """The sum of preferred rules, in both directions, of a place among others."""
        total = Fraction(0)
        for other, theirs in others.items():
            for owner, about in ((pod, other), (other, pod)):
                for rule in owner.rules:
                    weight = rule.weight
                    if rule.kind == "anti-affinity":
                        weight = -weight
                    elif rule.kind == "affinity" and not weight and owner is other:
                        weight = 1
                    if weight and rule.kind != "spread" and self.is_about(rule.term, owner, about):
                        total += weight * self._overlap(rule.term["topologyKey"], cpus, theirs)
        for rule in pod.rules:
            if rule.kind == "spread" and rule.weight:
                total -= self._surplus(rule, pod, cpus, others)
        return total

    def _overlap(self, level: str, cpus: Cpus, theirs: Cpus) -> Fraction:
        own = self.touched(level, cpus)
        return Fraction(len(own & self.touched(level, theirs)), len(own))

    def _surplus(self, rule: WrittenRule, pod: WrittenPod, cpus: Cpus, others: Placed) -> Fraction:
        counts, most = self._counts(rule, pod, others)
        own = self.touched(rule.term["topologyKey"], cpus)
        return Fraction(sum(max(0, counts[one] - most) for one in own), len(own))

    def _affinity(self, pod: WrittenPod, others: Placed) -> Iterator[Bound]:
        rules = pod.required("affinity")
        groups = [[one for one in others if self.is_about(r.term, pod, one)] for r in rules]
        waivers = [self.is_about(rule.term, pod, pod) for rule in rules]
        if self.is_strict and rules:
            # As Kubernetes' code: whoever counts has all that is asked for.
            groups = [[one for one in groups[0] if all(one in some for some in groups)]] * len(
                rules
            )
            waivers = [all(waivers)] * len(rules)
        for rule, group, is_waived in zip(rules, groups, waivers, strict=True):
            level = rule.term["topologyKey"]
            everywhere = set(range(len(self._domains[level])))
            there: set[int] = set()
            for one in group:
                there |= self.touched(level, others[one])
            if group or not is_waived:
                sizes = [len(one & self.usable) for one in self._domains[level]]
                fits_one = bool(group) and max(sizes) >= pod.size
                yield self._bound(pod, rule, everywhere - there, is_for_one_domain=fits_one)

    def _anti_affinity(self, pod: WrittenPod, others: Placed) -> Iterator[Bound]:
        for rule in pod.required("anti-affinity"):
            level, forbidden = rule.term["topologyKey"], set[int]()
            for other, cpus in others.items():
                if self.is_about(rule.term, pod, other):
                    forbidden |= self.touched(level, cpus)
            yield self._bound(pod, rule, forbidden)

    def _anti_affinity_of_others(self, pod: WrittenPod, others: Placed) -> Iterator[Bound]:
        for other, cpus in others.items():
            for rule in other.required("anti-affinity"):
                if self.is_about(rule.term, other, pod):
                    forbidden = self.touched(rule.term["topologyKey"], cpus)
                    yield self._bound(other, rule, forbidden, is_own=False)

    def _spread(self, pod: WrittenPod, others: Placed) -> Iterator[Bound]:
        for rule in pod.required("spread"):
            counts, most = self._counts(rule, pod, others)
            yield self._bound(pod, rule, {one for one, count in counts.items() if count > most})

    def _counts(
        self, rule: WrittenRule, pod: WrittenPod, others: Placed
    ) -> tuple[Mapping[int, int], int]:
        """Containers that spread counts, by eligible domain; and the most that are allowed."""
        term = rule.term
        level, selector = term["topologyKey"], term.get("labelSelector")
        places = [
            self.touched(level, cpus)
            for one, cpus in others.items()
            if one.namespace == pod.namespace
            and selects(selector, one.labels)
            and have_keys(term, pod.labels, one.labels)
        ]
        counts = {
            number: sum(number in place for place in places)
            for number in self.touched(level, self.usable)
        }
        least = min(counts.values()) if len(counts) >= term.get("minDomains", 1) else 0
        return counts, least + term["maxSkew"] - selects(selector, pod.labels)

    def _bound(
        self,
        owner: WrittenPod,
        rule: WrittenRule,
        forbidden: set[int],
        *,
        is_own: bool = True,
        is_for_one_domain: bool = False,
    ) -> Bound:
        return Bound(
            RuleName(owner.path, rule.line),
            rule.kind,
            is_own,
            owner.fails,
            rule.term["topologyKey"],
            frozenset(forbidden),
            is_for_one_domain,
        )


def cost(broken: Iterable[Bound]) -> Cost:
    """The cost of the rules that a place breaks."""
    found = list(broken)
    return Cost(len(found), sum(not one.is_own for one in found))


def domains_of(machine: Machine) -> Iterator[tuple[str, list[Cpus]]]:
    """The domains of every level; one that the machine lacks is the next wider one that it has.

    So is, for cpus that no group of a level has, what these leave of the wider ones.
    """
    cores = [frozenset(one) for one in machine.cores]
    shared = [one.cpus for one in machine.clusters] or machine.l2_groups
    clusters = [frozenset(one) for one in shared]
    groups = {
        "socket": [frozenset(one.cpus) for one in machine.sockets],
        "die": [frozenset(one.cpus) for one in machine.dies],
        "numa": [frozenset(one.cpus) for one in machine.numa_nodes],
        "l3": [frozenset(one) for one in machine.l3_groups],
        "cluster": [one for one in clusters if sum(bool(one & core) for core in cores) > 1],
        "core": cores,
    }
    wider = [frozenset(machine.online)]
    for level in LEVELS:
        found = [one for one in groups[level] if one]
        if found:
            rest = wider[0].union(*wider) - frozenset[int]().union(*found)
            wider = found + [one & rest for one in wider if one & rest]
        yield level, wider
