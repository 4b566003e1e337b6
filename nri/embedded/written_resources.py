"""Resources of containers on paper, written as a runtime writes them."""

from ..api import nri_pb2


def write_resources(container: nri_pb2.Container, resources: nri_pb2.LinuxResources) -> None:
    """Set what is set; wrappers that hold 0 and empty texts leave things as they are."""
    target, source = container.linux.resources.cpu, resources.cpu
    if source.cpus:
        target.cpus = source.cpus
    if source.mems:
        target.mems = source.mems
    if source.shares.value:
        target.shares.value = source.shares.value
    if source.quota.value:
        target.quota.value = source.quota.value
    if source.period.value:
        target.period.value = source.period.value
    if resources.memory.limit.value:
        container.linux.resources.memory.limit.value = resources.memory.limit.value
