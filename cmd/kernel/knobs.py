"""The kernel's files behind every knob: where they are, reading and writing them.

Sources: Documentation/core-api/irq/irq-affinity.rst; Documentation/admin-guide/pm/cpufreq.rst,
cpuidle.rst, intel_pstate.rst and intel_uncore_frequency_scaling.rst.
"""

import errno
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ...policy.tuning.cpu_class import Clock
from ...policy.tuning.effects import Hardware, Knob, KnobKind
from ...policy.tuning.interrupts import Interrupt
from ...topology.sets.cpuset import CpuSet, IdListError
from .speed_select_access import SpeedSelectAccess, is_register_path

_CPU: Final = "sys/devices/system/cpu"
_UNCORE: Final = f"{_CPU}/intel_uncore_frequency"
_UNCORE_DIE: Final = re.compile(r"package_([0-9]{1,4})_die_([0-9]{1,4})")
_CPU_FILES: Final[Mapping[KnobKind, str]] = {
    KnobKind.GOVERNOR: "scaling_governor",
    KnobKind.EPP: "energy_performance_preference",
    KnobKind.MIN_FREQUENCY: "scaling_min_freq",
    KnobKind.MAX_FREQUENCY: "scaling_max_freq",
}
_UNCORE_FILES: Final[Mapping[KnobKind, str]] = {
    KnobKind.UNCORE_MIN: "min_freq_khz",
    KnobKind.UNCORE_MAX: "max_freq_khz",
}

_PATHS: Final = re.compile(
    rf"{_CPU}/(cpu[0-9]{{1,5}}/cpufreq|cpufreq/policy[0-9]{{1,5}})/({'|'.join(_CPU_FILES.values())})"
    rf"|{_CPU}/cpu[0-9]{{1,5}}/cpuidle/state[0-9]{{1,3}}/disable"
    rf"|{_UNCORE}/{_UNCORE_DIE.pattern}/({'|'.join(_UNCORE_FILES.values())})"
)
_IRQ_PATH: Final = re.compile(r"proc/irq/[0-9]{1,9}/smp_affinity_list")
_TEXT_MAX: Final = 256


