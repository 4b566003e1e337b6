"""Laws of hints: scores follow their definition exactly, and no annotation can break anything."""

import math
from fractions import Fraction
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.cpus.picker import CpuPicker
from pinfold.policy.hints.hint_place import resolve
from pinfold.policy.hints.hint_score import scores
from pinfold.policy.hints.hint_text import annotated_hints
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId
from pinfold.policy.model.hint import Hint, HintOrigin
from pinfold.policy.pools.pool_tree import PoolTree
from pinfold.policy.pools.supply import read_supply
from pinfold.policy.pools.tree_building import build_tree
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

MACHINE = machine_from_spec("socket:2 numa:2 l3:2 core:2")
CPUS = st.integers(1, 2**16 - 1).map(CpuSet)
KEY = "test.topologyhints.resource-policy.nri.io/pod"


def _tree() -> PoolTree:
    config = Config(reserved_resources=Amounts(cpu="cpuset:0"))
    return build_tree(MACHINE, read_supply(MACHINE, config, CpuPicker(MACHINE)))


TREE = _tree()


def hints_of(sets: list[CpuSet]) -> list[Hint]:
    return [Hint(provider="x", origin=HintOrigin.TEST, cpus=cpus) for cpus in sets]


@given(st.lists(CPUS, min_size=1, max_size=6))
@settings(deadline=None, max_examples=150)
def test_scores_are_the_products_of_shares_up_to_one_scale(sets: list[CpuSet]) -> None:
    found = scores(TREE, hints_of(sets))
    telling = [cpus for cpus in sets if not TREE.root.cpus <= cpus]
    assert bool(found) == bool(telling)
    scales: set[Fraction] = set()
    for pool, (full, partial) in zip(TREE.pools, found, strict=bool(found)):
        shares = [Fraction(len(cpus & pool.cpus), len(cpus)) for cpus in telling]
        near = [share for share in shares if share]
        exact = math.prod(shares, start=Fraction(1)), math.prod(near) if near else 0
        assert (full > 0, partial > 0) == (exact[0] > 0, exact[1] > 0)
        scales.update(
            Fraction(value) / share
            for value, share in zip((full, partial), exact, strict=True)
            if share
        )
    assert len(scales) <= 1


@given(st.lists(CPUS, max_size=6), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=50)
def test_the_order_of_hints_does_not_matter(sets: list[CpuSet], random: Random) -> None:
    shuffled = list(sets)
    random.shuffle(shuffled)
    assert scores(TREE, hints_of(sets)) == scores(TREE, hints_of(shuffled))


@given(st.lists(CPUS, min_size=1, max_size=6))
@settings(deadline=None, max_examples=100)
def test_no_pool_is_nearer_to_all_than_the_pool_around_it(sets: list[CpuSet]) -> None:
    found = scores(TREE, hints_of(sets))
    for pool, (full, _) in zip(TREE.pools, found, strict=bool(found)):
        assert pool.parent is None or full <= found[pool.parent][0]


@given(
    st.integers(0, 2**20).map(CpuSet),
    st.integers(0, 2**6).map(NodeSet),
    st.lists(st.integers(0, 5), max_size=3),
)
@settings(deadline=None, max_examples=150)
def test_a_resolved_hint_has_online_cpus_and_known_nodes_and_stays_so(
    cpus: CpuSet, nodes: NodeSet, sockets: list[int]
) -> None:
    hint = Hint(
        provider="x",
        origin=HintOrigin.TEST,
        cpus=cpus,
        numa_nodes=nodes,
        sockets=tuple(sockets),
    )
    resolved, problems = resolve(hint, MACHINE, "x")
    if resolved is None:
        assert problems or not (cpus or nodes or sockets)
        return
    assert resolved.cpus
    assert resolved.cpus <= MACHINE.online
    assert all(one in MACHINE.node_by_id for one in resolved.numa_nodes)
    assert resolve(resolved, MACHINE, "x") == (resolved, ())


@given(st.text(alphabet='{}[]:,-0129 \n"#&*!aCPUsNAProviderockt', max_size=60))
@settings(deadline=None, max_examples=200)
def test_no_text_breaks_the_test_annotation(text: str) -> None:
    pod = Pod(id=PodId("p"), name="web", annotations={KEY: text})
    _, problems = annotated_hints(Container(id=ContainerId("c"), name="nginx", pod=pod))
    assert not any(problem.is_fatal for problem in problems)
