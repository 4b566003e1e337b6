"""A fake of the kernel's Speed Select drivers: the ioctls of /dev/isst_interface over registers.

Structures are laid out by ctypes as a C compiler would, and numbers are written out, so that it
shares nothing with the code under test.
"""

import errno
from collections.abc import Mapping
from ctypes import LittleEndianStructure, c_uint8, c_uint16, c_uint32, c_uint64, sizeof
from dataclasses import dataclass, field
from typing import Any, ClassVar

U8, U16, U32, U64 = c_uint8, c_uint16, c_uint32, c_uint64


def layout(name: str, **fields: Any) -> type[LittleEndianStructure]:
    """A C structure with these fields, in order."""
    return type(name, (LittleEndianStructure,), {"_fields_": list(fields.items())})


PLATFORM = layout("Platform", api=U16, driver=U16, commands=U16, mbox=U8, mmio=U8)
CPU_MAP = layout("CpuMap", logical=U32, physical=U32)
REGISTER = layout("Register", write=U32, cpu=U32, register=U32, value=U32)
MAIL = layout(
    "Mail",
    cpu=U32,
    parameter=U32,
    request=U32,
    response=U32,
    command=U16,
    subcommand=U16,
    reserved=U32,
)
INSTANCES = layout("Instances", socket=U8, count=U8, valid_mask=U16)
CORE_POWER = layout("CorePower", set=U8, socket=U8, domain=U8, enable=U8, supported=U8, priority=U8)
CLOS = layout("Clos", set=U8, socket=U8, domain=U8, clos=U8, min_mhz=U16, max_mhz=U16, weight=U8)
ASSOCIATION = layout("Association", socket=U8, domain=U8, cpu=U16, clos=U16)
LEVELS = layout(
    "Levels",
    socket=U8,
    domain=U8,
    max_level=U8,
    revision=U8,
    mask=U8,
    level=U8,
    features=U8,
    locked=U8,
    enabled=U8,
    tf=U8,
    bf=U8,
)
FEATURES = layout("Features", socket=U8, domain=U8, features=U8)
CPU_MASK = layout(
    "CpuMask", socket=U8, domain=U8, level=U8, punit=U8, mask=U64, size=U16, buffer=U8
)
TURBO = layout(
    "Turbo",
    socket=U8,
    domain=U8,
    level=U16,
    max_clips=U16,
    max_buckets=U16,
    max_levels=U16,
    clips=U16 * 6,
    cores=U16 * 8,
    mhz=U16 * 48,
)


@dataclass
class Domain:
    """The registers of one power domain."""

    has_tf: bool = True
    has_bf: bool = True
    has_cp: bool = True
    features: int = 0
    level: int = 0
    cp: int = 0
    ordered: int = 0
    clos: dict[int, list[int]] = field(
        default_factory=lambda: {clos: [0, 25500, clos] for clos in range(4)}
    )
    clos_of: dict[int, int] = field(default_factory=dict[int, int])
    """Class by core."""
    bf_cores: int = 0
    tf_cores: tuple[int, ...] = (4, 2, 6)


