"""Creations of containers of pods that try to cost as much as they can, timed in the plugin."""

import time
from functools import partial
from itertools import cycle, islice

from pinfold.cmd.daemon.garbage_collection import GarbageCollector
from pinfold.nri.api import nri_pb2
from pinfold.nri.embedded.kubelet import container_message, sandbox_message
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from tests.bench.hostile_pods import hostile_pods
from tests.bench.peer import Peer
from tests.bench.session import forget_annotations
from tests.bench.sizes import Size
from tests.bench.timings import Timings


def time_hostile_pods(size: Size, samples: int) -> Timings:
    """The time of CreateContainer of hostile pods in turn, each as if it were the first."""
    timings = Timings(time.process_time_ns)
    garbage = GarbageCollector()
    peer = Peer(Engine(size.machine, Config()), size.memory_bytes, garbage)
    garbage.start()
    try:
        peer.synchronize([nri_pb2.SynchronizeRequest().SerializeToString()])
        for number, texts in enumerate(islice(cycle(hostile_pods().values()), samples)):
            forget_annotations()
            pod = PodSpec(name=f"hostile-{number}", annotations=texts)
            sandbox = sandbox_message(pod)
            container = container_message(ContainerSpec(name="c"), pod, size.memory_bytes)
            request = nri_pb2.CreateContainerRequest(pod=sandbox, container=container)
            message = request.SerializeToString()
            timings.time(partial(peer.call, "CreateContainer", message))
            removal = nri_pb2.StateChangeEvent(
                event=nri_pb2.REMOVE_CONTAINER, pod=sandbox, container=container
            )
            peer.call("StateChange", removal.SerializeToString())
    finally:
        peer.close()
        garbage.stop()
    return timings
