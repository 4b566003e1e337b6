"""A node on paper behind the CRI proxy: the embedded runtime's server, the proxy, a kubelet."""

import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pinfold.nri.cri.cri_link import CriLink, ListenPlace
from pinfold.nri.cri.cri_proxy import CriProxy
from pinfold.nri.dispatch.report import Crashed, Happening
from pinfold.nri.embedded.cri_server import EmbeddedCriServer
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime
from pinfold.nri.embedded.embedded_updates import kernel_reader
from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.snapshot import Snapshot
from pinfold.policy.model.container import ContainerState
from pinfold.topology.made.spec import machine_from_spec
from tests.e2e.api import cri_pb2 as api
from tests.e2e.cri import Cri

MACHINE = machine_from_spec("socket:1 numa:1 core:8 thread:1 mem:8G")
CONFIG = Config(reserved_resources=Amounts(cpu="cpuset:0"))
SECONDS = 10.0


class ProxiedNode:
    """A runtime on paper at one socket and a proxy at another."""

    def __init__(self, folder: Path) -> None:
        self.runtime = EmbeddedRuntime()
        self.server = EmbeddedCriServer(self.runtime)
        self.happenings: list[Happening] = []
        self.runtime_socket = folder / "runtime.sock"
        self.socket = folder / "proxy/cri.sock"
        self.server.start(str(self.runtime_socket))
        self.kubelet = Cri(self.socket, SECONDS)
        self.direct = Cri(self.runtime_socket, SECONDS)
        self.start_proxy()

    def start_proxy(self) -> None:
        place = ListenPlace(str(self.socket), str(self.runtime_socket))
        link = CriLink(
            place=place, socket=str(self.runtime_socket), read_back=kernel_reader(self.runtime)
        )
        self.proxy = CriProxy(
            Engine(MACHINE, CONFIG), link, self.happenings.append, look_seconds=0.5
        )
        self._thread = threading.Thread(target=self.proxy.run)
        self._thread.start()

    def end_proxy(self) -> None:
        self.proxy.stop()
        self._thread.join()

    def close(self) -> None:
        self.kubelet.close()
        self.direct.close()
        self.end_proxy()
        self.server.stop()
        assert not self.faults()

    def faults(self) -> list[Crashed]:
        """What was reported as a fault of ours so far."""
        return [one for one in self.happenings if isinstance(one, Crashed)]

    @property
    def engine(self) -> Engine:
        return self.proxy.events.policy

    def run_pod(self, name: str, qos: str = "", cri: Cri | None = None) -> str:
        return (cri or self.kubelet).run_pod(pod_config(name, qos))

    def create(
        self, pod: str, name: str, milli: int = 0, *, attempt: int = 0, cri: Cri | None = None
    ) -> str:
        """A container of a pod that `run_pod` returned; Guaranteed where it asks for cpus."""
        pod_name = self.runtime.pods[pod].name
        config = container_config(name, milli, attempt)
        return (cri or self.kubelet).create_container(pod, config, pod_config(pod_name, ""))

    def run(self, name: str, milli: int = 0, cri: Cri | None = None) -> str:
        """A pod with one running container."""
        qos = "" if milli else "besteffort/"
        config = pod_config(name, qos)
        client = cri or self.kubelet
        pod = client.run_pod(config)
        created = client.create_container(pod, container_config(name, milli), config)
        client.start_container(created)
        return created

    def cpus(self, container_id: str) -> str:
        """The cpus the kernel has for a running container."""
        return self.runtime.kernel[container_id].cpus

    def states(self) -> Sequence[ContainerState]:
        """The states of all containers that the policy knows."""
        return [one.state for one in self.snapshot().containers.values()]

    def snapshot(self) -> Snapshot:
        """The policy between two turns: within one it has said half of it."""
        return self.proxy.owner.ask("look", lambda: self.engine.snapshot(), SECONDS)

    def settled(self) -> None:
        assert self.proxy.settle(SECONDS)


def pod_config(name: str, qos: str) -> api.PodSandboxConfig:
    return api.PodSandboxConfig(
        metadata=api.PodSandboxMetadata(name=name, namespace="default", uid=f"uid-{name}"),
        linux=api.LinuxPodSandboxConfig(cgroup_parent=f"/kubepods/{qos}poduid-{name}"),
    )


def container_config(name: str, milli: int, attempt: int = 0) -> api.ContainerConfig:
    return api.ContainerConfig(
        metadata=api.ContainerMetadata(name=name, attempt=attempt),
        linux=api.LinuxContainerConfig(
            resources=api.LinuxContainerResources(
                cpu_shares=max(2, milli * 1024 // 1000),
                cpu_quota=100 * milli,
                cpu_period=100_000,
                oom_score_adj=-997 if milli else 1000,
            )
        ),
    )


@contextmanager
def proxied_node(folder: Path) -> Generator[ProxiedNode]:
    """A node on paper whose proxy knows what runs."""
    node = ProxiedNode(folder)
    try:
        assert node.proxy.wait_until_ready(SECONDS)
        yield node
    finally:
        node.close()


def eventually(holds: Callable[[], bool], seconds: float = SECONDS) -> bool:
    """Whether this holds at some moment within this time."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True
