"""Wishes are weighed as they are met where containers are, and not where they might be."""

from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.rebalance.placement_score import placement_objective, pools_of
from pinfold.policy.engine.rebalance.satisfied_weight import SatisfiedWeight
from pinfold.policy.engine.rebalance.wishes import WishKey, weigh_wishes
from pinfold.policy.model.container import Container, ContainerId, QosClass, Resources
from pinfold.topology.model.machine import Level
from tests.unit.policy.engine.pods_with_wishes import CONFIG, MACHINE, placed, wishing
from tests.unit.policy.engine.ruled_pods import PREFERRED, container_of, engine_of, prefer, term

ZERO, ONE = "NUMA node #0", "NUMA node #1"
OTHER_SOCKET = "NUMA node #2"
WEB = wishing("web", wishes={"db": 3})
HERMIT = wishing("hermit", wishes={"db": -3})
DB = wishing("db")
NEAR = container_of("near", 0.5, prefer(10, term("numa", "db")))
FAR = container_of("far", 0.5, prefer(10, term("numa", "db"), is_anti=True))
NUMA_ONE = {"key": "numa", "operator": "In", "values": ["1"]}
LEANING = container_of("leaning", 0.5, prefer(10, term("socket", "db")))


@pytest.mark.parametrize(
    ("one", "pool", "expected"),
    [
        pytest.param(WEB, ZERO, {}, id="a friend in the same leaf"),
        pytest.param(WEB, ONE, {}, id="a friend nearby is something"),
        pytest.param(WEB, OTHER_SOCKET, {("affinity", None): 1}, id="a friend far away"),
        pytest.param(HERMIT, OTHER_SOCKET, {}, id="an enemy far away"),
        pytest.param(HERMIT, ONE, {}, id="an enemy not quite near"),
        pytest.param(HERMIT, ZERO, {("anti-affinity", None): 1}, id="an enemy in the same leaf"),
        pytest.param(NEAR, ZERO, {}, id="a rule at a level that holds"),
        pytest.param(NEAR, ONE, {("affinity", Level.NUMA): 1}, id="one that nearly holds"),
        pytest.param(LEANING, ONE, {}, id="one at a wider level that holds"),
        pytest.param(LEANING, OTHER_SOCKET, {("affinity", Level.SOCKET): 1}, id="and does not"),
        pytest.param(FAR, ONE, {}, id="one of keeping away that holds"),
        pytest.param(FAR, ZERO, {("anti-affinity", Level.NUMA): 1}, id="one that does not"),
    ],
)
def test_a_wish_is_unmet_where_nothing_is_as_wished(
    one: Container, pool: str, expected: Mapping[WishKey, int]
) -> None:
    snapshot = placed((DB, ZERO), (one, pool)).snapshot()
    found = weigh_wishes(snapshot)
    assert dict(found.unmet) == expected
    assert found.satisfied == placement_objective(snapshot).score(pools_of(snapshot.grants))


def test_what_is_wished_is_the_satisfied_weight_of_the_best_that_is_thinkable() -> None:
    met = weigh_wishes(placed((DB, ZERO), (WEB, ZERO), (NEAR, ZERO)).snapshot())
    assert (met.satisfied, met.wished) == (13 * met.scale, 13 * met.scale)
    missed = weigh_wishes(placed((DB, ZERO), (WEB, ONE), (NEAR, ONE)).snapshot())
    assert missed.wished == met.wished
    assert 0 < missed.satisfied < met.satisfied


@pytest.mark.parametrize("rests", range(6))
def test_a_fault_leaves_out_nobody_of_whom_something_was_said_anew(rests: int) -> None:
    before = placed((DB, ZERO), (WEB, ZERO)).snapshot()
    weight = SatisfiedWeight()
    weight.wishes(before)
    anew = {one: replace(container) for one, container in before.containers.items()}
    after = replace(before, containers=anew)
    left = iter(range(rests))

    def pause() -> None:
        if next(left, None) is None:
            raise InterruptedError

    with suppress(InterruptedError):
        weight.wishes(after, pause)
    assert weight.wishes(after) == weigh_wishes(after)


def test_nobody_is_asked_for_nothing() -> None:
    found = weigh_wishes(placed((DB, ZERO)).snapshot())
    assert (found.satisfied, found.wished, dict(found.unmet)) == (0, 0, {})


@pytest.mark.parametrize(
    ("preference", "pool", "expected"),
    [
        pytest.param({"matchExpressions": [NUMA_ONE]}, ONE, {}, id="a pool that is wished for"),
        pytest.param({"matchExpressions": [NUMA_ONE]}, ZERO, {("pool", None): 1}, id="another"),
        pytest.param({}, ZERO, {}, id="a wish for nothing"),
    ],
)
def test_a_wish_for_a_pool_is_unmet_elsewhere(
    preference: Mapping[str, object], pool: str, expected: Mapping[WishKey, int]
) -> None:
    rules = {"poolAffinity": {PREFERRED: [{"weight": 10, "preference": preference}]}}
    found = weigh_wishes(placed((container_of("one", 0.5, rules), pool)).snapshot())
    assert dict(found.unmet) == expected


THREE = "NUMA node #3"


def spreading(name: str, level: str = "numa", **more: object) -> Container:
    """A worker whose pods had better not be beside each other."""
    rule = {"maxSkew": 1, "topologyKey": level, "whenUnsatisfiable": "ScheduleAnyway"}
    selector = {"labelSelector": {"matchLabels": {"app": "worker"}}}
    rules = {"topologySpread": [{**rule, **selector, **more}]}
    return container_of(name, 0.5, rules, app="worker")


