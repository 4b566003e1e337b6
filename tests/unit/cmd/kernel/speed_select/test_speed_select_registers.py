"""Registers of Speed Select behind a fake driver: read once in a session, and written through."""

import contextlib
import errno
import logging
from collections.abc import Generator
from pathlib import Path

import pytest

from pinfold.cmd.kernel.kernel_settings import KernelSettings
from pinfold.cmd.kernel.knobs import Knobs
from pinfold.cmd.kernel.originals import Originals
from pinfold.cmd.kernel.speed_select.speed_select_registers import (
    DeviceRegisters,
    SpeedSelectSession,
    open_registers,
)
from pinfold.cmd.kernel.speed_select_access import SpeedSelectAccess
from pinfold.policy.tuning.effects import Effects, Knob, KnobKind
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine
from pinfold.topology.sysfs.speed_select.device import read_speed_select, speed_select_control
from tests.unit.topology.sysfs.speed_select.fake_isst import Domain, FakeTpmi

MACHINE = machine_from_spec("socket:1 numa:1 core:4 thread:2 mem:4G")
ASSOCIATION = 0xC008FE08
FEATURES = 0x4008FE0B
WANTED = {
    Knob(KnobKind.CLOS_MIN, 0, "0/0"): "3800000",
    Knob(KnobKind.CLOS_MAX, 0, "0/0"): "3800000",
    **{Knob(KnobKind.CLOS, cpu, "0/0"): "3" for cpu in range(4)},
    Knob(KnobKind.CORE_POWER, name="0/0"): "1 ordered",
    Knob(KnobKind.TURBO_FREQUENCY, name="0/0"): "1",
}


def device() -> FakeTpmi:
    """One power domain of four cores of two threads."""
    # MSR 0x54: the core from bit 3 on. Source: include/linux/intel_tpmi.h and its users.
    physical = {cpu: cpu >> 1 << 3 | cpu & 1 for cpu in range(8)}
    return FakeTpmi(physical=physical, domains={(0, 0): Domain()})


class ReadOnly(FakeTpmi):
    """Drivers for somebody without CAP_SYS_ADMIN."""

    def ask(self, number: int, data: bytes) -> bytes:
        is_set = {0xC008FE06: data[0], 0xC008FE07: data[0], ASSOCIATION: data[2], FEATURES: 1}
        if is_set.get(number):
            raise OSError(errno.EPERM, "no matter")
        return super().ask(number, data)


class Node:
    """Settings over a fake driver."""

    def __init__(self, folder: Path) -> None:
        self.device = device()
        self.opened = 0
        self.refusal: OSError | None = None
        self.registers = DeviceRegisters(self.connect)
        self.access = SpeedSelectAccess(lambda: self.registers)
        log = logging.getLogger("settings")
        knobs = Knobs(folder, self.access)
        self.settings = KernelSettings(knobs, Originals(folder, "boot", log), log)

    @contextlib.contextmanager
    def connect(self, machine: Machine) -> Generator[SpeedSelectSession, None, None]:
        self.opened += 1
        if self.refusal is not None:
            raise self.refusal
        yield (
            read_speed_select(self.device, machine),
            speed_select_control(self.device, machine.online),
        )

    def apply(self, wanted: Effects) -> int:
        with self.access.session(MACHINE):
            return self.settings.apply(wanted)


@pytest.fixture(name="node")
def fixture_node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_the_hardware_has_what_is_wanted_until_it_is_wanted_no_more(node: Node) -> None:
    domain = node.device.domains[0, 0]
    domain.cp, domain.ordered = 1, 0
    assert node.apply(Effects(WANTED)) == len(WANTED)
    assert (domain.cp, domain.ordered, domain.features) == (1, 1, 2)
    assert domain.clos[0][:2] == [3800, 3800]
    assert domain.clos_of == {0: 3, 1: 3}
    node.apply(Effects())
    assert (domain.cp, domain.ordered, domain.features) == (1, 0, 0)
    assert domain.clos[0][:2] == [0, 25_500]
    assert domain.clos_of == {0: 0, 1: 0}


def test_a_session_opens_the_device_once_and_only_if_it_is_needed(node: Node) -> None:
    node.apply(Effects())
    assert node.opened == 0
    node.apply(Effects(WANTED))
    assert node.opened == 1
    reads = node.device.asked.count(ASSOCIATION) - 4
    assert reads == 1, "all cpus in one ioctl"
    writes = node.device.writes
    assert node.apply(Effects(WANTED)) == 0
    assert (node.opened, node.device.writes) == (2, writes)


def test_what_somebody_else_changed_meanwhile_is_seen(node: Node) -> None:
    knob = Knob(KnobKind.CLOS, 0, "0/0")
    node.apply(Effects({knob: "3"}))
    node.device.domains[0, 0].clos_of[0] = 2
    assert node.apply(Effects({knob: "2"})) == 0, "it is so already"


def test_a_device_that_refuses_is_asked_once_and_told_once(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.refusal = OSError(errno.EACCES, "Permission denied")
    for _ in range(2):
        assert node.apply(Effects(WANTED)) == 0
    assert node.opened == 2
    (record,) = caplog.records
    assert record.getMessage() == (
        "Speed Select of class 0 in power domain 0/0, cpu 0, cpu 1, cpu 2, cpu 3, power domain 0/0:"
        " permission denied — let the service have /dev/isst_interface"
    )


def test_a_driver_that_lets_us_read_alone_is_one_line(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.device = ReadOnly(physical=node.device.physical, domains=node.device.domains)
    assert node.apply(Effects(WANTED)) == 0
    (record,) = caplog.records
    assert record.getMessage().endswith(
        "operation not permitted — let the service have /dev/isst_interface and CAP_SYS_ADMIN"
    )
    assert node.device.writes == 0


def test_an_answer_nobody_can_read_is_told(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.device.cut = 0
    node.apply(Effects(WANTED))
    (record,) = caplog.records
    assert "/dev/isst_interface: platform: 7 bytes instead of 8" in record.getMessage()


def test_a_power_domain_the_hardware_does_not_have_is_told(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.apply(Effects({Knob(KnobKind.TURBO_FREQUENCY, name="1/0"): "1"}))
    (record,) = caplog.records
    assert "the hardware does not tell of power domain 1/0" in record.getMessage()


def test_there_are_no_registers_outside_of_a_session(node: Node) -> None:
    with pytest.raises(OSError, match="not before anything is known"):
        node.registers.read("turbo_frequency/0/0/0")


def test_a_path_without_a_device_cannot_be_opened(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError),
        open_registers(tmp_path / "dev/isst_interface", MACHINE),
    ):
        pass
