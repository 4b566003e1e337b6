"""Access to the registers of Speed Select.

The one door of this room to the folder `speed_select`, opened when a first register is asked for:
without the folder everything else of the kernel is set as ever.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...policy.tuning.effects import Knob, KnobKind
from ...topology.model.machine import SPEED_SELECT_DEVICE, Machine

if TYPE_CHECKING:
    from .speed_select.speed_select_registers import DeviceRegisters

_ROOT: Final = "speedselect/"
"""Paths of registers begin with it; those behind the door do without."""

SPEED_SELECT: Final = frozenset(
    {
        KnobKind.TURBO_FREQUENCY,
        KnobKind.CORE_POWER,
        KnobKind.CLOS,
        KnobKind.CLOS_MIN,
        KnobKind.CLOS_MAX,
    }
)
"""The kinds of knobs that are registers of Speed Select."""


class SpeedSelectAccess:
    """Registers of Speed Select as texts under paths, like files."""

    def __init__(self, load: Callable[[], DeviceRegisters | None] = lambda: None) -> None:
        """`load`: the registers, None where there are none; called once, if they are needed."""
        self._load = load
        self._is_loaded = False
        self._registers: DeviceRegisters | None = None
        self._begin: Callable[[DeviceRegisters], None] | None = None

    @contextlib.contextmanager
    def session(self, machine: Machine) -> Generator[None, None, None]:
        """The time in which registers are read once, at the first need; afresh in the next one."""
        with ExitStack() as stack:
            self._begin = lambda registers: stack.enter_context(registers.session(machine))
            if self._registers is not None:
                self._begin(self._registers)
            try:
                yield
            finally:
                self._begin = None

    def path(self, knob: Knob) -> str:
        """The path of a knob. Raises `OSError` where the machine has no such power domain."""
        return _ROOT + self._present().path(knob)

    def read(self, path: str) -> str:
        """The text of a register. Raises `OSError`."""
        return self._present().read(path.removeprefix(_ROOT))

    def write(self, path: str, text: str) -> None:
        """Set a register. Raises `OSError`."""
        self._present().write(path.removeprefix(_ROOT), text)

    def _present(self) -> DeviceRegisters:
        if not self._is_loaded:
            self._registers = self._load()
            self._is_loaded = True
            if self._registers is not None and self._begin is not None:
                self._begin(self._registers)
        if self._registers is None:
            raise OSError(errno.ENODEV, f"no {SPEED_SELECT_DEVICE} here")
        return self._registers


def access_below(root: Path) -> SpeedSelectAccess:
    """Access to the registers behind the device below a root."""

    def load() -> DeviceRegisters:
        from .speed_select.speed_select_registers import device_registers

        return device_registers(root / SPEED_SELECT_DEVICE.lstrip("/"))

    return SpeedSelectAccess(load)


def is_register_path(path: str) -> bool:
    """Whether a path is that of a register and not of a file."""
    return path.startswith(_ROOT)


def as_found(machine: Machine, originals: Mapping[str, str]) -> Machine:
    """The machine with registers as they were before they were changed, by `originals`.

    `originals`: texts by path; others than those of registers are passed over.
    """
    texts = {
        path.removeprefix(_ROOT): text for path, text in originals.items() if is_register_path(path)
    }
    if not texts:
        return machine
    from .speed_select.speed_select_registers import with_registers

    return with_registers(machine, texts)


def undo_order(path: str) -> int:
    """The place of a path among those that are put back; files come first, in any order."""
    if not is_register_path(path):
        return 0
    from .speed_select.speed_select_registers import register_order

    return register_order(path.removeprefix(_ROOT))
