"""Standing spreads: required spread rules of containers that are there, by namespace."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from ....topology.model.machine import Level
from ...model.container import Container, ContainerId
from .rule_set import SpreadRule
from .term import container_labels, is_same_instance, restart_key

SPREADS_MAX: Final = 256
"""So many different required spread rules of a namespace are told apart. Where there are more, each
is taken for one that counts whoever is asked about: what might be uneven then is looked at again,
and nobody is moved."""


class StandingSpreads:
    """The required spread rules of the containers that are there, and who has them."""

    def __init__(self) -> None:
        self._spreading: dict[ContainerId, Container] = {}
        self.owners: Collection[ContainerId] = self._spreading.keys()
        """The containers with such rules."""
        # Those of one workload are equal.
        self._owners: dict[str, dict[SpreadRule, dict[ContainerId, Container]]] = {}
        self.levels: Collection[Level] = ()
        """The levels at which they count."""

    def add(self, owner: Container, rules: Iterable[SpreadRule]) -> None:
        """Keep the required ones among a container's rules; it has none so far."""
        for one in rules:
            if one.is_required:
                self._spreading[owner.id] = owner
                alike = self._owners.setdefault(owner.pod.namespace, {}).setdefault(one, {})
                alike[owner.id] = owner
                if one.level not in self.levels:
                    self.levels = (*self.levels, one.level)

    def remove(self, owner_id: ContainerId, rules: Iterable[SpreadRule]) -> None:
        """Forget the rules of a container."""
        owner = self._spreading.pop(owner_id, None)
        if owner is None:
            return
        namespace = owner.pod.namespace
        by_rule = self._owners[namespace]
        for rule in rules:
            owners = by_rule.get(rule, {})
            if owners.pop(owner_id, None) is not None and not owners:
                del by_rule[rule]
        if not by_rule:
            del self._owners[namespace]
        if not self._owners:
            self.levels = ()

    def at(self, level: Level) -> Iterator[tuple[str, SpreadRule, Mapping[ContainerId, Container]]]:
        """The rules that count at a level, each with its namespace and its owners."""
        for namespace, by_rule in self._owners.items():
            for rule, owners in by_rule.items():
                if rule.level is level:
                    yield namespace, rule, owners

    def counting(self, newcomer: Container, owners: Iterable[Container]) -> Iterator[ContainerId]:
        """Owners, among these, of required spread rules that count a newcomer."""
        by_rule = self._owners.get(newcomer.pod.namespace)
        if not by_rule:
            return
        are_few = len(by_rule) <= SPREADS_MAX
        about = [some for _, some in self.about(newcomer)] if are_few else by_rule.values()
        ids = {owner_id for some in about for owner_id in some}
        key = restart_key(newcomer)
        for owner in owners if ids else ():
            if owner.id in ids and restart_key(owner) != key:
                yield owner.id

    def has_too_many(self, namespace: str) -> bool:
        """Whether a namespace has more different required spread rules than are told apart."""
        return len(self._owners.get(namespace, ())) > SPREADS_MAX

    def is_counted(self, container: Container) -> bool:
        """Whether a required spread rule of another counts a container where it is.

        Or may do so: its namespace has too many of them.
        """
        return self.has_too_many(container.pod.namespace) or any(
            not is_same_instance(owner, container)
            for _, owners in self.about(container)
            for owner in owners.values()
        )

    def about(
        self, container: Container
    ) -> Iterator[tuple[SpreadRule, Mapping[ContainerId, Container]]]:
        """Required spread rules that count a container, each with its owners, itself among them.

        O(different rules of its namespace).
        """
        labels = container_labels(container)
        for rule, owners in self._owners.get(container.pod.namespace, {}).items():
            if rule.selector is not None and rule.selector.matches(labels):
                yield rule, owners
