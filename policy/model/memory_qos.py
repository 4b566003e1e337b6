"""Memory QoS of the kubelet: memory that the kernel protects for a container, and throttles.

Off as a rule. Where it is on, the runtime is told in the `unified` resources of a container what it
asks for, exactly. Sources: KEP-2570; the kubelet,
`pkg/kubelet/kuberuntime/kuberuntime_container_linux.go`.
"""

import enum
from collections.abc import Mapping
from typing import Final

from .container import QosClass, Resources

_MIN: Final = "memory.min"
_LOW: Final = "memory.low"
_HIGH: Final = "memory.high"
_THROTTLED_TENTHS: Final = 9
"""The kubelet's `memoryThrottlingFactor`, unless it is told another one."""
_PAGE_BYTES: Final = 4096
_DIGITS_MAX: Final = 19


class MemoryQos(enum.Enum):
    """The kubelet's use of the feature, by its `memoryReservationPolicy` where it is on."""

    OFF = "off"
    THROTTLING = "None"
    """Containers that may use more than they request are slowed down before their limit."""
    TIERED = "TieredReservation"
    """And the memory they request is protected, that of Guaranteed pods at any cost."""


def memory_entries(
    own: Resources, qos: QosClass, allocatable_bytes: int | None, memory_qos: MemoryQos
) -> Mapping[str, str]:
    """Entries of the kubelet in the `unified` resources of a container with these of its own.

    What the container's pod has does not count. `allocatable_bytes`: memory of the node.

    >>> own = Resources(memory_request_bytes=4096, memory_limit_bytes=40960)
    >>> memory_entries(own, QosClass.BURSTABLE, None, MemoryQos.TIERED)
    {'memory.low': '4096', 'memory.high': '36864'}
    """
    found: dict[str, str] = {}
    if memory_qos is MemoryQos.OFF:
        return found
    request, limit = own.memory_request_bytes, own.memory_limit_bytes or 0
    if memory_qos is MemoryQos.TIERED and request and qos is not QosClass.BEST_EFFORT:
        found[_MIN if qos is QosClass.GUARANTEED else _LOW] = str(request)
    if request != limit:
        most = limit or allocatable_bytes or 0
        high = (request + (most - request) * _THROTTLED_TENTHS // 10) // _PAGE_BYTES * _PAGE_BYTES
        if high > request:
            found[_HIGH] = str(high)
    return found


def protected_bytes(unified: Mapping[str, str]) -> int | None:
    """The memory request that the kernel protects; None where the kubelet protects none.

    Guaranteed containers have memory.min and Burstable ones memory.low; older kubelets knew
    memory.min alone.

    >>> protected_bytes({"memory.low": "4096", "memory.high": "max"})
    4096
    """
    for key in (_MIN, _LOW):
        text = unified.get(key, "")
        # "max", or a number that no machine has, is nobody's request.
        if text.isascii() and text.isdigit() and len(text) < _DIGITS_MAX and int(text):
            return int(text)
    return None
