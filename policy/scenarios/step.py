"""The steps of scenarios as values, one type for each thing that happens on a node."""

from collections.abc import Mapping

from msgspec import Struct

from ...topology.sets.cpuset import CpuSet
from ..manifests.pod_spec import ContainerSpec, PodSpec
from ..model.container import ContainerState, Resources
from ..model.cpuset_conflicts import NO_MANAGERS, KubeletManagers


class Start(Struct, frozen=True, kw_only=True):
    """The policy starts; running containers are adopted. No `config`: the one at hand."""

    config: Mapping[str, object] | None
    environment: Mapping[str, str]
    managers: KubeletManagers = NO_MANAGERS
    expected_error: str = ""


class Stop(Struct, frozen=True):
    """The policy ends; containers run on as they are."""


class Reconfigure(Struct, frozen=True, kw_only=True):
    """A new configuration for the running policy."""

    config: Mapping[str, object]
    expected_error: str = ""


class CreatePod(Struct, frozen=True, kw_only=True):
    """A pod and its containers start, init containers one after the other before the rest."""

    pod: PodSpec
    expected_error: str = ""


class AddContainer(Struct, frozen=True, kw_only=True):
    """A container starts in a pod that runs, as an ephemeral one does."""

    namespace: str
    pod: str
    container: ContainerSpec
    expected_error: str = ""


class DeletePods(Struct, frozen=True, kw_only=True):
    """Pods of a namespace end; `names` is None for all of them."""

    namespace: str
    names: tuple[str, ...] | None


class EndContainer(Struct, frozen=True, kw_only=True):
    """A container ends, and comes back as a new instance if `restarts`."""

    container: str
    restarts: bool


class UpdateContainer(Struct, frozen=True, kw_only=True):
    """A container's requests and limits change."""

    container: str
    resources: Resources
    expected_error: str = ""


class UpdatePod(Struct, frozen=True, kw_only=True):
    """A pod with resources of its own gets another size."""

    namespace: str
    pod: str
    resources: Resources
    expected_error: str = ""


class Remember(Struct, frozen=True, kw_only=True):
    """A value is kept under a name for later expectations."""

    name: str
    value: str


class Expect(Struct, frozen=True):
    """Expressions that must be true at this point."""

    that: tuple[str, ...]


class SetInterrupts(Struct, frozen=True):
    """The machine's interrupts and the cpus that serve them."""

    descriptions: Mapping[int, str]
    affinity: CpuSet


class SetOnline(Struct, frozen=True):
    """Of the machine's cpus these are online, and no others."""

    cpus: CpuSet


class Instance(Struct, frozen=True):
    """A container among several of one name; `created_at` as the runtime tells it."""

    id: str
    created_at: int
    state: ContainerState = ContainerState.RUNNING


class Synchronize(Struct, frozen=True, kw_only=True):
    """The runtime lists its containers anew, with these instances of one of them."""

    container: str
    instances: tuple[Instance, ...]


class Wait(Struct, frozen=True):
    """Time passes: cold starts end."""

    nanoseconds: int


class UnsupportedStep(Struct, frozen=True):
    """A step that is passed over. `spoils_start`: the next start depends on it."""

    reason: str
    spoils_start: bool = False


Step = (
    Start
    | Stop
    | Reconfigure
    | CreatePod
    | AddContainer
    | DeletePods
    | EndContainer
    | UpdateContainer
    | UpdatePod
    | Remember
    | Expect
    | SetInterrupts
    | SetOnline
    | Synchronize
    | Wait
    | UnsupportedStep
)
