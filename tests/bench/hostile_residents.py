"""`python -m tests.bench.hostile_residents [GLOB..]`: pods of one bad shape among their like.

Each shape fills a machine of 256 cpus; then one more pod of it comes again and again, as if its
annotations had never been read, and after each a pod without any. What counts is all the plugin's
threads do for an event, what follows the answer as well; the runtime's end is another thread.

Beside it stands another plugin, with as many residents that ask for the same and are not bad: what
a pod without any costs there is what it should cost.

The same events cost the same again, so what an event cost more in one run than in another is the
machine's: where one took long, the whole shape comes again, and the least of each event counts.
"""

import argparse
import gc
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Final

from pinfold.cmd.daemon.garbage_collection import GarbageCollector
from pinfold.nri.api import nri_pb2
from pinfold.nri.embedded.kubelet import container_message, sandbox_message
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.model.container import QosClass, Resources
from tests.bench.hostile_shapes import CONTAINER, Shape, shapes
from tests.bench.peer import Peer
from tests.bench.session import forget_annotations
from tests.bench.sizes import MEDIUM, Size
from tests.bench.timings import Timings, percentile_ms

_REST_SECONDS: Final = 0.2
_IDLE_NS: Final = 1_000_000
"""Threads that wait use less in that time."""
_ROW: Final = "{:<52}{:>8}{:>8}{:>10}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}"
_RESOURCES: Final = {
    QosClass.BEST_EFFORT: Resources(),
    QosClass.BURSTABLE: Resources(cpu_request_milli=10),
    QosClass.GUARANTEED: Resources(
        cpu_request_milli=1000,
        cpu_limit_milli=1000,
        memory_request_bytes=1 << 20,
        memory_limit_bytes=1 << 20,
    ),
}
"""A little, or a cpu of its own."""


def _others_ns() -> int:
    """The cpu time of all threads but this one, the runtime's."""
    return time.process_time_ns() - time.thread_time_ns()


@dataclass(slots=True)
class ShapeTimings:
    """What the events of a shape's pods cost."""

    arrivals: Timings = field(default_factory=lambda: Timings(_others_ns))
    events: Timings = field(default_factory=lambda: Timings(_others_ns))
    updates: Timings = field(default_factory=lambda: Timings(_others_ns))
    departures: Timings = field(default_factory=lambda: Timings(_others_ns))
    next_pods: Timings = field(default_factory=lambda: Timings(_others_ns))
    plain_pods: Timings = field(default_factory=lambda: Timings(_others_ns))
    """The same pods as the next ones, where nobody is bad."""

    @property
    def _all(self) -> tuple[Timings, ...]:
        events = self.arrivals, self.events, self.updates, self.departures, self.next_pods
        return (*events, self.plain_pods)

    @property
    def slowdown(self) -> float:
        """How many times as much the next pod costs as it should."""
        return percentile_ms(self.next_pods.cpu, 50) / percentile_ms(self.plain_pods.cpu, 50)

    @property
    def highest_ms(self) -> float:
        """The cpu time of the dearest event."""
        return max(percentile_ms(timings.cpu, 100) for timings in self._all)

    def keep_least(self, again: "ShapeTimings") -> None:
        """Of each event, what it cost the cheaper of two times."""
        for timings, others in zip(self._all, again._all, strict=True):
            timings.cpu = [*map(min, timings.cpu, others.cpu)]

    def row(self, name: str) -> str:
        """A line of the table: cpu times in ms."""
        cells = [
            percentile_ms(timings.cpu, percent)
            for timings, percent in (
                (self.events, 50),
                (self.events, 100),
                (self.arrivals, 100),
                (self.updates, 100),
                (self.departures, 100),
                (self.next_pods, 50),
                (self.next_pods, 100),
                (self.plain_pods, 50),
            )
        ]
        texts = [f"{cell:.1f}" for cell in cells[:-3]] + [f"{cell:.2f}" for cell in cells[-3:]]
        return _ROW.format(name, *texts, f"{self.slowdown:.1f}x")


def time_shape(size: Size, shape: Shape, residents: int, samples: int) -> ShapeTimings:
    """The cost of a shape's pods while they arrive, of one more, and of a plain one after it."""
    timings = ShapeTimings()
    with _peer(size) as peer, _peer(size) as beside:
        here = [
            _create(peer, size, _pod(shape, number), timings.arrivals)
            for number in range(residents)
        ]
        nobody = Shape(namespace=shape.namespace, qos=shape.qos)
        for number in range(residents + 1):
            _create(beside, size, _pod(nobody, number), Timings())
        _rest()
        for number in range(residents, residents + samples):
            hostile = _create(peer, size, _pod(shape, number), timings.events)
            _leave(peer, _create(peer, size, _plain(number), timings.next_pods), Timings())
            _leave(beside, _create(beside, size, _plain(number), timings.plain_pods), Timings())
            _update(peer, hostile, timings.updates)
            _leave(peer, hostile, timings.departures)
        # Those that are left leave, too: each makes room for the others.
        for request in here:
            _leave(peer, request, timings.departures)
    return timings


