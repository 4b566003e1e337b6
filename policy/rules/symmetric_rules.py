"""Symmetric rules of the containers that are there: which of them match a newcomer.

However many rules there are, a newcomer costs a bounded number of steps. Rules are found by their
triggers, and equal ones are looked at once. Where all that is found would take too long, the first
rules of every container count: as many of each as there is time for, the same for all.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from ..model.container import Container, ContainerId
from .affinity import AffinityRule
from .container_facts import Subkey
from .evaluation import Steps, TooManyStepsError, bound_steps, holds
from .expression import ALWAYS, AllOf, Expression, evaluate_facts, identity
from .trigger import (
    EVERYONE,
    LENGTHS,
    Background,
    TriggerKind,
    background,
    background_value,
    triggers_made,
)

NEWCOMER_STEPS: Final = 60_000
"""All symmetric rules together that a newcomer may match."""
OWNER_STEPS: Final = 20_000
"""All symmetric rules of one container, for one newcomer; its further ones do not count."""
TRIGGERS_MAX: Final = 512
"""Of one container's rules; its further rules are looked at for every newcomer."""
TRIGGERS_MADE_MAX: Final = 2048
"""To find those of one container's rules, of which not all are taken; the same holds beyond."""
_OF_EVERYONE: Final = frozenset((EVERYONE,))
_FIRST_LEVEL: Final = 6
_ORDINARY_STEPS: Final = 1000
_PREPARED_MAX: Final = 256


class _Group(Struct):
    """Equal rules of some containers, and the weight of each container's."""

    condition: Expression
    level: int
    steps: int
    background: Background
    weights: dict[ContainerId, int] = field(default_factory=dict[ContainerId, int])


_GroupKey = tuple[object, int, bool]
_Buckets = dict[Subkey, dict[tuple[TriggerKind, str], "_Bucket"]]


class _Bucket(Struct):
    """The groups of one trigger by level, and their steps."""

    groups: dict[int, dict[int, _Group]] = field(default_factory=dict[int, dict[int, _Group]])
    steps: dict[int, int] = field(default_factory=dict[int, int])


class _Prepared(Struct):
    """Steps to keep a rule and to find its background, and the background once it is needed."""

    steps: int
    triggers_made: int
    background: Background | None = None


