"""How long the plugin takes to answer its runtime, counted at the runtime's end of the socket."""

import gc
import time
from functools import partial

from pinfold.cmd.daemon.garbage_collection import GarbageCollector
from pinfold.nri.api import nri_pb2
from pinfold.nri.dispatch.report import Tally
from pinfold.nri.embedded.kubelet import container_message, sandbox_message
from pinfold.nri.embedded.runtime_dialects import split_synchronize
from pinfold.policy.annotations import annotations, preferences
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.manifests.pod_spec import PodSpec
from pinfold.policy.model.container import ContainerId
from pinfold.policy.rules import affinity
from pinfold.policy.text.text_cache import TextCache
from tests.bench.peer import Peer
from tests.bench.population import pods
from tests.bench.sizes import Size
from tests.bench.timings import Timings

_WARM_UP = 100


def time_round_trips(size: Size, samples: int) -> Timings:
    """The time of a call that has nothing to do with the policy: wire, parsing, threads."""
    pod = next(pods(size))
    message = nri_pb2.StartContainerRequest(
        pod=sandbox_message(pod),
        container=container_message(pod.containers[0], pod, size.memory_bytes),
    ).SerializeToString()
    timings = Timings(time.process_time_ns)
    garbage = GarbageCollector()
    peer = Peer(Engine(size.machine, Config()), size.memory_bytes, garbage)
    garbage.start()
    try:
        peer.synchronize([nri_pb2.SynchronizeRequest().SerializeToString()])
        for _ in range(min(_WARM_UP, samples)):
            peer.call("PostCreateContainer", message)
        for _ in range(samples):
            timings.time(lambda: peer.call("PostCreateContainer", message))
    finally:
        peer.close()
        garbage.stop()
    return timings


def time_synchronize(size: Size, samples: int) -> Timings:
    """The time from the first byte of Synchronize to its answer, after a restart of the daemon.

    Every container runs where the policy once put it, so that all are adopted and none is told
    anything. Each time the policy is a new one that knows nobody and has read no annotations.
    """
    pieces = _running(size)
    timings = Timings(time.process_time_ns)
    for _ in range(samples):
        forget_annotations()
        gc.collect()
        garbage = GarbageCollector()
        peer = Peer(Engine(size.machine, Config()), size.memory_bytes, garbage)
        garbage.start()
        try:
            answer = timings.time(partial(peer.synchronize, pieces))
        finally:
            peer.close()
            garbage.stop()
        if answer.update:
            raise RuntimeError(f"{len(answer.update)} adopted containers were told something")
    return timings


def _running(size: Size) -> list[bytes]:
    """The messages that list as many running containers as the size says."""
    engine = Engine(size.machine, Config())
    peer = Peer(engine, size.memory_bytes, Tally())
    sandboxes: list[nri_pb2.PodSandbox] = []
    containers: list[nri_pb2.Container] = []
    try:
        peer.synchronize([nri_pb2.SynchronizeRequest().SerializeToString()])
        for pod in pods(size):
            sandboxes.append(sandbox_message(pod))
            containers += _created(peer, pod, sandboxes[-1], size.memory_bytes)
            if len(containers) >= size.containers:
                break
    finally:
        peer.close()
    del containers[size.containers :]
    for order, message in enumerate(containers, start=1):
        told = engine.pinning(ContainerId(message.id))
        assert told is not None, message.id
        cpu = message.linux.resources.cpu
        cpu.cpus, cpu.mems = str(told.cpus or ""), str(told.mems or "")
        message.state = nri_pb2.CONTAINER_RUNNING
        message.created_at = order
    return [one.SerializeToString() for one in split_synchronize(sandboxes, containers)]


def forget_annotations() -> None:
    """Empty the caches of a process that has just started."""
    for module in (affinity, annotations, preferences):
        for value in vars(module).values():
            if isinstance(value, TextCache):
                value.cache_clear()


def _created(
    peer: Peer, pod: PodSpec, sandbox: nri_pb2.PodSandbox, memory_bytes: int
) -> list[nri_pb2.Container]:
    created = [container_message(one, pod, memory_bytes) for one in pod.containers]
    for message in created:
        request = nri_pb2.CreateContainerRequest(pod=sandbox, container=message)
        peer.call("CreateContainer", request.SerializeToString())
    return created
