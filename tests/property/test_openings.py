"""Laws of openings: what rules leave of each pool, pool by pool as if there were no other."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from pinfold.policy.books.cpu_ledger import Ledger
from pinfold.policy.configuration.config import Config
from pinfold.policy.cpus.picker import CpuPicker
from pinfold.policy.model.container import ContainerId, QosClass
from pinfold.policy.model.grant import Grant, PoolId
from pinfold.policy.model.request import Isolation, Request
from pinfold.policy.placing.judging.judgement import Companions, Judgement
from pinfold.policy.placing.judging.restriction import Restriction
from pinfold.policy.placing.openings.openings import OpeningSearch
from pinfold.policy.pools.domains import Domains
from pinfold.policy.pools.supply import read_supply
from pinfold.policy.pools.tree_building import build_tree
from pinfold.policy.rules.pulls import Pulls
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Level
from pinfold.topology.sets.cpuset import CpuSet

SPECS = (
    "socket:2 numa:2 l3:2 core:2 thread:2 mem:2G",
    "socket:2 numa:3 l3:2 core:4 mem:2G isolated:3,9",
    "socket:1 numa:2 core:4 mem:2G",
)


class Scene:
    """A machine where some cpus are taken, and some shares narrowed."""

    def __init__(self, spec: str, data: st.DataObject) -> None:
        self.machine = machine_from_spec(spec)
        picker = CpuPicker(self.machine)
        self.tree = build_tree(self.machine, read_supply(self.machine, Config(), picker))
        self.domains = Domains(self.machine, self.machine.online)
        self.ledger = Ledger(self.tree, picker)
        self.masks = st.integers(0, self.tree.root.cpus.mask)
        draw = data.draw
        taken = draw(self.masks)
        for number, pool in enumerate(self.tree.pools):
            own = CpuSet(taken & pool.sharable.mask) if pool is self.tree.root else CpuSet()
            within = CpuSet(draw(self.masks) & pool.sharable.mask)
            self.ledger.add(
                Grant(
                    container_id=ContainerId(f"c{number}"),
                    pool_id=pool.id,
                    exclusive=own,
                    shared_milli=draw(st.integers(0, 700)),
                    within=within if within and draw(st.booleans()) else None,
                )
            )

    def search(self, data: st.DataObject) -> OpeningSearch:
        draw = data.draw
        exclusive = draw(st.integers(0, 3))
        request = Request(
            container_id=ContainerId("n"),
            qos=QosClass.BURSTABLE,
            exclusive=exclusive,
            shared_milli=draw(st.sampled_from((0, 0, 10, 1500))),
            isolation=draw(st.sampled_from((Isolation.NO, Isolation.NO, *Isolation))),
        )
        rule = Restriction(
            text="rule", owner="o", owner_id=ContainerId("o"), can_break=False, wanted="it"
        )
        companions = tuple(
            Companions(level=level, own=own & ~shared, shared=shared, rule=rule)
            for level, own, shared in draw(
                st.lists(
                    st.tuples(
                        st.sampled_from((Level.SOCKET, Level.L3)),
                        st.just(0) | self.masks,
                        self.masks,
                    ),
                    max_size=2,
                )
            )
        )
        pulls = Pulls(self.domains)
        for weight in draw(st.lists(st.integers(-3, 3), max_size=2)):
            pulls.add(draw(st.sampled_from((Level.NUMA, Level.CORE))), draw(self.masks), weight)
        kept = draw(st.just(0) | self.masks)
        judgement = Judgement(companions=companions, pulls=pulls, kept=kept, domains=self.domains)
        return OpeningSearch(
            request=request, judgement=judgement, tree=self.tree, ledger=self.ledger
        )

    def regions(self, data: st.DataObject) -> Sequence[int]:
        """All that is not forbidden, or its parts in some domains of a level."""
        draw = data.draw
        few = st.builds(int.__and__, self.masks, self.masks)
        everything = self.tree.root.cpus.mask & ~draw(st.just(0) | few)
        level = draw(st.sampled_from((Level.SYSTEM, Level.SYSTEM, Level.SOCKET, Level.L3)))
        parts = [one & everything for one in self.domains.masks(level) if one & everything]
        return parts[: draw(st.integers(0, len(parts)))]


def best_region(
    search: OpeningSearch, pool_id: PoolId, regions: Sequence[int], closed: frozenset[int]
) -> int:
    """The region of one pool, after the rules in words."""
    pool, pools = search.tree.pools[pool_id], search.tree.pools
    if pool_id in closed:
        return 0
    found: list[int] = []
    for region in regions:
        here = region & pool.cpus.mask
        holders = [one for one in pool.children if not here & ~pools[one].cpus.mask]
        is_whole = here == pool.cpus.mask and len(pool.children) != 1
        if here and (is_whole or not holders or holders[0] in closed):
            found.append(here)
    found.sort(
        key=lambda one: (search.preference(pool_id, one), search.free(pool_id, one)), reverse=True
    )
    # The numbers of a whole pool say what fits, but for who may not be left alone there.
    asks = search.request.total_milli or search.ledger.free_sharable[pool_id]
    for one in found:
        is_whole = bool(one == pool.cpus.mask and asks)
        is_plain = not (search.judgement.companions and search.request.exclusive)
        if (is_whole and is_plain) or search.fits(pool_id, one):
            return one
    return 0


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_each_pool_gets_the_best_region_that_fits_as_if_there_were_no_other_pool(
    spec: str, data: st.DataObject
) -> None:
    scene = Scene(spec, data)
    search, regions = scene.search(data), scene.regions(data)
    ids = [pool.id for pool in scene.tree.pools]
    closed = frozenset[int](data.draw(st.sets(st.sampled_from(ids), max_size=3)))
    found = search.openings(regions, closed, ())
    asked = OpeningSearch(
        request=search.request, judgement=search.judgement, tree=scene.tree, ledger=scene.ledger
    )
    assert [*found.regions] == [best_region(asked, one, regions, closed) for one in ids]
    assert set(found.dropped) == {one for one in ids if not found.regions[one]}


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_newcomer_that_is_only_drawn_to_others_has_all_of_every_pool(
    spec: str, data: st.DataObject
) -> None:
    scene = Scene(spec, data)
    search = scene.search(data)
    drawn = structs.replace(search.judgement, companions=())
    one, other = (
        OpeningSearch(request=search.request, judgement=drawn, tree=scene.tree, ledger=scene.ledger)
        for _ in range(2)
    )
    found = one.strict()
    everywhere = other.openings([scene.tree.root.cpus.mask], frozenset(), ())
    assert [*found.regions] == [*everywhere.regions]
    assert [*found.preferred] == [*everywhere.preferred]
    assert {*found.dropped} == {*everywhere.dropped}
