"""The kernel's Speed Select interface, /dev/isst_interface: requests, answers, who is where.

Bytes and values only; another module opens the device. Source of all layouts and numbers:
include/uapi/linux/isst_if.h, and for what drivers make of them
drivers/platform/x86/intel/speed_select_if/ and tools/power/x86/intel-speed-select/.
"""

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from ...model.machine import SPEED_SELECT_DEVICE, SpeedSelect
from ...sets.base_errors import TopologyError
from ...sets.cpuset import CpuSet

READ: Final = 2
WRITE: Final = 1
_MAGIC: Final = 0xFE
_POINTER_BYTES: Final = 8
"""The header gives pointers to _IOR and its kin, so numbers hold a pointer's size."""
_MAX_COMMANDS: Final = 64
"""ISST_IF_CMD_LIMIT, should a driver claim more."""
_UNKNOWN: Final = 0xFFFFFFFF
"""What the driver answers for a cpu whose number it could not read."""

MAX_KHZ: Final = 25_500_000
"""The highest frequency that can be said: a ratio of 255, which means no limit."""
KHZ_PER_RATIO: Final = 100_000


class SpeedSelectError(TopologyError):
    """The Speed Select device cannot be opened, or refuses, or answers what nobody can read."""


class SpeedSelectDevice(Protocol):
    """The device, or something that speaks as its driver does."""

    def ask(self, number: int, data: bytes) -> bytes:
        """The bytes as the ioctl of this number leaves them; raises `OSError` as ioctl does."""
        ...


class SpeedSelectControl(Protocol):
    """Changes what Speed Select does. Every method raises `SpeedSelectError`, and may be half done.

    `domain` is one that was read from the same device.
    """

    def associate(self, domain: SpeedSelect, cpus: CpuSet, clos: int) -> None:
        """Put cpus of the domain into a class of service.

        The hardware knows whole cores only: sibling threads, and on efficient cores everybody of
        the module, go with them. The last word on any of them wins.
        """
        ...

    def limit(self, domain: SpeedSelect, clos: int, lowest_khz: int, highest_khz: int) -> None:
        """Set the frequencies of a class of service; rounded down to 100 MHz, at most `MAX_KHZ`.

        (0, MAX_KHZ) is what hardware comes up with.
        """
        ...

    def set_core_power(
        self, domain: SpeedSelect, *, is_enabled: bool, is_ordered: bool = True
    ) -> None:
        """Switch SST-CP, with ordered priority (class 0 first) or else the proportional one.

        Turbo frequency needs the ordered one: switch it on before that and off after it.
        """
        ...

    def set_turbo_frequency(self, domain: SpeedSelect, *, is_enabled: bool) -> None:
        """Switch SST-TF; SST-BF stays as it is."""
        ...


class Ioctl(NamedTuple):
    """One kind of ioctl: how messages name it, its direction and number, its structure.

    The structure is written as `struct` writes it, with the padding a C compiler adds. Where it
    ends in an array, `layout` is what stands before, and `item` one element.
    """

    name: str
    direction: int
    ordinal: int
    layout: str
    item: str = ""

    @property
    def number(self) -> int:
        """The number ioctl takes. Source: include/uapi/asm-generic/ioctl.h."""
        return self.direction << 30 | _POINTER_BYTES << 16 | _MAGIC << 8 | self.ordinal


PLATFORM: Final = Ioctl("platform", READ, 0, "<3H2B")
"""isst_if_platform_info: versions of interface and driver, commands per ioctl, mbox, mmio."""
PHYSICAL_ID: Final = Ioctl("physical id", READ | WRITE, 1, "<I", "2I")
"""isst_if_cpu_maps: count; logical and physical number of each cpu."""


class Platform(NamedTuple):
    """The driver's own description of its interface."""

    api_version: int
    driver_version: int
    commands: int
    """How many it takes in one ioctl."""
    has_mailbox: bool
    has_registers: bool


class CpuPosition(NamedTuple):
    """The place of a cpu in the hardware: power domain and core or module."""

    domain: int
    core: int


@dataclass(frozen=True, slots=True)
class Interface:
    """A device that is asked structures instead of bytes. All methods raise `SpeedSelectError`."""

    device: SpeedSelectDevice

    def ask(self, request: Ioctl, *values: int) -> tuple[int, ...]:
        """The fields of the answer to a request with these fields."""
        return self._ask(request, request.layout + request.item, values)

    def ask_each(
        self, request: Ioctl, items: Sequence[tuple[int, ...]], limit: int, *head: int
    ) -> Iterator[tuple[int, ...]]:
        """The answers to many items, `limit` in each ioctl; `head` follows the count of them."""
        for start in range(0, len(items), limit):
            some = items[start : start + limit]
            values = (len(some), *head, *(value for item in some for value in item))
            answer = self._ask(request, request.layout + request.item * len(some), values)
            width = len(some[0])
            for at in range(1 + len(head), len(answer), width):
                yield answer[at : at + width]

    def platform(self) -> Platform:
        """The driver's own description of its interface."""
        api_version, driver_version, commands, mailbox, registers = self.ask(PLATFORM, *[0] * 5)
        return Platform(
            api_version,
            driver_version,
            min(max(commands, 1), _MAX_COMMANDS),
            bool(mailbox),
            bool(registers),
        )

    def physical_ids(self, cpus: CpuSet, platform: Platform) -> Mapping[int, int]:
        """The hardware's number of each cpu; one the driver does not know is missing."""
        # A driver that a signal interrupts leaves the rest of the items as they are.
        items = [(cpu, _UNKNOWN) for cpu in cpus]
        found = self.ask_each(PHYSICAL_ID, items, platform.commands)
        return {cpu: physical for cpu, physical in found if physical != _UNKNOWN}

    def _ask(self, request: Ioctl, layout: str, values: Sequence[int]) -> tuple[int, ...]:
        where = f"{SPEED_SELECT_DEVICE}: {request.name}"
        try:
            data = struct.pack(layout, *values)
        except struct.error as error:
            raise SpeedSelectError(f"{where}: {list(values)} do not fit — {error}") from error
        try:
            answer = self.device.ask(request.number, data)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise SpeedSelectError(f"{where}: {reason.lower()}") from error
        if len(answer) != len(data):
            raise SpeedSelectError(f"{where}: {len(answer)} bytes instead of {len(data)}")
        return struct.unpack(layout, answer)


def ratio(khz: int) -> int:
    """A frequency as the hardware counts it, in steps of 100 MHz; rounded down."""
    return max(0, min(khz, MAX_KHZ)) // KHZ_PER_RATIO
