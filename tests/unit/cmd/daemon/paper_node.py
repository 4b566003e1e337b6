"""A whole node on paper: a daemon, the runtime it serves over the wire, and the kernel's files."""

import logging
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pinfold.cmd.daemon.daemon import Daemon, memory_bytes
from pinfold.cmd.report.decision_log import DecisionLog
from pinfold.cmd.state.state_file import read_state
from pinfold.cmd.state.state_keeper import StateKeeper
from pinfold.nri.dispatch.report import Report
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime
from pinfold.nri.embedded.embedded_updates import embedded_link
from pinfold.nri.embedded.kubelet import resources_message, start_pods
from pinfold.nri.plugin.plugin import Timing
from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.model.container import ContainerId, QosClass, Resources
from pinfold.policy.model.grant import Grant
from pinfold.policy.model.kubelet_resources import linux_resources
from pinfold.topology.model.machine import Machine

T = TypeVar("T")

GIB = 2**30
MIB = 2**20
DOMAIN = "resource-policy.nri.io"
LOG = logging.getLogger("papernode")

# Two processors shared by everybody: an answer may take longer here than a runtime likes.
PATIENT = Timing(deadline_seconds=7.0)


def config(**fields: object) -> Config:
    """A configuration as in a file; cpu 0 is reserved unless `fields` say otherwise."""
    return config_from_values({"reservedResources": {"cpu": "cpuset:0"}, **fields})


def guaranteed(
    name: str,
    milli: int = 1000,
    memory: int = GIB,
    pages: Mapping[int, int] | None = None,
    **annotations: str,
) -> PodSpec:
    """A Guaranteed pod of one container; `cold_start="…"` is the annotation `cold-start`."""
    resources = Resources(
        cpu_request_milli=milli,
        cpu_limit_milli=milli,
        memory_request_bytes=memory,
        memory_limit_bytes=memory,
        hugepage_bytes=pages or {},
    )
    return _pod(name, QosClass.GUARANTEED, resources, annotations)


def burstable(name: str, milli: int = 500, memory: int = 0, **annotations: str) -> PodSpec:
    """A Burstable pod of one container without limits."""
    resources = Resources(cpu_request_milli=milli, memory_request_bytes=memory)
    return _pod(name, QosClass.BURSTABLE, resources, annotations)


def fan(name: str, of: str) -> PodSpec:
    """A pod that wishes to be near another one, which knows of no wish."""
    rule = (
        f"{name}: [{{scope: {{key: name, operator: Exists}},"
        f" match: {{key: name, operator: In, values: [{of}]}}, weight: 5}}]"
    )
    pod = burstable(name, 2000)
    keys = {**pod.annotations, "resource-policy.nri.io/affinity": rule}
    return replace(pod, annotations=keys)


def _pod(name: str, qos: QosClass, resources: Resources, said: Mapping[str, str]) -> PodSpec:
    keys = {f"{key.replace('_', '-')}.{DOMAIN}/pod": value for key, value in said.items()}
    containers = (ContainerSpec(name=name, resources=resources),)
    return PodSpec(name=name, annotations=keys, qos=qos, containers=containers)


