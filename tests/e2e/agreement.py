"""The law over all these tests: the kernel has what the daemon believes."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import grpc

from pinfold.topology.sets.cpuset import CpuSet
from tests.e2e.cri import Cri
from tests.e2e.daemon import Belief, Daemon
from tests.e2e.pins import cpuset_cgroup, read_pins

HOLDS_WITHIN_SECONDS: Final = 20.0
CONVERGES_WITHIN_SECONDS: Final = 20.0
# The daemon saves what it believes half a second after it changed.
_LASTS_SECONDS: Final = 0.8
_LOOK_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """The cpus the kernel gives a container's process, and those its cgroup was told."""

    name: str
    cpus: CpuSet
    cgroup_cpus: CpuSet
    is_guaranteed: bool


def eventually(holds: Callable[[], bool], within_seconds: float = HOLDS_WITHIN_SECONDS) -> bool:
    """Whether this holds at some moment within this time."""
    until = time.monotonic() + within_seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def disagreements(cri: Cri, daemon: Daemon) -> list[str]:
    """How the running containers are not as they should be, a sentence each.

    Each container runs on the cpus the daemon believes, and nobody runs on a cpu of a guaranteed
    container (they all ask for whole cpus) or on one the daemon believes to be another's alone.
    """
    try:
        kernel = {one.id: _look(cri, one.id, _name(one.labels)) for one in cri.running_containers()}
    except (LookupError, OSError, grpc.RpcError) as error:
        return [f"a container came or went meanwhile, or the runtime did not answer: {error}"]
    return [*_unlike(kernel, daemon.beliefs()), *_overlaps(kernel, daemon.beliefs())]


def settled(
    cri: Cri, daemon: Daemon, within_seconds: float = CONVERGES_WITHIN_SECONDS
) -> list[str]:
    """The disagreements that are left after this time; none once there were none for a while."""
    until = time.monotonic() + within_seconds
    agreed_since: float | None = None
    while True:
        found = disagreements(cri, daemon)
        now = time.monotonic()
        if found:
            agreed_since = None
            if now > until:
                return found
        elif agreed_since is None:
            agreed_since = now
        elif now - agreed_since > _LASTS_SECONDS:
            return []
        time.sleep(_LOOK_SECONDS)


def _look(cri: Cri, container: str, name: str) -> Kernel:
    pid = cri.pid(container)
    pins = read_pins(pid)
    cgroup = str(cpuset_cgroup(pid))
    return Kernel(
        name=name,
        cpus=CpuSet.parse(pins.cpus),
        cgroup_cpus=CpuSet.parse(pins.cgroup_cpus),
        is_guaranteed="besteffort" not in cgroup and "burstable" not in cgroup,
    )


def _name(labels: Mapping[str, str]) -> str:
    return f"{labels['io.kubernetes.pod.name']}/{labels['io.kubernetes.container.name']}"


def _unlike(kernel: Mapping[str, Kernel], beliefs: Mapping[str, Belief]) -> list[str]:
    found: list[str] = []
    for container, has in kernel.items():
        belief = beliefs.get(container)
        if belief is None:
            found.append(f"{has.name} runs on {has.cpus}, the daemon does not know it")
        elif not has.cpus == has.cgroup_cpus == belief.cpus:
            told = f"its cgroup was told {has.cgroup_cpus}, the daemon believes {belief.cpus}"
            found.append(f"{has.name} runs on {has.cpus}, {told}")
    return found


def _overlaps(kernel: Mapping[str, Kernel], beliefs: Mapping[str, Belief]) -> list[str]:
    found: list[str] = []
    for owner, belongs in kernel.items():
        own = belongs.cpus if belongs.is_guaranteed else CpuSet()
        if owner in beliefs:
            own |= beliefs[owner].exclusive
        for container, has in kernel.items():
            if container != owner and not has.cpus.isdisjoint(own):
                found.append(f"{has.name} runs on {has.cpus}, of which {belongs.name} owns {own}")
    return found
