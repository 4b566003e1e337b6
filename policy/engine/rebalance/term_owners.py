"""Owners of preferred rules at levels, by what their rules say: replicas all say the same."""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct, field

from ....topology.model.machine import Level
from ...model.container import Container, ContainerId
from ...rules.podaffinity.rule_set import PreferredTerm
from ...rules.podaffinity.term import Term
from ...rules.podaffinity.term_selection import instances, select_included
from ...rules.residents import Residents

_Key = tuple[Term, str, str]
"""A term, and what it depends on of its owner: uid and id of the pod, or the namespace alone."""


class _Alike(Struct):
    """Owners whose terms are about the same containers."""

    owner: Container
    """Any of them."""
    term: Term
    weights: dict[ContainerId, int] = field(default_factory=dict[ContainerId, int])
    """By owner."""


class TermOwners:
    """The owners that are there. For one thread."""

    def __init__(self) -> None:
        self._alike: Final[dict[_Key, _Alike]] = {}
        self._keys: Final[dict[ContainerId, list[_Key]]] = {}

    def add(self, owner: Container, rules: tuple[PreferredTerm, ...]) -> None:
        """Add the rules of an owner that has none so far."""
        if not rules:
            return
        keys = self._keys[owner.id] = []
        for rule in rules:
            term, pod = rule.term, owner.pod
            key = (term, pod.uid, pod.id) if term.is_pod_scope else (term, pod.namespace, "")
            alike = self._alike.get(key)
            if alike is None:
                alike = self._alike[key] = _Alike(owner, term)
            alike.weights[owner.id] = alike.weights.get(owner.id, 0) + rule.weight
            keys.append(key)

    def remove(self, owner_id: ContainerId) -> None:
        """Forget an owner; unknown ids change nothing."""
        for key in self._keys.pop(owner_id, ()):
            alike = self._alike.get(key)
            if alike is not None:
                alike.weights.pop(owner_id, None)
                if not alike.weights:
                    del self._alike[key]

    def pairs(
        self, residents: Residents, fresh: int, pause: Callable[[], None]
    ) -> Iterator[tuple[Level, ContainerId, ContainerId, int]]:
        """Pairs of an owner and a container that its rules are about, with their weight.

        Of two residents, at least one of which is among the `fresh` places. A pair may come several
        times, and with either of the two first.
        O(different rules + owners of those that have pairs + pairs).
        """
        for alike in self._alike.values():
            pause()
            places = select_included(residents, alike.owner, alike.term)
            if not places:
                continue
            for owner_id, weight in alike.weights.items():
                is_fresh = bool(fresh & residents.place(owner_id))
                others = places if is_fresh else places & fresh
                if others:
                    others &= ~instances(residents, residents.container(owner_id))
                for other in residents.ids(others):
                    yield alike.term.level, owner_id, other, weight
