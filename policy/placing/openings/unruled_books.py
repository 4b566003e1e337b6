"""Books in which no rules between containers count: what they would leave to a refused newcomer."""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Final

from msgspec.structs import replace

from ...books.books import Books
from ...model.container import Container, ContainerId
from ...model.grant import Grant, PoolId
from ...rules.podaffinity.standing_rules import StandingRules
from ..judging.restriction import names_text

NOBODY_SPARED: Final = "without rules, containers that asked for no CPU would make way"
"""Text of a refusal: whoever asked for none goes wherever some are left."""


def unruled(books: Books) -> Books:
    """Books to ask, never to change, in which no rule keeps anybody anywhere. O(pools + grants)."""
    found = copy(books)
    found.standing, found.ledger = StandingRules(), books.ledger.copy()
    # None of them is narrowed any more, or needs others on certain cpus.
    found.ledger.narrowed.clear()
    for grant in _narrowed(books):
        found.ledger.repool(replace(grant, within=None, beside=()))
    return found


def yielding_text(lifted: Sequence[Grant], books: Books) -> str:
    """The residents that would make way for a newcomer without the rules about it, for people.

    `lifted`: the grants of those who would go to wider pools.
    """
    found = [one for grant in lifted for one in _of(grant.container_id, books)]
    return f"without rules, {names_text(found)} would make way" if found else NOBODY_SPARED


def held_text(
    pool_id: PoolId,
    lifted: Sequence[Grant],
    books: Books,
    is_bound: Callable[[ContainerId], bool],
) -> str:
    """The residents that rules keep from making way for a newcomer, for people.

    `pool_id`: where it would be placed without any rules. `lifted`: as above. `is_bound`: whether
    rules hold a resident, or a pen, where it is.
    """
    pool = books.tree.masks[pool_id]
    narrowed = [one for one in _narrowed(books) if one.within is None or one.within.mask & pool]
    bound = [one.container_id for one in lifted or narrowed if is_bound(one.container_id)]
    found = [one for held_as in bound for one in _of(held_as, books)]
    if not found:
        return yielding_text(lifted, books)
    where, they = ("where it is", "it") if len(found) == 1 else ("where they are", "they")
    return f"rules hold {names_text(found)} {where}, else {they} would make way"


def _narrowed(books: Books) -> Iterable[Grant]:
    """The grants that rules leave not all of their pools, or that need others beside them."""
    held = (*books.ledger.grants.values(), *books.ledger.pens.values())
    return [one for one in held if one.pen is None and (one.within is not None or one.beside)]


def _of(held_as: ContainerId, books: Books) -> Sequence[Container]:
    """The container that holds a grant, or those in the pen that does."""
    occupants, residents = books.ledger.occupants(held_as), books.affinity.residents
    return [residents.container(one) for one in occupants if one in residents]
