"""Speed Select over mailbox and registers, as parts before TPMI have it (interface 1).

Ice Lake, Sapphire Rapids and Emerald Rapids; a socket (or a die, where it has several) is one power
domain. Layouts: include/uapi/linux/isst_if.h; commands, registers and bits:
tools/power/x86/intel-speed-select/isst.h, isst-core.c and isst-core-mbox.c.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ...model.machine import SPEED_SELECT_DEVICE, Machine, SocketId, SpeedSelect
from ...sets.cpuset import CpuSet
from .isst import (
    KHZ_PER_RATIO,
    READ,
    WRITE,
    Interface,
    Ioctl,
    Platform,
    SpeedSelectError,
    ratio,
)

REGISTERS: Final = Ioctl("registers", WRITE, 2, "<I", "4I")
"""isst_if_io_regs: count; write, cpu, register, value."""
MAILBOX: Final = Ioctl("mailbox", READ | WRITE, 3, "<I", "4I2HI")
"""isst_if_mbox_cmds: count; cpu, parameter, request, response, command, subcommand, reserved."""

_CLASSES: Final = 4
_TRIES: Final = 3
"""Firmware may be busy; the kernel's own tool tries as often."""


class _Command(NamedTuple):
    command: int
    subcommand: int


_LEVELS: Final = _Command(0x7F, 0x00)
_CONTROL: Final = _Command(0x7F, 0x01)
_SET_CONTROL: Final = _Command(0x7F, 0x02)
_TURBO_CORES: Final = _Command(0x7F, 0x10)
_BASE_CORES: Final = _Command(0x7F, 0x20)
_PRIORITIES: Final = _Command(0xD0, 0x02)
_FEATURES: Final = _Command(0x94, 0x03)
_SET_FEATURES: Final = _Command(0x95, 0x03)
_WRITES: Final = 1 << 8
"""The parameter that makes a command about classes of service write."""

_CLASS_REGISTER: Final = 0x08
_CORE_REGISTER: Final = 0x20
_CLASS_SHIFT: Final = 16

_SUPPORTS_TURBO: Final = 1 << 0
_HAS_TURBO: Final = 1 << 16
_HAS_BASE: Final = 1 << 17
_SUPPORTS_CORE_POWER: Final = 1 << 0
_HAS_CORE_POWER: Final = 1 << 16
_PRIORITIES_ON: Final = 1 << 1
_PRIORITIES_ORDERED: Final = 1 << 2


@dataclass(frozen=True, slots=True)
class PunitMailbox:
    """The two ways to the punit of a cpu. All methods raise `SpeedSelectError`."""

    interface: Interface

    def send(self, cpu: int, command: _Command, request: int = 0, parameter: int = 0) -> int:
        """The response to a command, tried again where the firmware is busy."""
        for left in reversed(range(_TRIES)):
            try:
                answer = self.interface.ask(MAILBOX, 1, cpu, parameter, request, 0, *command, 0)
            except SpeedSelectError:
                if not left:
                    raise
            else:
                return answer[4]
        raise AssertionError("no try was left")

    def read(self, cpu: int, register: int) -> int:
        """The value of a register."""
        return self.interface.ask(REGISTERS, 1, 0, cpu, register, 0)[4]

    def write(self, cpu: int, register: int, value: int) -> None:
        """Set a register."""
        self.interface.ask(REGISTERS, 1, 1, cpu, register, value)


def read_cores(interface: Interface, cpus: CpuSet, platform: Platform) -> Mapping[int, int]:
    """The punit's number of the core of each cpu, from MSR_THREAD_ID_INFO: its bits 1-8."""
    found = interface.physical_ids(cpus, platform)
    return {cpu: (physical & 0x1FF) >> 1 for cpu, physical in found.items()}


def read_domains(
    interface: Interface, machine: Machine, platform: Platform
) -> tuple[SpeedSelect, ...]:
    """One domain for each die, by socket and die. Nothing is written.

    Each takes about ten commands and a register for each core. Raises `SpeedSelectError`.
    """
    cores = read_cores(interface, machine.online, platform)
    dies: dict[tuple[SocketId, int], dict[int, list[int]]] = {}
    for cpu, core in cores.items():
        facts = machine.cpus[cpu]
        dies.setdefault((facts.socket, facts.die), {}).setdefault(core, []).append(cpu)
    return tuple(
        _read_die(PunitMailbox(interface), platform, socket, die, dies[socket, die])
        for socket, die in sorted(dies)
    )


