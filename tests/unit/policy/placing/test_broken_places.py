"""Broken places: pools that break more than another are looked at where nothing else will do."""

import pytest

from pinfold.policy.books.books import Books
from pinfold.policy.books.spare.spare_cpus import SpareCpus
from pinfold.policy.configuration.config import Config
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import PoolId
from pinfold.policy.placing.judging.judgement import Judgement
from pinfold.policy.placing.judging.restriction import Restriction
from pinfold.policy.placing.openings.broken_places import WEIGHED_MAX, broken_place, degraded
from pinfold.policy.placing.openings.openings import Openings, OpeningSearch
from pinfold.policy.rules.pulls import Pulls
from pinfold.topology.made.spec import machine_from_spec
from tests.unit.policy.books.test_cpu_ledger import narrowed
from tests.unit.policy.placing.test_candidates import MACHINE, candidates, request_of


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


@pytest.mark.parametrize("has_room", [True, False])
def test_a_pool_that_was_passed_over_is_chosen_where_the_best_one_has_no_room(
    *, has_room: bool
) -> None:
    """As after more questions: which cpus are kept for whom depends on what was asked before."""
    books = Books(MACHINE, Config())
    best, other = books.tree.pools[:2]
    rule = _rule(books.tree.root.cpus.mask & ~best.cpus.mask)
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
