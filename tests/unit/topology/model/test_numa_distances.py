"""Which NUMA nodes are nearest to which."""

import pytest

from pinfold.topology.model.numa_distances import NumaDistances
from pinfold.topology.sets.cpuset import NodeSet

# Two sockets of two nodes each; node 8 is memory beside node 2.
KNOWN = NumaDistances(
    (0, 1, 2, 3, 8),
    (
        (10, 11, 21, 21, 24),
        (11, 10, 21, 21, 24),
        (21, 21, 10, 11, 14),
        (21, 21, 11, 10, 17),
        (24, 24, 14, 17, 10),
    ),
)
UNKNOWN = NumaDistances((0, 1, 2, 3, 8))


@pytest.mark.parametrize(
    ("distances", "starts", "candidates", "nearest"),
    [
        pytest.param(KNOWN, "8", "0-3", "2", id="one is nearest"),
        pytest.param(KNOWN, "8", "0-1", "0-1", id="two are as near"),
        pytest.param(KNOWN, "0", "2-3,8", "2-3", id="none that is farther"),
        pytest.param(KNOWN, "0,3", "1-2,8", "1-2", id="nearest to any, over all starts"),
        pytest.param(KNOWN, "1-2", "8,3", "3", id="a later start is nearer"),
        pytest.param(KNOWN, "0", "0-3", "0", id="nearest to a node is itself"),
        pytest.param(KNOWN, "0-3", "", "", id="no candidates"),
        pytest.param(KNOWN, "", "0-3", "", id="no starts"),
        pytest.param(KNOWN, "0", "5", "", id="nodes that are not there"),
        pytest.param(UNKNOWN, "8", "0-3", "0-3", id="all are as far where nothing is known"),
    ],
)
def test_the_nearest_nodes_are_those_of_the_least_distance(
    distances: NumaDistances, starts: str, candidates: str, nearest: str
) -> None:
    assert str(distances.nearest(NodeSet.parse(starts), NodeSet.parse(candidates))) == nearest
