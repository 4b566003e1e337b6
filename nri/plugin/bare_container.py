"""Containers that cannot be read: what is believed of them all the same."""

from ...policy.model.container import Container, ContainerId, Pod, PodId
from ...policy.model.kubelet_resources import LinuxResources, estimate, qos_of_cgroup
from ...topology.sets.cpuset import CpuSet, NodeSet
from ..api import nri_pb2
from .messages import ids_value, state_value


def bare_linux_value(message: nri_pb2.Container) -> LinuxResources:
    """The cpus a container asks for, and nothing else."""
    cpu = message.linux.resources.cpu
    return LinuxResources(
        cpu_shares=cpu.shares.value, cpu_quota=cpu.quota.value, cpu_period=cpu.period.value
    )


def bare_container_value(message: nri_pb2.Container, pod: nri_pb2.PodSandbox) -> Container:
    """A container by its ids and names alone, with its cpusets and its cpu and memory values.

    Whatever made reading the rest of it fail, such as its annotations, is not looked at.
    """
    qos = qos_of_cgroup(pod.linux.cgroup_parent or message.linux.cgroups_path)
    cpu = message.linux.resources.cpu
    return Container(
        id=ContainerId(message.id),
        name=message.name,
        pod=Pod(
            id=PodId(message.pod_sandbox_id),
            name=pod.name,
            namespace=pod.namespace or "default",
            uid=pod.uid,
            qos=qos,
        ),
        resources=estimate(bare_linux_value(message), qos, None),
        state=state_value(message),
        created_at=message.created_at,
        cpus=ids_value(CpuSet, cpu.cpus),
        mems=ids_value(NodeSet, cpu.mems),
    )