@dataclass
class FakeTpmi:
    """The drivers of a machine with TPMI. `physical`: MSR 0x54 by cpu."""

    physical: Mapping[int, int]
    domains: Mapping[tuple[int, int], Domain]
    api: int = 3
    failing: dict[int, int] = field(default_factory=dict[int, int])
    """Error numbers by the ordinals of the ioctls that fail."""
    cut: int | None = None
    """The ordinal of the ioctl whose answer is a byte short."""
    asked: list[int] = field(default_factory=list[int])
    writes: int = 0

    NUMBERS: ClassVar[Mapping[int, str]] = {
        0x8008FE00: "platform",
        0xC008FE01: "physical",
        0x8008FE05: "instances",
        0xC008FE06: "core_power",
        0xC008FE07: "clos",
        0xC008FE08: "associate",
        0xC008FE09: "levels",
        0x4008FE0B: "set_features",
        0x8008FE0F: "bf_mask",
        0x8008FE10: "turbo",
    }

    def ask(self, number: int, data: bytes) -> bytes:
        """What the ioctl leaves of its argument."""
        self.asked.append(number)
        if (error := self.failing.get(number & 0xFF)) is not None:
            raise OSError(error, "no matter")
        if number not in self.NUMBERS:
            raise OSError(errno.ENOTTY, "no such ioctl")
        memory = bytearray(data)
        getattr(self, f"_{self.NUMBERS[number]}")(memory)
        return bytes(memory[:-1] if number & 0xFF == self.cut else memory)

    def _platform(self, memory: bytearray) -> None:
        info: Any = PLATFORM.from_buffer(memory)
        info.api, info.driver, info.commands = self.api, 1, 64

    def _physical(self, memory: bytearray) -> None:
        (count,) = (U32 * 1).from_buffer(memory)
        assert 0 < count <= 64
        assert len(memory) == 4 + count * sizeof(CPU_MAP)
        for row in rows(CPU_MAP, memory, 4, count):
            row.physical = self.physical.get(row.logical, 0xFFFFFFFF)

    def _instances(self, memory: bytearray) -> None:
        info: Any = INSTANCES.from_buffer(memory)
        here = [domain for socket, domain in self.domains if socket == info.socket]
        if not here:
            raise OSError(errno.EINVAL, "no such package")
        info.count = max(here) + 1
        info.valid_mask = sum(1 << domain for domain in here)

    def _core_power(self, memory: bytearray) -> None:
        info: Any = CORE_POWER.from_buffer(memory)
        domain = self._domain(info)
        if info.set:
            domain.cp, domain.ordered = info.enable, info.priority
            self.writes += 1
        else:
            info.enable, info.priority = domain.cp, domain.ordered
            info.supported = domain.has_cp

    def _clos(self, memory: bytearray) -> None:
        info: Any = CLOS.from_buffer(memory)
        domain = self._domain(info)
        if info.set:
            # The register has eight bits for a ratio of 100 MHz.
            lowest, highest = (mhz // 100 & 0xFF for mhz in (info.min_mhz, info.max_mhz))
            domain.clos[info.clos] = [lowest * 100, highest * 100, info.weight]
            self.writes += 1
        else:
            info.min_mhz, info.max_mhz, info.weight = domain.clos[info.clos]

    def _associate(self, memory: bytearray) -> None:
        count, is_set, punit_map = (U16 * 3).from_buffer(memory)
        if not 0 < count <= 64:
            raise OSError(errno.EINVAL, "too many")
        if not punit_map:
            raise OSError(errno.EOPNOTSUPP, "cpus in the kernel's numbers")
        for row in rows(ASSOCIATION, memory, 6, count):
            domain = self._domain(row)
            if is_set:
                domain.clos_of[row.cpu] = row.clos
                self.writes += 1
            else:
                row.clos = domain.clos_of.get(row.cpu, 0)

    def _levels(self, memory: bytearray) -> None:
        info: Any = LEVELS.from_buffer(memory)
        domain = self._domain(info)
        info.max_level, info.mask, info.level = 4, 0x1F, domain.level
        info.features, info.enabled = domain.features, 1
        info.tf, info.bf = domain.has_tf, domain.has_bf

    def _set_features(self, memory: bytearray) -> None:
        info: Any = FEATURES.from_buffer(memory)
        self._domain(info).features = info.features
        self.writes += 1

    def _bf_mask(self, memory: bytearray) -> None:
        info: Any = CPU_MASK.from_buffer(memory)
        if not info.punit:
            raise OSError(errno.EOPNOTSUPP, "cpus in the kernel's numbers")
        domain = self._domain(info)
        info.mask = domain.bf_cores if info.level == domain.level else 0

    def _turbo(self, memory: bytearray) -> None:
        info: Any = TURBO.from_buffer(memory)
        domain = self._domain(info)
        info.max_buckets, info.max_levels = 8, 6
        cores = domain.tf_cores if info.level == domain.level else ()
        for bucket, count in enumerate(cores):
            info.cores[bucket] = count

    def _domain(self, info: Any) -> Domain:
        if (info.socket, info.domain) not in self.domains:
            raise OSError(errno.EINVAL, "no such power domain")
        return self.domains[info.socket, info.domain]


def rows(kind: type[LittleEndianStructure], memory: bytearray, start: int, count: int) -> list[Any]:
    """The structures of an array in memory; writing to one writes to memory."""
    return [kind.from_buffer(memory, start + number * sizeof(kind)) for number in range(count)]


@dataclass
class FakeMailbox:
    """The drivers of a machine before TPMI: one punit for each die, told by its cpus.

    `physical`: MSR 0x53 by cpu; `die_of`: the punit of each cpu.
    """

    physical: Mapping[int, int]
    die_of: Mapping[int, int]
    mail: dict[tuple[int, int, int, int], int]
    """Responses by punit, command, subcommand and request."""
    registers: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    """Values by punit and register."""
    has_registers: bool = True
    has_mailbox: bool = True
    busy: int = 0
    """How many commands fail before one is taken."""
    sent: list[tuple[int, int, int, int, int]] = field(
        default_factory=list[tuple[int, int, int, int, int]]
    )
    """Punit, command, subcommand, parameter and request of what was taken."""
    written: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    """Punit, register and value of what was written."""

    def ask(self, number: int, data: bytes) -> bytes:
        """What the ioctl leaves of its argument."""
        memory = bytearray(data)
        match number:
            case 0x8008FE00:
                info: Any = PLATFORM.from_buffer(memory)
                info.api, info.driver, info.commands = 1, 1, 64
                info.mbox, info.mmio = self.has_mailbox, self.has_registers
            case 0xC008FE01:
                (count,) = (U32 * 1).from_buffer(memory)
                for row in rows(CPU_MAP, memory, 4, count):
                    row.physical = self.physical.get(row.logical, 0xFFFFFFFF)
            case 0x4008FE02 if self.has_registers:
                self._register(rows(REGISTER, memory, 4, 1)[0])
            case 0xC008FE03 if self.has_mailbox:
                self._mail(rows(MAIL, memory, 4, 1)[0])
            case _:
                raise OSError(errno.ENOTTY, "no such ioctl")
        return bytes(memory)

    def _register(self, row: Any) -> None:
        key = self.die_of[row.cpu], row.register
        if row.write:
            self.registers[key] = row.value
            self.written.append((*key, row.value))
        else:
            row.value = self.registers.get(key, 0)

    def _mail(self, row: Any) -> None:
        if self.busy:
            self.busy -= 1
            raise OSError(errno.EBUSY, "busy")
        punit = self.die_of[row.cpu]
        key = punit, row.command, row.subcommand, row.request
        is_set = row.command == 0x95 or (
            row.subcommand == 0x02 and (row.command == 0x7F or row.parameter == 0x100)
        )
        if not is_set and key not in self.mail:
            raise OSError(errno.ENXIO, "refused by the firmware")
        row.response = self.mail.get(key, 0)
        self.sent.append((punit, row.command, row.subcommand, row.parameter, row.request))
