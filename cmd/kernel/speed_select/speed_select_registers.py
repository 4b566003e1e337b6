"""The registers of Speed Select behind its device, which is open no longer than it is needed."""

import contextlib
import dataclasses
import errno
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

from ....topology.model.machine import Machine, SpeedSelect
from ....topology.sets.base_errors import TopologyError
from ....topology.sets.cpuset import CpuSet
from ....topology.sysfs.speed_select.isst import SpeedSelectControl

SpeedSelectSession: TypeAlias = tuple[tuple[SpeedSelect, ...], SpeedSelectControl]
"""What a device says at present, and what changes it."""
Connect: TypeAlias = Callable[[Machine], AbstractContextManager[SpeedSelectSession]]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class DeviceRegisters:
    """Reads a device once in every `session`, and follows what is written in it meanwhile."""

    def __init__(self, connect: Connect) -> None:
        """`connect` raises `OSError` or `TopologyError` where the device cannot be had."""
        self._connect = connect
        self._machine: Machine | None = None
        self._stack = ExitStack()
        self._domains: dict[tuple[int, int], SpeedSelect] | None = None
        self._control: SpeedSelectControl | None = None
        self._failure: OSError | None = None

    @contextlib.contextmanager
    def session(self, machine: Machine) -> Generator[None, None, None]:
        """The time in which the registers can be used; they are read afresh in the next one."""
        self._machine = machine
        try:
            yield
        finally:
            self._machine = self._domains = self._control = self._failure = None
            self._stack.close()

    def ensure(self, socket: int, domain: int) -> None:
        """Do nothing where there is such a domain that can be read."""
        self._domain(socket, domain)

    def clos_of(self, socket: int, domain: int, cpu: int) -> int:
        """The class of service of a cpu."""
        return _known(self._domain(socket, domain).clos_of, cpu, f"class of service of cpu {cpu}")

    def set_clos(self, socket: int, domain: int, cpu: int, clos: int) -> None:
        """Put a cpu, and with it the other threads of its core, into a class of service."""
        known = self._domain(socket, domain)
        with _os_errors():
            self._changing().associate(known, CpuSet.of(cpu), clos)
        self._learn(dataclasses.replace(known, clos_of={**known.clos_of, cpu: clos}))

    def clos_khz(self, socket: int, domain: int, clos: int) -> tuple[int, int]:
        """The lowest and the highest frequency of a class of service."""
        return _known(self._domain(socket, domain).clos_khz, clos, f"class of service {clos}")

    def set_clos_khz(self, socket: int, domain: int, clos: int, low: int, high: int) -> None:
        """Set both limits of a class of service."""
        known = self._domain(socket, domain)
        with _os_errors():
            self._changing().limit(known, clos, low, high)
        self._learn(dataclasses.replace(known, clos_khz={**known.clos_khz, clos: (low, high)}))

    def core_power(self, socket: int, domain: int) -> tuple[bool, bool]:
        """Whether SST-CP is enabled, and whether its priority is ordered."""
        known = self._domain(socket, domain)
        return known.has_core_power, bool(known.clos_order)

    def set_core_power(
        self, socket: int, domain: int, *, is_enabled: bool, is_ordered: bool
    ) -> None:
        """Switch SST-CP."""
        known = self._domain(socket, domain)
        with _os_errors():
            self._changing().set_core_power(known, is_enabled=is_enabled, is_ordered=is_ordered)
        order = tuple(range(known.clos_count)) if is_ordered else ()
        self._learn(dataclasses.replace(known, has_core_power=is_enabled, clos_order=order))

    def turbo_frequency(self, socket: int, domain: int) -> bool:
        """Whether SST-TF is enabled."""
        return self._domain(socket, domain).has_turbo_frequency

    def set_turbo_frequency(self, socket: int, domain: int, *, is_enabled: bool) -> None:
        """Switch SST-TF."""
        known = self._domain(socket, domain)
        with _os_errors():
            self._changing().set_turbo_frequency(known, is_enabled=is_enabled)
        self._learn(dataclasses.replace(known, has_turbo_frequency=is_enabled))

    def _domain(self, socket: int, domain: int) -> SpeedSelect:
        if self._domains is None:
            self._domains = self._read()
        return _known(self._domains, (socket, domain), f"power domain {socket}/{domain}")

    def _read(self) -> dict[tuple[int, int], SpeedSelect]:
        if self._machine is None:
            raise OSError(errno.ENODEV, "not before anything is known")
        if self._failure is not None:
            raise self._failure
        try:
            with _os_errors():
                domains, self._control = self._stack.enter_context(self._connect(self._machine))
        except OSError as error:
            # There are hundreds of registers: a device that refuses is asked once.
            self._failure = error
            raise
        return {(one.socket, one.domain): one for one in domains}

    def _changing(self) -> SpeedSelectControl:
        assert self._control is not None, "what is changed was read before"
        return self._control

    def _learn(self, domain: SpeedSelect) -> None:
        if self._domains is not None:
            self._domains[domain.socket, domain.domain] = domain


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
