"""Speed Select over TPMI, as Granite Rapids and Sierra Forest have it (interface 2 and 3).

Each socket has power domains with their own features. Layouts and numbers:
include/uapi/linux/isst_if.h; what drivers take and give:
drivers/platform/x86/intel/speed_select_if/isst_tpmi_core.c.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ...model.machine import Machine, SocketId, SpeedSelect
from ...sets.cpuset import CpuSet
from .isst import (
    KHZ_PER_RATIO,
    READ,
    WRITE,
    CpuPosition,
    Interface,
    Ioctl,
    Platform,
    ratio,
)

INSTANCES: Final = Ioctl("instances", READ, 5, "<2BH")
"""isst_tpmi_instance_count: socket, count, mask of the domains that are there."""
CORE_POWER: Final = Ioctl("core power", READ | WRITE, 6, "<6B")
"""isst_core_power: set, socket, domain, enabled, supported, ordered priority."""
CLOS: Final = Ioctl("class of service", READ | WRITE, 7, "<4B2HBx")
"""isst_clos_param: set, socket, domain, class; lowest and highest MHz; proportional priority."""
ASSOCIATION: Final = Ioctl("association", READ | WRITE, 8, "<3H", "2B2H")
"""isst_if_clos_assoc_cmds: count, set, cpus in the punit's numbers; socket, domain, core, class."""
LEVELS: Final = Ioctl("performance levels", READ | WRITE, 9, "<11B")
"""isst_perf_level_info: socket, domain, highest level, revision, mask of levels, level in force,
features in force, locked, enabled, SST-TF and SST-BF supported."""
FEATURES: Final = Ioctl("features", WRITE, 11, "<3B")
"""isst_perf_feature_control: socket, domain, features."""
BASE_CPUS: Final = Ioctl("base frequency cpus", READ, 15, "<4B4xQHb5x")
"""isst_perf_level_cpu_mask: socket, domain, level, cpus in the punit's numbers; mask of cores."""
TURBO: Final = Ioctl("turbo frequency", READ, 16, "<2BH3H6H8H48H")
"""isst_turbo_freq_info: socket, domain; level; numbers of clip frequencies, buckets, levels; clip
frequencies; cores of each bucket; frequencies."""

_CLASSES: Final = 4
_BASE_FREQUENCY: Final = 1 << 0
_TURBO_FREQUENCY: Final = 1 << 1
_PROPORTIONAL: Final = 0
_ORDERED: Final = 1


def read_places(
    interface: Interface, cpus: CpuSet, platform: Platform
) -> Mapping[int, CpuPosition]:
    """Power domain and core of each cpu, from MSR_PM_LOGICAL_ID as the driver hands it out.

    Bits 11-15 are the domain, bits 3-10 the core, on efficient cores the module. A cpu that the
    driver does not know is missing. Source: drivers/platform/x86/intel/tpmi_power_domains.c.
    """
    found = interface.physical_ids(cpus, platform)
    return {cpu: CpuPosition(one >> 11 & 0x1F, one >> 3 & 0xFF) for cpu, one in found.items()}


def read_domains(
    interface: Interface, machine: Machine, platform: Platform
) -> tuple[SpeedSelect, ...]:
    """The power domains that have online cpus, by socket and number. Nothing is written.

    About eight ioctls for each, and one for each 64 cores. Raises `SpeedSelectError`.
    """
    places = read_places(interface, machine.online, platform)
    cores: dict[tuple[SocketId, int], dict[int, list[int]]] = {}
    for cpu, place in places.items():
        domain = cores.setdefault((machine.cpus[cpu].socket, place.domain), {})
        domain.setdefault(place.core, []).append(cpu)
    found: list[SpeedSelect] = []
    for socket in sorted({socket for socket, _ in cores}):
        _, _, present = interface.ask(INSTANCES, socket, 0, 0)
        found.extend(
            _read_domain(interface, platform, socket, number, cores[socket, number])
            for number in range(16)
            if present >> number & 1 and (socket, number) in cores
        )
    return tuple(found)


