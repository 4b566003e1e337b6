"""Broken places: pools that break more than another are looked at where nothing else will do."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from pinfold.policy.books.books import Books
from pinfold.policy.books.spare_cpus import SpareCpus
from pinfold.policy.configuration.config import Config
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import PoolId
from pinfold.policy.placing.judging.judgement import Judgement
from pinfold.policy.placing.judging.restriction import Restriction
from pinfold.policy.placing.openings.broken_places import WEIGHED_MAX, broken_place, degraded
from pinfold.policy.placing.openings.openings import Openings, OpeningSearch
from pinfold.policy.pools.pool_tree import Pool
from pinfold.policy.rules.pulls import Pulls
from pinfold.topology.made.spec import machine_from_spec
from tests.unit.policy.books.test_cpu_ledger import narrowed
from tests.unit.policy.placing.test_candidates import MACHINE, candidates, request_of


class _Chosen(NamedTuple):
    pool_id: PoolId


class _Run(NamedTuple):
    """What was found, and the places that were chosen from one after another."""

    openings: Openings | None
    found: _Chosen | None
    asked: Sequence[Openings]


def _rule(forbidden: int) -> Restriction:
    owner = ContainerId("owner")
    return Restriction(
        text="rule",
        owner=owner,
        owner_id=owner,
        can_break=True,
        is_own=True,
        wanted="it",
        forbidden=forbidden,
    )


def _placed(
    books: Books, named: Sequence[Pool], open_pools: Sequence[Pool], *, is_found_again: bool = True
) -> _Run:
    """A place of the fewest broken rules.

    `open_pools`: those that have room. `is_found_again`: whether that is found once more.
    `named`: a pool outside which so many rules break that others are passed over, and pools inside
    each of which another one does.
    """
    rules = [
        _rule(forbidden)
        for forbidden in (
            books.tree.root.cpus.mask & ~named[0].cpus.mask,
            *(one.cpus.mask for one in named[1:]),
        )
    ]
    request = request_of(1, 0)
    search = OpeningSearch(
        request=request,
        judgement=Judgement(
            own=(*(rules[:1] * WEIGHED_MAX), *rules[1:]),
            domains=books.domains,
            pulls=Pulls(books.domains),
        ),
        tree=books.tree,
        ledger=books.ledger,
    )
    asked: list[Openings] = []

    def choose(openings: Openings) -> _Chosen | None:
        asked.append(openings)
        is_found = is_found_again or len(asked) == 1
        left = [one for one in open_pools if openings.regions[one.id] and is_found]
        fewest = min(left, key=lambda one: openings.unmet[one.id], default=None)
        return None if fewest is None else _Chosen(fewest.id)

    pools, _ = candidates(books, request)
    openings, found = broken_place(search, pools, choose)
    return _Run(openings, found, asked)


@pytest.mark.parametrize("has_room", [True, False])
def test_a_pool_that_was_passed_over_is_chosen_where_the_best_one_has_no_room(
    *, has_room: bool
) -> None:
    """As after more questions: which cpus are kept for whom depends on what was asked before."""
    books = Books(MACHINE, Config())
    best, other = books.tree.pools[:2]
    openings, found, asked = _placed(books, [best], [best, other] if has_room else [other])
    assert asked[0].dropped[other.id].criterion == "broken rules"
    assert found == _Chosen(best.id if has_room else other.id)
    assert openings is asked[-1]
    assert len(asked) == (1 if has_room else 2)


@pytest.mark.parametrize("has_room", [True, False])
def test_a_pool_that_breaks_more_than_one_passed_over_is_not_chosen_instead(
    *, has_room: bool
) -> None:
    """It came before the best one, and so was looked at, but the best one has no room."""
    books = Books(MACHINE, Config())
    first, best, other = [one for one in books.tree.pools if not one.children][:3]
    open_pools = [first, best, other] if has_room else [first, other]
    openings, found, asked = _placed(books, [best, first], open_pools)
    assert asked[0].regions[first.id], "it is looked at"
    assert asked[0].dropped[other.id].criterion == "broken rules"
    assert found == _Chosen(best.id if has_room else other.id)
    assert openings is asked[-1]
    assert len(asked) == (1 if has_room else 2)


def test_a_place_is_kept_where_nothing_is_found_once_no_pool_is_passed_over() -> None:
    books = Books(MACHINE, Config())
    first, best, _ = [one for one in books.tree.pools if not one.children][:3]
    openings, found, asked = _placed(books, [best, first], [first], is_found_again=False)
    assert found == _Chosen(first.id)
    assert openings is asked[0]
    assert len(asked) == 2


def test_no_parts_are_tried_together_where_all_of_a_pool_are_too_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Six of eight cpus are promised: two of them are left, and three are wanted."""
    asked: list[int] = []
    takeable = SpareCpus.takeable

    def counted(self: SpareCpus, cpus: int, count: int, *, or_fewer: bool = True) -> int:
        asked.append(cpus)
        return takeable(self, cpus, count, or_fewer=or_fewer)

    monkeypatch.setattr(SpareCpus, "takeable", counted)
    books = Books(machine_from_spec("core:8 mem:1G"), Config())
    root = books.tree.root
    books.ledger.add(narrowed("a", root.id, "1-6", 5500))
    search = OpeningSearch(
        request=request_of(3, 0),
        judgement=Judgement(
            own=tuple([_rule(1 << cpu) for cpu in root.sharable for _ in range(1 + cpu)]),
            domains=books.domains,
            pulls=Pulls(books.domains),
        ),
        tree=books.tree,
        ledger=books.ledger,
    )
    found = degraded(search)
    assert found is not None
    assert found.dropped[root.id].criterion == "CPUs where rules hold"
    assert asked == [root.sharable.mask]
