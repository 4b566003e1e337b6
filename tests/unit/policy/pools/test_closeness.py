"""Closeness of pools, against the formula written out."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.cpus.picker import CpuPicker
from pinfold.policy.model.grant import PoolId
from pinfold.policy.pools.closeness import Closeness
from pinfold.policy.pools.pool_tree import PoolTree
from pinfold.policy.pools.supply import read_supply
from pinfold.policy.pools.tree_building import build_tree
from pinfold.topology.made.spec import machine_from_spec


def tree_of(spec: str) -> PoolTree:
    machine = machine_from_spec(spec)
    config = Config(reserved_resources=Amounts(cpu="cpuset:0"))
    return build_tree(machine, read_supply(machine, config, CpuPicker(machine)))


TREES = {
    "two levels": tree_of("socket:2 core:2"),
    "three levels": tree_of("socket:2 numa:2 core:2"),
    "four levels": tree_of("socket:2 numa:2 l3:2 core:2"),
    "one pool": tree_of("socket:1 core:2"),
}


def closeness(tree: PoolTree, one: int, other: int, weight: int) -> Fraction:
    if weight < 0 and other in tree.subtree(PoolId(one)):
        return Fraction(9, 16) ** tree.pools[other].height
    above = [one, *tree.ancestors[one]]
    common = next(pool for pool in above if pool == other or pool in tree.ancestors[other])
    return Fraction(9, 16) ** tree.pools[common].height


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_affinity_is_the_sum_of_weight_times_closeness(tree: PoolTree, data: st.DataObject) -> None:
    weights = data.draw(
        st.dictionaries(st.integers(0, len(tree.pools) - 1), st.integers(-1000, 1000), max_size=5)
    )
    near = Closeness(tree)
    found = near.affinities({PoolId(pool): weight for pool, weight in weights.items()})
    for pool in range(len(tree.pools)):
        wanted = sum(weight * closeness(tree, pool, q, weight) for q, weight in weights.items())
        assert Fraction(found[pool], near.scale) == wanted


def test_a_pool_is_never_nearer_than_its_child_with_every_friend() -> None:
    tree = TREES["three levels"]
    found = Closeness(tree).affinities({PoolId(0): 1, PoolId(1): 1})
    names = {pool.name: found[pool.id] for pool in tree.pools}
    assert names["NUMA node #0"] == names["NUMA node #1"] > names["socket #0"] > names["root"]


def test_a_wide_pool_is_no_refuge_from_enemies_on_every_side() -> None:
    tree = TREES["three levels"]
    found = Closeness(tree).affinities({PoolId(1): -1, PoolId(3): -1, PoolId(4): -1})
    names = {pool.name: found[pool.id] for pool in tree.pools}
    assert max(names, key=lambda name: names[name]) == "NUMA node #0"
