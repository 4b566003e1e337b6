"""The daemon or the runtime is killed at any moment: afterwards the kernel has what is believed."""

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

import grpc
import pytest

from tests.e2e.agreement import eventually, settled
from tests.e2e.containerd import Containerd
from tests.e2e.cri import is_kept_by_a_task
from tests.e2e.daemon import Daemon
from tests.e2e.host.callers import callers, faults
from tests.e2e.host.churn import start_shared, steps
from tests.e2e.host.lengths import Lengths
from tests.e2e.host.parallel import FEWEST_PODS, Starters, drawn_pods, failures, starters
from tests.e2e.node import Node, RunningPod
from tests.e2e.pods import PodSpec, best_effort, guaranteed

pytestmark = pytest.mark.e2e

CALLERS: Final = 4
CALLERS_SECONDS: Final = 20
STEPS_BETWEEN_KILLS: Final = 5
SEED: Final = 1
COMES_BACK_WITHIN_SECONDS: Final = 15
"""The daemon pauses for some seconds at most before it connects again."""


@pytest.mark.parametrize("victim", ["daemon", "containerd"])
def test_kills_during_parallel_starts(
    containerd: Containerd,
    node: Node,
    daemon: Daemon,
    cgroup_root: str,
    say: Callable[[str], None],
    victim: str,
    lengths: Lengths,
) -> None:
    killed = daemon if victim == "daemon" else containerd
    draw = random.Random(SEED)
    wrong: dict[int, list[str]] = {}
    unstarted = 0
    with starters(containerd.kubelet_socket, cgroup_root) as together:
        for number in range(lengths.kills):
            started = together.start(draw, drawn_pods(draw, number))
            time.sleep(draw.uniform(0, 0.8))
            killed.kill()
            time.sleep(draw.uniform(0, 0.3))
            killed.start()
            unstarted += len(failures(started))
            found = settled(node.direct, daemon, COMES_BACK_WITHIN_SECONDS)
            if found:
                wrong[number] = found
            end_all(together, containerd)
    rounds = f"{len(wrong)} of {lengths.kills} rounds"
    say(f"{victim} killed: {rounds} wrong, {unstarted} pods did not start")
    assert not wrong, f"{rounds}: {wrong}"


def end_all(together: Starters, containerd: Containerd) -> None:
    """Ends every pod, those too whose start was cut off as a proxy was killed."""
    try:
        together.end_all()
    except grpc.RpcError as error:
        if not is_kept_by_a_task(error):
            raise
        containerd.kill()
        containerd.start()
        together.end_all()


@pytest.mark.parametrize("first_back", ["daemon", "containerd"])
@pytest.mark.parametrize("first_killed", ["daemon", "containerd"])
def test_kills_of_both_during_parallel_starts(
    containerd: Containerd,
    node: Node,
    daemon: Daemon,
    cgroup_root: str,
    first_killed: str,
    first_back: str,
) -> None:
    draw = random.Random(SEED)
    both: dict[str, Daemon | Containerd] = {"daemon": daemon, "containerd": containerd}
    owner = started(node, PodSpec(name="exclusive", containers=(guaranteed("owner", 1),)))
    own = node.pins(owner, "owner")
    guests = [
        PodSpec(name=f"shared-{number}", containers=(best_effort("guest"),))
        for number in range(FEWEST_PODS)
    ]
    with (
        ThreadPoolExecutor(1) as starter,
        starters(containerd.kubelet_socket, cgroup_root) as together,
    ):
        together.start(draw, guests)
        time.sleep(draw.uniform(0, 0.3))
        for name in sorted(both, key=first_killed.__ne__):
            both[name].kill()
            time.sleep(draw.uniform(0, 0.3))
        if first_back == "daemon":
            # It is ready once its runtime is there, and ends with the thread that started it.
            returns = starter.submit(daemon.start)
            time.sleep(draw.uniform(0, 2))
            containerd.start()
            returns.result()
        else:
            containerd.start()
            daemon.start()
        assert not settled(node.direct, daemon, COMES_BACK_WITHIN_SECONDS)
        assert node.pins(owner, "owner") == own
        started(node, PodSpec(name="late", containers=(best_effort("newcomer"),)))


def started(node: Node, spec: PodSpec) -> RunningPod:
    """A pod that is tried again, as a kubelet does.

    A containerd that was killed may have left a folder in the way of its next snapshot, which it
    removes as it fails.
    """
    pods: list[RunningPod] = []

    def starts() -> bool:
        with suppress(grpc.RpcError):
            pods.append(node.start_pod(spec))
        return bool(pods)

    assert eventually(starts, COMES_BACK_WITHIN_SECONDS)
    return pods[0]


def test_kills_among_concurrent_callers(
    containerd: Containerd, node: Node, daemon: Daemon, say: Callable[[str], None]
) -> None:
    draw = random.Random(SEED)
    shared = start_shared(node, CALLERS)
    until, kills = time.monotonic() + CALLERS_SECONDS, 0
    with callers(containerd.kubelet_socket, shared, draw, passes_errors=True) as running:
        for _ in steps(node, daemon):
            if faults(running) or time.monotonic() > until:
                break
            if draw.randrange(STEPS_BETWEEN_KILLS) == 0:
                time.sleep(draw.uniform(0, 0.1))
                killed = draw.choice((daemon, containerd))
                killed.kill()
                time.sleep(draw.uniform(0, 0.3))
                killed.start()
                kills += 1
    say(f"{kills} kills among {sum(one.calls for one in running)} calls")
    assert not faults(running)
    assert not settled(node.direct, daemon, COMES_BACK_WITHIN_SECONDS)
