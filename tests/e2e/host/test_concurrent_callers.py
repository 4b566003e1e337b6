"""Callers of the runtime beside the daemon's own updates: every call is answered."""

import random
import time
from collections.abc import Callable
from typing import Final

import pytest

from tests.e2e.agreement import settled
from tests.e2e.containerd import Containerd
from tests.e2e.daemon import Daemon
from tests.e2e.host.callers import callers, faults
from tests.e2e.host.churn import start_shared, steps
from tests.e2e.host.lengths import Lengths
from tests.e2e.node import Node

pytestmark = pytest.mark.e2e

CALLERS: Final = 4
SEED: Final = 1


def test_the_runtime_answers_four_callers_while_the_daemon_updates_containers(
    containerd: Containerd,
    node: Node,
    daemon: Daemon,
    say: Callable[[str], None],
    lengths: Lengths,
) -> None:
    shared = start_shared(node, CALLERS)
    began, done = time.monotonic(), 0
    with callers(containerd.kubelet_socket, shared, random.Random(SEED)) as running:
        try:
            for _ in steps(node, daemon):
                done += 1
                if faults(running) or time.monotonic() > began + lengths.callers_seconds:
                    break
        finally:
            calls = sum(one.calls for one in running)
            slowest = max(one.slowest_seconds for one in running)
            say(
                f"{time.monotonic() - began:.0f} s: {calls} calls, the slowest {slowest:.1f} s, "
                f"beside {done} reloads and guaranteed pods"
            )
    assert not faults(running)
    assert not settled(node.direct, daemon)
