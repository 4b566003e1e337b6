"""Laws of breaking: each pool gets the part that breaks least, as if all of them were tried."""

import dataclasses
import random
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pinfold.policy.books.cpu_ledger import Ledger
from pinfold.policy.configuration.config import Config
from pinfold.policy.cpus.picker import CpuPicker
from pinfold.policy.model.container import ContainerId, QosClass
from pinfold.policy.model.grant import Grant
from pinfold.policy.model.request import Request
from pinfold.policy.placing.judging.judgement import Companions, Judgement
from pinfold.policy.placing.judging.restriction import Restriction
from pinfold.policy.placing.openings.broken_places import degraded
from pinfold.policy.placing.openings.openings import OpeningSearch
from pinfold.policy.pools.domains import Domains
from pinfold.policy.pools.supply import read_supply
from pinfold.policy.pools.tree_building import build_tree
from pinfold.policy.rules.pulls import Pulls
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Level
from pinfold.topology.sets.cpuset import CpuSet, iter_bits
from tests.property.test_openings import SPECS, Scene

_LEVELS = (Level.SOCKET, Level.NUMA, Level.L3, Level.CORE)
_TOGETHER_MAX = 16
MANY_CORES = machine_from_spec("socket:2 numa:2 l3:2 core:5 thread:2 mem:2G")


def rule(scene: Scene, data: st.DataObject, number: int) -> Restriction:
    """Any of a newcomer's own: in one domain beside others, apart from them, or in some pools."""
    draw, domains = data.draw, scene.domains
    name = f"o{number}"
    bare = Restriction(
        text="rule",
        owner=name,
        owner_id=ContainerId(name),
        can_break=draw(st.sampled_from((True, True, True, False))),
        is_own=draw(st.booleans()),
        wanted="it",
    )
    level = draw(st.sampled_from(_LEVELS))
    covered = domains.covering(level, draw(scene.masks) & draw(scene.masks))
    kind = draw(st.sampled_from(("beside", "beside", "apart", "pools")))
    if kind == "apart":
        return replace(bare, forbidden=covered, level=level)
    if kind == "pools":
        ids = [pool.id for pool in scene.tree.pools]
        closed = draw(st.frozensets(st.sampled_from(ids), max_size=4))
        return replace(bare, is_own=True, closed_pools=closed)
    forbidden = scene.tree.root.cpus.mask & ~covered
    has_choice = draw(st.sampled_from((True, True, False)))
    choices = tuple(one for one in domains.masks(level) if one & covered) if has_choice else ()
    return replace(bare, is_own=True, forbidden=forbidden, choices=choices, level=level)


def atoms(region: int, weak: Sequence[Restriction]) -> list[tuple[int, int]]:
    """The parts of a region on which the same rules break, in one domain of each choice."""
    found = [(region, 0)]
    for number, one in enumerate(weak):
        masks = [(domain, 0) for domain in one.choices] + [(one.forbidden, 1 << number)]
        rest = -1 & ~one.forbidden
        for domain in one.choices:
            rest &= ~domain
        masks.append((rest, 0))
        found = [
            (cpus & mask, broken | bit)
            for cpus, broken in found
            for mask, bit in masks
            if cpus & mask
        ]
    return found


def price(cpus: int, pool_id: int, weak: Sequence[Restriction]) -> tuple[int, int]:
    """How many rules a place breaks, and how many of those are of others."""
    broken = [one for one in weak if one.is_broken_by(cpus, pool_id)]
    return len(broken), sum(not one.is_own for one in broken)


def tried(region: int, weak: Sequence[Restriction]) -> Iterator[int]:
    """The places that are tried in the part of a region that a pool has."""
    some = atoms(region, weak)
    for cpus, broken in some:
        choosing = [
            domain
            for number, one in enumerate(weak)
            if not broken & 1 << number
            for domain in one.choices
            if not cpus & ~domain
        ]
        together = 0
        for other, others in some:
            if not others & ~broken and not any(other & ~domain for domain in choosing):
                together |= other
        yield together if len(some) <= _TOGETHER_MAX else cpus
    union = 0
    for cpus, _ in sorted(some, key=lambda one: (one[1].bit_count(), one[0] & -one[0])):
        union |= cpus
        yield union


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_each_pool_gets_the_part_that_breaks_least_of_all_that_are_tried(
    spec: str, data: st.DataObject
) -> None:
    scene = Scene(spec, data)
    drawn = scene.search(data)
    rules = [rule(scene, data, number) for number in range(data.draw(st.integers(1, 4)))]
    judgement = Judgement(
        own=tuple(rules),
        companions=drawn.judgement.companions,
        pulls=drawn.judgement.pulls,
        domains=scene.domains,
    )
    search, asked = (
        OpeningSearch(
            request=drawn.request, judgement=judgement, tree=scene.tree, ledger=scene.ledger
        )
        for _ in range(2)
    )
    check(search, asked, rules)


