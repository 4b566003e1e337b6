"""Symmetric rules of the containers that are there: which of them match a newcomer.

However many rules there are, a newcomer costs a bounded number of steps. Rules are found by their
triggers, and equal ones are looked at once. Where all that is found would take too long, the first
rules of every container count: as many of each as there is time for, the same for all.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from ..model.container import ContainerId
from .affinity_rule import AffinityRule
from .container_facts import Subkey
from .evaluation import Steps, TooManyStepsError, holds, keeping_steps, looking_steps
from .expression import ALWAYS, AllOf, Condition, Expression, Not, evaluate_facts, identity
from .operators import Test, never
from .trigger import (
    EVERYONE,
    LENGTHS,
    Background,
    TriggerKind,
    background,
    background_value,
    triggers_made,
)

NEWCOMER_STEPS: Final = 6_000
"""All symmetric rules together that a newcomer may match, of few containers."""
STEPS_PER_OWNER: Final = 40
"""`NEWCOMER_STEPS` of many containers, for each: to look at a plain rule takes less."""
OWNER_STEPS: Final = 20_000
"""To keep all symmetric rules of one container, and to look at them once; its further ones do not
count."""
TRIGGERS_MAX: Final = 512
"""Of one container's rules; its further rules are looked at for every newcomer."""
TRIGGERS_MADE_MAX: Final = 2048
"""To find those of one container's rules, of which not all are taken; the same holds beyond."""
_OF_EVERYONE: Final = frozenset((EVERYONE,))
_FIRST_LEVEL: Final = 5
_LAST_LEVEL: Final = OWNER_STEPS.bit_length()
_ORDINARY_STEPS: Final = 1000
_GROUP_STEPS: Final = 12
"""To come across a rule and to add its weight."""
_CROWD: Final = 8
_CROWD_STEPS: Final = 24
"""To add the weights of so many more containers with the same rule."""
_PREPARED_MAX: Final = 256
_DEAR_STEPS: Final = 1000
_TRIGGER_STEPS: Final = 16


class _Group(Struct):
    """Equal rules of some containers, and the weight of each container's."""

    condition: Expression
    level: int
    background: Background
    is_ordinary: bool
    """Whether it may be evaluated without counting steps."""
    steps: int
    """To look at it, for any newcomer."""
    decisive: tuple[Subkey, Test] | None
    """The fact that decides, and what it has to pass for the rule to leave its background; None
    where more than that has to be evaluated."""
    weights: dict[ContainerId, int] = field(default_factory=dict[ContainerId, int])


_GroupKey = tuple[object, int, bool]
_Buckets = dict[Subkey, dict[tuple[TriggerKind, str], "_Bucket"]]


class _Bucket(Struct):
    """The groups of one trigger by level, and their steps."""

    groups: dict[int, dict[int, _Group]] = field(default_factory=dict[int, dict[int, _Group]])
    steps: dict[int, int] = field(default_factory=dict[int, int])


class _Prepared(Struct):
    """Steps of a rule, and its background once it is needed."""

    looking: int
    """To evaluate it for a newcomer."""
    steps: int
    """For that, and to keep it."""
    triggers_made: int
    background: Background | None = None


def are_dear(rules: Iterable[AffinityRule]) -> bool:
    """Whether to keep the symmetric ones among a container's rules takes long."""
    steps = 0
    for rule in rules:
        if rule.is_symmetric:
            steps += keeping_steps(rule.scope) + keeping_steps(rule.match)
            steps += _TRIGGER_STEPS * triggers_made(rule.match)
            if steps > _DEAR_STEPS:
                return True
    return False


