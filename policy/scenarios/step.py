"""The steps of scenarios as values, one type for each thing that happens on a node."""

from collections.abc import Mapping
from dataclasses import dataclass

from ...topology.sets.cpuset import CpuSet
from ..manifests.manifest import PodSpec
from ..model.container import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The policy starts; running containers are adopted. No `config`: the one at hand."""

    config: Mapping[str, object] | None
    environment: Mapping[str, str]
    expected_error: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """The policy ends; containers run on as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfigure:
    """A new configuration for the running policy."""

    config: Mapping[str, object]
    expected_error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePod:
    """A pod and its containers start, init containers one after the other before the rest."""

    pod: PodSpec
    expected_error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePods:
    """Pods of a namespace end; `names` is None for all of them."""

    namespace: str
    names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndContainer:
    """A container ends, and comes back as a new instance if `restarts`."""

    container: str
    restarts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateContainer:
    """A container's requests and limits change."""

    container: str
    resources: Resources
    expected_error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remember:
    """A value is kept under a name for later expectations."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Expect:
    """Expressions that must be true at this point."""

    that: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetInterrupts:
    """The machine's interrupts and the cpus that serve them."""

    descriptions: Mapping[int, str]
    affinity: CpuSet


@dataclass(frozen=True, slots=True)
class Instance:
    """A container among several of one name; `created_at` as the runtime tells it."""

    id: str
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Synchronize:
    """The runtime lists its containers anew, with these instances of one of them."""

    container: str
    instances: tuple[Instance, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Time passes: cold starts end."""

    nanoseconds: int


@dataclass(frozen=True, slots=True)
class UnsupportedStep:
    """A step that is passed over. `spoils_start`: the next start depends on it."""

    reason: str
    spoils_start: bool = False


Step = (
    Start
    | Stop
    | Reconfigure
    | CreatePod
    | DeletePods
    | EndContainer
    | UpdateContainer
    | Remember
    | Expect
    | SetInterrupts
    | Synchronize
    | Wait
    | UnsupportedStep
)