def _read_die(
    punit: PunitMailbox,
    platform: Platform,
    socket: SocketId,
    die: int,
    cpus_of: Mapping[int, list[int]],
) -> SpeedSelect:
    """One die; `cpus_of` are its online cpus by core."""
    cpus = CpuSet.collect(cpu for some in cpus_of.values() for cpu in some)
    first = min(cpus)
    level = _level(punit, first)
    control = punit.send(first, _CONTROL, level)
    power = punit.send(first, _FEATURES)
    if power & _HAS_CORE_POWER and not platform.has_registers:
        raise _no_registers()
    clos_of: dict[int, int] = {}
    clos_khz: dict[int, tuple[int, int]] = {}
    is_ordered = False
    if power & _SUPPORTS_CORE_POWER and platform.has_registers:
        is_ordered = bool(punit.send(first, _PRIORITIES) & _PRIORITIES_ORDERED)
        for clos in range(_CLASSES):
            value = punit.read(first, _CLASS_REGISTER + 4 * clos)
            lowest, highest = value >> 8 & 0xFF, value >> 16 & 0xFF
            clos_khz[clos] = lowest * KHZ_PER_RATIO, highest * KHZ_PER_RATIO
        for core, some in cpus_of.items():
            value = punit.read(some[0], _CORE_REGISTER + 4 * core)
            clos_of.update(dict.fromkeys(some, value >> _CLASS_SHIFT & 3))
    base_cpus = CpuSet()
    if control & _HAS_BASE:
        mask = punit.send(first, _BASE_CORES, level)
        if max(cpus_of) >= 32:
            mask |= punit.send(first, _BASE_CORES, 1 << 8 | level) << 32
        base_cpus = CpuSet.collect(
            cpu for core, some in cpus_of.items() if mask >> core & 1 for cpu in some
        )
    buckets: list[int] = []
    if control & _SUPPORTS_TURBO:
        for half in range(2):
            word = punit.send(first, _TURBO_CORES, half << 8 | level)
            buckets.extend(count for count in word.to_bytes(4, "little") if count)
    return SpeedSelect(
        socket=socket,
        domain=die,
        cpus=cpus,
        supports_turbo_frequency=bool(control & _SUPPORTS_TURBO),
        supports_core_power=bool(power & _SUPPORTS_CORE_POWER) and platform.has_registers,
        has_turbo_frequency=bool(control & _HAS_TURBO),
        has_core_power=bool(power & _HAS_CORE_POWER),
        clos_count=_CLASSES,
        clos_order=tuple(range(_CLASSES)) if is_ordered else (),
        clos_of=clos_of,
        clos_khz=clos_khz,
        base_frequency_cpus=base_cpus,
        high_priority_cpus=min(buckets, default=0),
    )


def _level(punit: PunitMailbox, cpu: int) -> int:
    """The performance level in force; 0 where there is but one and the question is refused."""
    try:
        return punit.send(cpu, _LEVELS) >> 16 & 0xFF
    except SpeedSelectError:
        return 0


@dataclass(frozen=True, slots=True)
class MailboxControl:
    """Changes Speed Select over mailbox and registers; `cores` are those of `read_cores`."""

    interface: Interface
    cores: Mapping[int, int]

    def associate(self, domain: SpeedSelect, cpus: CpuSet, clos: int) -> None:
        """Put cpus into a class of service, with their sibling threads."""
        punit = PunitMailbox(self.interface)
        cpu_of = {self.cores[cpu]: cpu for cpu in domain.cpus & cpus if cpu in self.cores}
        for core, cpu in sorted(cpu_of.items()):
            punit.write(cpu, _CORE_REGISTER + 4 * core, (clos & 3) << _CLASS_SHIFT)

    def limit(self, domain: SpeedSelect, clos: int, lowest_khz: int, highest_khz: int) -> None:
        """Set the frequencies of a class of service; what else its register holds stays."""
        punit, cpu = PunitMailbox(self.interface), min(domain.cpus)
        register = _CLASS_REGISTER + 4 * clos
        value = punit.read(cpu, register) & 0xFF0000FF
        value |= ratio(lowest_khz) << 8 | ratio(highest_khz) << 16
        punit.write(cpu, register, value)

    def set_core_power(
        self, domain: SpeedSelect, *, is_enabled: bool, is_ordered: bool = True
    ) -> None:
        """Switch SST-CP, with ordered or proportional priority."""
        punit, cpu = PunitMailbox(self.interface), min(domain.cpus)
        punit.send(cpu, _SET_FEATURES, _HAS_CORE_POWER * is_enabled)
        value = punit.send(cpu, _PRIORITIES) & ~(_PRIORITIES_ON | _PRIORITIES_ORDERED)
        value |= _PRIORITIES_ORDERED * is_ordered | _PRIORITIES_ON * is_enabled
        punit.send(cpu, _PRIORITIES, value, _WRITES)

    def set_turbo_frequency(self, domain: SpeedSelect, *, is_enabled: bool) -> None:
        """Switch SST-TF; SST-BF stays as it is."""
        punit, cpu = PunitMailbox(self.interface), min(domain.cpus)
        control = punit.send(cpu, _CONTROL, _level(punit, cpu))
        punit.send(cpu, _SET_CONTROL, control & _HAS_BASE | _HAS_TURBO * is_enabled)


def mailbox_control(interface: Interface, cpus: CpuSet, platform: Platform) -> MailboxControl:
    """A control of these cpus. Raises `SpeedSelectError` where classes cannot be written."""
    if not platform.has_registers:
        raise _no_registers()
    return MailboxControl(interface, read_cores(interface, cpus, platform))


def _no_registers() -> SpeedSelectError:
    return SpeedSelectError(
        f"{SPEED_SELECT_DEVICE}: no registers; the kernel module isst_if_mmio is missing"
    )
