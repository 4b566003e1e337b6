"""Requests and limits of a container, read from the cgroup values that the kubelet wrote.

The runtime does not hand on requests and limits, only cgroup values made from them. The conversions
are the kubelet's (pkg/kubelet/cm/helpers_linux.go, pkg/kubelet/qos/policy.go), turned round.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from .container import QosClass, Resources

SHARES_MAX: Final = 262144
"""Shares of 256 cpus: the kernel knows no more."""

_SHARES_PER_CPU: Final = 1024
_SHARES_MIN: Final = 2
_QUOTA_PERIOD: Final = 100_000
_QUOTA_MIN: Final = 1000
_OOM_GUARANTEED: Final = -997
_OOM_BURSTABLE_MIN: Final = 3
_OOM_BURSTABLE_MAX: Final = 999
_OOM_BEST_EFFORT: Final = 1000
_OOM_TIE_BREAK_BYTES: Final = 64 << 20

_QOS_COMPONENTS: Final = {"burstable": QosClass.BURSTABLE, "besteffort": QosClass.BEST_EFFORT}

_SYSTEM_PARTITION: Final = "system"

_PAGE_UNITS: Final = {"KB": 10, "MB": 20, "GB": 30, "TB": 40}


class LinuxResources(Struct, frozen=True, kw_only=True):
    """The cgroup values of one container; 0 where unset, as in the runtime's messages."""

    cpu_shares: int = 0
    cpu_quota: int = 0
    """Microseconds per period; negative is unlimited."""
    cpu_period: int = 0
    memory_limit_bytes: int = 0
    hugepage_bytes: Mapping[int, int] = field(default_factory=dict[int, int])
    """Limit in bytes by page size in bytes."""
    oom_score_adj: int | None = None
    memory_request_bytes: int | None = None
    """Exact, from memory.min or memory.low; None where the kubelet protects no memory."""


def pod_cgroup(qos: QosClass, uid: str) -> str:
    """The path of a pod's cgroup as the kubelet names it with the cgroupfs driver.

    >>> pod_cgroup(QosClass.BURSTABLE, "1d2c")
    '/kubepods/burstable/pod1d2c'
    """
    component = next((name for name, one in _QOS_COMPONENTS.items() if one is qos), "")
    return "/".join(("/kubepods", *filter(None, (component,)), f"pod{uid}"))


def qos_of_cgroup(cgroup_path: str) -> QosClass:
    """The QoS class of a pod, read from the path of its cgroup or of a cgroup inside.

    The class is the deepest component after `kubepods` that names one, in both drivers' notations:
    the kubelet may have partitions above it (KEP 5894). A pod without such a component is
    Guaranteed. A path that is no pod of the kubelet promises nothing: Burstable, whose cpu request
    counts and gives nobody cpus of its own.

    >>> qos_of_cgroup("/kubepods/burstable/pod1d2c").value
    'Burstable'
    >>> qos_of_cgroup("kubepods-system-besteffort-pod1d2c.slice").value
    'BestEffort'
    >>> qos_of_cgroup("/kubepods/podbesteffort").value
    'Guaranteed'
    >>> qos_of_cgroup("").value
    'Burstable'
    """
    for inside in _inside_kubepods(cgroup_path):
        named = [_QOS_COMPONENTS[one] for one in inside if one in _QOS_COMPONENTS]
        if named:
            return named[-1]
        if any(one.startswith("pod") for one in inside):
            return QosClass.GUARANTEED
    return QosClass.BURSTABLE


def is_in_system_partition(cgroup_path: str) -> bool:
    """Whether the kubelet runs a pod in its partition for the system, which has cpus of its own.

    Source: KEP-5894.

    >>> is_in_system_partition("/kubepods/system/burstable/pod1d2c")
    True
    >>> is_in_system_partition("kubepods-burstable-pod1d2c.slice")
    False
    """
    # As good as no path has the word at all.
    return _SYSTEM_PARTITION in cgroup_path and any(
        inside[:1] == [_SYSTEM_PARTITION] for inside in _inside_kubepods(cgroup_path)
    )