class Knobs:
    """The files below a root that holds sys/ and proc/. Paths are relative to it.

    The registers of Speed Select have paths as well, though their device knows no files.
    """

    def __init__(self, root: Path, speed_select: SpeedSelectAccess | None = None) -> None:
        """`speed_select`: its registers, None where the machine has none."""
        self._root = root
        self._speed_select = speed_select or SpeedSelectAccess()
        self._clocks: dict[int, str] = {}
        self._states: dict[int, Mapping[str, str]] = {}

    def path(self, knob: Knob) -> str:
        """The file of a knob. Raises `OSError` where the machine has none."""
        match knob.kind:
            case KnobKind.IRQ_AFFINITY:
                return f"proc/irq/{knob.number}/smp_affinity_list"
            case KnobKind.CSTATE_DISABLED:
                states = self._idle_states(knob.number)
                if knob.name not in states:
                    known = ", ".join(states) or "none"
                    raise OSError(errno.ENOENT, f"no such idle state (known are {known})")
                return f"{states[knob.name]}/disable"
            case KnobKind.UNCORE_MIN | KnobKind.UNCORE_MAX:
                package, die = knob.name.split("/")
                folder = f"package_{int(package):02}_die_{int(die):02}"
                return f"{_UNCORE}/{folder}/{_UNCORE_FILES[knob.kind]}"
            case KnobKind.GOVERNOR | KnobKind.EPP | KnobKind.MIN_FREQUENCY | KnobKind.MAX_FREQUENCY:
                return f"{self._clock(knob.number)}/{_CPU_FILES[knob.kind]}"
            case _:
                return self._speed_select.path(knob)

    def read(self, path: str) -> str:
        """The text of a file, without its end of line. Raises `OSError`."""
        if is_register_path(path):
            return self._speed_select.read(path)
        return self._full(path).read_text(encoding="utf-8", errors="replace").strip()

    def write(self, path: str, text: str) -> None:
        """Set a knob. Raises `OSError`, also where there is no file: none is ever created."""
        if is_register_path(path):
            self._speed_select.write(path, text)
            return
        descriptor = os.open(self._full(path), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def boot_id(self) -> str:
        """The id of this boot; empty where the kernel does not say."""
        try:
            return self.read("proc/sys/kernel/random/boot_id")
        except OSError:
            return ""

    def hardware(self) -> Hardware:
        """All interrupts that can be moved, as they are, and the ranges of uncore clocks."""
        return Hardware(interrupts=tuple(self._interrupts()), uncore=dict(self._uncore()))

    def _interrupts(self) -> Iterator[Interrupt]:
        try:
            listed = parse_interrupts(self.read("proc/interrupts"))
        except OSError:
            return
        for number, description in listed.items():
            try:
                affinity = CpuSet.parse(self.read(f"proc/irq/{number}/smp_affinity_list"))
            except (OSError, IdListError):
                continue
            yield Interrupt(number=number, description=description, affinity=affinity)

    def _uncore(self) -> Iterator[tuple[str, Clock]]:
        try:
            names = sorted(os.listdir(self._full(_UNCORE)))
        except OSError:
            return
        for name in names:
            if found := _UNCORE_DIE.fullmatch(name):
                clock = Clock(
                    min_khz=self._number(f"{_UNCORE}/{name}/initial_min_freq_khz"),
                    max_khz=self._number(f"{_UNCORE}/{name}/initial_max_freq_khz"),
                )
                yield f"{int(found[1])}/{int(found[2])}", clock

    def _number(self, path: str) -> int | None:
        try:
            return int(self.read(path))
        except (OSError, ValueError):
            return None

    def _clock(self, cpu: int) -> str:
        """The folder of a cpu's clock: cpus that share a clock share the folder behind a link."""
        if cpu not in self._clocks:
            full = os.path.realpath(self._full(f"{_CPU}/cpu{cpu}/cpufreq"))
            self._clocks[cpu] = os.path.relpath(full, os.path.realpath(self._root))
        return self._clocks[cpu]

    def _idle_states(self, cpu: int) -> Mapping[str, str]:
        """The folders of a cpu's idle states by name, shallowest first."""
        if cpu not in self._states:
            folder = f"{_CPU}/cpu{cpu}/cpuidle"
            try:
                listed = os.listdir(self._full(folder))
            except OSError:
                return {}
            numbers = sorted(int(one[5:]) for one in listed if re.fullmatch("state[0-9]{1,3}", one))
            states: dict[str, str] = {}
            for number in numbers:
                try:
                    states[self.read(f"{folder}/state{number}/name")] = f"{folder}/state{number}"
                except OSError:
                    continue
            self._states[cpu] = states
        return self._states[cpu]

    def _full(self, path: str) -> Path:
        return self._root / path


def could_hold(path: str, text: str) -> bool:
    """Whether a knob can be at a path and have this text. Of Speed Select, whoever sets it asks."""
    if _IRQ_PATH.fullmatch(path):
        try:
            CpuSet.parse(text)
        except IdListError:
            return False
        return True
    is_known = is_register_path(path) or _PATHS.fullmatch(path) is not None
    return is_known and len(text) <= _TEXT_MAX and text.isprintable()


def parse_interrupts(text: str) -> Mapping[int, str]:
    """The descriptions in /proc/interrupts by number, words apart by one blank.

    Lines with other names than numbers are the cpus' own interrupts, which cannot be moved.
    """
    head, _, rest = text.partition("\n")
    counters = len(head.split())
    found: dict[int, str] = {}
    for line in rest.splitlines():
        name, colon, content = line.strip().partition(":")
        if colon and name.isascii() and name.isdigit():
            found[int(name)] = " ".join(content.split()[counters:])
    return found
