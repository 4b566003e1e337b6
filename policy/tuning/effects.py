"""Settings of the kernel for containers beside their cpusets: a value for every knob.

Whoever turns the knobs keeps what they were before: what is not named here is left as it was found.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct, field

from ...topology.model.machine import Machine
from ...topology.sets.cpuset import CpuSet
from ..annotations.annotation_values import IrqAffinity
from ..configuration.config import Config
from ..pools.supply import Supply
from .clos_plan import SpeedSelectPlan
from .cpu_class import Clock, CpuSettings, classes_in_force, cpu_settings, uncore_clocks
from .interrupts import Interrupt, InterruptTable, route
from .speed_select_plan import plan_speed_select

ORDERED: Final = "1 ordered"
"""Core power is on, and classes of service are served in the order of their numbers."""


class KnobKind(enum.Enum):
    """Kinds of knobs, in the order in which they are set.

    A governor resets the energy preference, so it comes first. Speed Select is switched on when all
    is as it should be then, and turbo frequency needs core power.
    """

    IRQ_AFFINITY = "interrupt affinity"
    GOVERNOR = "frequency governor"
    EPP = "energy performance preference"
    MIN_FREQUENCY = "lowest frequency"
    MAX_FREQUENCY = "highest frequency"
    CSTATE_DISABLED = "idle state"
    UNCORE_MIN = "lowest uncore frequency"
    UNCORE_MAX = "highest uncore frequency"
    CLOS_MIN = "lowest frequency of Speed Select"
    CLOS_MAX = "highest frequency of Speed Select"
    CLOS = "class of service of Speed Select"
    CORE_POWER = "core power of Speed Select"
    TURBO_FREQUENCY = "turbo frequency of Speed Select"


class Knob(Struct, frozen=True):
    """One thing to set: of an interrupt or cpu (`number`), of an idle state or die (`name`).

    For Speed Select the name is that of a power domain ("0/1": socket and domain), and the number
    that of a cpu or of a class of service.
    """

    kind: KnobKind
    number: int = 0
    name: str = ""

    def __str__(self) -> str:
        match self.kind:
            case KnobKind.IRQ_AFFINITY:
                return f"interrupt {self.number}"
            case KnobKind.CSTATE_DISABLED:
                return f"cpu {self.number} {self.name}"
            case KnobKind.UNCORE_MIN | KnobKind.UNCORE_MAX:
                return f"die {self.name}"
            case KnobKind.CLOS_MIN | KnobKind.CLOS_MAX:
                return f"class {self.number} in power domain {self.name}"
            case KnobKind.CORE_POWER | KnobKind.TURBO_FREQUENCY:
                return f"power domain {self.name}"
            case _:
                return f"cpu {self.number}"


class ExclusiveCpus(Struct, frozen=True, kw_only=True):
    """Cpus that one container has for itself, and what it asks of them."""

    cpus: CpuSet
    irq: IrqAffinity | None = None
    cpu_class: str | None = None


class Occupancy(Struct, frozen=True, kw_only=True):
    """Exclusive cpus and their holders at one moment; all that effects follow from."""

    machine: Machine
    config: Config
    supply: Supply
    holdings: tuple[ExclusiveCpus, ...] = ()

    @property
    def free(self) -> CpuSet:
        """The cpus that could still be granted to somebody for itself."""
        left = self.supply.allowed - self.supply.reserved
        for one in self.holdings:
            left -= one.cpus
        return left

    @property
    def classes(self) -> Mapping[str, CpuSet]:
        """The cpus of every class of cpus."""
        return classes_in_force(
            self.config, self.supply, ((one.cpus, one.cpu_class) for one in self.holdings)
        )

    @property
    def speed_select(self) -> SpeedSelectPlan:
        """The plan of Speed Select."""
        return plan_speed_select(self.machine, self.config, self.supply.allowed, self.classes)


class Hardware(Struct, frozen=True, kw_only=True):
    """Interrupts and clocks that the kernel lets be set; read by whoever turns the knobs."""

    interrupts: tuple[Interrupt, ...] = ()
    uncore: Mapping[str, Clock] = field(default_factory=dict[str, Clock])
    """By die ("0/0"): the range the kernel had at boot."""


class Effects(Struct, frozen=True):
    """The text of every knob that is not left as it was found, in the order to set them."""

    values: Mapping[Knob, str] = msgspec.field(default_factory=dict[Knob, str])
    warnings: tuple[str, ...] = ()


def effects(occupancy: Occupancy, hardware: Hardware) -> Effects:
    """Effects of an occupancy on the kernel. O(interrupts * distinct patterns + cpus)."""
    machine, config, holdings = occupancy.machine, occupancy.config, occupancy.holdings
    table = InterruptTable(hardware.interrupts, config.controllable_interrupts)
    wishes = ((one.irq, one.cpus) for one in holdings if one.irq is not None)
    routing = route(table, wishes, occupancy.supply.allowed)
    found = {one.number: one.affinity for one in hardware.interrupts}
    values = {
        Knob(KnobKind.IRQ_AFFINITY, number): str(cpus)
        for number, cpus in routing.targets.items()
        if cpus != found[number]
    }
    classes = occupancy.classes
    settings, unknown = cpu_settings(machine, config, classes)
    clocks, useless = uncore_clocks(machine, config, classes, hardware.uncore)
    values.update(_cpu_values(settings))
    values.update(_uncore_values(clocks))
    values.update(_speed_select_values(machine, occupancy.speed_select))
    return Effects(values, (*routing.warnings, *unknown, *useless))


def _cpu_values(settings: Mapping[int, CpuSettings]) -> Iterator[tuple[Knob, str]]:
    for cpu, one in settings.items():
        yield from _known(
            (
                (Knob(KnobKind.GOVERNOR, cpu), one.governor),
                (Knob(KnobKind.EPP, cpu), one.epp),
                (Knob(KnobKind.MIN_FREQUENCY, cpu), one.min_khz),
                (Knob(KnobKind.MAX_FREQUENCY, cpu), one.max_khz),
            )
        )
        for name in one.disabled_cstates:
            yield Knob(KnobKind.CSTATE_DISABLED, cpu, name), "1"


def _uncore_values(clocks: Mapping[str, Clock]) -> Iterator[tuple[Knob, str]]:
    for die, clock in clocks.items():
        yield from _known(
            (
                (Knob(KnobKind.UNCORE_MIN, name=die), clock.min_khz),
                (Knob(KnobKind.UNCORE_MAX, name=die), clock.max_khz),
            )
        )


def _speed_select_values(machine: Machine, plan: SpeedSelectPlan) -> Iterator[tuple[Knob, str]]:
    for one, clock in plan.limits.items():
        yield from _known(
            (
                (Knob(KnobKind.CLOS_MIN, one.clos, one.domain), clock.min_khz),
                (Knob(KnobKind.CLOS_MAX, one.clos, one.domain), clock.max_khz),
            )
        )
    for domain in machine.speed_select:
        for cpu in domain.cpus:
            if cpu in plan.clos_of:
                knob = Knob(KnobKind.CLOS, cpu, domain.label)
                yield knob, str(plan.clos_of[cpu])
    for label in plan.core_power:
        yield Knob(KnobKind.CORE_POWER, name=label), ORDERED
    for label in plan.turbo_frequency:
        yield Knob(KnobKind.TURBO_FREQUENCY, name=label), "1"


def _known(pairs: Iterable[tuple[Knob, str | int | None]]) -> Iterator[tuple[Knob, str]]:
    for knob, value in pairs:
        if value is not None:
            yield knob, str(value)
