"""Cpu quota and memory policy as messages of NRI."""

from typing import Final

from ...topology.sets.cpuset import NodeSet
from ..api import nri_pb2

_NO_QUOTA: Final = -1


def lift_quota(resources: nri_pb2.LinuxResources) -> None:
    """Let a container use all the time of its cpus; the kernel takes -1 for no quota."""
    resources.cpu.quota.value = _NO_QUOTA


def add_interleaving(linux: nri_pb2.LinuxContainerAdjustment, nodes: NodeSet) -> None:
    """Have the processes of a new container take their pages from memory nodes in turn.

    The kernel keeps the policy within the container's memory nodes when those change, as no flag
    fixes it (set_mempolicy(2)).
    """
    linux.memory_policy.mode = nri_pb2.MPOL_INTERLEAVE
    linux.memory_policy.nodes = str(nodes)
