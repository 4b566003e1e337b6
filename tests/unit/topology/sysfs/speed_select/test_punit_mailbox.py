"""Speed Select over mailbox and registers, spoken with a fake of the kernel's drivers."""

import pytest

from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet
from pinfold.topology.sysfs.speed_select.device import read_speed_select, speed_select_control
from pinfold.topology.sysfs.speed_select.isst import MAX_KHZ, SpeedSelectError
from tests.unit.topology.sysfs.speed_select.fake_isst import FakeMailbox

MACHINE = machine_from_spec("socket:2 core:2 thread:2")
# Cores 3 and 40 of each punit; the bits above the core are those of sockets and dies.
PHYSICAL = {cpu: (cpu // 4) << 9 | (3, 40)[cpu // 2 % 2] << 1 | cpu % 2 for cpu in range(8)}
DIE_OF = {cpu: cpu // 4 for cpu in range(8)}

TDP, CLOS, READ_PM, WRITE_PM = 0x7F, 0xD0, 0x94, 0x95
LEVEL = 2
TF_SUPPORTED, BF_SUPPORTED, TF_ON, BF_ON = 1 << 0, 1 << 1, 1 << 16, 1 << 17


def fake(
    control: int = TF_SUPPORTED | BF_SUPPORTED,
    power: int = 1,
    priorities: int = 0,
    has_registers: bool = True,
    has_mailbox: bool = True,
    busy: int = 0,
) -> FakeMailbox:
    """Drivers of the machine, whose two punits say the same, at performance level 2."""
    mail = {
        (TDP, 0x00, 0): LEVEL << 16 | 1 << 31,
        (TDP, 0x01, LEVEL): control,
        (TDP, 0x10, LEVEL): 0x00060204,
        (TDP, 0x10, 1 << 8 | LEVEL): 0,
        (TDP, 0x20, LEVEL): 1 << 3,
        (TDP, 0x20, 1 << 8 | LEVEL): 1 << (40 - 32),
        (READ_PM, 0x03, 0): power,
        (CLOS, 0x02, 0): priorities,
    }
    return FakeMailbox(
        physical=PHYSICAL,
        die_of=DIE_OF,
        mail={(punit, *key): value for punit in range(2) for key, value in mail.items()},
        registers={(punit, 0x08 + 4 * clos): 0x00FF0000 for punit in range(2) for clos in range(4)},
        has_registers=has_registers,
        has_mailbox=has_mailbox,
        busy=busy,
    )


def test_each_socket_is_a_domain_and_nothing_is_written() -> None:
    device = fake()
    found = read_speed_select(device, MACHINE)
    assert [(one.socket, one.domain, str(one.cpus)) for one in found] == [
        (0, 0, "0-3"),
        (1, 0, "4-7"),
    ]
    assert all(one.supports_turbo_frequency and one.supports_core_power for one in found)
    assert not any(one.has_turbo_frequency or one.has_core_power for one in found)
    assert [one.high_priority_cpus for one in found] == [2, 2]
    assert device.written == []
    assert not {(TDP, 0x02), (WRITE_PM, 0x03)} & {(one[1], one[2]) for one in device.sent}
    assert {parameter for _, _, _, parameter, _ in device.sent} == {0}


def test_classes_of_service_are_in_registers() -> None:
    device = fake(control=TF_SUPPORTED | TF_ON, power=1 | 1 << 16, priorities=1 << 1 | 1 << 2)
    device.registers[1, 0x08 + 4 * 3] = 29 << 16 | 8 << 8 | 15 << 4
    device.registers[1, 0x20 + 4 * 40] = 3 << 16
    first, second = read_speed_select(device, MACHINE)
    assert (second.has_turbo_frequency, second.has_core_power) == (True, True)
    assert second.clos_order == (0, 1, 2, 3)
    assert second.clos_of == {4: 0, 5: 0, 6: 3, 7: 3}
    assert second.clos_khz[3] == (800_000, 2_900_000)
    assert first.clos_of == dict.fromkeys(range(4), 0)
    assert first.clos_khz[3] == (0, MAX_KHZ)


def test_base_frequency_cpus_come_in_two_halves() -> None:
    (domain, _) = read_speed_select(fake(control=BF_SUPPORTED | BF_ON), MACHINE)
    assert str(domain.base_frequency_cpus) == "0-3"
    assert (domain.supports_turbo_frequency, domain.high_priority_cpus) == (False, 0)


def test_where_the_level_is_refused_it_is_the_first() -> None:
    device = fake()
    for punit in range(2):
        del device.mail[punit, TDP, 0x00, 0]
        device.mail[punit, TDP, 0x01, 0] = 0
    assert not read_speed_select(device, MACHINE)[0].supports_turbo_frequency


def test_busy_firmware_is_asked_again_but_not_for_ever() -> None:
    assert read_speed_select(fake(busy=2), MACHINE) == read_speed_select(fake(), MACHINE)
    with pytest.raises(SpeedSelectError, match="mailbox: device or resource busy"):
        read_speed_select(fake(busy=6), MACHINE)


def test_without_registers_classes_are_left_out_as_long_as_nobody_uses_them() -> None:
    (domain, _) = read_speed_select(fake(has_registers=False), MACHINE)
    assert domain.supports_turbo_frequency
    assert (domain.supports_core_power, domain.clos_of, domain.clos_khz) == (False, {}, {})
    with pytest.raises(SpeedSelectError, match="no registers; the kernel module isst_if_mmio"):
        read_speed_select(fake(power=1 | 1 << 16, has_registers=False), MACHINE)
    with pytest.raises(SpeedSelectError, match="no registers"):
        speed_select_control(fake(has_registers=False), MACHINE.online)


def test_without_a_mailbox_nothing_is_read() -> None:
    with pytest.raises(SpeedSelectError, match="no mailbox; kernel modules isst_if_mbox"):
        read_speed_select(fake(has_mailbox=False), MACHINE)


def test_a_refused_command_is_said() -> None:
    device = fake()
    del device.mail[0, READ_PM, 0x03, 0]
    with pytest.raises(SpeedSelectError, match="mailbox: no such device or address"):
        read_speed_select(device, MACHINE)


def test_cores_are_put_into_a_class_of_service() -> None:
    device = fake()
    (_, domain) = read_speed_select(device, MACHINE)
    control = speed_select_control(device, MACHINE.online)
    control.associate(domain, CpuSet.parse("1,6-7"), 3)
    assert device.written == [(1, 0x20 + 4 * 40, 3 << 16)]
    assert read_speed_select(device, MACHINE)[1].clos_of == {4: 0, 5: 0, 6: 3, 7: 3}


def test_limits_leave_the_rest_of_the_register_alone() -> None:
    device = fake()
    device.registers[0, 0x08 + 4 * 2] = 0xAA_FF_00_5B
    (domain, _) = read_speed_select(device, MACHINE)
    speed_select_control(device, MACHINE.online).limit(domain, 2, 850_000, 2_900_000)
    assert device.registers[0, 0x08 + 4 * 2] == 0xAA_1D_08_5B
    assert read_speed_select(device, MACHINE)[0].clos_khz[2] == (800_000, 2_900_000)


def test_features_are_switched_one_by_one() -> None:
    device = fake(control=TF_SUPPORTED | BF_ON, priorities=1 << 7)
    (_, domain) = read_speed_select(device, MACHINE)
    control = speed_select_control(device, MACHINE.online)
    device.sent.clear()
    control.set_core_power(domain, is_enabled=True)
    control.set_turbo_frequency(domain, is_enabled=True)
    control.set_turbo_frequency(domain, is_enabled=False)
    control.set_core_power(domain, is_enabled=False, is_ordered=False)
    sets = [
        (command, subcommand, request)
        for punit, command, subcommand, parameter, request in device.sent
        if punit == 1 and ((command, subcommand) in {(TDP, 2), (WRITE_PM, 3)} or parameter)
    ]
    assert sets == [
        (WRITE_PM, 3, 1 << 16),
        (CLOS, 2, 1 << 7 | 1 << 2 | 1 << 1),
        (TDP, 2, TF_ON | BF_ON),
        (TDP, 2, BF_ON),
        (WRITE_PM, 3, 0),
        (CLOS, 2, 1 << 7),
    ]
