"""Room around L3 groups: equal containers are spread over what holds the groups, too."""

from typing import Any

import pytest

from pinfold.policy.model.grant import Grant
from tests.unit.policy.engine.ruled_pods import container_of, engine_of

FOUR_NODES = "socket:1 numa:4 l3:4 core:4"
TWO_SOCKETS = "socket:2 l3:4 core:4"
NO_CACHES = "socket:2 numa:2 core:4"
OWN: dict[str, Any] = {"cpu": 2}
SHARING: dict[str, Any] = {"cpu": 0.5, "is_guaranteed": True}
BURSTING: dict[str, Any] = {
    "cpu": 1.5,
    "annotations": {"unlimited-burstable.resource-policy.nri.io/pod": "l3cache"},
}


@pytest.mark.parametrize(
    ("machine", "asks", "homes"),
    [
        pytest.param(FOUR_NODES, OWN, "123012", id="own cpus: over the NUMA nodes"),
        pytest.param(FOUR_NODES, SHARING, "123123", id="shared cpus: the same"),
        pytest.param(FOUR_NODES, BURSTING, "123012", id="who bursts into an L3 group: the same"),
        pytest.param(TWO_SOCKETS, OWN, "101010", id="without NUMA nodes in them: over sockets"),
        pytest.param(NO_CACHES, OWN, "123012", id="without caches: NUMA nodes in their order"),
    ],
)
def test_equal_containers_are_spread(machine: str, asks: dict[str, Any], homes: str) -> None:
    """The one cpu that is reserved is on NUMA node 0, which begins with less room."""
    engine = engine_of(machine)
    found = ""
    for number in range(len(homes)):
        container = container_of(f"pod-{number}", **asks)
        grant = engine.create(container).result
        assert isinstance(grant, Grant)
        (node,) = grant.memory
        found += str(node)
    assert found == homes