class SymmetricRules:
    """The rules by what they need of a newcomer, in levels.

    A rule's level grows with the steps of those before it of the same container and its own.
    """

    def __init__(self) -> None:
        self._owners: dict[ContainerId, list[_GroupKey]] = {}
        self.owners: Mapping[ContainerId, object] = self._owners
        """The containers that have such rules."""
        self._groups: dict[_GroupKey, _Group] = {}
        self._by_value: _Buckets = {}
        # Heads and tails apart: few nodes have any.
        self._by_end: _Buckets = {}
        # Of late, what takes as long to find out as everything else: replicas have the same rules.
        self._prepared: dict[object, _Prepared] = {}
        # By level: what each container's rules up to it weigh for a newcomer that has no trigger of
        # them.
        self._standing: dict[int, dict[ContainerId, int]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is kept, not even of what has been removed."""
        return not (
            self._owners or self._groups or self._by_value or self._by_end or self._standing
        )

    def add(self, owner: ContainerId, rules: Iterable[AffinityRule]) -> None:
        """Keep the symmetric ones among a container's rules; it has none yet."""
        steps, looking, triggers, made = 0, 0, 0, 0
        keys: list[_GroupKey] = []
        standing: dict[int, int] = {}
        for rule in rules:
            if not rule.is_symmetric:
                continue
            scope, match = rule.scope, rule.match
            # Most symmetric rules have a scope that all containers are in.
            condition = match if scope is ALWAYS or scope == ALWAYS else AllOf((scope, match))
            name = identity(condition)
            prepared = self._prepared.get(name)
            prepared = prepared or self._prepare(name, condition, OWNER_STEPS - steps)
            if prepared is None or steps + prepared.steps > OWNER_STEPS:
                break
            steps += prepared.steps
            looking += _GROUP_STEPS + prepared.looking
            made += prepared.triggers_made
            found = None
            if triggers <= TRIGGERS_MAX and made <= TRIGGERS_MADE_MAX:
                found = prepared.background = prepared.background or background(condition)
                triggers += len(found.triggers)
            is_found = found is not None and triggers <= TRIGGERS_MAX
            level = min(max(_FIRST_LEVEL, looking.bit_length()), _LAST_LEVEL)
            key = name, level, is_found
            group = self._groups.get(key)
            if group is None:
                group = _new_group(condition, level, prepared, found if is_found else None)
                self._groups[key] = group
                self._index(group)
            if owner not in group.weights:
                group.weights[owner] = 0
                self._charge_crowd(group, _CROWD_STEPS)
            group.weights[owner] += rule.weight
            if group.background.value:
                standing[level] = standing.get(level, 0) + rule.weight
            keys.append(key)
        if keys:
            self._owners[owner] = keys
        self._stand(owner, standing)

    def remove(self, owner: ContainerId) -> None:
        """Forget a container's rules; unknown ids are ignored."""
        for key in self._owners.pop(owner, ()):
            group = self._groups.get(key)
            # Equal rules of one container are one entry of the group.
            if group is None or owner not in group.weights:
                continue
            self._charge_crowd(group, -_CROWD_STEPS)
            del group.weights[owner]
            if not group.weights:
                del self._groups[key]
                self._unindex(group)
        for level in tuple(self._standing):
            self._standing[level].pop(owner, None)
            if not self._standing[level]:
                del self._standing[level]

    def weights(self, known: Mapping[Subkey, str]) -> tuple[dict[ContainerId, int], bool]:
        """The weights of all rules that match a container, whose facts are known, by their owner.

        And whether all were looked at. There may be zeros.
        """
        if not self._owners:
            return {}, True
        near = self._near(known)
        level = self._affordable(near)
        totals = {**self._standing.get(level, {})}
        groups: dict[int, _Group] = {}
        for bucket in near:
            for each, of_level in bucket.groups.items():
                if each <= level:
                    groups.update(of_level)
        for group in groups.values():
            if group.decisive is None:
                is_other = _holds(group, known) is not group.background.value
            else:
                # Most rules are such: no call is made but the test itself.
                subkey, test = group.decisive
                value = known.get(subkey)
                is_other = value is not None and test(value)
            if is_other:
                is_less = group.background.value
                for owner, weight in group.weights.items():
                    totals[owner] = totals.get(owner, 0) + (-weight if is_less else weight)
        return totals, level == _LAST_LEVEL

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

    def _affordable(self, near: list[_Bucket]) -> int:
        """The highest level for which there is time."""
        steps: dict[int, int] = {}
        for bucket in near:
            for level, count in bucket.steps.items():
                steps[level] = steps.get(level, 0) + count
        left = max(NEWCOMER_STEPS, STEPS_PER_OWNER * len(self._owners))
        for level in sorted(steps):
            left -= steps[level]
            if left < 0:
                return level - 1
        return _LAST_LEVEL

    def _stand(self, owner: ContainerId, weights: Mapping[int, int]) -> None:
        """Keep what a container's rules of each level weigh where their background is true."""
        total = 0
        for level in range(min(weights), _LAST_LEVEL + 1) if weights else ():
            total += weights.get(level, 0)
            self._standing.setdefault(level, {})[owner] = total

    def _prepare(self, name: object, condition: Expression, steps_left: int) -> _Prepared | None:
        """What takes long to find out about a rule; None where to keep it takes too long."""
        keeping = keeping_steps(condition)
        if keeping > steps_left:
            return None
        # Not before: this compiles its patterns.
        looking = looking_steps(condition)
        found = _Prepared(looking, keeping + looking, triggers_made(condition))
        # Large ones are dear to keep.
        if found.steps <= _ORDINARY_STEPS:
            if len(self._prepared) >= _PREPARED_MAX:
                self._prepared.clear()
            self._prepared[name] = found
        return found

    def _side(self, kind: TriggerKind) -> _Buckets:
        is_end = kind in (TriggerKind.HEAD, TriggerKind.TAIL)
        return self._by_end if is_end else self._by_value

    def _charge_crowd(self, group: _Group, steps: int) -> None:
        """Count the last container of a group where that is one of many."""
        if len(group.weights) % _CROWD:
            return
        group.steps += steps
        for subkey, kind, text in group.background.triggers:
            self._side(kind)[subkey][kind, text].steps[group.level] += steps

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


def _new_group(
    condition: Expression, level: int, prepared: _Prepared, found: Background | None
) -> _Group:
    """A group without containers. `found`: its background where rules are found by triggers."""
    is_ordinary = prepared.looking <= _ORDINARY_STEPS
    return _Group(
        condition=condition,
        level=level,
        background=found or Background(background_value(condition), _OF_EVERYONE),
        is_ordinary=is_ordinary,
        steps=_GROUP_STEPS + prepared.looking,
        decisive=_decisive(condition) if is_ordinary else None,
    )


def _decisive(expression: Expression) -> tuple[Subkey, Test] | None:
    while isinstance(expression, Not):
        expression = expression.term
    if not isinstance(expression, Condition) or expression.operator.compare is never:
        return None
    only = expression.key.only if expression.key else None
    return (only, expression.test) if only else None


def _holds(group: _Group, known: Mapping[Subkey, str]) -> bool:
    if group.is_ordinary:
        return evaluate_facts(group.condition, known)
    try:
        return holds(group.condition, known, Steps(OWNER_STEPS))
    except TooManyStepsError:
        return False
