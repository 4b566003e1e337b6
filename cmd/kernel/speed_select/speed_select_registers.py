"""The registers of Speed Select behind its device, as texts under paths, like files.

The device is open no longer than it is needed.
"""

import contextlib
import dataclasses
import errno
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from ....policy.tuning.effects import ORDERED, Knob, KnobKind
from ....topology.model.machine import Machine, SocketId, SpeedSelect
from ....topology.sets.base_errors import TopologyError
from ....topology.sets.cpuset import CpuSet
from ....topology.sysfs.speed_select.isst import SpeedSelectControl

SpeedSelectSession: TypeAlias = tuple[tuple[SpeedSelect, ...], SpeedSelectControl]
"""What a device says at present, and what changes it."""
Connect: TypeAlias = Callable[[Machine], AbstractContextManager[SpeedSelectSession]]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

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


class DeviceRegisters:
    """Reads a device once in every `session`, and follows what is written in it meanwhile.

    By path: "clos/0/1/17" is cpu 17 in domain 0/1.
    """

    def __init__(self, connect: Connect) -> None:
        """`connect` raises `OSError` or `TopologyError` where the device cannot be had."""
        self._connect = connect
        self._machine: Machine | None = None
        self._stack = ExitStack()
        self._domains: dict[tuple[int, int], SpeedSelect] = {}
        self._control: SpeedSelectControl | None = None
        self._failure: OSError | None = None

    @contextlib.contextmanager
    def session(self, machine: Machine) -> Generator[None, None, None]:
        """The time in which the registers can be used; they are read afresh in the next one."""
        self._machine = machine
        try:
            yield
        finally:
            self._machine = self._control = self._failure = None
            self._domains = {}
            self._stack.close()

    def path(self, knob: Knob) -> str:
        """The path of a knob. Raises `OSError` where the machine has no such power domain."""
        path = f"{_NAMES[knob.kind]}/{knob.name}/{knob.number}"
        _, socket, domain, _ = _parsed(path)
        self._found(socket, domain)
        return path

    def read(self, path: str) -> str:
        """The text of a register. Raises `OSError`."""
        kind, socket, domain, number = _parsed(path)
        known, _ = self._found(socket, domain)
        match kind:
            case KnobKind.CLOS:
                what = f"class of service of cpu {number}"
                return str(_known(known.clos_of, number, what))
            case KnobKind.CLOS_MIN:
                return str(_limits(known, number)[0])
            case KnobKind.CLOS_MAX:
                return str(_limits(known, number)[1])
            case KnobKind.CORE_POWER:
                order = _ORDERED if known.clos_order else "proportional"
                return f"{int(known.has_core_power)} {order}"
            case _:
                return str(int(known.has_turbo_frequency))

    def write(self, path: str, text: str) -> None:
        """Set a register. Raises `OSError`.

        With a cpu the other threads of its core go into its class of service.
        """
        kind, socket, domain, number = _parsed(path)
        known, control = self._found(socket, domain)
        if kind in (KnobKind.CLOS_MIN, KnobKind.CLOS_MAX):
            _limits(known, number)
        changed = _with(known, kind, number, text)
        with _os_errors():
            match kind:
                case KnobKind.CLOS:
                    control.associate(known, CpuSet.of(number), changed.clos_of[number])
                case KnobKind.CLOS_MIN | KnobKind.CLOS_MAX:
                    control.limit(known, number, *changed.clos_khz[number])
                case KnobKind.CORE_POWER:
                    control.set_core_power(
                        known,
                        is_enabled=changed.has_core_power,
                        is_ordered=bool(changed.clos_order),
                    )
                case _:
                    is_enabled = changed.has_turbo_frequency
                    control.set_turbo_frequency(known, is_enabled=is_enabled)
        self._domains[socket, domain] = changed

    def _found(self, socket: int, domain: int) -> tuple[SpeedSelect, SpeedSelectControl]:
        """A power domain, and what changes it."""
        control = self._control or self._open()
        what = f"power domain {socket}/{domain}"
        return _known(self._domains, (socket, domain), what), control

    def _open(self) -> SpeedSelectControl:
        if self._machine is None:
            raise OSError(errno.ENODEV, "not before anything is known")
        if self._failure is not None:
            raise self._failure
        try:
            with _os_errors():
                domains, control = self._stack.enter_context(self._connect(self._machine))
        except OSError as error:
            # There are hundreds of registers: a device that refuses is asked once.
            self._failure = error
            raise
        self._domains = {(one.socket, one.domain): one for one in domains}
        self._control = control
        return control


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


def register_order(path: str) -> int:
    """The place of a register among those that are put back, from 1 on; 0 for an unknown one."""
    name = path.partition("/")[0]
    return _IN_ORDER.index(name) if name in _IN_ORDER else 0


def device_registers(path: Path) -> DeviceRegisters:
    """The registers behind the device at a path, which need not be there yet."""
    return DeviceRegisters(partial(open_registers, path))


@contextlib.contextmanager
def open_registers(path: Path, machine: Machine) -> Generator[SpeedSelectSession, None, None]:
    """The device at a path, open for changes. Raises `OSError` or `TopologyError`."""
    # Only machines with the device pay for the modules that know its languages.
    from ....topology.sysfs.speed_select.device import (
        open_device,
        read_speed_select,
        speed_select_control,
    )

    with open_device(str(path), os.O_RDWR) as device:
        yield read_speed_select(device, machine), speed_select_control(device, machine.online)


def _with(domain: SpeedSelect, kind: KnobKind, number: int, text: str) -> SpeedSelect:
    """The domain with another text of one register."""
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
            enabled, _, order = text.partition(" ")
            clos_order = tuple(range(domain.clos_count)) if order == _ORDERED else ()
            return change(has_core_power=enabled == "1", clos_order=clos_order)
        case _:
            return change(has_turbo_frequency=text == "1")


def _parsed(path: str) -> tuple[KnobKind, int, int, int]:
    try:
        name, socket, domain, number = path.split("/")
        return _KINDS[name], int(socket), int(domain), int(number)
    except (KeyError, ValueError) as error:
        raise OSError(errno.ENOENT, f"no such register as {path!r}") from error


def _limits(domain: SpeedSelect, clos: int) -> tuple[int, int]:
    """The lowest and the highest frequency of a class of service. Raises `OSError`."""
    return _known(domain.clos_khz, clos, f"class of service {clos}")


def _known(found: Mapping[_Key, _Value], key: _Key, what: str) -> _Value:
    try:
        return found[key]
    except KeyError as error:
        raise OSError(errno.ENXIO, f"the hardware does not tell of {what}") from error


@contextlib.contextmanager
def _os_errors() -> Generator[None, None, None]:
    """What goes wrong with the device as `OSError`, as for files."""
    try:
        yield
    except TopologyError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno:
            # The same for every register, so that all of them are one complaint.
            raise OSError(cause.errno, os.strerror(cause.errno)) from error
        raise OSError(errno.EIO, str(error)) from error