def _read_domain(
    interface: Interface,
    platform: Platform,
    socket: SocketId,
    number: int,
    cpus_of: Mapping[int, list[int]],
) -> SpeedSelect:
    """One domain; `cpus_of` are its online cpus by core."""
    levels = interface.ask(LEVELS, socket, number, *[0] * 9)
    level, features, supports_turbo, supports_base = levels[5], levels[6], levels[9], levels[10]
    core_power = interface.ask(CORE_POWER, 0, socket, number, 0, 0, 0)
    _, _, _, has_core_power, supports_core_power, priority = core_power
    clos_of: dict[int, int] = {}
    clos_khz: dict[int, tuple[int, int]] = {}
    if supports_core_power:
        for clos in range(_CLASSES):
            answer = interface.ask(CLOS, 0, socket, number, clos, 0, 0, 0)
            clos_khz[clos] = answer[4] * 1000, answer[5] * 1000
        items = [(socket, number, core, 0) for core in sorted(cpus_of)]
        for _, _, core, clos in interface.ask_each(ASSOCIATION, items, platform.commands, 0, 1):
            clos_of.update(dict.fromkeys(cpus_of.get(core, ()), clos))
    base_cpus = CpuSet()
    if supports_base and features & _BASE_FREQUENCY:
        mask = interface.ask(BASE_CPUS, socket, number, level, 1, 0, 0, 0)[4]
        base_cpus = CpuSet.collect(
            cpu for core, cpus in cpus_of.items() if mask >> core & 1 for cpu in cpus
        )
    buckets: tuple[int, ...] = ()
    if supports_turbo:
        answer = interface.ask(TURBO, socket, number, level, *[0] * 65)
        # The fewer cores in a bucket, the higher its turbo: what even the smallest has is sure.
        buckets = tuple(count for count in answer[12 : 12 + min(answer[4], 8)] if count)
    return SpeedSelect(
        socket=socket,
        domain=number,
        cpus=CpuSet.collect(cpu for cpus in cpus_of.values() for cpu in cpus),
        supports_turbo_frequency=bool(supports_turbo),
        supports_core_power=bool(supports_core_power),
        has_turbo_frequency=bool(features & _TURBO_FREQUENCY),
        has_core_power=bool(has_core_power),
        clos_count=_CLASSES,
        clos_order=tuple(range(_CLASSES)) if priority == _ORDERED else (),
        clos_of=clos_of,
        clos_khz=clos_khz,
        base_frequency_cpus=base_cpus,
        high_priority_cpus=min(buckets, default=0),
    )


@dataclass(frozen=True, slots=True)
class TpmiControl:
    """Changes Speed Select over TPMI; `places` are those of `read_places`."""

    interface: Interface
    platform: Platform
    places: Mapping[int, CpuPosition]

    def associate(self, domain: SpeedSelect, cpus: CpuSet, clos: int) -> None:
        """Put cpus into a class of service, with everybody on the same core."""
        here = domain.cpus & cpus
        cores = {self.places[cpu].core for cpu in here if cpu in self.places}
        items = [(domain.socket, domain.domain, core, clos) for core in sorted(cores)]
        for _ in self.interface.ask_each(ASSOCIATION, items, self.platform.commands, 1, 1):
            pass

    def limit(self, domain: SpeedSelect, clos: int, lowest_khz: int, highest_khz: int) -> None:
        """Set the frequencies of a class of service; its proportional priority stays."""
        place = domain.socket, domain.domain, clos
        weight = self.interface.ask(CLOS, 0, *place, 0, 0, 0)[6]
        # The driver takes MHz and divides them by 100 for the hardware.
        mhz = [ratio(khz) * KHZ_PER_RATIO // 1000 for khz in (lowest_khz, highest_khz)]
        self.interface.ask(CLOS, 1, *place, *mhz, weight)

    def set_core_power(
        self, domain: SpeedSelect, *, is_enabled: bool, is_ordered: bool = True
    ) -> None:
        """Switch SST-CP, with ordered or proportional priority."""
        priority = _ORDERED if is_ordered else _PROPORTIONAL
        self.interface.ask(CORE_POWER, 1, domain.socket, domain.domain, is_enabled, 0, priority)

    def set_turbo_frequency(self, domain: SpeedSelect, *, is_enabled: bool) -> None:
        """Switch SST-TF; SST-BF stays as it is."""
        levels = self.interface.ask(LEVELS, domain.socket, domain.domain, *[0] * 9)
        features = levels[6] & ~_TURBO_FREQUENCY | _TURBO_FREQUENCY * is_enabled
        self.interface.ask(FEATURES, domain.socket, domain.domain, features)
