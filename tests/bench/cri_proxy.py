"""What the CRI proxy costs, beside a proxy without a policy: `python -m tests.bench.cri_proxy`.

A runtime on paper, which answers at once, so that the proxies' own part shows; both run as
processes of their own, and take turns. Printed, never asserted.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import click
import psutil

from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.model.container import QosClass, Resources
from tests.bench.timings import percentile_ms
from tests.unit.nri.cri.driven_kubelet import DrivenKubelet

SPEC: Final = "socket:2 numa:4 core:16 thread:2 mem:32G"
WITHIN_SECONDS: Final = 60
_SMALL: Final = Resources(cpu_request_milli=50, memory_request_bytes=16 << 20)


@contextmanager
def process(*arguments: str, socket: Path) -> Generator[psutil.Process]:
    """A process of ours, once its socket is there."""
    with subprocess.Popen([sys.executable, "-m", *arguments]) as started:
        until = time.monotonic() + WITHIN_SECONDS
        while not socket.exists() and time.monotonic() < until:
            time.sleep(0.05)
        try:
            yield psutil.Process(started.pid)
        finally:
            started.terminate()


class Caller:
    """A kubelet at one socket, and the times of its calls."""

    def __init__(self, name: str, socket: Path) -> None:
        self.name = name
        self.kubelet = DrivenKubelet(str(socket), None)
        self.times: dict[str, list[int]] = {}

    def time(self, what: str, call: Callable[[], object]) -> None:
        """One call, and how long it took."""
        begun = time.perf_counter_ns()
        call()
        self.times.setdefault(what, []).append(time.perf_counter_ns() - begun)


def pod(name: str) -> PodSpec:
    """A pod of one small container."""
    container = ContainerSpec(name="one", resources=_SMALL)
    return PodSpec(name=name, qos=QosClass.BURSTABLE, containers=(container,))


def turn(caller: Caller, number: int) -> None:
    """One container comes and goes, and somebody asks for the version."""
    kubelet, spec = caller.kubelet, pod(f"{caller.name}-{number}")
    pod_id = kubelet.run_pod(spec)
    created: list[str] = []
    caller.time("create", lambda: created.append(kubelet.create(pod_id, spec, spec.containers[0])))
    caller.time("version", kubelet.version)
    caller.time("list", kubelet.containers)
    kubelet.remove_pod(pod_id)


def row(what: str, callers: tuple[Caller, ...]) -> str:
    """A line of the table: half and 99 of 100, and the multiple of the floor."""
    floor = percentile_ms(callers[0].times[what], 50)
    cells = [
        f"{one.name} {percentile_ms(one.times[what], 50):7.2f} /"
        f" {percentile_ms(one.times[what], 99):7.2f} ms"
        f" ({percentile_ms(one.times[what], 50) / floor:.2f})"
        for one in callers
    ]
    return f"{what:8} " + "   ".join(cells)


@click.command()
@click.option("--rounds", default=400, show_default=True)
@click.option("--residents", default=1000, show_default=True)
@click.option("--together", default=50, show_default=True)
def main(rounds: int, residents: int, together: int) -> None:
    """Measure CreateContainer and calls that nobody looks at, through both proxies."""
    with tempfile.TemporaryDirectory(prefix="pinfold-bench-") as name:
        folder = Path(name)
        sockets = {one: folder / f"{one}.sock" for one in ("runtime", "floor", "pinfold")}
        floor = ("tests.bench.cri_floor", "proxy", str(sockets["runtime"]), str(sockets["floor"]))
        daemon = (
            *("pinfold.cmd.pinfoldd", "--runtime", "cri", "--machine", SPEC),
            *("--cri-socket", str(sockets["runtime"]), "--cri-listen", str(sockets["pinfold"])),
            *("--control", "off", "--log-level", "error"),
        )
        with (
            process(
                "tests.bench.cri_floor",
                "runtime",
                str(sockets["runtime"]),
                socket=sockets["runtime"],
            ),
            process(*floor, socket=sockets["floor"]),
            process(*daemon, socket=sockets["pinfold"]) as proxy,
        ):
            callers = (Caller("floor", sockets["floor"]), Caller("pinfold", sockets["pinfold"]))
            measure(callers, proxy, rounds, residents, together)


def measure(
    callers: tuple[Caller, ...], proxy: psutil.Process, rounds: int, residents: int, together: int
) -> None:
    """All figures, printed."""
    kubelet = callers[-1].kubelet
    begun = time.monotonic()
    with ThreadPoolExecutor(together) as pool:
        list(pool.map(kubelet.start_pods, ([pod(f"resident-{one}")] for one in range(residents))))
    took = time.monotonic() - begun
    click.echo(f"{residents} pods, {together} at once: {took:.1f} s, {rss(proxy)} MiB")
    for number in range(20):
        for one in callers:
            turn(one, number)
    for one in callers:
        one.times.clear()
    for number in range(rounds):
        for one in callers if number % 2 else callers[::-1]:
            turn(one, number)
    for what in ("create", "version", "list"):
        click.echo(row(what, callers))
    sizes = [rss(proxy)]
    for _ in range(4):
        with ThreadPoolExecutor(together) as pool:
            list(pool.map(partial(turn, callers[-1]), range(rounds)))
        sizes.append(rss(proxy))
    click.echo(f"memory after {rounds} containers each, {together} at once: {sizes} MiB")


def rss(proxy: psutil.Process) -> int:
    """Resident memory in MiB."""
    return int(proxy.memory_info().rss) >> 20


if __name__ == "__main__":
    main()
