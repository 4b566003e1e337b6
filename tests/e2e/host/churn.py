"""What makes the daemon update containers: reloads that move all shared ones, pods that come."""

import itertools
import os
import time
from collections.abc import Iterator
from typing import Final

from tests.e2e.daemon import CONFIG, Daemon
from tests.e2e.node import Node
from tests.e2e.pods import PodSpec, best_effort, guaranteed

_RELOADS_BETWEEN_PODS: Final = 8
_PAUSE_SECONDS: Final = 0.1
_EXCLUSIVE: Final = PodSpec(name="exclusive", containers=(guaranteed("owner", 1),))


def start_shared(node: Node, count: int) -> list[str]:
    """Starts so many best-effort pods and returns the ids of their containers."""
    specs = [
        PodSpec(name=f"shared-{one}", containers=(best_effort("guest"),)) for one in range(count)
    ]
    return [node.start_pod(one).containers["guest"] for one in specs]


def _configs() -> Iterator[str]:
    """Either of two cpus is reserved: shared containers are on the others."""
    cpus = sorted(os.sched_getaffinity(0))
    for cpu in itertools.cycle((cpus[-1], cpus[0])):
        yield CONFIG.replace("cpu: 750m", f"cpu: cpuset:{cpu}")


def steps(node: Node, daemon: Daemon) -> Iterator[None]:
    """Step after step without an end: some reloads, then a guaranteed pod comes and goes."""
    configs = _configs()
    while True:
        for _ in range(_RELOADS_BETWEEN_PODS):
            daemon.reload(next(configs))
            time.sleep(_PAUSE_SECONDS)
            yield
        pod = node.start_pod(_EXCLUSIVE)
        yield
        node.end_pod(pod)
        yield
