"""The Speed Select device of the machine this runs on: opened, read, and opened for changes."""

import contextlib
import dataclasses
import os
import stat
from collections.abc import Generator
from typing import Final

from ...model.machine import SPEED_SELECT_DEVICE, Machine, SpeedSelect
from ...sets.base_errors import os_reason
from ...sets.cpuset import CpuSet
from .isst import (
    Interface,
    Platform,
    SpeedSelectControl,
    SpeedSelectDevice,
    SpeedSelectError,
)
from .punit_mailbox import mailbox_control
from .punit_mailbox import read_domains as read_mailbox_domains
from .tpmi import TpmiControl, read_places
from .tpmi import read_domains as read_tpmi_domains

_MAILBOX: Final = (1,)
_TPMI: Final = (2, 3)
"""Interface versions. Source: isst_set_platform_ops in the kernel's intel-speed-select."""


class DeviceFile:
    """A device file that is open; a `SpeedSelectDevice`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def ask(self, number: int, data: bytes) -> bytes:
        """The bytes as the ioctl leaves them; raises `OSError`."""
        import fcntl  # only machines with the device pay for it

        return fcntl.ioctl(self._descriptor, number, data)


@contextlib.contextmanager
def open_device(
    path: str = SPEED_SELECT_DEVICE, flags: int = os.O_RDONLY
) -> Generator[DeviceFile, None, None]:
    """The device, open while the block runs. Raises `OSError`."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISCHR(os.fstat(descriptor).st_mode):
            raise SpeedSelectError(f"{path}: not a device")
        yield DeviceFile(descriptor)
    finally:
        os.close(descriptor)


def read_speed_select(device: SpeedSelectDevice, machine: Machine) -> tuple[SpeedSelect, ...]:
    """The power domains with online cpus, by socket and number. Nothing is written.

    All of them or none: half of the facts would rank cpus by what could be read of them. Raises
    `SpeedSelectError`.
    """
    interface = Interface(device)
    platform = interface.platform()
    read_domains = read_tpmi_domains if _is_tpmi(platform) else read_mailbox_domains
    return read_domains(interface, machine, platform)


def speed_select_control(device: SpeedSelectDevice, cpus: CpuSet) -> SpeedSelectControl:
    """The control of Speed Select of these online cpus. Raises `SpeedSelectError`."""
    interface = Interface(device)
    platform = interface.platform()
    if _is_tpmi(platform):
        return TpmiControl(interface, platform, read_places(interface, cpus, platform))
    return mailbox_control(interface, cpus, platform)


def add_speed_select(machine: Machine, path: str = SPEED_SELECT_DEVICE) -> Machine:
    """The machine with what the device says of it; without the device, the machine as it is.

    A device that cannot be opened or read is one warning.
    """
    try:
        with open_device(path) as device:
            found = read_speed_select(device, machine)
    except FileNotFoundError:
        return machine
    except OSError as error:
        warning = f"{path}: {os_reason(error)}"
    except SpeedSelectError as error:
        warning = str(error)
    else:
        return dataclasses.replace(machine, speed_select=found)
    warning += " — Speed Select is not read"
    return dataclasses.replace(machine, warnings=(*machine.warnings, warning))


def _is_tpmi(platform: Platform) -> bool:
    """Whether the machine has TPMI, or else a mailbox."""
    version = platform.api_version
    if version not in (*_TPMI, *_MAILBOX):
        raise SpeedSelectError(
            f"{SPEED_SELECT_DEVICE}: interface {version} is of a generation not known here"
        )
    if version in _MAILBOX and not platform.has_mailbox:
        raise SpeedSelectError(
            f"{SPEED_SELECT_DEVICE}: no mailbox; kernel modules isst_if_mbox_* are missing"
        )
    return version in _TPMI
