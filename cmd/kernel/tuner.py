"""Interrupts and clocks follow the containers: in a thread of its own, after every answer."""

import logging
import os
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

from ...nri.dispatch.front import Front, take_snapshot
from ...nri.dispatch.report import Decided, Happening, Reconfigured, Released, Synchronized
from ...policy.tuning.effects import Effects, Hardware, Occupancy, effects
from ...policy.tuning.interrupts import Interrupt
from ...topology.model.machine import Machine
from ...topology.sysfs.speed_select_source import VARIABLE
from .kernel_settings import KernelSettings
from .knobs import Knobs
from .originals import Originals
from .speed_select_access import SPEED_SELECT, SpeedSelectAccess, access_below

_PAUSE_SECONDS: Final = 0.1
"""Between two looks, so that a burst of events is one change."""
_BUSY_SECONDS: Final = 10.0


class Tuner:
    """A report that sets interrupts and clocks when cpus change hands. Nobody waits for it.

    The runtime has no patience for hundreds of interrupts: the policy is only asked who has what,
    and everything else is worked out and written here.
    """

    takes = (Decided, Released, Synchronized, Reconfigured)

    def __init__(
        self,
        settings: KernelSettings,
        log: logging.Logger,
        speed_select: SpeedSelectAccess,
        *,
        simulates_speed_select: bool = False,
    ) -> None:
        """`speed_select`: the registers that the settings change.

        `simulates_speed_select`: it is made up, so the registers of hardware are left alone.
        """
        self._settings = settings
        self._log = log
        self._speed_select = speed_select
        self._machine: Machine | None = None
        self._simulates_speed_select = simulates_speed_select
        self._has_told_of_simulation = False
        self._is_due = threading.Event()
        self._is_stopping = threading.Event()
        self._uncore = Hardware()
        self._thread: threading.Thread | None = None

    def __call__(self, happening: Happening) -> None:
        """Look soon where cpus may have changed hands."""
        if isinstance(happening, Decided | Released | Synchronized | Reconfigured):
            self._is_due.set()

    def as_found(self, machine: Machine) -> Machine:
        """The machine without our changes to it; see `KernelSettings.as_found`."""
        return self._settings.as_found(machine)

    def start(self, front: Front) -> None:
        """Begin, before the front itself does; nothing is set before the first change."""
        self._uncore = self._settings.hardware()
        front.events.policy.interrupts = self._uncore.interrupts
        self._thread = threading.Thread(target=self._run, args=(front,), name="tuning", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End. Clocks and idle states are as they were found then; interrupts stay."""
        self._is_stopping.set()
        self._is_due.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            with self._session():
                self._settings.rest()

    def _run(self, front: Front) -> None:
        while True:
            self._is_due.wait()
            # In this order: an end that comes in between is seen, or sets the event anew.
            self._is_due.clear()
            if self._is_stopping.is_set():
                return
            try:
                snapshot = take_snapshot(front, "tuning", _BUSY_SECONDS)
            except TimeoutError:
                self._is_due.set()
            else:
                occupancy = snapshot.occupancy()
                self._machine = snapshot.machine
                wanted = self._real(effects(occupancy, self._look(occupancy, front)))
                with self._session():
                    changed = self._settings.apply(wanted)
                if changed:
                    self._log.debug("event=tuned files=%d", changed)
            self._is_stopping.wait(_PAUSE_SECONDS)

    def _session(self) -> AbstractContextManager[None]:
        return nullcontext() if self._machine is None else self._speed_select.session(self._machine)

    def _real(self, wanted: Effects) -> Effects:
        """What concerns hardware that is really there."""
        if not self._simulates_speed_select:
            return wanted
        values = {
            knob: text for knob, text in wanted.values.items() if knob.kind not in SPEED_SELECT
        }
        if len(values) < len(wanted.values) and not self._has_told_of_simulation:
            self._has_told_of_simulation = True
            self._log.warning(
                "Speed Select is simulated: nothing is written to hardware — unset %s",
                VARIABLE,
            )
        return Effects(values, wanted.warnings)

    def _look(self, occupancy: Occupancy, front: Front) -> Hardware:
        """What there is to set at present: devices come and go, and their interrupts with them."""
        is_asked = any(one.irq is not None for one in occupancy.holdings)
        if not (is_asked or self._settings.moves_interrupts):
            return self._uncore
        hardware = self._settings.hardware()
        found = hardware.interrupts

        def learn(interrupts: tuple[Interrupt, ...] = found) -> None:
            front.events.policy.interrupts = interrupts

        front.owner.submit("interrupts", learn)
        return hardware


def tuner_below(
    root: Path,
    folder: Path | None,
    log: logging.Logger,
    environment: Mapping[str, str] = os.environ,
) -> Tuner:
    """A tuner of the kernel whose sys/, proc/ and dev/ are below `root`.

    `folder`: where it remembers over restarts what it changed, if anywhere.
    """
    speed_select = access_below(root)
    knobs = Knobs(root, speed_select)
    settings = KernelSettings(knobs, Originals(folder, knobs.boot_id(), log), log)
    is_simulated = bool(environment.get(VARIABLE, "").strip())
    return Tuner(settings, log, speed_select, simulates_speed_select=is_simulated)
