"""The machines that are measured, and how full of containers they are."""

import enum
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine

_machine = lru_cache(machine_from_spec)


class RuleKind(enum.Enum):
    """The language that the rules of half of the pods are written in."""

    WEIGHTED = "weights"
    REQUIRED = "required and preferred rules at levels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A made-up machine and what runs on it while it is measured.

    Whole cpus go to `exclusive_percent` of the pods, up to `exclusive_max` each; the others ask
    for shares of up to `shared_max_milli`. Together that is about two thirds of the machine.
    """

    name: str
    spec: str
    text: str
    containers: int
    exclusive_percent: int
    exclusive_max: int
    shared_max_milli: int
    kind: RuleKind = RuleKind.WEIGHTED
    machine: Machine = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "machine", _machine(self.spec))

    @property
    def with_required_rules(self) -> "Size":
        """The same where half of the pods have required and preferred rules instead of weights."""
        name, text = f"{self.name}-required", f"{self.text}, required rules"
        return replace(self, name=name, text=text, kind=RuleKind.REQUIRED)

    @property
    def memory_bytes(self) -> int:
        """The memory of the whole machine."""
        return sum(node.memory_bytes or 0 for node in self.machine.numa_nodes)


SMALL: Final = Size(
    name="small",
    spec="socket:2 numa:2 core:2 thread:2 mem:4G",
    text="16 cpus, 4 NUMA nodes, 50 containers",
    containers=50,
    exclusive_percent=10,
    exclusive_max=1,
    shared_max_milli=300,
)

MEDIUM: Final = Size(
    name="medium",
    spec="socket:2 numa:8 l3:2 core:4 thread:2 mem:32G",
    text="256 cpus, 16 NUMA nodes, 32 L3, 300 containers",
    containers=300,
    exclusive_percent=25,
    exclusive_max=3,
    shared_max_milli=600,
)

WIDE: Final = Size(
    name="wide",
    spec="socket:8 numa:4 l3:4 core:8 thread:2 mem:64G",
    text="2048 cpus, 32 NUMA nodes, 600 containers",
    containers=600,
    exclusive_percent=30,
    exclusive_max=14,
    shared_max_milli=2500,
)

LARGE: Final = Size(
    name="large",
    spec="socket:8 numa:8 l3:4 core:8 thread:2 mem:64G",
    text="4096 cpus, 64 NUMA nodes, 1000 containers",
    containers=1000,
    exclusive_percent=35,
    exclusive_max=16,
    shared_max_milli=3000,
)

SIZES: Final = (
    SMALL,
    MEDIUM,
    WIDE,
    LARGE,
    *(size.with_required_rules for size in (SMALL, MEDIUM, LARGE)),
)
