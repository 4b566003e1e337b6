"""Turning the knobs of Speed Select: put back as found, and what a device refuses is one line."""

import contextlib
import errno
import logging
import os
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pinfold.cmd.kernel.kernel_settings import KernelSettings
from pinfold.cmd.kernel.knobs import Knobs
from pinfold.cmd.kernel.originals import Originals
from pinfold.cmd.kernel.speed_select.speed_select_registers import (
    DeviceRegisters,
    SpeedSelectSession,
)
from pinfold.cmd.kernel.speed_select_access import SpeedSelectAccess
from pinfold.policy.tuning.effects import Effects, Knob, KnobKind
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine, SocketId, SpeedSelect
from pinfold.topology.sets.cpuset import CpuSet

FAST = Knob(KnobKind.CLOS_MIN, 0, "0/1")
TOP = Knob(KnobKind.CLOS_MAX, 0, "0/1")
POWER = Knob(KnobKind.CORE_POWER, name="0/1")
TURBO = Knob(KnobKind.TURBO_FREQUENCY, name="0/1")
CPU = Knob(KnobKind.CLOS, 17, "0/1")
WANTED = {FAST: "3800000", TOP: "3800000", CPU: "3", POWER: "1 ordered", TURBO: "1"}


class Domain:
    """The device of one power domain; turbo frequency needs core power, as in hardware."""

    def __init__(self) -> None:
        self.clos = {16: 0, 17: 0}
        self.khz = {0: (800_000, 3_000_000), 3: (0, 25_500_000)}
        self.power = (False, False)
        self.turbo = False
        self.written: list[str] = []
        self.refusal: int | None = None

    @contextlib.contextmanager
    def connect(self, machine: Machine) -> Generator[SpeedSelectSession, None, None]:
        del machine
        found = SpeedSelect(
            socket=SocketId(0),
            domain=1,
            cpus=CpuSet.parse("16-17"),
            clos_of=dict(self.clos),
            clos_khz=dict(self.khz),
            has_core_power=self.power[0],
            clos_order=(0, 1, 2, 3) if self.power[1] else (),
            has_turbo_frequency=self.turbo,
        )
        yield (found,), self

    def state(self) -> tuple[object, ...]:
        return dict(self.clos), dict(self.khz), self.power, self.turbo

    def associate(self, domain: SpeedSelect, cpus: CpuSet, clos: int) -> None:
        (cpu,) = cpus
        self._write(domain, f"cpu {cpu}")
        self.clos[cpu] = clos

    def limit(self, domain: SpeedSelect, clos: int, lowest_khz: int, highest_khz: int) -> None:
        self._write(domain, f"class {clos}")
        self.khz[clos] = (lowest_khz, highest_khz)

    def set_core_power(
        self, domain: SpeedSelect, *, is_enabled: bool, is_ordered: bool = True
    ) -> None:
        self._write(domain, "core power")
        assert is_enabled or not self.turbo, "turbo frequency must go first"
        self.power = (is_enabled, is_ordered)

    def set_turbo_frequency(self, domain: SpeedSelect, *, is_enabled: bool) -> None:
        self._write(domain, "turbo frequency")
        assert self.power == (True, True), "core power must come first"
        self.turbo = is_enabled

    def _write(self, domain: SpeedSelect, what: str) -> None:
        assert (domain.socket, domain.domain) == (0, 1)
        if self.refusal is not None:
            raise OSError(self.refusal, os.strerror(self.refusal))
        self.written.append(what)


class Settings(KernelSettings):
    """Settings that are made each in a session of their own."""

    def __init__(self, folder: Path, access: SpeedSelectAccess) -> None:
        log = logging.getLogger("settings")
        super().__init__(Knobs(folder, access), Originals(folder, "boot", log), log)
        self._access = access

    def apply(self, wanted: Effects) -> int:
        with self._access.session(machine()):
            return super().apply(wanted)


def settings(folder: Path, domain: Domain | None) -> KernelSettings:
    registers = None if domain is None else DeviceRegisters(domain.connect)
    return Settings(folder, SpeedSelectAccess(lambda: registers))


def test_what_is_set_is_put_back_in_the_order_the_hardware_needs(tmp_path: Path) -> None:
    domain = Domain()
    found = domain.state()
    turning = settings(tmp_path, domain)
    assert turning.apply(Effects(WANTED)) == len(WANTED)
    assert domain.state() == (
        {16: 0, 17: 3},
        {0: (3_800_000, 3_800_000), 3: (0, 25_500_000)},
        (True, True),
        True,
    )
    assert domain.written == ["class 0", "class 0", "cpu 17", "core power", "turbo frequency"]
    turning.rest()
    assert domain.state() == found


