"""Bandwidth of containers: cpu quotas that are lifted, and memory that is interleaved."""

from ....topology.sets.cpuset import NodeSet
from ...model.cpu_preference import QuotaUse
from ...model.grant import Grant
from ...model.pinning import Pinning
from ..classifier import Classified


def lifts_quota(grant: Grant | None, classified: Classified | None) -> bool:
    """Whether a container runs without a cpu quota: its cpus are its own, and it wants that."""
    if grant is None or classified is None:
        return False
    return classified.quota is QuotaUse.LIFT and grant.has_own_cpus_alone


def interleaved(pinning: Pinning | None, classified: Classified | None) -> NodeSet | None:
    """The memory nodes on which a container's pages lie in turn; None: as the kernel likes."""
    if pinning is None or classified is None or not classified.request.interleaves_memory:
        return None
    return pinning.mems
