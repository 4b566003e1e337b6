"""Which containers a rule matches, found without trying every rule on every container.

Containers are kept by each of their facts, so that an expression is answered by set algebra; only
joint keys are looked at container by container. Symmetric rules of residents are kept by a fact
that whatever they match must have; equal ones are looked at once for all residents.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import assert_never

from ..container import Container, ContainerId
from .affinity import AffinityRule
from .expression import AllOf, AnyOf, Condition, Expression, Not, evaluate
from .facts import Fact, Subkey, facts
from .operators import ANYTHING, equal, never

Ids = Set[ContainerId]

# Up to so many containers, evaluating the expression costs less than set algebra over all.
FEW = 16

# How few containers share a value of the field, as a rule; any other field is in between.
SELECTIVITY = {"id": 0, "pod/id": 1, "pod/uid": 1, "pod/name": 2, "name": 3}
OTHER_SELECTIVITY = 4
POOR_SELECTIVITY = {"namespace": 5, "pod/namespace": 5, "qosclass": 6, "pod/qosclass": 6}


@dataclass(slots=True)
class _SymmetricGroup:
    """One (scope, match) and the weight each resident's rules give it."""

    condition: AllOf
    anchors: frozenset[Fact] | None
    weights: dict[ContainerId, int] = field(default_factory=dict[ContainerId, int])


