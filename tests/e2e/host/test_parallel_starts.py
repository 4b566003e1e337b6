"""Pods that start at the same time run where the daemon believes, none on another's cpus."""

import random
from collections.abc import Callable
from typing import Final

import pytest

from tests.e2e.agreement import settled
from tests.e2e.containerd import Containerd
from tests.e2e.daemon import Daemon
from tests.e2e.host.lengths import Lengths
from tests.e2e.host.parallel import drawn_pods, failures, starters
from tests.e2e.node import Node

pytestmark = pytest.mark.e2e

SEED: Final = 1


def test_best_effort_pods_beside_a_guaranteed_one_leave_its_cpu_in_every_round(
    containerd: Containerd,
    node: Node,
    daemon: Daemon,
    cgroup_root: str,
    say: Callable[[str], None],
    lengths: Lengths,
) -> None:
    draw = random.Random(SEED)
    wrong: dict[int, list[str]] = {}
    with starters(containerd.kubelet_socket, cgroup_root) as together:
        for number in range(lengths.rounds):
            started = together.start(draw, drawn_pods(draw, number))
            assert not failures(started)
            found = settled(node.direct, daemon)
            if found:
                wrong[number] = found
            together.end_all()
    say(f"parallel starts: {len(wrong)} of {lengths.rounds} rounds ended wrong")
    assert not wrong, f"{len(wrong)} of {lengths.rounds} rounds: {wrong}"
