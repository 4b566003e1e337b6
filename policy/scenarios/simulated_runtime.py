"""A container runtime as scenarios need it: what runs, and what the kernel was told of each."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from ...topology.model.machine import Machine
from ...topology.sets.cpuset import CpuSet, NodeSet
from ..engine.decision import Decision
from ..engine.engine import Engine
from ..model.container import Container, ContainerId, ContainerState, GivenAnnotation, Pod
from ..model.grant import Grant
from ..model.pinning import Change, Pinning
from .device_stock import DeviceStock


@dataclass(slots=True)
class Running:
    """A container that was created, its cpuset and memory set (None: never restricted)."""

    container: Container
    cpus: CpuSet | None = None
    mems: NodeSet | None = None
    decision: Decision | None = None
    grant: Grant | None = None
    scheduling: Mapping[str, str | int] = field(default_factory=dict[str, str | int])
    """What its processes were created with."""
    given: tuple[GivenAnnotation, ...] = ()
    """Annotations that it has by central rule."""
    cold_until_ns: int | None = None
    """When its cold start ends; None where it has none any more."""

    @property
    def state(self) -> ContainerState:
        """The state that the runtime lists; whoever is there was started."""
        has_exited = self.container.state is ContainerState.EXITED
        return ContainerState.EXITED if has_exited else ContainerState.RUNNING

    def tell(self, pinning: Pinning) -> None:
        """Restrict it; what the pinning leaves alone stays as it is."""
        if pinning.cpus is not None:
            self.cpus = pinning.cpus
        if pinning.mems is not None:
            self.mems = pinning.mems


class Runtime:
    """Running containers, by id in the order of creation."""

    def __init__(
        self, machine: Machine, devices: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        """`machine`: whose cpus and memory unrestricted containers may use; see `DeviceStock`."""
        self.machine = machine
        self.stock = DeviceStock(machine.devices, devices)
        self.pods: dict[tuple[str, str], Pod] = {}
        self.running: dict[ContainerId, Running] = {}
        self.paths: dict[ContainerId, str] = {}
        """Of all that ever ran."""
        self.updates = 0
        self._now_ns = 0
        self.numa_nodes = NodeSet.collect(node.id for node in machine.numa_nodes)
        self._all_memory = NodeSet.collect(
            node.id for node in machine.numa_nodes if node.memory_bytes != 0
        )

    def run(self, one: Running) -> None:
        """A container runs from now on."""
        self.running[one.container.id] = one
        self.paths[one.container.id] = one.container.path
        if one.decision is not None and one.decision.cold_start_ns:
            one.cold_until_ns = self._now_ns + one.decision.cold_start_ns

    def wait(self, nanoseconds: int) -> list[ContainerId]:
        """Let time pass; returns whose cold start ended meanwhile, in the order of their ends."""
        self._now_ns += nanoseconds
        over: list[tuple[int, ContainerId]] = []
        for container_id, one in self.running.items():
            if one.cold_until_ns is not None and one.cold_until_ns <= self._now_ns:
                over.append((one.cold_until_ns, container_id))
                one.cold_until_ns = None
        return [container_id for _, container_id in sorted(over, key=lambda each: each[0])]

    def effective_cpus(self, one: Running) -> CpuSet:
        """The cpus a container may use."""
        return self.machine.online if one.cpus is None else one.cpus

    def effective_mems(self, one: Running) -> NodeSet:
        """The memory nodes a container may use."""
        return self._all_memory if one.mems is None else one.mems

    def find(self, name: str) -> Running | None:
        """The container of a name or of a `namespace/pod/container`; the newest of several."""
        for one in reversed(self.running.values()):
            if name in (one.container.name, one.container.path):
                return one
        return None

    def missing(self, name: str) -> str:
        """The note about a name that no container has that runs, with the one that was meant."""
        paths = sorted({one.container.path for one in self.running.values()})
        meant = next((one for one in paths if one.endswith(f"/{name}")), None)
        hint = "" if meant is None else f" — write {meant!r}"
        return f"no container {name!r} runs{hint}"

    def by_key(self) -> Mapping[str, Running]:
        """The running containers under the names that tell them apart; the newest of one path."""
        newest = {one.container.path: one for one in self.running.values()}
        keys = keys_of(one.container for one in newest.values())
        return {keys[path]: one for path, one in newest.items()}

    def of_pod(self, pod: Pod) -> list[ContainerId]:
        """The containers of a pod in the order of creation."""
        return [key for key, one in self.running.items() if one.container.pod.id == pod.id]

    def listing(self) -> list[Container]:
        """The containers as the runtime lists them for a policy that starts."""
        return [
            replace(one.container, state=one.state, cpus=one.cpus, mems=one.mems)
            for one in self.running.values()
        ]

    def apply(self, changes: Sequence[Change]) -> None:
        """Tell running containers something else."""
        for change in changes:
            one = self.running.get(change.container_id)
            if one is not None:
                one.tell(change.after)
                self.updates += 1

    def refresh(self, engine: Engine) -> None:
        """Note what each container holds at present."""
        grants, decisions, known = engine.grants, engine.decisions, engine.containers
        for container_id, one in self.running.items():
            one.grant = grants.get(container_id)
            one.decision = decisions.get(container_id, one.decision)
            if (container := known.get(container_id)) is not None:
                one.given = container.given


def keys_of(containers: Iterable[Container]) -> Mapping[str, str]:
    """The key of each container by path: its name, or the path where the name is not unique."""
    paths = {one.path: one.name for one in containers}
    counts = Counter(paths.values())
    return {path: name if counts[name] == 1 else path for path, name in paths.items()}
