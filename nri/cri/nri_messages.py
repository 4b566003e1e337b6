"""Messages of CRI as those of NRI that a runtime makes of them, which the policy's side reads.

So both fronts read containers with the same code. Source: containerd, `internal/cri/nri` and
`pkg/cri/server/container_create_linux.go`.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ...policy.annotations.cpu_claims import CLAIM_PREFIX
from ...policy.model.container import QosClass
from ...policy.model.kubelet_resources import pod_cgroup
from ..api import cri_proxy_pb2 as cri
from ..api import nri_pb2
from ..plugin.messages import PLACES_MAX
from ..plugin.string_entries import read_entries
from .cdi_specs import FOLDERS, DeviceNode, cdi_edits

_READ_ONLY: Final = "ro"
_OOM_GUARANTEED: Final = -997
_OOM_BEST_EFFORT: Final = 1000

_STATES: Final = {
    cri.CONTAINER_CREATED: nri_pb2.CONTAINER_CREATED,
    cri.CONTAINER_RUNNING: nri_pb2.CONTAINER_RUNNING,
    cri.CONTAINER_EXITED: nri_pb2.CONTAINER_STOPPED,
}


def sandbox_of_config(sandbox_id: str, config: cri.SandboxConfig) -> nri_pb2.PodSandbox:
    """The sandbox of a configuration."""
    metadata = config.metadata
    return nri_pb2.PodSandbox(
        id=sandbox_id,
        name=metadata.name,
        uid=metadata.uid,
        namespace=metadata.namespace,
        labels=config.labels,
        annotations=config.annotations,
        linux=linux_sandbox_message(config.linux),
    )


def sandbox_of_list(sandbox: cri.Sandbox, linux: cri.LinuxSandbox) -> nri_pb2.PodSandbox:
    """A sandbox of a list, which tells neither its cgroup nor its resources."""
    metadata = sandbox.metadata
    return nri_pb2.PodSandbox(
        id=sandbox.id,
        name=metadata.name,
        uid=metadata.uid,
        namespace=metadata.namespace,
        labels=sandbox.labels,
        annotations=sandbox.annotations,
        linux=linux_sandbox_message(linux),
    )


def linux_sandbox_message(linux: cri.LinuxSandbox) -> nri_pb2.LinuxPodSandbox:
    """The cgroup of a sandbox, and the resources of the whole pod if it has some of its own."""
    message = nri_pb2.LinuxPodSandbox(cgroup_parent=linux.cgroup_parent)
    if linux.HasField("resources"):
        message.pod_resources.CopyFrom(nri_resources(linux.resources))
    return message


def container_of_config(
    container_id: str, sandbox_id: str, config: cri.Config, folders: Sequence[Path] = FOLDERS
) -> nri_pb2.Container:
    """A container that is to be created; its devices are looked up, which may take a moment.

    `folders`: where those of other kinds than files are.
    """
    linux = linux_message(config.linux.resources)
    for device in config.devices[:PLACES_MAX]:
        add_device(linux, device)
    edits = cdi_edits((one.name for one in config.CDI_devices[:PLACES_MAX]), folders)
    for path in edits.paths:
        add_device(linux, cri.Device(host_path=path))
    for node in edits.nodes:
        add_node(linux, node)
    return nri_pb2.Container(
        id=container_id,
        pod_sandbox_id=sandbox_id,
        name=config.metadata.name,
        state=nri_pb2.CONTAINER_UNKNOWN,
        labels=read_entries(config.labels),
        # The claims of cpus alone: a driver of devices writes them, and no pod's author.
        env=[one for one in edits.environment if one.startswith(CLAIM_PREFIX)],
        mounts=[mount_message(one) for one in config.mounts],
        linux=linux,
    )


def container_of_status(
    container_id: str, sandbox_id: str, status: cri.Status, pid: int, claims: Sequence[str] = ()
) -> nri_pb2.Container:
    """A container that is there, as its status tells; `claims`: of cpus, in its environment."""
    return nri_pb2.Container(
        id=container_id,
        pod_sandbox_id=sandbox_id,
        name=status.metadata.name,
        state=_STATES.get(status.state, nri_pb2.CONTAINER_UNKNOWN),
        labels=read_entries(status.labels),
        env=claims,
        mounts=[mount_message(one) for one in status.mounts],
        linux=linux_message(status.resources.linux),
        pid=pid,
        created_at=status.created_at,
    )


def cgroup_parent_by_score(oom_score_adj: int, uid: str) -> str:
    """A cgroup of the QoS class that a container's OOM score adjustment tells.

    For runtimes whose statuses tell no cgroup. Source: kubelet, `pkg/kubelet/qos/policy.go`.
    """
    if oom_score_adj == _OOM_GUARANTEED:
        return pod_cgroup(QosClass.GUARANTEED, uid)
    is_best_effort = oom_score_adj == _OOM_BEST_EFFORT
    return pod_cgroup(QosClass.BEST_EFFORT if is_best_effort else QosClass.BURSTABLE, uid)


def nri_resources(resources: cri.Resources) -> nri_pb2.LinuxResources:
    """Cgroup values; what is 0 or empty stays unset."""
    message = nri_pb2.LinuxResources(unified=read_entries(resources.unified))
    if resources.cpu_shares > 0:
        message.cpu.shares.value = resources.cpu_shares
    if resources.cpu_quota:
        message.cpu.quota.value = resources.cpu_quota
    if resources.cpu_period > 0:
        message.cpu.period.value = resources.cpu_period
    if resources.memory_limit_in_bytes:
        message.memory.limit.value = resources.memory_limit_in_bytes
    message.cpu.cpus = resources.cpuset_cpus
    message.cpu.mems = resources.cpuset_mems
    for one in resources.hugepage_limits:
        message.hugepage_limits.add(page_size=one.page_size, limit=one.limit)
    return message


def linux_message(resources: cri.Resources) -> nri_pb2.LinuxContainer:
    """The Linux part of a container with these cgroup values."""
    linux = nri_pb2.LinuxContainer(resources=nri_resources(resources))
    if resources.oom_score_adj:
        linux.oom_score_adj.value = resources.oom_score_adj
    return linux


def mount_message(mount: cri.Mount) -> nri_pb2.Mount:
    """One mount."""
    options = [_READ_ONLY] if mount.readonly else []
    return nri_pb2.Mount(
        destination=mount.container_path, source=mount.host_path, type="bind", options=options
    )


def add_device(linux: nri_pb2.LinuxContainer, device: cri.Device) -> None:
    """Add a device of the host with the rule for it; a path that is no device adds nothing."""
    try:
        found = os.stat(device.host_path)
    except (OSError, ValueError):
        return
    if stat.S_ISCHR(found.st_mode):
        kind = "c"
    elif stat.S_ISBLK(found.st_mode):
        kind = "b"
    else:
        return
    major, minor = os.major(found.st_rdev), os.minor(found.st_rdev)
    path = device.container_path or device.host_path
    add_node(linux, DeviceNode(path, kind, major, minor), device.permissions)


def add_node(linux: nri_pb2.LinuxContainer, node: DeviceNode, permissions: str = "") -> None:
    """Add a device by its number, with the rule for it."""
    linux.devices.add(path=node.path, type=node.type, major=node.major, minor=node.minor)
    access = permissions or "rwm"
    rule = linux.resources.devices.add(allow=True, type=node.type, access=access)
    rule.major.value, rule.minor.value = node.major, node.minor
