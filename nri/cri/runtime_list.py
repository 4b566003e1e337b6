"""Lists of a runtime's sandboxes and containers, and the statuses of containers not known yet."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import grpc.aio

from ...policy.annotations.cpu_claims import CLAIM_PREFIX
from ..api import cri_proxy_pb2 as cri
from ..api import nri_pb2
from .known_containers import InstanceKey
from .nri_messages import cgroup_parent_by_score, container_of_status, sandbox_of_list
from .upstream import Upstream

_SECONDS: Final = 10.0
_TOGETHER_MAX: Final = 32
"""Statuses asked for at once."""
_POD_RESOURCES: Final = ("cpu_shares", "cpu_quota", "cpu_period", "memory_limit_in_bytes")
_INFO_MAX: Final = 4 << 20
"""Characters of a status that are read as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeList:
    """Sandboxes and containers as a runtime listed them at one time, by id."""

    sandboxes: Mapping[str, cri.Sandbox]
    containers: Mapping[str, cri.ListedContainer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """Containers with their pods, as the policy's side reads them."""

    pods: tuple[nri_pb2.PodSandbox, ...]
    containers: tuple[nri_pb2.Container, ...]


async def read_list(upstream: Upstream) -> RuntimeList:
    """All sandboxes and containers of a runtime. Raises `AioRpcError`."""
    # Sandboxes after containers: so none lacks the sandbox it is in.
    containers = await upstream.ask("ListContainers", cri.Empty(), cri.ContainerList, _SECONDS)
    sandboxes = await upstream.ask("ListPodSandbox", cri.Empty(), cri.SandboxList, _SECONDS)
    return RuntimeList(
        sandboxes={one.id: one for one in sandboxes.items},
        containers={one.id: one for one in containers.containers},
    )


def key_of(container: cri.ListedContainer) -> InstanceKey:
    """The names of a listed container."""
    metadata = container.metadata
    return InstanceKey(container.pod_sandbox_id, metadata.name, metadata.attempt)


async def describe(
    upstream: Upstream,
    listed: RuntimeList,
    containers: Iterable[cri.ListedContainer],
    policy_id: Callable[[str], str],
) -> Described:
    """Containers of a list with all that their statuses tell; without those gone meanwhile.

    Raises `AioRpcError` where the runtime does not answer.
    """
    turns = asyncio.Semaphore(_TOGETHER_MAX)
    chosen = list(containers)

    async def ask(name: str, one_id: str, kind: type[Any]) -> Any:
        async with turns:
            try:
                request = cri.StatusRequest(id=one_id, verbose=True)
                return await upstream.ask(name, request, kind, _SECONDS)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.UNAVAILABLE:
                    raise
                return None

    statuses = await asyncio.gather(
        *(ask("ContainerStatus", one.id, cri.StatusResponse) for one in chosen)
    )
    sandbox_ids = dict.fromkeys(one.pod_sandbox_id for one in chosen)
    infos = await asyncio.gather(
        *(ask("PodSandboxStatus", one, cri.SandboxStatusResponse) for one in sandbox_ids)
    )
    linux = {
        one: linux_sandbox_of(info.info) if info is not None else cri.LinuxSandbox()
        for one, info in zip(sandbox_ids, infos, strict=True)
    }
    found: list[nri_pb2.Container] = []
    for one, answer in zip(chosen, statuses, strict=True):
        if answer is None:
            continue
        status = cast("cri.StatusResponse", answer).status
        message = container_of_status(
            *(policy_id(one.id), one.pod_sandbox_id, status),
            *(pid_of(answer.info), claims_of(answer.info)),
        )
        found.append(message)
        if not linux[one.pod_sandbox_id].cgroup_parent:
            score = status.resources.linux.oom_score_adj
            sandbox = listed.sandboxes.get(one.pod_sandbox_id)
            uid = "" if sandbox is None else sandbox.metadata.uid
            linux[one.pod_sandbox_id].cgroup_parent = cgroup_parent_by_score(score, uid)
    pods = [
        sandbox_of_list(listed.sandboxes[one], linux[one])
        for one in sandbox_ids
        if one in listed.sandboxes
    ]
    return Described(pods=tuple(pods), containers=tuple(found))


async def read_pid(upstream: Upstream, runtime_id: str) -> int:
    """The process of a container; 0 where the runtime does not tell. Raises `AioRpcError`."""
    request = cri.StatusRequest(id=runtime_id, verbose=True)
    answer = await upstream.ask("ContainerStatus", request, cri.StatusResponse, _SECONDS)
    return pid_of(answer.info)


def pid_of(info: Mapping[str, str]) -> int:
    """The process id in the information of a verbose status; 0 where there is none.

    Source: containerd, `pkg/cri/server/container_status.go`; CRI-O has it alike.
    """
    found = _info(info).get("pid")
    return found if isinstance(found, int) and 0 < found < 1 << 31 else 0


def claims_of(info: Mapping[str, str]) -> list[str]:
    """The claims of cpus in a container's environment, from a verbose status; no other variable.

    Source: containerd, `pkg/cri/server/container_status.go`.
    """
    found: Any = _info(info)
    for key in ("runtimeSpec", "process", "env"):
        found = cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
    texts = cast("list[object]", found) if isinstance(found, list) else []
    return [one for one in texts if isinstance(one, str) and one.startswith(CLAIM_PREFIX)]


def linux_sandbox_of(info: Mapping[str, str]) -> cri.LinuxSandbox:
    """The cgroup and the resources of a sandbox, from a verbose status; empty where it has none.

    Source: containerd, `pkg/cri/server/podsandbox/sandbox_status.go`.
    """
    linux = _mapping(_mapping(_info(info), "config"), "linux")
    parent, resources = linux.get("cgroup_parent"), _mapping(linux, "resources")
    found = cri.LinuxSandbox(cgroup_parent=parent if isinstance(parent, str) else "")
    for name in _POD_RESOURCES:
        value = resources.get(name)
        if isinstance(value, int) and abs(value) < 1 << 63:
            setattr(found.resources, name, value)
    return found


def _mapping(parent: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = parent.get(key)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _info(info: Mapping[str, str]) -> dict[str, Any]:
    text = info.get("info", "")
    if len(text) > _INFO_MAX:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