def check(search: OpeningSearch, asked: OpeningSearch, rules: Sequence[Restriction]) -> None:
    """Hold what is found against all that is tried. `asked`: the same search, for that."""
    tree = search.tree
    firm = [one for one in rules if not one.can_break]
    weak = [one for one in rules if one.can_break]
    found = degraded(search)
    if not weak:
        assert found is None
        return
    assert found is not None
    everything, closed = tree.root.cpus.mask, frozenset[int]()
    for one in firm:
        everything &= ~one.forbidden
        closed |= one.closed_pools
    regions = asked.regions(everything, [one for one in firm if one.is_own])
    for pool in tree.pools:
        places = {
            cpus
            for region in (regions if pool.id not in closed else ())
            if (here := region & pool.cpus.mask)
            for cpus in tried(here, weak)
        }
        ranked = sorted(
            (
                price(cpus, pool.id, weak),
                -asked.preference(pool.id, cpus),
                -asked.free(pool.id, cpus),
                cpus & -cpus,
                cpus,
            )
            for cpus in places
        )
        best = next((one for one in ranked if asked.fits(pool.id, one[-1])), None)
        assert found.regions[pool.id] == (0 if best is None else best[-1])
        assert (pool.id in found.dropped) == (best is None)
        if best is not None:
            counted = found.unmet[pool.id], found.unmet_of_others[pool.id]
            assert counted == best[0]


