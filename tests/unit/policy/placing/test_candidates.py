"""Pools as candidates: those that have room beside narrowed shares, found with few questions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from pinfold.policy.books.books import Books
from pinfold.policy.books.spare.spare_cpus import SpareCpus
from pinfold.policy.configuration.config import Config
from pinfold.policy.model.container import ContainerId, QosClass
from pinfold.policy.model.grant import PoolId
from pinfold.policy.model.request import Isolation, Request
from pinfold.policy.placing.pool_choice import Candidates, Chooser, Facts
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.books.test_cpu_ledger import narrowed, own, share

MACHINE = machine_from_spec("socket:2 numa:2 core:2 mem:1G isolated:6-7")


def request_of(exclusive: int, milli: int, isolation: Isolation = Isolation.NO) -> Request:
    return Request(
        container_id=ContainerId("new"),
        qos=QosClass.GUARANTEED,
        exclusive=exclusive,
        shared_milli=milli,
        isolation=isolation,
    )


def candidates(books: Books, request: Request) -> tuple[Candidates, Chooser]:
    facts = Facts(memory=books.pool_memory.choice(request), affinities=())
    chooser = Chooser(books.tree, books.picker.classes)
    return Candidates(chooser, request, books.ledger, facts), chooser


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_the_pool_that_wins_is_the_best_of_those_that_have_room_for_sure(
    data: st.DataObject,
) -> None:
    books = Books(MACHINE, Config())
    ledger, pools = books.ledger, books.tree.pools
    for number in range(data.draw(st.integers(1, 8))):
        pool = data.draw(st.sampled_from(pools))
        milli = data.draw(st.sampled_from((0, 300, 500, 700, 1000, 1500)))
        if ledger.room.grantable_milli[pool.id] < milli:
            continue
        grant = share(f"s{number}", pool.id, milli)
        cpus = data.draw(st.integers(0, pool.cpus.mask)) & ledger.free_sharable[pool.id]
        if cpus and ledger.spare_cpus.can_take(0, cpus, milli):
            grant = structs.replace(grant, within=CpuSet(cpus))
        elif not ledger.spare_cpus.can_take(0, ledger.free_sharable[pool.id], milli):
            continue
        ledger.add(grant)
    exclusive, milli = data.draw(st.integers(0, 4)), data.draw(st.sampled_from((0, 400, 1200)))
    request = request_of(exclusive, milli, data.draw(st.sampled_from(Isolation)))
    found, chooser = candidates(books, request)
    winner = found.best(None).winner
    assert found.has_any() is (winner is not None)
    exact = candidates(books, request)[0].lineup
    assert winner == chooser.best(exact).winner
    assert found.best(None).winner == winner


def test_where_the_best_pool_has_room_no_other_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    grantable = SpareCpus.grantable

    def counted(self: SpareCpus, cpus: int, count: int, milli: int) -> int:
        asked.append(cpus)
        return grantable(self, cpus, count, milli)

    monkeypatch.setattr(SpareCpus, "grantable", counted)
    books = Books(MACHINE, Config())
    books.ledger.add(narrowed("a", PoolId(0), "1", 500))
    found, _ = candidates(books, request_of(1, 500))
    assert found.best(None).winner is not None
    assert len(asked) == 1


def test_a_pool_does_not_win_in_which_a_narrowed_share_of_a_wider_one_leaves_too_little() -> None:
    books = Books(machine_from_spec("numa:2 core:2 mem:1G"), Config())
    root, (one, other) = books.tree.root.id, books.tree.root.children
    books.ledger.add(own("a", root, "0,2"))
    books.ledger.add(structs.replace(share("b", root, 900), within=CpuSet.parse("1,3")))
    books.ledger.add(structs.replace(share("c", root, 900), within=CpuSet.parse("1")))
    request = request_of(0, 200)
    found, chooser = candidates(books, request)
    facts = Facts(memory=books.pool_memory.choice(request), affinities=())
    assert chooser.best(chooser.lineup(request, books.ledger, facts)).winner == one
    assert found.best(None).winner == other
    assert found.has_any()


def test_pools_that_nothing_speaks_against_are_rivals() -> None:
    books = Books(MACHINE, Config())
    leaf = books.tree.pools[0]
    books.ledger.add(own("a", leaf.id, str(leaf.sharable)))
    found, _ = candidates(books, request_of(1, 0))
    open_pools = found.lineup.feasible()
    assert [*found.rivals] == [int(pool.id in open_pools) for pool in books.tree.pools]
    assert not found.rivals[leaf.id]
    assert found.rivals[books.tree.root.id]
