"""Requests and limits that a webhook wrote on a pod: finer than cgroup values, never above them.

Anybody who may create a pod may write the annotation. So each number counts only where the kubelet
would have written the cgroup values that are there for it: all the annotation makes up for is the
kubelet's rounding, and memory requests, which cgroups may not carry at all.
"""

import json
from collections.abc import Mapping
from typing import Final, cast

from msgspec import Struct
from msgspec.structs import replace

from ...topology.sets.base_errors import quoted
from ..model.container import Pod, QosClass, Resources
from ..model.kubelet_resources import (
    SHARES_MAX,
    LinuxResources,
    may_request_memory,
    quota_of_milli,
    shares_of_milli,
)
from ..text.errors import ConfigError, Problem
from ..text.quantity import parse_bytes, parse_milli, parse_page_bytes
from .annotation_keys import RESOURCES_KEY

_ALIKE: Final = "write what the pod's containers ask for, or leave it out"
_FORM: Final = 'write {"containers": {"NAME": {"requests": {"cpu": "1"}}}}'
_AMOUNTS: Final = "write it as in '750m' or '1Gi'"


class ClaimError(ConfigError):
    """An annotation of resources is not what the kubelet was asked for."""


class ResourceClaim(Struct, frozen=True, kw_only=True):
    """Requests and limits of one container in the annotation; None where it says nothing.

    The limits of huge pages are left out: those of the cgroup are exact.
    """

    cpu_request_milli: int | None = None
    cpu_limit_milli: int | None = None
    memory_request_bytes: int | None = None
    memory_limit_bytes: int | None = None


def refined_resources(
    known: Resources,
    linux: LinuxResources,
    pod: Pod,
    container: str,
    machine_memory_bytes: int | None,
    *,
    is_running: bool = False,
) -> tuple[Resources, tuple[Problem, ...]]:
    """Resources as exact as the pod's annotation has them, and the problem if it is not heeded.

    `known` is what is made of the cgroup values `linux`. The annotation says what the pod was
    created with: where it is not what a running container has, that one was resized, and nothing is
    wrong.
    """
    text = pod.annotations.get(RESOURCES_KEY)
    if text is None:
        return known, ()
    where = f"{RESOURCES_KEY} of {pod.namespace}/{pod.name}/{container}"
    try:
        claim = parse_claim(text, container)
        if claim is not None:
            return refine(claim, known, linux, pod.qos, machine_memory_bytes), ()
    except ConfigError as error:
        if not (is_running and isinstance(error, ClaimError)):
            what, _, fix = str(error).partition(" — ")
            return known, (Problem(where=where, what=what, fix=fix),)
    return known, ()


def parse_claim(text: str, container: str) -> ResourceClaim | None:
    """The claim for a container in the text of `RESOURCES_KEY`; None where there is none.

    Raises `ConfigError`.
    """
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"not JSON: {error} — {_FORM}") from error
    pod = _mapping(document, "the text")
    for group in ("containers", "initContainers"):
        containers = _mapping(pod.get(group), group)
        if container in containers:
            return _claim(_mapping(containers[container], "an entry"))
    return None


def refine(
    claim: ResourceClaim,
    known: Resources,
    linux: LinuxResources,
    qos: QosClass,
    machine_memory_bytes: int | None,
) -> Resources:
    """Resources of a container with these cgroup values, as exact as its annotation has them.

    Raises `ClaimError` where the kubelet would have written other values.
    """
    if qos is QosClass.BEST_EFFORT:
        if claim.cpu_request_milli or claim.memory_request_bytes:
            raise ClaimError(f"requests of a BestEffort pod, which has none — {_ALIKE}")
        return known
    milli, cpu_limit = _cpu(claim, known, linux, qos)
    return replace(
        known,
        cpu_request_milli=milli,
        cpu_limit_milli=cpu_limit,
        memory_request_bytes=_memory_request(claim, known, linux, qos, machine_memory_bytes),
        may_request_memory=known.may_request_memory and claim.memory_request_bytes is None,
    )


def _cpu(
    claim: ResourceClaim, known: Resources, linux: LinuxResources, qos: QosClass
) -> tuple[int, int | None]:
    limit = claim.cpu_limit_milli or known.cpu_limit_milli
    is_limited = linux.cpu_quota > 0
    if is_limited and limit and quota_of_milli(limit, linux.cpu_period) != linux.cpu_quota:
        raise _other("cpu limit", f"{limit}m", f"{known.cpu_limit_milli}m")
    milli = claim.cpu_request_milli
    if milli is None:
        return known.cpu_request_milli, known.cpu_limit_milli
    shares = shares_of_milli(milli)
    if shares != max(linux.cpu_shares, shares_of_milli(0)):
        raise _other("cpu request", f"{milli}m", f"{known.cpu_request_milli}m")
    if shares == SHARES_MAX and not (is_limited and limit and milli <= limit):
        # All requests of 256 cpus and more look alike: then only a limit tells what is too much.
        milli = known.cpu_request_milli
    return milli, (milli or limit) if qos is QosClass.GUARANTEED else limit


def _memory_request(
    claim: ResourceClaim,
    known: Resources,
    linux: LinuxResources,
    qos: QosClass,
    machine_memory_bytes: int | None,
) -> int:
    limit = known.memory_limit_bytes or 0
    if claim.memory_limit_bytes is not None and claim.memory_limit_bytes != limit:
        raise _other("memory limit", str(claim.memory_limit_bytes), str(limit))
    asked = claim.memory_request_bytes
    if asked is None:
        return known.memory_request_bytes
    if qos is QosClass.GUARANTEED:
        is_possible = asked == limit
    else:
        is_possible = may_request_memory(asked, linux, machine_memory_bytes)
    if not is_possible:
        raise _other("memory request", str(asked), f"about {known.memory_request_bytes}")
    return asked


def _other(what: str, claimed: str, known: str) -> ClaimError:
    return ClaimError(f"a {what} of {claimed}, and the kubelet was asked for {known} — {_ALIKE}")


def _claim(entry: Mapping[str, object]) -> ResourceClaim:
    requests, limits = (_mapping(entry.get(key), key) for key in ("requests", "limits"))
    for key in limits:
        if key.startswith("hugepages-"):
            _check_page_size(key)
            _amount(limits, key)
    cpu_limit, memory_limit = _amount(limits, "cpu"), _amount(limits, "memory")
    cpu_request, memory_request = _amount(requests, "cpu"), _amount(requests, "memory")
    # Kubernetes' defaulting: a request left out is the limit.
    return ResourceClaim(
        cpu_request_milli=cpu_limit if cpu_request is None else cpu_request,
        cpu_limit_milli=cpu_limit,
        memory_request_bytes=memory_limit if memory_request is None else memory_request,
        memory_limit_bytes=memory_limit,
    )


def _check_page_size(key: str) -> None:
    try:
        parse_page_bytes(key.removeprefix("hugepages-"))
    except ConfigError as error:
        raise ConfigError(f"{quoted(key)}: {error}") from error


def _amount(amounts: Mapping[str, object], key: str) -> int | None:
    if key not in amounts:
        return None
    value = amounts[key]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ConfigError(f"{quoted(key)}: {quoted(str(value))} is not an amount — {_AMOUNTS}")
    try:
        return (parse_milli if key == "cpu" else parse_bytes)(str(value))
    except ConfigError as error:
        raise ConfigError(f"{quoted(key)}: {error}") from error


def _mapping(value: object, what: str) -> Mapping[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{what}: {quoted(str(value))} is not a JSON object — {_FORM}")
    return cast("Mapping[str, object]", value)