class Chance:
    """Newcomers among residents with cpus of their own, by chance: most integers drawn are small.

    Their rules are about cores, each of which is another place.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        picker = CpuPicker(MANY_CORES)
        self.tree = build_tree(MANY_CORES, read_supply(MANY_CORES, Config(), picker))
        self._everything = self.tree.root.cpus.mask
        self._domains = Domains(MANY_CORES, MANY_CORES.online)
        self._ledger = Ledger(self.tree, picker)
        own = CpuSet(self._some(self._random.choice((1, 2, 4))) & self.tree.root.sharable.mask)
        self._ledger.add(
            Grant(container_id=ContainerId("c"), pool_id=self.tree.root.id, exclusive=own)
        )
        self.rules = tuple(self._rule(number) for number in range(self._random.randint(1, 5)))
        shared, own_cpus = self._some(2), self._some(4)
        self._companions = Companions(
            level=self._random.choice((Level.CORE, Level.L3)),
            own=own_cpus & ~shared,
            shared=shared,
            rule=self.rules[0],
        )
        self._request = Request(
            container_id=ContainerId("n"),
            qos=QosClass.BURSTABLE,
            exclusive=self._random.choice((0, 1, 2, 2, 3, 7)),
            shared_milli=self._random.choice((0, 0, 0, 1500)),
        )
        self._pulled = [
            (self._random.choice((Level.CORE, Level.NUMA)), self._some(2), weight)
            for weight in self._random.choice(((), (), (3,), (3, -2), (3, 1, 2)))
        ]

    def _some(self, parts: int) -> int:
        """About so small a part of all cpus."""
        chosen = [cpu for cpu in iter_bits(self._everything) if not self._random.randrange(parts)]
        return sum(1 << cpu for cpu in chosen)

    def _rule(self, number: int) -> Restriction:
        chance, domains, name = self._random, self._domains, f"o{number}"
        level = chance.choice((Level.CORE, Level.CORE, Level.CORE, Level.L3, Level.NUMA))
        covered = domains.covering(level, self._some(chance.choice((1, 2, 4))))
        is_apart = chance.random() < 0.3
        forbidden = covered if is_apart else self._everything & ~covered
        choices = () if is_apart else tuple(one for one in domains.masks(level) if one & covered)
        return Restriction(
            text="rule",
            owner=name,
            owner_id=ContainerId(name),
            can_break=True,
            is_own=not is_apart or chance.random() < 0.5,
            wanted="it",
            forbidden=forbidden,
            choices=choices,
            level=level,
        )

    def search(self) -> OpeningSearch:
        """A search that nobody has asked anything."""
        pulls = Pulls(self._domains)
        for level, cpus, weight in self._pulled:
            pulls.add(level, cpus, weight)
        judgement = Judgement(
            own=self.rules,
            companions=(self._companions,) if self._random.random() < 0.7 else (),
            pulls=pulls,
            domains=self._domains,
        )
        return OpeningSearch(
            request=self._request, judgement=judgement, tree=self.tree, ledger=self._ledger
        )


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_the_same_holds_where_rules_are_about_many_cores(seed: int) -> None:
    chance = Chance(seed)
    search = chance.search()
    asked = dataclasses.replace(search)
    check(search, asked, chance.rules)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 32), tried_together=st.integers(0, 100))
def test_where_few_parts_are_tried_together_a_pool_has_a_place_all_the_same(
    seed: int, tried_together: int
) -> None:
    chance = Chance(seed)
    search = chance.search()
    asked = dataclasses.replace(search)
    every, found = degraded(search), degraded(asked, tried_together=tried_together)
    assert every is not None
    assert found is not None
    assert set(found.dropped) == set(every.dropped)
    for pool in chance.tree.pools:
        if pool.id in found.dropped:
            continue
        cpus = found.regions[pool.id]
        counted = found.unmet[pool.id], found.unmet_of_others[pool.id]
        assert not cpus & ~pool.cpus.mask
        assert asked.fits(pool.id, cpus)
        assert counted == price(cpus, pool.id, chance.rules)
        assert counted >= (every.unmet[pool.id], every.unmet_of_others[pool.id])
        if found.preferred:
            assert found.preferred[pool.id] == asked.preference(pool.id, cpus)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_a_pool_that_is_not_looked_at_breaks_more_than_the_best(seed: int) -> None:
    chance = Chance(seed)
    search = chance.search()
    others = dataclasses.replace(search)
    everybody = [1] * len(chance.tree.pools)
    every, found = degraded(search), degraded(others, rivals=everybody, weighed=0)
    assert every is not None
    assert found is not None
    costs = list(zip(every.unmet, every.unmet_of_others, strict=True))
    fewest = min((one for id_, one in enumerate(costs) if id_ not in every.dropped), default=None)
    for pool in chance.tree.pools:
        objection = found.dropped.get(pool.id)
        if objection is None or pool.id in every.dropped:
            assert found.regions[pool.id] == every.regions[pool.id]
            assert (found.unmet[pool.id], found.unmet_of_others[pool.id]) == costs[pool.id]
            assert every.preferred == () or found.preferred[pool.id] == every.preferred[pool.id]
        else:
            assert objection.criterion == "broken rules"
            assert fewest is not None
            assert costs[pool.id] > fewest
            least = int(objection.available.removeprefix("at least ").partition(",")[0])
            assert fewest[0] <= least <= costs[pool.id][0]


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_a_pool_that_wins_nothing_is_no_reason_to_pass_over_others(seed: int) -> None:
    chance = Chance(seed)
    search = chance.search()
    others = dataclasses.replace(search)
    every, nobody = degraded(search), [0] * len(chance.tree.pools)
    found = degraded(others, rivals=nobody, weighed=0)
    assert every is not None
    assert found is not None
    assert found.regions == every.regions
    assert dict(found.dropped) == dict(every.dropped)


@pytest.mark.parametrize(
    ("seed", "tried_together"), [(1402, 50), (6775, 30), (7508, 24), (11321, 36), (14711, 12)]
)
def test_a_pool_that_is_not_looked_at_leaves_those_after_it_as_much_to_try(
    seed: int, tried_together: int
) -> None:
    """It has more parts than are left to try, of which a single one would do."""
    chance = Chance(seed)
    search = chance.search()
    others = dataclasses.replace(search)
    every = degraded(search, tried_together=tried_together)
    everybody = [1] * len(chance.tree.pools)
    found = degraded(others, rivals=everybody, tried_together=tried_together, weighed=0)
    assert every is not None
    assert found is not None
    assert len(found.dropped) > len(every.dropped), "some are passed over"
    for pool in chance.tree.pools:
        if pool.id not in found.dropped:
            assert found.regions[pool.id] == every.regions[pool.id]