class SymmetricRules:
    """The rules by what they need of a newcomer, in levels.

    A rule's level grows with the steps of those before it of the same container and its own.
    """

    def __init__(self) -> None:
        self._owners: dict[ContainerId, list[_GroupKey]] = {}
        self._groups: dict[_GroupKey, _Group] = {}
        self._by_value: _Buckets = {}
        # Heads and tails apart: few nodes have any.
        self._by_end: _Buckets = {}
        # Of late, what takes as long to find out as everything else: replicas have the same rules.
        self._prepared: dict[object, _Prepared] = {}
        # By level: what each container's rules weigh for a newcomer that has no trigger of them.
        self._standing: dict[int, dict[ContainerId, int]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is kept, not even of what has been removed."""
        return not (
            self._owners or self._groups or self._by_value or self._by_end or self._standing
        )

    def add(self, owner: ContainerId, rules: Iterable[AffinityRule]) -> None:
        """Keep the symmetric ones among a container's rules; it has none yet."""
        steps, triggers, made = 0, 0, 0
        keys: list[_GroupKey] = []
        for rule in rules:
            if not rule.is_symmetric:
                continue
            scope, match = rule.scope, rule.match
            # Most symmetric rules have a scope that all containers are in.
            condition = match if scope is ALWAYS or scope == ALWAYS else AllOf((scope, match))
            name = identity(condition)
            prepared = self._prepared.get(name) or self._prepare(name, condition)
            steps += prepared.steps
            if steps > OWNER_STEPS:
                break
            made += prepared.triggers_made
            found = None
            if triggers <= TRIGGERS_MAX and made <= TRIGGERS_MADE_MAX:
                found = prepared.background = prepared.background or background(condition)
                triggers += len(found.triggers)
            is_found = found is not None and triggers <= TRIGGERS_MAX
            key = name, max(_FIRST_LEVEL, steps.bit_length()), is_found
            group = self._groups.get(key)
            if group is None:
                if found is None or not is_found:
                    found = Background(background_value(condition), _OF_EVERYONE)
                group = self._groups[key] = _Group(condition, key[1], prepared.steps, found)
                self._index(group)
            group.weights[owner] = group.weights.get(owner, 0) + rule.weight
            if group.background.value:
                self._stand(group.level, owner, rule.weight)
            keys.append(key)
        if keys:
            self._owners[owner] = keys

    def remove(self, owner: ContainerId) -> None:
        """Forget a container's rules; unknown ids are ignored."""
        for key in self._owners.pop(owner, ()):
            group = self._groups.get(key)
            # Equal rules of one container are one entry of the group.
            weight = group.weights.pop(owner, None) if group else None
            if group is None or weight is None:
                continue
            if group.background.value:
                self._stand(group.level, owner, -weight)
            if not group.weights:
                del self._groups[key]
                self._unindex(group)

    def weights(
        self, newcomer: Container, known: Mapping[Subkey, str]
    ) -> tuple[dict[ContainerId, int], bool]:
        """The weights of all rules that match a container, whose facts are known, by their owner.

        And whether all were looked at. There may be zeros, and what a newcomer's rules that are
        there already weigh for itself means nothing.
        """
        if not self._owners:
            return {}, True
        near = self._near(known)
        level = self._affordable(near)
        totals: dict[ContainerId, int] = {}
        for each, standing in self._standing.items():
            if level is None or each <= level:
                for owner, weight in standing.items():
                    totals[owner] = totals.get(owner, 0) + weight
        groups = {
            place: group
            for bucket in near
            for each, of_level in bucket.groups.items()
            if level is None or each <= level
            for place, group in of_level.items()
        }
        for group in groups.values():
            if newcomer.id in group.weights and len(group.weights) == 1:
                continue
            change = _holds(group, known) - group.background.value
            if change:
                for owner, weight in group.weights.items():
                    totals[owner] = totals.get(owner, 0) + change * weight
        return totals, level is None

    def _near(self, known: Mapping[Subkey, str]) -> list[_Bucket]:
        found: list[_Bucket] = []
        for subkey in self._by_value.keys() & known.keys():
            value, buckets = known[subkey], self._by_value[subkey]
            for trigger in ((TriggerKind.VALUE, value), (TriggerKind.PRESENT, "")):
                if trigger in buckets:
                    found.append(buckets[trigger])
        for subkey in self._by_end.keys() & known.keys():
            value, buckets = known[subkey], self._by_end[subkey]
            for length in LENGTHS:
                if length > len(value):
                    break
                head, tail = (TriggerKind.HEAD, value[:length]), (TriggerKind.TAIL, value[-length:])
                found += [buckets[end] for end in (head, tail) if end in buckets]
        return found

    def _affordable(self, near: list[_Bucket]) -> int | None:
        """The highest level for which there is time; None: all of them."""
        steps: dict[int, int] = {}
        for bucket in near:
            for level, count in bucket.steps.items():
                steps[level] = steps.get(level, 0) + count
        if sum(steps.values()) <= NEWCOMER_STEPS:
            return None
        left = NEWCOMER_STEPS
        for level in sorted(steps):
            left -= steps[level]
            if left < 0:
                return level - 1
        raise AssertionError(steps)

    def _stand(self, level: int, owner: ContainerId, weight: int) -> None:
        standing = self._standing.setdefault(level, {})
        standing[owner] = standing.get(owner, 0) + weight
        if not standing[owner]:
            del standing[owner]
        if not standing:
            del self._standing[level]

    def _prepare(self, name: object, condition: Expression) -> _Prepared:
        found = _Prepared(bound_steps(condition), triggers_made(condition))
        # Large ones are dear to keep.
        if found.steps <= _ORDINARY_STEPS:
            if len(self._prepared) >= _PREPARED_MAX:
                self._prepared.clear()
            self._prepared[name] = found
        return found

    def _side(self, kind: TriggerKind) -> _Buckets:
        is_end = kind in (TriggerKind.HEAD, TriggerKind.TAIL)
        return self._by_end if is_end else self._by_value

    def _index(self, group: _Group) -> None:
        level, place, steps = group.level, id(group), group.steps
        for subkey, kind, text in group.background.triggers:
            buckets = self._side(kind).get(subkey)
            if buckets is None:
                buckets = self._side(kind)[subkey] = {}
            bucket = buckets.get((kind, text))
            if bucket is None:
                buckets[kind, text] = _Bucket({level: {place: group}}, {level: steps})
            else:
                bucket.groups.setdefault(level, {})[place] = group
                bucket.steps[level] = bucket.steps.get(level, 0) + steps

    def _unindex(self, group: _Group) -> None:
        for subkey, kind, text in group.background.triggers:
            side = self._side(kind)
            bucket = side[subkey][kind, text]
            of_level = bucket.groups[group.level]
            del of_level[id(group)]
            bucket.steps[group.level] -= group.steps
            if not of_level:
                del bucket.groups[group.level], bucket.steps[group.level]
            if not bucket.groups:
                del side[subkey][kind, text]
            if not side[subkey]:
                del side[subkey]


def _holds(group: _Group, known: Mapping[Subkey, str]) -> bool:
    if group.steps <= _ORDINARY_STEPS:
        return evaluate_facts(group.condition, known)
    try:
        return holds(group.condition, known, Steps(NEWCOMER_STEPS))
    except TooManyStepsError:
        return False