def test_the_next_process_puts_back_what_the_last_one_left(tmp_path: Path) -> None:
    domain = Domain()
    found = domain.state()
    settings(tmp_path, domain).apply(Effects(WANTED))
    settings(tmp_path, domain).apply(Effects())
    assert domain.state() == found


def test_what_is_so_already_is_not_written_and_not_put_back(tmp_path: Path) -> None:
    domain = Domain()
    domain.power, domain.turbo = (True, True), True
    turning = settings(tmp_path, domain)
    turning.apply(Effects({POWER: "1 ordered", TURBO: "1"}))
    turning.apply(Effects())
    assert domain.written == []


def test_the_machine_as_found_is_known_while_it_is_changed(tmp_path: Path) -> None:
    domain = Domain()
    found = machine(
        clos_of={16: 0, 17: 0},
        clos_khz={0: (800_000, 3_000_000), 3: (0, 25_500_000)},
    )
    turning = settings(tmp_path, domain)
    assert turning.as_found(found) == found
    turning.apply(Effects(WANTED))
    changed = machine(
        clos_of={16: 0, 17: 3},
        clos_khz={0: (3_800_000, 3_800_000), 3: (0, 25_500_000)},
        has_core_power=True,
        has_turbo_frequency=True,
        clos_order=(0, 1, 2, 3),
    )
    for process in (turning, settings(tmp_path, domain)):
        assert process.as_found(changed) == found
    turning.rest()
    assert turning.as_found(changed) == changed


def machine(**facts: Any) -> Machine:
    """A machine of one power domain."""
    cpus = CpuSet.parse("16-17")
    domains = (SpeedSelect(socket=SocketId(0), domain=1, cpus=cpus, **facts),)
    return replace(machine_from_spec("core:18"), speed_select=domains)


def test_another_order_of_priority_is_put_back_too(tmp_path: Path) -> None:
    domain = Domain()
    domain.power = (True, False)
    turning = settings(tmp_path, domain)
    turning.apply(Effects({POWER: "1 ordered"}))
    assert domain.power == (True, True)
    turning.apply(Effects())
    assert domain.power == (True, False)


def test_a_released_cpu_is_set_once_more_and_nothing_else(tmp_path: Path) -> None:
    domain = Domain()
    turning = settings(tmp_path, domain)
    turning.apply(Effects(WANTED))
    domain.written.clear()
    assert turning.apply(Effects({**WANTED, CPU: "2"})) == 1
    assert turning.apply(Effects({**WANTED, CPU: "2"})) == 0
    assert domain.written == ["cpu 17"]


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        pytest.param(
            errno.EPERM,
            "let the service have /dev/isst_interface and CAP_SYS_ADMIN",
            id="no capability",
        ),
        pytest.param(errno.EIO, "it stays as it is", id="whatever else"),
    ],
)
def test_a_device_that_refuses_is_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, number: int, remedy: str
) -> None:
    domain = Domain()
    domain.refusal = number
    turning = settings(tmp_path, domain)
    for _ in range(2):
        assert turning.apply(Effects(WANTED)) == 0
    (record,) = caplog.records
    text = os.strerror(number)
    assert record.getMessage() == (
        "Speed Select of class 0 in power domain 0/1, cpu 17, power domain 0/1:"
        f" {text[:1].lower() + text[1:]} — {remedy}"
    )
    turning.apply(Effects())
    assert len(caplog.records) == 1, "what never changed is not put back"


def test_no_device_is_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert settings(tmp_path, None).apply(Effects(WANTED)) == 0
    (record,) = caplog.records
    assert record.getMessage().endswith(
        "no /dev/isst_interface here — load its drivers, and let the service have"
        " /dev/isst_interface"
    )


def test_an_original_of_no_register_is_told_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    domain = Domain()
    (tmp_path / "originals.json").write_text(
        '{"boot_id": "boot", "originals": {"speedselect/what/0/1/2": {"text": "1"}}}'
    )
    turning = settings(tmp_path, domain)
    assert turning.as_found(machine()) == machine()
    assert turning.apply(Effects(WANTED)) == len(WANTED)
    assert caplog.records == []
    assert "what" not in (tmp_path / "originals.json").read_text()
