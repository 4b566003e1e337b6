"""The free memory that was observed, less what was granted since."""

import random

from pinfold.policy.memory.memory_nodes import UNLIMITED_BYTES
from pinfold.policy.memory.memory_zones import Zone
from pinfold.policy.memory.observed_memory import ObservedMemory
from pinfold.policy.model.container import ContainerId
from pinfold.topology.sets.cpuset import NodeSet


def _zone(mask: int) -> Zone:
    return Zone(mask=mask, nodes=NodeSet(mask), kinds=1, capacity=1000 * mask.bit_count())


def test_room_after_grants_and_releases_is_what_a_fresh_count_says() -> None:
    chance = random.Random(1)
    observed = ObservedMemory({node: 1000 for node in range(4)})
    ids = [ContainerId(f"c{number}") for number in range(12)]
    for _ in range(300):
        one = chance.choice(ids)
        if chance.randrange(3):
            observed.grant(one, _zone(chance.randrange(1, 16)), chance.randrange(-50, 100))
        else:
            observed.release(one)
        # Not all sets are asked for at every step: their sums must have been kept all the same.
        fresh = ObservedMemory.of(observed.look())
        for mask in chance.sample(range(1, 16), 3):
            assert observed.room(mask) == fresh.room(mask)


def test_zones_have_room_after_grants_and_releases_where_none_of_them_is_short() -> None:
    chance = random.Random(1)
    observed = ObservedMemory({node: 1000 for node in range(4)})
    ids = [ContainerId(f"c{number}") for number in range(12)]
    some, others = tuple(map(_zone, (1, 2, 3))), tuple(map(_zone, (4, 8, 12)))
    assert not observed.have_room(some, 0), "nobody has asked for the sums of these zones"
    seen: set[bool] = set()
    for _ in range(600):
        one = chance.choice(ids)
        if chance.randrange(3):
            observed.grant(one, _zone(chance.randrange(1, 16)), chance.randrange(-50, 150))
        else:
            observed.release(one)
        zones, size = chance.choice((some, some, others)), chance.randrange(700)
        is_short = any(observed.is_short(zone, size) for zone in zones)
        assert observed.have_room(zones, size) == (not is_short)
        seen.add(is_short)
    assert len(seen) == 2


def test_a_newcomer_counts_alone_whatever_was_counted_of_an_older_one_of_its_id() -> None:
    observed = ObservedMemory({0: 1000})
    observed.grant(ContainerId("c0"), _zone(1), 400)
    assert observed.room(1) == 600
    observed.begin(ContainerId("c0"), _zone(1), 100)
    assert observed.room(1) == 900
    observed.begin(ContainerId("c0"), _zone(1), 0)
    assert observed.room(1) == 1000
    assert not observed.look().granted


def test_nodes_that_were_not_looked_at_are_free_without_limit() -> None:
    observed = ObservedMemory({0: 1000})
    observed.grant(ContainerId("c0"), _zone(1), 400)
    assert observed.room(1) == 600
    assert observed.room(3) >= UNLIMITED_BYTES
