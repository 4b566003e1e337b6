"""The registers of Speed Select as texts under paths, like files, so that they can be put back."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from ....policy.tuning.effects import ORDERED, Knob, KnobKind
from ....topology.model.machine import SPEED_SELECT_DEVICE, Machine, SocketId, SpeedSelect

if TYPE_CHECKING:
    from .speed_select_registers import DeviceRegisters

_NAMES: Final[Mapping[KnobKind, str]] = {
    KnobKind.TURBO_FREQUENCY: "turbo_frequency",
    KnobKind.CORE_POWER: "core_power",
    KnobKind.CLOS: "clos",
    KnobKind.CLOS_MIN: "min_khz",
    KnobKind.CLOS_MAX: "max_khz",
}
"""In the order in which they are put back: turbo frequency needs core power."""
_KINDS: Final[Mapping[str, KnobKind]] = {name: kind for kind, name in _NAMES.items()}
_IN_ORDER: Final = ("", *_NAMES.values())
_ORDERED: Final = ORDERED.partition(" ")[2]


class SpeedSelectKnobs:
    """Reads and sets registers by path: "clos/0/1/17" is cpu 17 in domain 0/1."""

    def __init__(self, registers: DeviceRegisters | None) -> None:
        """Reads and writes all fail without registers."""
        self._registers = registers

    def path(self, knob: Knob) -> str:
        """The path of a knob. Raises `OSError` where the machine has no such power domain."""
        path = f"{_NAMES[knob.kind]}/{knob.name}/{knob.number}"
        _, socket, domain, _ = _parsed(path)
        self._present().ensure(socket, domain)
        return path

    def read(self, path: str) -> str:
        """The text of a register. Raises `OSError`."""
        registers = self._present()
        kind, socket, domain, number = _parsed(path)
        match kind:
            case KnobKind.CLOS:
                return str(registers.clos_of(socket, domain, number))
            case KnobKind.CLOS_MIN:
                return str(registers.clos_khz(socket, domain, number)[0])
            case KnobKind.CLOS_MAX:
                return str(registers.clos_khz(socket, domain, number)[1])
            case KnobKind.CORE_POWER:
                is_enabled, is_ordered = registers.core_power(socket, domain)
                return f"{int(is_enabled)} {'ordered' if is_ordered else 'proportional'}"
            case _:
                return str(int(registers.turbo_frequency(socket, domain)))

    def write(self, path: str, text: str) -> None:
        """Set a register. Raises `OSError`."""
        registers = self._present()
        kind, socket, domain, number = _parsed(path)
        match kind:
            case KnobKind.CLOS:
                registers.set_clos(socket, domain, number, int(text))
            case KnobKind.CLOS_MIN:
                _, high = registers.clos_khz(socket, domain, number)
                registers.set_clos_khz(socket, domain, number, int(text), high)
            case KnobKind.CLOS_MAX:
                low, _ = registers.clos_khz(socket, domain, number)
                registers.set_clos_khz(socket, domain, number, low, int(text))
            case KnobKind.CORE_POWER:
                is_enabled, is_ordered = _core_power(text)
                registers.set_core_power(
                    socket, domain, is_enabled=is_enabled, is_ordered=is_ordered
                )
            case _:
                registers.set_turbo_frequency(socket, domain, is_enabled=text == "1")

    def _present(self) -> DeviceRegisters:
        if self._registers is None:
            raise OSError(errno.ENODEV, f"no {SPEED_SELECT_DEVICE} here")
        return self._registers


def with_registers(machine: Machine, texts: Mapping[str, str]) -> Machine:
    """The machine with registers as they are in `texts`, by path."""
    domains = {(one.socket, one.domain): one for one in machine.speed_select}
    for path, text in texts.items():
        with contextlib.suppress(OSError, ValueError):
            kind, socket, domain, number = _parsed(path)
            key = SocketId(socket), domain
            if key in domains:
                domains[key] = _with(domains[key], kind, number, text)
    return dataclasses.replace(machine, speed_select=tuple(domains.values()))


def _with(domain: SpeedSelect, kind: KnobKind, number: int, text: str) -> SpeedSelect:
    change = partial(dataclasses.replace, domain)
    low, high = domain.clos_khz.get(number, (0, 0))
    match kind:
        case KnobKind.CLOS:
            return change(clos_of={**domain.clos_of, number: int(text)})
        case KnobKind.CLOS_MIN:
            return change(clos_khz={**domain.clos_khz, number: (int(text), high)})
        case KnobKind.CLOS_MAX:
            return change(clos_khz={**domain.clos_khz, number: (low, int(text))})
        case KnobKind.CORE_POWER:
            is_enabled, is_ordered = _core_power(text)
            order = tuple(range(domain.clos_count)) if is_ordered else ()
            return change(has_core_power=is_enabled, clos_order=order)
        case _:
            return change(has_turbo_frequency=text == "1")


def _core_power(text: str) -> tuple[bool, bool]:
    """Whether it is enabled, and whether its priority is ordered."""
    enabled, _, order = text.partition(" ")
    return enabled == "1", order == _ORDERED


def register_order(path: str) -> int:
    """The place of a register among those that are put back, from 1 on; 0 for an unknown one."""
    name = path.partition("/")[0]
    return _IN_ORDER.index(name) if name in _IN_ORDER else 0


def _parsed(path: str) -> tuple[KnobKind, int, int, int]:
    try:
        name, socket, domain, number = path.split("/")
        return _KINDS[name], int(socket), int(domain), int(number)
    except (KeyError, ValueError) as error:
        raise OSError(errno.ENOENT, f"no such register as {path!r}") from error
