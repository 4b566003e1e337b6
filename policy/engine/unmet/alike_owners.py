"""Alike owners: those of the same spread rules in one place, of all of whom the same is told."""

from collections.abc import Sequence
from typing import Final

from ...books.books import Books
from ...configuration.config import OnUnsatisfiable
from ...placing.judging.restriction import Restriction, told_reason
from ...rules.podaffinity.rule_set import SpreadRule
from ...rules.podaffinity.term_selection import instances, select_counted
from ..decision import Decision, rule_names, with_unmet
from ..roster import Roster
from .concerns import COUNTED_MAX, Concerns

_AT_ONE_EFFORT: Final = 4
"""So many owners of whom something is told as of another one cost as much as one rule to be read.
"""

_Likeness = tuple[
    str,
    tuple[SpreadRule, ...],
    OnUnsatisfiable,
    tuple[str, ...],
    tuple[bool, ...],
    int,
    int,
]


class AlikeOwners:
    """The owners of spread rules that count a crowd, while nobody changes places.

    Each counts all but itself: with the same rules on the same cpus they count the same.
    """

    def __init__(self, books: Books, roster: Roster, concerns: Concerns) -> None:
        """Changes decisions of the roster, and concerns."""
        self._books = books
        self._roster = roster
        self._concerns = concerns
        self._told: dict[_Likeness, Sequence[str]] = {}
        """Why the rules of one of them do not hold, in the order of what was told of it."""
        self._counted: dict[tuple[str, SpreadRule], int] = {}
        self._repeated = 0

    def repeat(self, decision: Decision) -> bool:
        """Tell of an owner what was told of one like it; whether there was such a one."""
        # As a rule there is nobody of a crowd.
        likeness = self._likeness(decision) if self._told else None
        reasons = None if likeness is None else self._told.get(likeness)
        if reasons is None:
            return False
        names = rule_names(decision.unmet)
        texts = tuple([f"{name}: {why}" for name, why in zip(names, reasons, strict=True)])
        container_id = decision.container_id
        self._roster.decisions[container_id] = with_unmet(decision, texts)
        self._concerns.put(container_id, {container_id})
        self._repeated += 1
        return True

    def take_effort(self) -> int:
        """The effort of those that were told so since this was asked last."""
        effort, self._repeated = divmod(self._repeated, _AT_ONE_EFFORT)
        return effort

    def learn(self, before: Decision, texts: Sequence[str], broken: Sequence[Restriction]) -> None:
        """Remember what is told of an owner, for those like it.

        Not where some of it holds again, or it is about others that are watched one by one.
        """
        are_of_crowds = all(
            one.spread is not None and one.spread.counted.bit_count() > COUNTED_MAX
            for one in broken
        )
        are_same = broken and rule_names(texts) == rule_names(before.unmet)
        likeness = self._likeness(before) if are_same and are_of_crowds else None
        if likeness is not None:
            self._told[likeness] = list(map(told_reason, texts))

    def _likeness(self, decision: Decision) -> _Likeness | None:
        """What owners have in common of whom the same is told; None where one tells other rules."""
        container_id, books = decision.container_id, self._books
        if container_id in self._concerns.resting or books.pen_around(container_id) is not None:
            return None
        container, known = self._roster.containers[container_id], self._roster.classified
        classified = known[container_id]
        rules, path = classified.placement.spread, container.path
        told = {f"{one.text} of {path}": one.text for one in rules}
        texts: list[str] = []
        for text in decision.unmet:
            name, _, why = text.rpartition(": ")
            if name not in told:
                return None
            texts.append(f"{told[name]}: {why}")
        residents, namespace = books.affinity.residents, container.pod.namespace
        itself = residents.place(container_id)
        if instances(residents, container) != itself:
            return None
        return (
            namespace,
            rules,
            classified.placement.on_unsatisfiable,
            tuple(texts),
            tuple([bool(self._counted_by(namespace, one) & itself) for one in rules]),
            books.supply.eligible(classified.request).mask,
            books.reach(container_id),
        )

    def _counted_by(self, namespace: str, rule: SpreadRule) -> int:
        found = self._counted.get((namespace, rule))
        if found is None:
            found = select_counted(self._books.affinity.residents, namespace, rule)
            self._counted[namespace, rule] = found
        return found
