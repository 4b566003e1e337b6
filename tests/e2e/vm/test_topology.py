"""A real kernel's files of a machine with four NUMA nodes are read as what QEMU was told to be."""

from collections.abc import Mapping
from typing import Any, Protocol, cast

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.vm]

NODE_MEMORY_BYTES = 1 << 30


class Seen(Protocol):
    """What the guest's driver wrote down."""

    @property
    def topology(self) -> Mapping[str, object]: ...


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("online_cpus", "0-15"),
        ("sockets", {"0": "0-7", "1": "8-15"}),
        ("dies", {"0/0": "0-3", "0/1": "4-7", "1/0": "8-11", "1/1": "12-15"}),
        ("cores", ["0-1", "2-3", "4-5", "6-7", "8-9", "10-11", "12-13", "14-15"]),
        ("threads_per_core_max", 2),
        ("distances", [[10, 11, 21, 21], [11, 10, 21, 21], [21, 21, 10, 11], [21, 21, 11, 10]]),
        ("isolated", ""),
        ("warnings", []),
    ],
)
def test_discovery_reads_the_machine(observations: Seen, key: str, expected: object) -> None:
    assert observations.topology[key] == expected


def test_each_numa_node_has_its_cpus_and_most_of_its_memory(observations: Seen) -> None:
    nodes = cast("dict[str, dict[str, Any]]", observations.topology["numa_nodes"])
    assert {name: node["cpus"] for name, node in nodes.items()} == {
        "0": "0-3",
        "1": "4-7",
        "2": "8-11",
        "3": "12-15",
    }
    # The kernel keeps a part of each for itself.
    for node in nodes.values():
        assert 0.7 * NODE_MEMORY_BYTES < node["memory_bytes"] <= NODE_MEMORY_BYTES