class PaperNode:
    """A daemon and its runtime, which lives longer than the daemon: `restart` begins another one.

    `folder`: where the daemon keeps its state, if it does.
    """

    def __init__(
        self,
        machine: Machine,
        settings: Config | None = None,
        *,
        folder: Path | None = None,
        reports: Iterable[Report] = (),
    ) -> None:
        self.machine = machine
        self.settings = settings or config()
        self.folder = folder
        self.reports = tuple(reports)
        self.runtime = EmbeddedRuntime(request_timeout_seconds=10.0)
        self.is_down = False
        """Whether the runtime takes no connection."""
        self.keeper: StateKeeper | None = None
        self.daemon = self._daemon()

    def start(self) -> None:
        """Run the daemon until it knows all that the runtime has."""
        self.daemon.start()
        assert self.runtime.wait_until_synchronized(5)
        # Only from here on updates are sent that nobody asked for.
        assert self.daemon.front.wait_until_ready(5)
        self.settle()

    def restart(self) -> None:
        """Another process, as far as anything can be remembered."""
        self.stop()
        self.daemon = self._daemon()
        self.start()

    def stop(self) -> None:
        """End the daemon. Containers keep what they have."""
        if self.keeper is not None:
            self.keeper.stop()
            self.keeper = None
        self.daemon.stop()

    def lose_runtime(self) -> None:
        """Have the runtime end, with all its containers running on."""
        self.is_down = True
        self.runtime.drop()
        deadline = time.monotonic() + 5
        while self.daemon.front.wait_until_ready(0):
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def find_runtime(self) -> None:
        """Have the runtime come back, and wait until the daemon knows all that it has."""
        self.is_down = False
        assert self.runtime.wait_until_synchronized(20)
        assert self.daemon.front.wait_until_ready(20)
        self.settle()

    def settle(self) -> None:
        """Wait until every event was thought through and every update sent."""
        assert self.daemon.front.settle()

    def run(self, *pods: PodSpec) -> None:
        """Run pods, of which no container is refused."""
        for pod in pods:
            assert not start_pods(self.runtime, [pod], memory_bytes(self.machine))
            self.settle()

    def refusal(self, pod: PodSpec) -> str:
        """Why the one container of a pod is refused."""
        (refused,) = start_pods(self.runtime, [pod], memory_bytes(self.machine))
        return refused.reason

    def resize(self, name: str, milli: int, memory: int) -> None:
        """Ask for other amounts for a Guaranteed container, as the kubelet does in place."""
        wanted = Resources(
            cpu_request_milli=milli,
            cpu_limit_milli=milli,
            memory_request_bytes=memory,
            memory_limit_bytes=memory,
        )
        linux = linux_resources(wanted, QosClass.GUARANTEED, memory_bytes(self.machine))
        self.runtime.update(self.id_of(name), resources_message(linux))
        self.settle()

    def remove(self, name: str) -> None:
        """Remove a container's whole pod."""
        self.runtime.remove_pod(self.runtime.containers[self.id_of(name)].pod_sandbox_id)
        self.settle()

    def id_of(self, name: str) -> ContainerId:
        """The id of the one container of this name."""
        (one,) = (known.id for known in self.runtime.containers.values() if known.name == name)
        return ContainerId(one)

    def cpus(self, name: str) -> str:
        """The cpus a container runs on, as the kernel would show them."""
        return self.runtime.kernel[self.id_of(name)].cpus

    def mems(self, name: str) -> str:
        """The memory nodes a container may use, as the kernel would show them."""
        return self.runtime.kernel[self.id_of(name)].mems

    def grant(self, name: str) -> Grant:
        """What the policy thinks a container has."""
        return self.look(lambda: self.daemon.engine.grants[self.id_of(name)])

    def look(self, take: Callable[[], T]) -> T:
        """What the policy says between two turns: within one it has said half of it."""
        return self.daemon.front.owner.ask("look", take)

    def _connect(self) -> socket.socket:
        if self.is_down:
            raise ConnectionRefusedError
        return self.runtime.connect()

    def _daemon(self) -> Daemon:
        reports: list[Report] = [DecisionLog(LOG, "here"), *self.reports]
        if self.folder is not None:
            self.keeper = StateKeeper(self.folder, LOG, pause_seconds=0)
            reports.append(self.keeper)
        daemon = Daemon(
            self.machine,
            self.settings,
            replace(embedded_link(self.runtime), connect=self._connect),
            reports=reports,
            timing=PATIENT,
        )
        if self.folder is not None and self.keeper is not None:
            daemon.front.events.advice = read_state(self.folder, LOG).advice()
            self.keeper.start(daemon.front)
        return daemon
