"""Wishes are weighed as they are met where containers are, and not where they might be."""

from collections.abc import Mapping

import pytest

from pinfold.policy.engine.rebalance.placement_score import placement_score
from pinfold.policy.engine.rebalance.wishes import WishKey, weigh_wishes
from pinfold.policy.model.container import Container
from pinfold.topology.model.machine import Level
from tests.unit.policy.engine.pods_with_wishes import placed, wishing
from tests.unit.policy.engine.ruled_pods import PREFERRED, container_of, prefer, term

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
    assert found.satisfied == placement_score(snapshot)


def test_what_is_wished_is_the_satisfied_weight_of_the_best_that_is_thinkable() -> None:
    met = weigh_wishes(placed((DB, ZERO), (WEB, ZERO), (NEAR, ZERO)).snapshot())
    assert (met.satisfied, met.wished) == (13 * met.scale, 13 * met.scale)
    missed = weigh_wishes(placed((DB, ZERO), (WEB, ONE), (NEAR, ONE)).snapshot())
    assert missed.wished == met.wished
    assert 0 < missed.satisfied < met.satisfied


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