class AffinityIndex:
    """The containers that are there, and the rules they brought along."""

    def __init__(self) -> None:
        self._containers: dict[ContainerId, Container] = {}
        self._facts: dict[ContainerId, tuple[Fact, ...]] = {}
        self._rules: dict[ContainerId, tuple[AffinityRule, ...]] = {}
        self._values: dict[Subkey, dict[str, set[ContainerId]]] = {}
        self._groups: dict[AllOf, _SymmetricGroup] = {}
        self._groups_by_fact: dict[Fact, dict[AllOf, _SymmetricGroup]] = {}
        self._groups_of_anyone: dict[AllOf, _SymmetricGroup] = {}

    def __len__(self) -> int:
        return len(self._containers)

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is kept, not even of what has been removed."""
        kept = (self._containers, self._facts, self._rules, self._values, self._groups)
        return not any((*kept, self._groups_by_fact, self._groups_of_anyone))

    def add(self, container: Container, rules: Iterable[AffinityRule] = ()) -> None:
        """Add a container with its rules, in place of what has the same id."""
        self.remove(container.id)
        self._containers[container.id] = container
        self._facts[container.id] = tuple(facts(container))
        for subkey, value in self._facts[container.id]:
            self._values.setdefault(subkey, {}).setdefault(value, set()).add(container.id)
        symmetric = tuple(rule for rule in rules if rule.is_symmetric)
        if symmetric:
            self._rules[container.id] = symmetric
        for rule in symmetric:
            weights = self._group(rule).weights
            weights[container.id] = weights.get(container.id, 0) + rule.weight

    def remove(self, container_id: ContainerId) -> None:
        """Forget a container and its rules; unknown ids are ignored."""
        if self._containers.pop(container_id, None) is None:
            return
        for subkey, value in self._facts.pop(container_id):
            by_value = self._values[subkey]
            by_value[value].discard(container_id)
            if not by_value[value]:
                del by_value[value]
            if not by_value:
                del self._values[subkey]
        for rule in self._rules.pop(container_id, ()):
            group = self._groups.get(_condition(rule))
            if group is not None and group.weights.pop(container_id, None) is not None:
                self._drop_if_empty(group)

    def weights(
        self, container: Container, rules: Iterable[AffinityRule] = ()
    ) -> dict[ContainerId, int]:
        """The effective affinity of a newcomer to each container that is there; no zeros.

        The sum of the weights of its rules that match the other, and of the other's symmetric rules
        that match it. Itself and older instances of it (same pod id and name) do not count.
        """
        totals: dict[ContainerId, int] = {}
        for rule in rules:
            for other in self._select(_condition(rule), None):
                totals[other] = totals.get(other, 0) + rule.weight
        for group in self._groups_near(container):
            if evaluate(group.condition, container):
                for other, weight in group.weights.items():
                    totals[other] = totals.get(other, 0) + weight
        if totals:
            for other in self._instances(container):
                totals.pop(other, None)
        return {other: total for other, total in totals.items() if total}

    def matching(self, expression: Expression) -> frozenset[ContainerId]:
        """All containers for which an expression holds."""
        return frozenset(self._select(expression, None))

    def _instances(self, container: Container) -> Iterable[ContainerId]:
        of_pod = self._values.get(Subkey("pod/id"), {}).get(container.pod.id, set())
        of_name = self._values.get(Subkey("name"), {}).get(container.name, set())
        return (of_pod & of_name) | {container.id}

    def _select(self, expression: Expression, within: Ids | None) -> Ids:
        """The containers of `within` (None: of all) for which the expression holds."""
        if within is not None and len(within) <= FEW:
            known = self._containers
            return {other for other in within if evaluate(expression, known[other])}
        match expression:
            case Condition():
                return self._select_condition(expression, within)
            case AllOf(terms):
                for term in sorted(terms, key=_cost):
                    within = self._select(term, within)
                    if not within:
                        break
                return self._base(within)
            case AnyOf(terms):
                found: set[ContainerId] = set()
                for term in terms:
                    found |= self._select(term, within)
                return found
            case Not(term):
                return self._base(within) - self._select(term, within)
            case _:
                assert_never(expression)

    def _base(self, within: Ids | None) -> Ids:
        return self._containers.keys() if within is None else within

    def _select_condition(self, condition: Condition, within: Ids | None) -> Ids:
        operator = condition.operator
        if operator.compare is never:
            return self._base(within) if operator.is_negated else frozenset()
        subkey = condition.key.only if condition.key else None
        if subkey is None:
            known, base = self._containers, self._base(within)
            return {other for other in base if evaluate(condition, known[other])}
        positive = self._having(subkey, condition)
        if operator.is_negated:
            return self._base(within) - positive
        return positive if within is None else positive & within

    def _having(self, subkey: Subkey, condition: Condition) -> Ids:
        """The containers with a value that passes the test, negation left aside."""
        by_value, values = self._values.get(subkey, {}), condition.values
        if condition.operator.compare is equal and ANYTHING not in values:
            buckets = [by_value[value] for value in set(values) if value in by_value]
        else:
            buckets = [ids for value, ids in by_value.items() if condition.test(value)]
        return buckets[0] if len(buckets) == 1 else set[ContainerId]().union(*buckets)

    def _group(self, rule: AffinityRule) -> _SymmetricGroup:
        condition = _condition(rule)
        group = self._groups.get(condition)
        if group is None:
            group = _SymmetricGroup(condition, _anchors(condition))
            self._groups[condition] = group
            if group.anchors is None:
                self._groups_of_anyone[condition] = group
            for fact in group.anchors or ():
                self._groups_by_fact.setdefault(fact, {})[condition] = group
        return group

    def _drop_if_empty(self, group: _SymmetricGroup) -> None:
        if group.weights:
            return
        del self._groups[group.condition]
        self._groups_of_anyone.pop(group.condition, None)
        for fact in group.anchors or ():
            del self._groups_by_fact[fact][group.condition]
            if not self._groups_by_fact[fact]:
                del self._groups_by_fact[fact]

    def _groups_near(self, container: Container) -> Iterable[_SymmetricGroup]:
        if not self._groups:
            return ()
        near = dict(self._groups_of_anyone)
        is_known = self._containers.get(container.id) is container
        for fact in self._facts[container.id] if is_known else facts(container):
            if fact in self._groups_by_fact:
                near.update(self._groups_by_fact[fact])
        return near.values()


def _condition(rule: AffinityRule) -> AllOf:
    return AllOf((rule.scope, rule.match))


def _anchors(expression: Expression) -> frozenset[Fact] | None:
    """Facts of which every container that fulfils the expression has one; None if unknown."""
    match expression:
        case Condition(key, operator, values):
            subkey = key.only if key else None
            is_lookup = operator.compare is equal and not operator.is_negated
            if subkey is None or not is_lookup or ANYTHING in values:
                return None
            return frozenset((subkey, value) for value in values)
        case AllOf(terms):
            found = [anchors for term in terms if (anchors := _anchors(term)) is not None]
            return min(found, key=_anchor_cost, default=None)
        case AnyOf(terms):
            parts = [_anchors(term) for term in terms]
            known = [part for part in parts if part is not None]
            return frozenset[Fact]().union(*known) if len(known) == len(parts) else None
        case Not():
            return None
        case _:
            assert_never(expression)


def _anchor_cost(anchors: frozenset[Fact]) -> tuple[int, int]:
    return max((_selectivity(subkey) for subkey, _ in anchors), default=0), len(anchors)


def _selectivity(subkey: Subkey) -> int:
    poor = POOR_SELECTIVITY.get(subkey.field, OTHER_SELECTIVITY)
    return SELECTIVITY.get(subkey.field, poor)


def _cost(expression: Expression) -> int:
    """In which order the terms of a conjunction are answered: the most selective first."""
    match expression:
        case Condition(key, operator, _):
            subkey = key.only if key else None
            if subkey is None:
                return 20 if key is None else 30
            if operator.is_negated:
                return 20
            return _selectivity(subkey) + (0 if operator.compare is equal else 10)
        case AllOf(terms):
            return min(map(_cost, terms), default=20)
        case AnyOf(terms):
            return max(map(_cost, terms), default=0)
        case Not():
            return 20
        case _:
            assert_never(expression)
