"""One plugin with a runtime and containers that come and go, driven from the runtime's end."""

import random
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from pinfold.nri.api import nri_pb2
from pinfold.nri.embedded.embedded_runtime import RequestError
from pinfold.nri.embedded.kubelet import container_message, sandbox_message
from tests.bench.plugins.paper_kernel import PaperKernel
from tests.bench.plugins.plugin_command import Place, PluginCommand
from tests.bench.plugins.plugin_process import PluginEndedError, PluginProcess, Scraper, free_port
from tests.bench.plugins.timed_runtime import TimedRuntime
from tests.bench.population import pods
from tests.bench.sizes import Size

_REFUSALS_IN_A_ROW_MAX: Final = 50
_SHARES_MIN: Final = 2
_LOOK_SECONDS: Final = 0.5
_PIDS: Final = 10_000_000
"""Of one node; no real process has such a number. Source: proc(5), pid_max."""
_QUIET_SECONDS: Final = 0.03
_QUIET_NS: Final = 500_000
_SETTLE_SECONDS: Final = 1.0


class DrivenNode:
    """A node on paper that is as full as its size says, and stays so.

    The pods, their order and who leaves are the same for every plugin, as long as none is refused.
    """

    def __init__(
        self, plugin: PluginCommand, size: Size, root: Path, scratch: Path, number: int
    ) -> None:
        """`number` tells the nodes on one machine apart."""
        self.name = plugin.name
        files = PaperKernel(root, f"node{number}")
        self.runtime = TimedRuntime(files, _PIDS * (number + 1))
        self.refusals = 0
        """Creations and updates that the plugin refused since `begin`."""
        self.unpinned = 0
        """Creations since then that were answered without cpus, as where a deadline was missed."""
        place = Place(
            socket=scratch / "nri.sock", root=root, scratch=scratch / "own", port=free_port()
        )
        scratch.mkdir(parents=True)
        self.process = PluginProcess(plugin, place)
        self.scraper = Scraper(place.port)
        self._size = size
        self._chance = random.Random(2)
        self._residents: list[str] = []
        self._pods: Counter[str] = Counter()
        self._resized: set[str] = set()
        self._beginning = ""
        self._refusals_in_a_row = 0
        self._arrivals = self._arrive()
        self._parts = ExitStack()

    def __enter__(self) -> "DrivenNode":
        self._parts.callback(self.stop)
        self._parts.enter_context(self.scraper)
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    def start(self) -> int:
        """Run the plugin; nanoseconds until it has answered Synchronize of all that runs.

        Raises `PluginEndedError`.
        """
        start = time.perf_counter_ns()
        sock = self.process.start()
        with self._told_why():
            self.runtime.serve(sock)
        return time.perf_counter_ns() - start

    def stop(self) -> None:
        """End the plugin; its containers run on."""
        self.process.stop()
        self.runtime.drop()

    def fill(self) -> None:
        """Let containers begin until there are as many as the size says."""
        with self._told_why():
            while len(self._residents) < self._size.containers:
                self._welcome()
                self.runtime.settle(0)

    def begin(self) -> None:
        """Forget what was measured and counted so far."""
        self.runtime.pace.times.clear()
        self.runtime.unsolicited = 0
        self.refusals = self.unpinned = 0

    def turn(self) -> None:
        """Let one container stop, and the next ones begin until one of them may."""
        with self._told_why():
            index = self._chance.randrange(len(self._residents) - 1)
            leaving = self._residents[index]
            self._residents[index] = self._residents[-1]
            self._residents.pop()
            pod_id = self.runtime.containers[leaving].pod_sandbox_id
            self.runtime.remove(leaving)
            self._resized.discard(leaving)
            self._pods[pod_id] -= 1
            self._leave_if_empty(pod_id)
            self._welcome()
            self.runtime.settle(0)

    def resize(self) -> None:
        """Let the kubelet update one container: in turn a tenth more cpu shares, and as before.

        Guaranteed and best-effort containers are told what they have, as by a kubelet that is sure.
        """
        container = self.runtime.containers[self._chance.choice(self._residents)]
        resources = nri_pb2.LinuxResources()
        resources.CopyFrom(container.linux.resources)
        resources.cpu.ClearField("cpus")
        resources.cpu.ClearField("mems")
        shares = resources.cpu.shares.value
        if shares > _SHARES_MIN and not resources.cpu.quota.value:
            more, less = (10, 11) if container.id in self._resized else (11, 10)
            self._resized ^= {container.id}
            resources.cpu.shares.value = max(_SHARES_MIN, shares * more // less)
        with self._told_why():
            try:
                self.runtime.update(container.id, resources)
            except RequestError:
                self.refusals += 1
            self.runtime.settle(0)

    def settle(self, seconds: float = 0.0) -> None:
        """Wait at least so long, and until the plugin has done what it put off."""
        start = time.monotonic()
        is_busy = True
        with self._told_why():
            while is_busy and time.monotonic() < start + _SETTLE_SECONDS:
                before = self.process.cpu_ns()
                self.runtime.settle(_QUIET_SECONDS)
                is_busy = self.process.cpu_ns() - before > _QUIET_NS
                is_busy |= time.monotonic() < start + seconds

    def pinnings(self) -> dict[str, str]:
        """The cpus that each container runs on, by id."""
        return {one: self.runtime.kernel[one].cpus for one in self._residents}

    def updates(self) -> int:
        """How many updates of containers the plugin has asked for, with its answers or without."""
        return self.runtime.update_counts.total()

    @contextmanager
    def _told_why(self) -> Generator[None]:
        """Where the connection breaks, the reason is in the plugin's log."""
        try:
            yield
        except OSError as error:
            time.sleep(_LOOK_SECONDS)  # until it has ended, if it is about to
            self.process.check()
            raise PluginEndedError(f"{self.name}: {error}") from error

    def _welcome(self) -> None:
        for message in self._arrivals:
            try:
                created = self.runtime.create(message)
            except RequestError:
                self.refusals += 1
                self._refusals_in_a_row += 1
                if self._refusals_in_a_row > _REFUSALS_IN_A_ROW_MAX:
                    raise PluginEndedError(f"{self.name} refuses all containers") from None
                continue
            self._refusals_in_a_row = 0
            self.unpinned += not created.linux.resources.cpu.cpus
            self.runtime.start(created.id)
            self._residents.append(created.id)
            self._pods[created.pod_sandbox_id] += 1
            return

    def _arrive(self) -> Iterator[nri_pb2.Container]:
        """The containers to be created, one after the other; their pods run before them."""
        memory_bytes = self._size.memory_bytes
        for pod in pods(self._size):
            sandbox = sandbox_message(pod)
            self._beginning = sandbox.id
            self.runtime.run_pod(sandbox)
            for container in pod.containers:
                yield container_message(container, pod, memory_bytes)
            self._beginning = ""
            self._leave_if_empty(sandbox.id)

    def _leave_if_empty(self, pod_id: str) -> None:
        if not self._pods[pod_id] and pod_id != self._beginning:
            del self._pods[pod_id]
            self.runtime.remove_pod(pod_id)
