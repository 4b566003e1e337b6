"""What the kubelet writes of memory where memory QoS is on, and what that tells."""

from collections.abc import Mapping

import pytest

from pinfold.policy.model.container import QosClass, Resources
from pinfold.policy.model.memory_qos import MemoryQos, memory_entries, protected_bytes

MIB = 1 << 20
HALF = Resources(memory_request_bytes=512 * MIB, memory_limit_bytes=1024 * MIB)
WHOLE = Resources(memory_request_bytes=512 * MIB, memory_limit_bytes=512 * MIB)
OPEN = Resources(memory_request_bytes=512 * MIB)

ENTRIES = [
    pytest.param(HALF, "BURSTABLE", "OFF", {}, id="nothing where it is off"),
    pytest.param(
        HALF,
        "BURSTABLE",
        "THROTTLING",
        {"memory.high": str(1020053094 // 4096 * 4096)},
        id="nine tenths of the way to the limit, in whole pages",
    ),
    pytest.param(
        HALF,
        "BURSTABLE",
        "TIERED",
        {"memory.low": str(512 * MIB), "memory.high": str(1020053094 // 4096 * 4096)},
        id="a burstable one is protected while that is easy",
    ),
    pytest.param(
        WHOLE,
        "GUARANTEED",
        "TIERED",
        {"memory.min": str(512 * MIB)},
        id="a guaranteed one at any cost, and never throttled",
    ),
    pytest.param(WHOLE, "GUARANTEED", "THROTTLING", {}, id="nor does a policy of none tell of it"),
    pytest.param(
        OPEN,
        "BURSTABLE",
        "THROTTLING",
        {"memory.high": str((512 * MIB + 7680 * MIB * 9 // 10) // 4096 * 4096)},
        id="without a limit up to the node's memory",
    ),
    pytest.param(Resources(), "BEST_EFFORT", "TIERED", {}, id="nothing is asked for"),
]


@pytest.mark.parametrize(("own", "qos", "memory_qos", "entries"), ENTRIES)
def test_cgroup_entries_follow_from_requests_and_limits(
    own: Resources, qos: str, memory_qos: str, entries: Mapping[str, str]
) -> None:
    found = memory_entries(own, QosClass[qos], 8192 * MIB, MemoryQos[memory_qos])
    assert found == entries


def test_a_node_whose_memory_nobody_knows_throttles_by_limits_alone() -> None:
    assert memory_entries(OPEN, QosClass.BURSTABLE, None, MemoryQos.THROTTLING) == {}


@pytest.mark.parametrize("qos", [QosClass.GUARANTEED, QosClass.BURSTABLE])
@pytest.mark.parametrize("request_bytes", [1, 4097, 512 * MIB])
def test_a_protected_request_is_read_back_exactly(qos: QosClass, request_bytes: int) -> None:
    own = Resources(memory_request_bytes=request_bytes)
    assert protected_bytes(memory_entries(own, qos, None, MemoryQos.TIERED)) == request_bytes