def _rest() -> None:
    """Wait until the plugins have done what they put off while one pod came after the other."""
    is_over = False
    while not is_over:
        before = _others_ns()
        time.sleep(_REST_SECONDS)
        is_over = _others_ns() - before < _IDLE_NS


@contextmanager
def _peer(size: Size) -> Generator[Peer]:
    """A plugin on a machine where nothing runs yet."""
    garbage = GarbageCollector()
    peer = Peer(Engine(size.machine, Config()), size.memory_bytes, garbage)
    gc.collect()
    garbage.start()
    try:
        peer.synchronize([nri_pb2.SynchronizeRequest().SerializeToString()])
        yield peer
    finally:
        peer.close()
        garbage.stop()


def _pod(shape: Shape, number: int) -> PodSpec:
    return PodSpec(
        name=shape.name(number),
        namespace=shape.namespace,
        annotations=shape.annotations(number),
        labels=shape.labels(number),
        qos=shape.qos,
        containers=(ContainerSpec(name=CONTAINER, resources=_RESOURCES[shape.qos]),),
    )


def _plain(number: int) -> PodSpec:
    """A pod that wants nothing in particular, with the labels that most have."""
    labels = {"app": "shop", "tier": "web", "pod-template-hash": "5d8f"}
    container = ContainerSpec(name="main", resources=Resources(cpu_request_milli=100))
    return PodSpec(
        name=f"plain-{number}", labels=labels, qos=QosClass.BURSTABLE, containers=(container,)
    )


def _create(
    peer: Peer, size: Size, pod: PodSpec, timings: Timings
) -> nri_pb2.CreateContainerRequest:
    sandbox = sandbox_message(pod)
    container = container_message(pod.containers[0], pod, size.memory_bytes)
    request = nri_pb2.CreateContainerRequest(pod=sandbox, container=container)
    message = request.SerializeToString()
    forget_annotations()
    timings.time(partial(_call_out, peer, "CreateContainer", message))
    return request


def _call_out(peer: Peer, method: str, message: bytes) -> None:
    with suppress(RuntimeError):
        # A refusal is an answer.
        peer.call(method, message)
    # What was put off until after the answer is done with this one at the latest, or the next one.
    peer.call("PostCreateContainer", b"")


def _update(peer: Peer, created: nri_pb2.CreateContainerRequest, timings: Timings) -> None:
    request = nri_pb2.UpdateContainerRequest(pod=created.pod, container=created.container)
    request.linux_resources.cpu.shares.value = (
        2 * created.container.linux.resources.cpu.shares.value
    )
    timings.time(partial(_call_out, peer, "UpdateContainer", request.SerializeToString()))


def _leave(peer: Peer, created: nri_pb2.CreateContainerRequest, timings: Timings) -> None:
    """A container ends, and is removed."""
    container = nri_pb2.Container()
    container.CopyFrom(created.container)
    container.state = nri_pb2.CONTAINER_STOPPED
    stop = nri_pb2.StopContainerRequest(pod=created.pod, container=container)
    removal = nri_pb2.StateChangeEvent(
        event=nri_pb2.REMOVE_CONTAINER, pod=created.pod, container=container
    )
    timings.time(partial(_call_out, peer, "StopContainer", stop.SerializeToString()))
    timings.time(partial(_call_out, peer, "StateChange", removal.SerializeToString()))


def main(arguments: Iterable[str] | None = None) -> None:
    """Print a row for each shape."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("globs", nargs="*", default=["*"], metavar="GLOB")
    parser.add_argument("--residents", type=int, default=150)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3, help="times at most")
    parser.add_argument("--long", type=float, default=14, help="ms of an event that is repeated")
    parser.add_argument("--slow", type=float, default=1.5, help="ratio that is repeated")
    chosen = parser.parse_args(arguments if arguments is None else list(arguments))
    heads = "p50", "max", "arriving", "update", "leave", "next", "max", "plain", "ratio"
    print(_ROW.format("cpu ms of the event", *heads))
    for name, shape in shapes().items():
        if any(fnmatchcase(name, glob) for glob in chosen.globs):
            found = time_shape(MEDIUM, shape, chosen.residents, chosen.samples)
            for _ in range(chosen.repeats - 1):
                if found.highest_ms > chosen.long or found.slowdown > chosen.slow:
                    again = time_shape(MEDIUM, shape, chosen.residents, chosen.samples)
                    found.keep_least(again)
            print(found.row(name), flush=True)


if __name__ == "__main__":
    main()
