"""Standing rules: required and preferred terms of containers that are there, for newcomers.

A rule is found by a namespace and a label that whoever it matches must have, and equal rules of
several containers are looked at once.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from typing import Final

from msgspec import Struct, field

from ....topology.model.machine import Level
from ...model.container import Container, ContainerId
from .rule_set import (
    ALL_COUNT,
    FIRM_MAX,
    LOOKED_AT_MAX,
    NO_PLACEMENT_RULES,
    PlacementRules,
    PreferredTerm,
    RequiredTerm,
    Uncounted,
    is_firm,
)
from .standing_spreads import StandingSpreads
from .term import (
    IndexKey,
    RestartKey,
    container_labels,
    pod_identity,
    restart_key,
    sought_keys,
)

_FEW: Final = 32
"""So many rules are asked one by one in less time than the keys of a container are looked up."""

_MATCHING_KNOWN: Final = 16
"""For so many containers the rules about them are kept: one event asks for few, and again."""

_Rule = RequiredTerm | PreferredTerm
_GroupName = tuple[_Rule, str, str]


class StandingRule(Struct):
    """One rule of some containers, in the order in which they came."""

    rule: _Rule
    owners: dict[ContainerId, Container] = field(default_factory=dict[ContainerId, Container])
    crowd: int = 0
    """The owners as a bit set: the same for all rules of the same owners."""
    firm: int = 0
    """The owners for whom it never gives way, if it keeps newcomers away."""

    @property
    def is_required_anti(self) -> bool:
        """Whether it is required anti-affinity."""
        return isinstance(self.rule, RequiredTerm) and self.rule.is_anti


_Key = tuple[str, str, str | None]


class StandingRules:
    """The rules of the containers that are there, by what they need of a newcomer."""

    def __init__(self) -> None:
        self._rules: dict[ContainerId, PlacementRules] = {}
        self.rules: Mapping[ContainerId, PlacementRules] = self._rules
        """The rules of each container that has some."""
        self._groups: dict[_GroupName, StandingRule] = {}
        # A name is as long as its rule: it is looked up as seldom as can be.
        self._groups_of: dict[ContainerId, tuple[tuple[_GroupName, StandingRule], ...]] = {}
        self._index: dict[_Key, dict[_GroupName, StandingRule]] = {}
        """By index keys."""
        # How many keys of the index are about a label: terms ask for few of a container's labels.
        self._labels: dict[str, int] = {}
        # How many of them are of a namespace.
        self._sizes: dict[tuple[IndexKey, str], int] = {}
        self._firm = Counter[str]()
        """How many rules never give way for some owner, by namespace."""
        self._lasting: dict[ContainerId, None] = {}
        self._wants_others: dict[ContainerId, None] = {}
        self.wants_others: Collection[ContainerId] = self._wants_others.keys()
        """Containers that must be with others, also where that does not count for newcomers."""
        self.near_levels = Counter[Level]()
        """How many of them there are for each level at which they must."""
        self.spreads = StandingSpreads()
        """Their required spread rules."""
        self._requiring: dict[_GroupName, StandingRule] = {}
        """Rules that require another container."""
        # The containers with rules, by what the instances of one have in common.
        self._instances: dict[RestartKey, dict[ContainerId, None]] = {}
        self._matching: dict[ContainerId, tuple[Container, Sequence[StandingRule]]] = {}
        """The rules about containers asked for last, until others come or some go."""
        self._required: dict[ContainerId, tuple[Container, bool]] = {}
        """Whether somebody requires containers, as long."""
        self._kept_apart: dict[ContainerId, tuple[Container, bool]] = {}
        """Whether somebody must not be with containers, as long."""
        self._bits: dict[ContainerId, int] = {}
        """A bit of each container with such rules, its own until it goes."""
        self._free_bits: list[int] = []

    @property
    def lasting(self) -> Collection[ContainerId]:
        """The containers with rules that are required during execution, oldest first."""
        return self._lasting.keys()

    @property
    def has_required_affinity(self) -> bool:
        """Whether a container that is there must be with others."""
        return bool(self._requiring)

    def add(self, owner: Container, rules: PlacementRules) -> Uncounted:
        """Keep the rules of a container, in place of those it has.

        Returns how many do not count for newcomers.
        """
        self.remove(owner.id)
        if not rules:
            return ALL_COUNT
        self._rules[owner.id] = rules
        self._doubt()
        if rules.are_lasting:
            self._lasting[owner.id] = None
        if rules.near_levels:
            self._wants_others[owner.id] = None
            self.near_levels.update(rules.near_levels)
        self.spreads.add(owner, rules.spread)
        wanted = dict.fromkeys([_group_name(owner, one) for one in _terms(rules)])
        groups: dict[_GroupName, StandingRule] = {}
        firm: list[StandingRule] = []
        uncounted = begun = 0
        for name in wanted:
            has_firm = is_firm(name[0], rules)
            group = self._groups.get(name)
            has_room = not has_firm or self._firm[owner.pod.namespace] + begun < FIRM_MAX
            if group is None:
                group = self._begin(name, owner, has_firm=has_firm and has_room)
            elif has_firm and not group.firm and not has_room:
                group = None
            if group is None:
                uncounted += has_firm
                continue
            groups[name] = group
            if has_firm:
                firm.append(group)
                begun += not group.firm
        self._groups_of[owner.id] = tuple(groups.items())
        if groups:
            self._instances.setdefault(restart_key(owner), {})[owner.id] = None
            bit = self._free_bits.pop() if self._free_bits else 1 << len(self._bits)
            self._bits[owner.id] = bit
            for group in groups.values():
                group.owners[owner.id] = owner
                group.crowd |= bit
            for group in firm:
                self._firm[owner.pod.namespace] += not group.firm
                group.firm |= bit
        return Uncounted(len(wanted) - len(groups), uncounted)

    def _begin(self, name: _GroupName, owner: Container, *, has_firm: bool) -> StandingRule | None:
        """Index the first rule of its kind; None where there was no room for it."""
        sizes = [(key, owner.pod.namespace) for key in name[0].term.index_keys(owner)]
        if not has_firm and any([self._sizes.get(one, 0) >= LOOKED_AT_MAX for one in sizes]):
            return None
        group = self._groups[name] = StandingRule(name[0])
        if isinstance(group.rule, RequiredTerm) and not group.rule.is_anti:
            self._requiring[name] = group
        for one in sizes:
            key = one[0]
            if key not in self._index:
                self._index[key] = {}
                self._labels[key.label] = self._labels.get(key.label, 0) + 1
            self._index[key][name] = group
            self._sizes[one] = self._sizes.get(one, 0) + 1
        return group

    def remove(self, owner_id: ContainerId) -> None:
        """Forget the rules of a container; unknown ids are ignored."""
        self._matching.pop(owner_id, None)
        self._required.pop(owner_id, None)
        self._kept_apart.pop(owner_id, None)
        rules = self._rules.pop(owner_id, None)
        if rules is None:
            return
        self._doubt()
        self._lasting.pop(owner_id, None)
        if rules.near_levels:
            self._wants_others.pop(owner_id, None)
            self.near_levels -= Counter(rules.near_levels)
        self.spreads.remove(owner_id, rules.spread)
        bit = self._bits.pop(owner_id, 0)
        if bit:
            self._free_bits.append(bit)
        groups = self._groups_of.pop(owner_id)
        if groups:
            self._forget_instance(groups[0][1].owners[owner_id])
        for name, group in groups:
            owner = group.owners.pop(owner_id)
            group.crowd &= ~bit
            if group.firm & bit:
                group.firm ^= bit
                self._firm[owner.pod.namespace] -= not group.firm
            if group.owners:
                continue
            del self._groups[name]
            self._requiring.pop(name, None)
            for key in name[0].term.index_keys(owner):
                del self._index[key][name]
                if not self._index[key]:
                    del self._index[key]
                    self._labels[key.label] -= 1
                    if not self._labels[key.label]:
                        del self._labels[key.label]
                size = key, owner.pod.namespace
                self._sizes[size] -= 1
                if not self._sizes[size]:
                    del self._sizes[size]

    def _doubt(self) -> None:
        self._matching.clear()
        self._required.clear()
        self._kept_apart.clear()

    def _forget_instance(self, owner: Container) -> None:
        key = restart_key(owner)
        instances = self._instances.get(key)
        if instances is not None:
            instances.pop(owner.id, None)
            if not instances:
                del self._instances[key]

    def of(self, owner_id: ContainerId) -> PlacementRules:
        """The rules of a container; none for those that have none."""
        return self._rules.get(owner_id, NO_PLACEMENT_RULES)

    def is_required(self, container: Container) -> bool:
        """Whether a container that is there must be with this one."""
        known = self._required.get(container.id)
        if known is None or known[0] is not container:
            known = self._required[container.id] = container, self._is_required(container)
        return known[1]

    def _is_required(self, container: Container) -> bool:
        labels = container_labels(container)
        instances = self._instances.get(restart_key(container), ())
        return any(
            group.rule.term.includes(next(iter(group.owners.values())), container, labels)
            and any(one not in instances for one in group.owners)
            for group in self.requiring([container])
        )

    def is_kept_apart(self, container: Container) -> bool:
        """Whether required anti-affinity of another container is about this one."""
        known = self._kept_apart.get(container.id)
        if known is None or known[0] is not container:
            known = self._kept_apart[container.id] = container, self._is_kept_apart(container)
        return known[1]

    def _is_kept_apart(self, container: Container) -> bool:
        if container.id in self._matching:
            return any(one.is_required_anti for one in self.matching(container))
        labels = container_labels(container)
        own = self.crowd(self._instances.get(restart_key(container), ()))
        return any(
            group.is_required_anti
            and group.crowd & ~own
            and group.rule.term.includes(next(iter(group.owners.values())), container, labels)
            for key in sought_keys(container, labels, self._labels.keys())
            for group in self._index.get(key, {}).values()
        )

    def requiring(self, containers: Iterable[Container]) -> Iterable[StandingRule]:
        """Rules that require somebody, among them all that are about some of these."""
        if len(self._requiring) <= _FEW:
            return self._requiring.values()
        found: dict[_GroupName, StandingRule] = {}
        names = self._labels.keys()
        keys = [sought_keys(one, container_labels(one), names) for one in containers]
        for key in dict.fromkeys(one for some in keys for one in some):
            found.update(self._index.get(key, {}))
        # Most keep apart or prefer: those cost no call.
        rules = [(one.rule, one) for one in found.values()]
        return [one for rule, one in rules if isinstance(rule, RequiredTerm) and not rule.is_anti]

    def matching(self, newcomer: Container) -> Sequence[StandingRule]:
        """The rules that are about a container, each with its owners but for itself."""
        if not self._index:
            return []
        known = self._matching.get(newcomer.id)
        if known is None or known[0] is not newcomer:
            if len(self._matching) >= _MATCHING_KNOWN:
                # The owners of all of them are many.
                self._matching.clear()
            known = self._matching[newcomer.id] = newcomer, self._matches(newcomer)
        return known[1]

    def keeping_apart(self, container: Container, among: int = -1) -> Sequence[StandingRule]:
        """Required anti-affinity about a container, as of `matching`.

        `among`: a crowd; rules without an owner in it may be left out.
        """
        if not (self._index and among):
            return []
        known = self._matching.get(container.id)
        if among != -1 and (known is None or known[0] is not container):
            return self._matches(container, among, are_apart=True)
        return [one for one in self.matching(container) if one.is_required_anti]

    def crowd(self, owners: Iterable[ContainerId]) -> int:
        """The crowd of some containers, as of `StandingRule`: of those that have rules."""
        return reduce(int.__or__, [self._bits.get(one, 0) for one in owners], 0)

    def _matches(
        self, newcomer: Container, among: int = -1, *, are_apart: bool = False
    ) -> Sequence[StandingRule]:
        labels = container_labels(newcomer)
        candidates: dict[_GroupName, StandingRule] = {}
        for key in sought_keys(newcomer, labels, self._labels.keys()):
            if key in self._index:
                candidates.update(self._index[key])
        found: list[StandingRule] = []
        instances, own = self._instances.get(restart_key(newcomer), ()), 0
        for one in instances:
            own |= self._bits[one]
        # Who has many rules has the same ones as others: they come at the same time to all.
        crowds: dict[int, dict[ContainerId, Container]] = {}
        for group in candidates.values():
            crowd = group.crowd & ~own
            if not crowd & among or (are_apart and not group.is_required_anti):
                continue
            owner = next(iter(group.owners.values()))
            if not group.rule.term.includes(owner, newcomer, labels):
                continue
            others = crowds.get(crowd)
            if others is None:
                others = crowds[crowd] = dict(group.owners)
                for one in instances:
                    others.pop(one, None)
            found.append(StandingRule(group.rule, others, crowd, group.firm & crowd))
        return found


def _terms(rules: PlacementRules) -> Iterable[_Rule]:
    return (*rules.required, *rules.preferred)


def _group_name(owner: Container, rule: _Rule) -> _GroupName:
    """Equal terms are about the same containers where their owners' namespaces or pods are."""
    own_pod = pod_identity(owner) if rule.term.is_pod_scope else ""
    return rule, owner.pod.namespace, own_pod
