"""Requests of pens: what the containers of one, or its pod, ask for together."""

from msgspec.structs import replace

from ..model.container import Container, QosClass
from ..model.request import CpuType, Isolation, Request
from ..placing.classifier import Classifier
from ..placing.wishes.own_cpus import without_own_cpus
from .pen_name import PenName


def pen_request(name: PenName, container: Container, classifier: Classifier) -> Request:
    """The request of a pen: what a container asks for that has the resources of the whole pen."""
    # What one container wants for itself is no wish of the pen.
    container = without_own_cpus(container)
    if name.is_group:
        # Half a cpu of a Guaranteed container is a cpu of the group's own.
        size = container.resources
        milli = -(-size.cpu_request_milli // 1000) * 1000
        container = replace(container, resources=replace(size, cpu_request_milli=milli))
        if container.pod.qos is QosClass.BEST_EFFORT and (milli or size.memory_request_bytes):
            # It asks for nothing itself; others in its group do.
            container = replace(container, pod=replace(container.pod, qos=QosClass.BURSTABLE))
    request = classifier.classify(container).request
    if request.exclusive and request.shared_milli:
        request = request.as_shared()
    return replace(
        request.as_warm(),
        container_id=name.id,
        cpu_type=CpuType.NORMAL,
        isolation=Isolation.NO,
        fallback=None,
        # Whose memory is to be left alone is not told any; what the pen has is for all.
        preserve_memory=False,
    )
