"""A law of making room: as few containers as possible move."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.policy.memory.memory_plan import choose
from pinfold.policy.memory.memory_zones import Holding
from pinfold.policy.memory.offers import MemoryRequest
from pinfold.policy.model.container import ContainerId
from pinfold.topology.sets.cpuset import NodeSet

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=7)


@settings(deadline=None)
@given(SIZES, st.integers(1, 30))
def test_as_few_containers_as_possible_are_chosen(sizes: list[int], need: int) -> None:
    users = [
        Holding(
            request=MemoryRequest(
                container_id=ContainerId(f"c{position}"), affinity=NodeSet.of(0), size_bytes=size
            ),
            kinds=1,
            initial=1,
            sequence=position,
        )
        for position, size in enumerate(sizes)
    ]
    chosen = choose(users, need, {})
    if sum(sizes) < need:
        assert len(chosen) == len(users)
        return
    assert sum(one.size for one in chosen) >= need
    fewest = min(
        count
        for count in range(1, len(sizes) + 1)
        if any(sum(some) >= need for some in combinations(sizes, count))
    )
    assert len(chosen) == fewest
