"""Where containers are: the cpus they run on, and how many are in each domain."""

import random
from collections import Counter
from functools import partial, reduce
from typing import Final

from pinfold.policy.books.books import Books
from pinfold.policy.books.whereabouts import Whereabouts
from pinfold.policy.configuration.config import Config
from pinfold.policy.model.container import Container
from pinfold.policy.model.grant import Grant
from pinfold.policy.model.request import CpuType
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Level
from pinfold.topology.sets.cpuset import CpuSet, iter_bits
from tests.unit.counted_calls import count_calls
from tests.unit.policy.engine.ruled_pods import container_of

_MANY: Final = 90


def test_domains_are_counted_for_each_kind_of_cpus() -> None:
    books = Books(machine_from_spec("socket:2 core:2 mem:1G"), Config())
    whereabouts = Whereabouts(books)
    assert whereabouts.domains_by_count(Level.SOCKET, 0, 0b0001) == {0: 0b0001}
    assert whereabouts.domains_by_count(Level.SOCKET, 0, 0b1111) == {0: 0b0101}


def test_very_many_are_where_each_of_them_is() -> None:
    books, everyone = _crowd()
    residents, grants = books.affinity.residents, books.ledger.grants
    chance = random.Random(1)
    whereabouts = Whereabouts(books)
    for share in (0.9, 0.5, 0.1, 1):
        some = [one for one in everyone if chance.random() < share]
        places = reduce(int.__or__, [residents.place(one.id) for one in some])
        there = [one for one in some if one.id in grants]
        assert list(whereabouts.placed(places)) == there
        reaches = [books.reach(one.id) for one in there]
        assert whereabouts.cpus(places) == reduce(int.__or__, reaches)
        assert whereabouts.sizes(places) == Counter(reaches)
        own = [grants[one.id].exclusive.mask for one in there]
        assert whereabouts.exclusive(places) == reduce(int.__or__, own)
        for cpus in (0b1, 0b111 << 40, books.tree.pools[0].cpus.mask):
            near = [residents.place(one.id) for one in there if books.reach(one.id) & cpus]
            assert whereabouts.on(cpus, places) == reduce(int.__or__, near, 0)


def test_very_many_with_cpus_of_their_own_are_counted_by_domain_without_a_call_for_each() -> None:
    books, everyone = _crowd()
    domains, usable = books.domains, books.tree.root.cpus.mask & ~0b11
    whereabouts = Whereabouts(books)
    places = reduce(int.__or__, [books.affinity.residents.place(one.id) for one in everyone])
    sizes = whereabouts.sizes(places)
    # Found once for a machine.
    _ = domains.holders(Level.L3), domains.firsts(Level.L3)
    assert count_calls(partial(whereabouts.domains_by_count, Level.L3, places, usable)) < len(sizes)
    for level in Level:
        every, expected = domains.indexes(level, usable), Counter[int]()
        for cpus, count in sizes.items():
            for first in iter_bits(domains.indexes(level, cpus) & every):
                expected[first] += count
        found = whereabouts.domains_by_count(level, places, usable)
        assert {first: n for n, some in found.items() for first in iter_bits(some)} == {
            first: expected[first] for first in iter_bits(every)
        }


def test_without_a_few_each_the_others_are_where_all_of_them_together_are() -> None:
    books, everyone = _crowd()
    residents, chance = books.affinity.residents, random.Random(2)
    whereabouts = Whereabouts(books)
    for count in (0, 1, 2, 3, 30, 70):
        some = [residents.place(one.id) for one in everyone if chance.random() < 0.7]
        places = reduce(int.__or__, some)
        parts = [chance.choice(some) for _ in range(count)]
        parts += [chance.choice(some) | chance.choice(some) for _ in parts[::5]] + [0] * (count > 9)
        expected = [whereabouts.cpus(places & ~part) for part in parts]
        assert list(whereabouts.cpus_without_each(places, parts)) == expected


def _crowd() -> tuple[Books, list[Container]]:
    """Some have cpus of their own, some share a pool's, and some are there and hold nothing."""
    books = Books(machine_from_spec("socket:2 numa:2 l3:2 core:8 thread:2 mem:1G"), Config())
    everyone = [container_of(f"c{number}") for number in range(_MANY)]
    pools = books.tree.pools
    for number, one in enumerate(everyone):
        books.affinity.residents.add(one)
        if number % 9 == 0:
            continue
        books.ledger.add(
            Grant(
                container_id=one.id,
                pool_id=books.tree.root.id if number % 2 else pools[number % len(pools)].id,
                cpu_type=CpuType.NORMAL,
                exclusive=CpuSet(1 << number + 8) if number % 2 else CpuSet(0),
                memory=books.tree.root.memory_nodes,
            )
        )
    # The place of one that is gone is nobody's.
    gone = everyone.pop()
    books.ledger.drop(gone.id)
    books.affinity.residents.remove(gone.id)
    return books, everyone