def worker(name: str, namespace: str = "default") -> Container:
    """A worker that wishes nothing."""
    return container_of(name, 0.5, app="worker", namespace=namespace)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        pytest.param([(spreading("a"), ZERO)], {}, id="one alone"),
        pytest.param([(spreading("a"), ZERO), (spreading("b"), ONE)], {}, id="one in each of two"),
        pytest.param(
            [(spreading("a"), ZERO), (spreading("b"), ZERO)],
            {("spread", Level.NUMA): 2},
            id="two in one, and others are empty",
        ),
        pytest.param(
            [(spreading("a"), ZERO), (worker("b"), ZERO)],
            {("spread", Level.NUMA): 1},
            id="one that wishes it beside one that does not",
        ),
        pytest.param(
            [(spreading("a", maxSkew=2), ZERO), (worker("b"), ZERO)],
            {},
            id="two in one, where that may be",
        ),
        pytest.param(
            [(spreading("a"), ZERO), (worker("b", "other"), ZERO)],
            {},
            id="one of another namespace is not counted",
        ),
        pytest.param(
            [(spreading("a"), ZERO), (container_of("b", 0.5), ZERO)],
            {},
            id="one of another app is not counted",
        ),
        pytest.param(
            [
                (spreading("a"), ZERO),
                (worker("b"), ZERO),
                (worker("c"), ONE),
                (worker("d"), OTHER_SOCKET),
                (worker("e"), THREE),
            ],
            {},
            id="two in one, and one in each of the others",
        ),
        pytest.param(
            [(spreading("a", level="socket"), ZERO), (worker("b"), ONE)],
            {("spread", Level.SOCKET): 1},
            id="two in one socket, and none in the other",
        ),
        pytest.param([(spreading("a"), "root")], {}, id="one alone everywhere"),
        pytest.param(
            [(spreading("a"), "root"), (worker("b"), ONE)],
            {("spread", Level.NUMA): 1},
            id="one everywhere, also beside another",
        ),
    ],
)
def test_a_preferred_spread_is_unmet_where_one_domain_holds_too_many_more_than_another(
    places: list[tuple[Container, str]], expected: Mapping[WishKey, int]
) -> None:
    assert dict(weigh_wishes(placed(*places).snapshot()).unmet) == expected


def test_a_domain_of_isolated_cpus_is_none_to_spread_over_on_shared_ones() -> None:
    engine = engine_of("socket:1 numa:2 core:4 mem:4G isolated:4-7")
    for name in ("a", "b", "c"):
        engine.create(spreading(name))
    assert dict(weigh_wishes(engine.snapshot()).unmet) == {}


@given(
    pools=st.lists(st.integers(0, 6), max_size=8),
    levels=st.lists(st.sampled_from(["numa", "socket", "core", ""]), min_size=8, max_size=8),
    skew=st.integers(1, 3),
)
def test_as_many_spreads_are_unmet_as_there_are_notes_of_them(
    pools: list[int], levels: list[str], skew: int
) -> None:
    names = [one.name for one in placed().tree.pools]
    engine = placed(
        *(
            (
                spreading(f"pod-{number}", level, maxSkew=skew)
                if level
                else worker(f"pod-{number}"),
                names[pool],
            )
            for number, (pool, level) in enumerate(zip(pools, levels, strict=False))
        )
    )
    notes = [note for one in engine.containers for note in engine.note(one)]
    told = sum(" of them in its " in note for note in notes)
    assert sum(weigh_wishes(engine.snapshot()).unmet.values()) == told


@given(
    pods=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 3)), max_size=3),
    levels=st.lists(st.sampled_from(["numa", "socket", "core", ""]), min_size=9, max_size=9),
    own=st.lists(st.booleans(), min_size=9, max_size=9),
    neighbour=st.sampled_from(["numa", "socket", "core", ""]),
    skew=st.integers(1, 3),
)
def test_so_they_are_of_containers_that_share_the_cpus_of_their_pod(
    pods: list[tuple[int, int]], levels: list[str], own: list[bool], neighbour: str, skew: int
) -> None:
    engine = Engine(MACHINE, CONFIG)
    wishes = iter(zip(levels, own, strict=True))
    for number, (size, members) in enumerate(pods):
        for member in range(members):
            level, has_own_cpu = next(wishes)
            name = f"pod-{number}"
            one = spreading(name, level, maxSkew=skew) if level else worker(name)
            engine.create(of_pod(one, f"c{member}", size, has_own_cpu=has_own_cpu))
    engine.create(spreading("web", neighbour, maxSkew=skew) if neighbour else worker("web"))
    notes = [note for one in engine.containers for note in engine.note(one)]
    told = sum(" of them in its " in note for note in notes)
    assert sum(weigh_wishes(engine.snapshot()).unmet.values()) == told


def of_pod(one: Container, name: str, cpus: int, *, has_own_cpu: bool) -> Container:
    """A container like another, of a pod of so many cpus, of which it may have one alone."""
    memory = 2**30
    size = Resources(
        cpu_request_milli=1000 * cpus,
        cpu_limit_milli=1000 * cpus,
        memory_request_bytes=memory,
        memory_limit_bytes=memory,
    )
    shown = replace(size, cpu_request_milli=1000, cpu_limit_milli=1000) if has_own_cpu else size
    return replace(
        one,
        id=ContainerId(f"{one.id}-{name}"),
        name=name,
        pod=replace(one.pod, qos=QosClass.GUARANTEED, resources=size),
        resources=shown,
    )
