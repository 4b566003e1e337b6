"""Known breaches: rules that did not hold where a container was before its restart.

They keep it from nothing, and nobody beside whom it was then needs to make way for it.
"""

from collections.abc import Iterable, Sequence

from ...books.books import Books
from ...model.container import Container, ContainerId
from ...model.last_place import Breach, LastPlace
from ..judging.restriction import Restriction


def staying(rules: Iterable[Restriction], last: LastPlace, books: Books) -> frozenset[ContainerId]:
    """The containers, or their pens, beside whom none of some rules held that it was with."""
    if not last.breaches:
        return frozenset()
    grants, before, anew = books.ledger.grants, set[ContainerId](), set[ContainerId]()
    for rule in rules:
        new = _new_blockers(rule, last)
        for one in rule.blockers:
            (anew if one in new else before).add(grants[one.id].pen or one.id)
    return frozenset(before - anew)


def own_anew(own: Iterable[Restriction], last: LastPlace) -> tuple[Restriction, ...]:
    """Own rules about those alone beside whom they held, or who were not there."""
    found: list[Restriction] = []
    for one in own:
        new = _new_blockers(one, last)
        if new or not one.blockers:
            found.append(one if len(new) == len(one.blockers) else one.beside(new))
    return tuple(found)


def left_within(
    cpus: int, rules: Sequence[Restriction], last: LastPlace, books: Books
) -> Iterable[int]:
    """Of some cpus those where no rule breaks anew, and those where none breaks that insists.

    As masks, each once; the cpus themselves are none of them.
    """
    firm = every = cpus
    for one in rules:
        if not one.blockers:
            continue
        if not one.can_break:
            firm &= ~one.forbidden
            every &= ~one.forbidden
        elif every & one.forbidden:
            every &= ~_forbidden_anew(one, last, books)
    return [one for one in dict.fromkeys((every, firm)) if one and one != cpus]


def _forbidden_anew(rule: Restriction, last: LastPlace, books: Books) -> int:
    new = _new_blockers(rule, last)
    if len(new) == len(rule.blockers):
        return rule.forbidden
    kept = 0
    for cpus in books.reaches([one.id for one in new]):
        kept |= cpus
    return rule.forbidden & books.domains.covering(rule.level, kept) if kept else 0


def _new_blockers(rule: Restriction, last: LastPlace) -> Sequence[Container]:
    """The blockers of a rule that did hold beside them, or was not there."""
    if not last.breaches:
        return rule.blockers
    is_own, text, known = rule.is_own, rule.text, last.breaches
    return [one for one in rule.blockers if Breach(is_own, text, one.path) not in known]