def _inside_kubepods(cgroup_path: str) -> Iterator[list[str]]:
    """The components below `kubepods`, as each notation in the path spells them."""
    # A container's path in the notation of systemd is `slice:prefix:name`.
    components = [one for one in cgroup_path.partition(":")[0].split("/") if one]
    slices = [one.removesuffix(".slice") for one in components if one.endswith(".slice")]
    # A slice's name spells its whole path; the kubelet turns "-" inside a component into "_".
    for path in (components, *(one.split("-") for one in reversed(slices))):
        if "kubepods" in path:
            yield path[path.index("kubepods") + 1 :]


def estimate(linux: LinuxResources, qos: QosClass, machine_memory_bytes: int | None) -> Resources:
    """The requests and limits that make the kubelet write these values.

    Exact for requests of 3m to 256 cpus; 1m and 2m look like none, and larger requests are only
    known for Guaranteed pods with a quota. The memory request of a Burstable container is exact
    where its memory is protected, and else within some thousandths of the machine's memory, from
    its OOM score adjustment; the smallest that fits is taken. Where that is none, there may be one;
    of a container with a limit it is at least a thousandth.
    """
    cpu_limit = _milli_of_quota(linux)
    cpu_request = _milli_of_shares(linux.cpu_shares)
    memory_limit = linux.memory_limit_bytes if linux.memory_limit_bytes > 0 else None
    memory_request = 0
    may_request = False
    if qos is QosClass.GUARANTEED:
        if linux.cpu_shares >= SHARES_MAX and cpu_limit is not None:
            cpu_request = max(cpu_request, cpu_limit)
        if cpu_limit is None or linux.cpu_quota == quota_of_milli(cpu_request, linux.cpu_period):
            # In a pod with resources of its own, a container's limit may be more than its request.
            cpu_limit = cpu_request or cpu_limit
        memory_request = memory_limit or 0
    elif qos is QosClass.BURSTABLE:
        # A limit without a request is the request, too: a limited container has asked for some.
        is_some = memory_limit is not None and linux.memory_request_bytes is None
        memory_request = linux.memory_request_bytes or _bytes_of_oom(
            linux.oom_score_adj, machine_memory_bytes, share_min=int(is_some)
        )
        if memory_limit is not None:
            memory_request = min(memory_request, memory_limit)
        elif linux.memory_request_bytes is None:
            may_request = not memory_request
    return Resources(
        cpu_request_milli=cpu_request,
        cpu_limit_milli=cpu_limit,
        memory_request_bytes=memory_request,
        may_request_memory=may_request,
        memory_limit_bytes=memory_limit,
        hugepage_bytes=linux.hugepage_bytes,
    )


def linux_resources(
    resources: Resources, qos: QosClass, machine_memory_bytes: int | None
) -> LinuxResources:
    """The values the kubelet writes for these requests and limits."""
    limit = resources.cpu_limit_milli
    return LinuxResources(
        cpu_shares=shares_of_milli(resources.cpu_request_milli),
        cpu_quota=quota_of_milli(limit) if limit else 0,
        cpu_period=_QUOTA_PERIOD,
        memory_limit_bytes=resources.memory_limit_bytes or 0,
        hugepage_bytes=resources.hugepage_bytes,
        oom_score_adj=_oom_of_bytes(resources.memory_request_bytes, qos, machine_memory_bytes),
    )


