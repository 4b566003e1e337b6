"""Pods that start and end at the same moment, each through a connection of its own."""

import random
import time
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from tests.e2e.cri import HANGS_AFTER_SECONDS, Cri
from tests.e2e.node import Node
from tests.e2e.pods import PodSpec, best_effort, guaranteed

FEWEST_PODS: Final = 6
MOST_PODS: Final = 8

_SPREAD_SECONDS: Final = 0.2


def drawn_pods(draw: random.Random, round_number: int) -> tuple[PodSpec, ...]:
    """A guaranteed pod with one exclusive cpu among best-effort ones, in any order."""
    count = draw.randint(FEWEST_PODS, MOST_PODS)
    owner = PodSpec(name=f"exclusive-{round_number}", containers=(guaranteed("owner", 1),))
    others = [
        PodSpec(name=f"shared-{round_number}-{number}", containers=(best_effort("guest"),))
        for number in range(count - 1)
    ]
    pods = [owner, *others]
    draw.shuffle(pods)
    return tuple(pods)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starters:
    """A pool of callers of one runtime."""

    pool: ThreadPoolExecutor
    nodes: Sequence[Node]

    def start(self, draw: random.Random, pods: Sequence[PodSpec]) -> list[Future[None]]:
        """Begins to start these pods, spread over a fraction of a second."""
        return [
            self.pool.submit(_start, node, pod, draw.uniform(0, _SPREAD_SECONDS))
            for node, pod in zip(self.nodes, pods, strict=False)
        ]

    def end_all(self) -> None:
        """Ends every pod of the runtime."""
        pods = self.nodes[0].cri.pods()
        ended = [
            self.pool.submit(_end, self.nodes[number % len(self.nodes)].cri, pod)
            for number, pod in enumerate(pods)
        ]
        # All have had their answers before any of them is told of.
        wait(ended)
        for one in ended:
            one.result()


@contextmanager
def starters(socket: Path, cgroup_root: str) -> Generator[Starters]:
    """Callers enough for the most pods."""
    channels = [Cri(socket, HANGS_AFTER_SECONDS) for _ in range(MOST_PODS)]
    try:
        with ThreadPoolExecutor(MOST_PODS) as pool:
            yield Starters(pool=pool, nodes=[Node(one, cgroup_root) for one in channels])
    finally:
        for one in channels:
            one.close()


def failures(started: Sequence[Future[None]]) -> list[str]:
    """What the runtime said to those that could not be started."""
    found: list[str] = []
    for one in started:
        try:
            one.result()
        except grpc.RpcError as error:
            found.append(str(error))
    return found


def _start(node: Node, pod: PodSpec, after_seconds: float) -> None:
    time.sleep(after_seconds)
    node.start_pod(pod)


def _end(cri: Cri, pod: str) -> None:
    cri.stop_pod(pod)
    cri.remove_pod(pod)
