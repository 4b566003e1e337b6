"""Concerns: containers at which required rules do not hold, and the others that these are about."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from ...books.books import Books
from ...model.container import ContainerId
from ...placing.judging.restriction import (
    TOLD_MAX,
    Restriction,
    ids_in_the_way,
    is_about_others,
)
from ...rules.podaffinity.rule_set import SpreadRule
from ..decision import Decision

COUNTED_MAX: Final = 64
"""Of a crowd that a spread rule counts nobody is watched: each of as many owners would know all.
Instead of them it is the owner itself, who is looked at again if it made anybody move."""


class Concerns:
    """The containers at which rules do not hold, each with the others that stand in the way."""

    def __init__(self, placed: Collection[ContainerId]) -> None:
        """`placed`: all that hold something, at any time."""
        self._placed = placed
        self._others: dict[ContainerId, set[ContainerId]] = {}
        self._resting: dict[ContainerId, tuple[tuple[str, ...], frozenset[ContainerId]]] = {}
        """What was told and holds again, though nobody is gone, and the others it is about.

        Whoever made way gets its cpus back without a decision about it, and it may break again.
        """
        self._few: dict[tuple[str, SpreadRule, int], Mapping[int, int]] = {}
        """The domains that hold few of those that a crowd's spread rule counts, see `is_news`."""
        self.ids: Collection[ContainerId] = self._others.keys()
        """Containers at which some rule does not hold."""
        self.resting: Collection[ContainerId] = self._resting.keys()
        """Containers of which rules are known that did not hold, and do at present."""

    def everybody(self) -> Iterable[ContainerId]:
        """Containers at which some rule does not hold, or may break again."""
        return (*self._others, *self._resting)

    def add(self, container_id: ContainerId, others: Iterable[ContainerId]) -> None:
        """Rules do not hold at a container, and these others stand in the way as well."""
        self._others.setdefault(container_id, set()).update(others)

    def add_one(self, container_id: ContainerId, other_id: ContainerId) -> bool:
        """Note another one in the way of a container's rules; whether it was in that of none."""
        others = self._others.setdefault(container_id, set())
        is_new = other_id not in others
        others.add(other_id)
        return is_new

    def put(self, container_id: ContainerId, others: set[ContainerId] | None) -> None:
        """Only these others stand in the way of a container's rules; None: all of them hold."""
        if others is None:
            self._others.pop(container_id, None)
        else:
            self._others[container_id] = others

    def is_news(self, rule: tuple[str, SpreadRule, int], few: Mapping[int, int] | None) -> bool:
        """Whether the domains that hold few are not those of the last newcomer that a rule counts.

        Or not known to be, as somebody left cpus since. `rule`: with its namespace, and the cpus of
        domains that count.
        """
        if few is None:
            self._few.pop(rule, None)
            return True
        is_same = self._few.get(rule) == few
        self._few[rule] = few
        return not is_same

    def note_left(self) -> None:
        """Forget which domains hold few: owners may be looked at before the next newcomer comes."""
        self._few.clear()

    def forget(self, container_id: ContainerId) -> None:
        """Forget what did not hold at a container, and what may break again."""
        self._few.clear()
        self._others.pop(container_id, None)
        self._resting.pop(container_id, None)

    def is_any_of(self, container_id: ContainerId) -> bool:
        """Whether rules do not hold at a container, or it stands in the way of others'."""
        told = self._others
        return container_id in told or any([container_id in one for one in told.values()])

    def is_stirred(self, container_id: ContainerId, moved: Collection[ContainerId]) -> bool:
        """Whether a container's rules may hold, or break again, as some have other cpus."""
        if container_id in self._resting or self._is_of_crowd(container_id, moved):
            return True
        return not self._others.get(container_id, set()).isdisjoint(moved)

    def due_by(
        self,
        gone: ContainerId | None,
        moved: Collection[ContainerId],
        spread: Collection[ContainerId] = (),
    ) -> list[ContainerId]:
        """Containers whose rules may hold, or break, without one, and as some have other cpus.

        `spread`: owners of spread rules, which others make even as well that get more cpus.
        """
        due = [one for one, others in self._others.items() if gone in others]
        if spread and moved:
            counting = [one for one in self._others if one in spread]
            due += [one for one in counting if not self._others[one].isdisjoint(moved)]
        return [*due, *filter(moved.__contains__, self._others), *self._stirred(moved)]

    def _is_of_crowd(self, container_id: ContainerId, moved: Collection[ContainerId]) -> bool:
        """Whether a container's rule may hold as some of a crowd that it counts have moved."""
        return bool(moved) and container_id in self._others.get(container_id, ())

    def due_as_moved(
        self, newest: ContainerId, moved: Collection[ContainerId]
    ) -> list[ContainerId]:
        """Containers whose rules may hold, or break, as the newest one made these move."""
        due = [newest] if self._is_of_crowd(newest, moved) else []
        for container_id, others in self._others.items() if moved else ():
            if container_id in moved or not others.isdisjoint(moved):
                due.append(container_id)
        return [*due, *self._stirred(moved)]

    def _stirred(self, moved: Collection[ContainerId]) -> Sequence[ContainerId]:
        """Owners whose rules may break again as these containers have other cpus."""
        return [
            one
            for one, (_, others) in self._resting.items()
            if one in moved or not others.isdisjoint(moved)
        ]

    def texts(self, decision: Decision) -> Sequence[str]:
        """Texts of a container's rules to be looked at again: what is told, and may break again.

        Nothing where all of it is about others alone, none of whom is there still. They were many,
        perhaps, and no rule need be read for that.
        """
        container_id = decision.container_id
        rested, _ = self._resting.get(container_id, ((), frozenset()))
        others = self._others.get(container_id)
        if others and container_id not in self._resting:
            is_there = any(map(self._placed.__contains__, others))
            if not is_there and all(map(is_about_others, decision.unmet)):
                return ()
        return (*decision.unmet, *rested)

    def let_rest(self, decision: Decision, broken: Sequence[Restriction]) -> None:
        """Remember what was told of a container and is none of what is broken at present."""
        container_id = decision.container_id
        texts, others = self._resting.pop(container_id, ((), frozenset[ContainerId]()))
        told = dict.fromkeys((*texts, *decision.unmet))
        resting = [one for one in told if not any(rule.is_told_by(one) for rule in broken)]
        others |= self._others.get(container_id, set())
        others = frozenset(filter(self._placed.__contains__, others))
        if resting and others:
            self._resting[container_id] = (tuple(resting[-TOLD_MAX:]), others)


def others_of(broken: Sequence[Restriction], books: Books) -> set[ContainerId]:
    """The containers that some rules are about: in their way, or counted by a spread rule.

    Those that it counts may have left a domain for its owner, who has the last of their cpus there.
    """
    found = ids_in_the_way(broken)
    for one in broken:
        if one.spread is not None:
            is_crowd = one.spread.counted.bit_count() > COUNTED_MAX
            ids = books.affinity.residents.ids(one.spread.counted)
            found.update((one.owner_id,) if is_crowd else ids)
    return found