def shares_of_milli(milli: int) -> int:
    """The cpu shares the kubelet writes for a request."""
    return min(max(_SHARES_MIN, milli * _SHARES_PER_CPU // 1000), SHARES_MAX)


def quota_of_milli(milli: int, period: int = 0) -> int:
    """The cpu quota the kubelet writes for a limit, in microseconds; 0 is the usual period."""
    return max(milli * (period or _QUOTA_PERIOD) // 1000, _QUOTA_MIN)


def as_told(resources: Resources, qos: QosClass) -> Resources:
    """Resources as a runtime can tell of them: cpu requests of 1m and 2m look like none.

    Nor can it tell no memory request of a Burstable container without a limit from a small one.
    """
    is_seen = shares_of_milli(resources.cpu_request_milli) > _SHARES_MIN
    tells_no_memory = not resources.memory_request_bytes and resources.memory_limit_bytes is None
    return replace(
        resources,
        cpu_request_milli=resources.cpu_request_milli if is_seen else 0,
        may_request_memory=qos is QosClass.BURSTABLE and tells_no_memory,
    )


def merge(current: LinuxResources, update: LinuxResources) -> LinuxResources:
    """`current` with what `update` sets: 0 there leaves a value as it is."""
    return LinuxResources(
        cpu_shares=update.cpu_shares or current.cpu_shares,
        cpu_quota=update.cpu_quota or current.cpu_quota,
        cpu_period=update.cpu_period or current.cpu_period,
        memory_limit_bytes=update.memory_limit_bytes or current.memory_limit_bytes,
        hugepage_bytes={**current.hugepage_bytes, **update.hugepage_bytes},
        oom_score_adj=(
            current.oom_score_adj if update.oom_score_adj is None else update.oom_score_adj
        ),
        memory_request_bytes=(
            current.memory_request_bytes
            if update.memory_request_bytes is None
            else update.memory_request_bytes
        ),
    )


def may_request_memory(
    request_bytes: int, linux: LinuxResources, machine_memory_bytes: int | None
) -> bool:
    """Whether a Burstable container with these values may have asked for so much memory.

    All that newer kubelets do beside lowers the OOM score adjustment, as a larger request would: it
    bounds a request from above only. A limit bounds it too; without either nothing tells.
    """
    if linux.memory_request_bytes is not None:
        return request_bytes == linux.memory_request_bytes
    limit, adjustment = linux.memory_limit_bytes, linux.oom_score_adj
    if 0 < limit < request_bytes:
        return False
    # Pods that the whole node depends on have the adjustment of Guaranteed ones.
    if not machine_memory_bytes or adjustment is None or adjustment < _OOM_BURSTABLE_MIN:
        return limit > 0 or request_bytes == 0
    # One more, for the kubelet may count the machine's memory a little differently.
    share = 1000 if adjustment == _OOM_BURSTABLE_MIN else 1000 - adjustment + 1
    return 1000 * request_bytes // machine_memory_bytes <= share


def parse_page_size(text: str) -> int | None:
    """Bytes of a huge page size as the kernel's cgroup files name it; None for other texts and 0.

    >>> parse_page_size("2MB")
    2097152
    """
    number, unit = text[:-2], text[-2:].upper()
    if unit not in _PAGE_UNITS or not (number.isascii() and number.isdigit()) or len(number) > 9:
        return None
    return int(number) << _PAGE_UNITS[unit] or None


def _milli_of_shares(shares: int) -> int:
    # shares = max(2, floor(milli * 1024 / 1000)): rounding up again gives exactly that milli, where
    # rounding to the nearest would turn 999m into 998m.
    return 0 if shares <= _SHARES_MIN else -(-shares * 1000 // _SHARES_PER_CPU)


def _milli_of_quota(linux: LinuxResources) -> int | None:
    if linux.cpu_quota <= 0:
        return None
    return -(-linux.cpu_quota * 1000 // (linux.cpu_period or _QUOTA_PERIOD))


def _bytes_of_oom(
    oom_score_adj: int | None, machine_memory_bytes: int | None, *, share_min: int
) -> int:
    if oom_score_adj is None or not machine_memory_bytes:
        return 0
    if not _OOM_BURSTABLE_MIN <= oom_score_adj <= _OOM_BURSTABLE_MAX:
        return 0
    # Newer kubelets take off up to so much, one for each doubling of the request up to a thousandth
    # of the machine's memory (KubeletOOMScoreAdjTieBreak).
    doublings = (machine_memory_bytes // 1000 // _OOM_TIE_BREAK_BYTES).bit_length() - 1
    share = 1000 - oom_score_adj - max(0, doublings)
    # 999 also stands for 1000, that is, for no request at all.
    share = share if oom_score_adj < _OOM_BURSTABLE_MAX else 0
    return -(-max(share_min, share) * machine_memory_bytes // 1000)


def _oom_of_bytes(request_bytes: int, qos: QosClass, machine_memory_bytes: int | None) -> int:
    if qos is QosClass.GUARANTEED:
        return _OOM_GUARANTEED
    if qos is QosClass.BEST_EFFORT:
        return _OOM_BEST_EFFORT
    share = 1000 * request_bytes // machine_memory_bytes if machine_memory_bytes else 0
    return min(max(1000 - share, _OOM_BURSTABLE_MIN), _OOM_BURSTABLE_MAX)
