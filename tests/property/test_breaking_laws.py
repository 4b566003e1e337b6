"""Laws of breaking: each pool gets the part that breaks least, as if all of them were tried."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pinfold.policy.model.container import ContainerId
from pinfold.policy.placing.judging.judgement import Judgement
from pinfold.policy.placing.judging.restriction import Restriction
from pinfold.policy.placing.openings.breaking import degraded
from pinfold.policy.placing.openings.openings import OpeningSearch
from pinfold.topology.model.machine import Level
from tests.property.test_openings import SPECS, Scene

_LEVELS = (Level.SOCKET, Level.NUMA, Level.L3, Level.CORE)
_TOGETHER_MAX = 16


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
    firm = [one for one in rules if not one.can_break]
    weak = [one for one in rules if one.can_break]
    found = degraded(search)
    if not weak:
        assert found is None
        return
    assert found is not None
    everything, closed = scene.tree.root.cpus.mask, frozenset[int]()
    for one in firm:
        everything &= ~one.forbidden
        closed |= one.closed_pools
    regions = asked.regions(everything, [one for one in firm if one.is_own])
    for pool in scene.tree.pools:
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
