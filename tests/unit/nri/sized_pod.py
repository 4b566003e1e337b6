"""A pod with resources of its own, as tests of its resizes have it before every front."""

from msgspec.structs import replace

from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.model.container import QosClass, Resources

GIB = 1 << 30


def size(cpus: int) -> Resources:
    return Resources(
        cpu_request_milli=1000 * cpus,
        cpu_limit_milli=1000 * cpus,
        memory_request_bytes=2 * GIB,
        memory_limit_bytes=2 * GIB,
    )


def sized_pod(cpus: int) -> PodSpec:
    """Two containers that show what the pod has, and one with a cpu of its own."""
    own = replace(size(1), memory_request_bytes=GIB, memory_limit_bytes=GIB)
    return PodSpec(
        name="web",
        qos=QosClass.GUARANTEED,
        resources=size(cpus),
        containers=(
            ContainerSpec(name="a", resources=size(cpus)),
            ContainerSpec(name="b", resources=size(cpus)),
            ContainerSpec(name="own", resources=own),
        ),
    )
