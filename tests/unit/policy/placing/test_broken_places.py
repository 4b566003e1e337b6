"""Broken places: pools that break more than another are looked at where nothing else will do."""

import pytest

from pinfold.policy.books.books import Books
from pinfold.policy.configuration.config import Config
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import PoolId
from pinfold.policy.placing.judging.judgement import Judgement
from pinfold.policy.placing.judging.restriction import Restriction
from pinfold.policy.placing.openings.broken_places import WEIGHED_MAX, broken_place
from pinfold.policy.placing.openings.openings import Openings, OpeningSearch
from pinfold.policy.rules.pulls import Pulls
from tests.unit.policy.placing.test_candidates import MACHINE, candidates, request_of


@pytest.mark.parametrize("has_room", [True, False])
def test_a_pool_that_was_passed_over_is_chosen_where_the_best_one_has_no_room(
    *, has_room: bool
) -> None:
    """As after more questions: which cpus are kept for whom depends on what was asked before."""
    books = Books(MACHINE, Config())
    best, other = books.tree.pools[:2]
    owner = ContainerId("owner")
    rule = Restriction(
        text="rule",
        owner=owner,
        owner_id=owner,
        can_break=True,
        is_own=True,
        wanted="it",
        forbidden=books.tree.root.cpus.mask & ~best.cpus.mask,
    )
    request = request_of(1, 0)
    search = OpeningSearch(
        request=request,
        judgement=Judgement(
            own=(rule,) * WEIGHED_MAX, domains=books.domains, pulls=Pulls(books.domains)
        ),
        tree=books.tree,
        ledger=books.ledger,
    )
    asked: list[Openings] = []

    def choose(openings: Openings) -> PoolId | None:
        asked.append(openings)
        open_pools = [one for one in (best, other) if openings.regions[one.id]]
        return next((one.id for one in open_pools if has_room or one is not best), None)

    pools, _ = candidates(books, request)
    openings, found = broken_place(search, pools, choose)
    assert asked[0].dropped[other.id].criterion == "broken rules"
    assert found == (best.id if has_room else other.id)
    assert openings is asked[-1]
    assert len(asked) == (1 if has_room else 2)
