"""Uneven owners: those of spread rules that do not hold, and whom a newcomer makes due again."""

from collections.abc import Collection, Mapping
from typing import Final

from ...books.books import Books
from ...books.whereabouts import Whereabouts
from ...model.container import Container, ContainerId
from ...rules.podaffinity.rule_set import SpreadRule
from ...rules.podaffinity.term_selection import select_counted
from ..roster import Roster
from .concerns import COUNTED_MAX, Concerns

_AHEAD: Final = 4
"""An owner counts neither itself nor its last instance: with so many more containers than a rule
lets a domain hold, it holds there for nobody."""
_UNWATCHED: Final = COUNTED_MAX + 2
"""Of so large a crowd nobody was watched before the newcomer, either: an owner is not in it."""


def uneven_owners(
    newest: ContainerId, concerns: Concerns, books: Books, roster: Roster
) -> Collection[ContainerId]:
    """The owners, among those concerned, of whose spread rules a newcomer may change what is told.

    They may be hundreds, each to be looked at. Nothing is told of a rule that holds. And where one
    of a crowd does not hold it goes on so, and the same place would do, as long as the domains that
    hold few are the same. O(those concerned + those counted for each rule).
    """
    spreads, newcomer = books.standing.spreads, roster.containers[newest]
    concerned = filter(None, map(roster.containers.get, concerns.ids))
    found = dict.fromkeys(spreads.counting(newcomer, concerned))
    if not found or books.pen_around(newest) or spreads.has_too_many(newcomer.pod.namespace):
        return found
    due, whereabouts = set[ContainerId](), Whereabouts(books)
    for rule, owners in spreads.about(newcomer):
        beginning, known = f"{rule.text} of ", dict[int, bool]()
        # They may be many: a call for each would be most of the work.
        for one in owners:
            if one not in found or one in due:
                continue
            if one in concerns.resting:
                due.add(one)
                continue
            for text in roster.decisions[one].unmet:
                if text.startswith(beginning):
                    break
            else:
                continue
            usable = books.supply.eligible(roster.classified[one].request).mask
            if usable not in known:
                few = _few(rule, newcomer, usable, books, whereabouts)
                known[usable] = concerns.is_news((newcomer.pod.namespace, rule, usable), few)
            if known[usable] or books.pen_around(one):
                due.add(one)
    return [one for one in found if one in due]


def _few(
    rule: SpreadRule, newcomer: Container, usable: int, books: Books, whereabouts: Whereabouts
) -> Mapping[int, int] | None:
    """The domains that hold few, as of `Whereabouts.domains_by_count`.

    None where those that a rule counts are watched.
    """
    counted = select_counted(books.affinity.residents, newcomer.pod.namespace, rule)
    if counted.bit_count() <= _UNWATCHED:
        return None
    by_count = whereabouts.domains_by_count(rule.level, counted, usable)
    most = min(by_count, default=0) + rule.max_skew + _AHEAD
    return {count: bits for count, bits in by_count.items() if count <= most}
