"""Speed Select over TPMI, spoken with a fake of the kernel's drivers."""

import errno
import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine, SocketId
from pinfold.topology.sets.cpuset import CpuSet
from pinfold.topology.sysfs.speed_select import isst, punit_mailbox, tpmi
from pinfold.topology.sysfs.speed_select.device import (
    DeviceFile,
    add_speed_select,
    open_device,
    read_speed_select,
    speed_select_control,
)
from pinfold.topology.sysfs.speed_select.isst import MAX_KHZ, Ioctl, SpeedSelectError
from tests.unit.topology.sysfs.speed_select.fake_isst import Domain, FakeTpmi

MACHINE = machine_from_spec("socket:2 die:2 core:2 thread:2")
# Power domain 1 has no cpus, as that of an I/O die; cores are numbered as no kernel does.
PHYSICAL = {
    cpu: (0, 2)[cpu // 4 % 2] << 11 | (5 + 4 * (cpu // 2 % 2)) << 3 | cpu % 2 for cpu in range(16)
}
PLACES = [(socket, domain) for socket in range(2) for domain in range(3)]


def fake(**domains: Domain) -> FakeTpmi:
    """Drivers of the machine; `s1d2=` names the registers of a power domain."""
    return FakeTpmi(
        physical=PHYSICAL,
        domains={
            (socket, number): domains.get(f"s{socket}d{number}", Domain())
            for socket, number in PLACES
        },
    )


def test_every_power_domain_with_cpus_is_read_and_nothing_is_written() -> None:
    device = fake()
    found = read_speed_select(device, MACHINE)
    assert [(one.socket, one.domain, str(one.cpus)) for one in found] == [
        (0, 0, "0-3"),
        (0, 2, "4-7"),
        (1, 0, "8-11"),
        (1, 2, "12-15"),
    ]
    assert device.writes == 0
    assert not {number for number in device.asked if number & 0xFF == 11}


def test_all_a_domain_says_is_told() -> None:
    registers = Domain(
        features=2,
        level=3,
        cp=1,
        ordered=1,
        clos_of={5: 0, 9: 3},
        clos={0: [3800, 3900, 0], 1: [0, 25500, 0], 2: [800, 3000, 1], 3: [800, 2900, 15]},
    )
    (_, domain, _, _) = read_speed_select(fake(s0d2=registers), MACHINE)
    assert domain.supports_turbo_frequency
    assert domain.supports_core_power
    assert domain.has_turbo_frequency
    assert domain.has_core_power
    assert domain.clos_count == 4
    assert domain.clos_order == (0, 1, 2, 3)
    assert domain.clos_of == {4: 0, 5: 0, 6: 3, 7: 3}
    assert domain.clos_khz == {
        0: (3_800_000, 3_900_000),
        1: (0, MAX_KHZ),
        2: (800_000, 3_000_000),
        3: (800_000, 2_900_000),
    }
    assert domain.high_priority_cpus == 2
    assert not domain.base_frequency_cpus


def test_each_domain_has_its_own_features() -> None:
    found = read_speed_select(
        fake(
            s0d0=Domain(cp=1, ordered=0),
            s0d2=Domain(features=1, bf_cores=1 << 9),
            s1d0=Domain(has_tf=False, has_bf=False, has_cp=False),
        ),
        MACHINE,
    )
    proportional, base, bare, _ = found
    assert (proportional.has_core_power, proportional.clos_order) == (True, ())
    assert str(base.base_frequency_cpus) == "6-7"
    assert (bare.supports_turbo_frequency, bare.supports_core_power) == (False, False)
    assert (bare.clos_of, bare.clos_khz, bare.high_priority_cpus) == ({}, {}, 0)


def test_base_frequency_cpus_count_only_where_the_feature_is_on() -> None:
    (domain, *_) = read_speed_select(fake(s0d0=Domain(bf_cores=1 << 9)), MACHINE)
    assert not domain.base_frequency_cpus


def test_a_cpu_the_driver_does_not_know_is_in_no_domain() -> None:
    device = fake()
    device.physical = {cpu: one for cpu, one in PHYSICAL.items() if cpu != 6}
    (_, domain, _, _) = read_speed_select(device, MACHINE)
    assert str(domain.cpus) == "4-5,7"
    assert sorted(domain.clos_of) == [4, 5, 7]


def test_a_large_machine_is_asked_in_pieces() -> None:
    machine = machine_from_spec("core:200")
    device = FakeTpmi(
        physical={cpu: cpu << 3 for cpu in range(200)},
        domains={(0, 0): Domain(clos_of={cpu: cpu % 4 for cpu in range(200)})},
    )
    (domain,) = read_speed_select(device, machine)
    assert domain.clos_of == {cpu: cpu % 4 for cpu in range(200)}
    assert [device.asked.count(number) for number in (0xC008FE01, 0xC008FE08)] == [4, 4]


def opened(device: FakeTpmi, machine: Machine = MACHINE) -> Machine:
    """What discovery would make of the device."""
    try:
        return replace(machine, speed_select=read_speed_select(device, machine))
    except SpeedSelectError as error:
        return replace(machine, warnings=(str(error),))


TROUBLE = {
    "not permitted": (0, errno.EPERM, "platform: operation not permitted"),
    "no such device any more": (1, errno.ENODEV, "physical id: no such device"),
    "no power domains": (5, errno.ENOTTY, "instances: inappropriate ioctl for device"),
    "hardware that manages no frequencies": (6, errno.EFAULT, "core power: bad address"),
    "no classes": (7, errno.EINVAL, "class of service: invalid argument"),
    "no associations": (8, errno.EINVAL, "association: invalid argument"),
    "no levels": (9, errno.EINVAL, "performance levels: invalid argument"),
    "no turbo frequencies": (16, errno.EIO, "turbo frequency: input/output error"),
}


@pytest.mark.parametrize(("ordinal", "error", "message"), TROUBLE.values(), ids=TROUBLE)
def test_what_the_kernel_refuses_is_said(ordinal: int, error: int, message: str) -> None:
    device = fake()
    device.failing = {ordinal: error}
    machine = opened(device)
    assert machine.warnings == (f"/dev/isst_interface: {message}",)
    assert machine.speed_select == ()


@pytest.mark.parametrize("ordinal", [0, 1, 5, 6, 7, 8, 9, 16])
def test_an_answer_that_is_short_is_said(ordinal: int) -> None:
    device = fake()
    device.cut = ordinal
    (warning,) = opened(device).warnings
    assert " bytes instead of " in warning


@pytest.mark.parametrize("version", [0, 4])
def test_an_interface_of_another_generation_is_not_guessed_at(version: int) -> None:
    device = fake()
    device.api = version
    assert opened(device).warnings == (
        f"/dev/isst_interface: interface {version} is of a generation not known here",
    )
    assert device.asked == [0x8008FE00]


def test_a_socket_too_far_for_the_interface_is_said() -> None:
    machine = machine_from_spec("core:1")
    far = replace(machine.cpus[0], socket=SocketId(300))
    (warning,) = opened(fake(), replace(machine, cpus={0: far})).warnings
    assert warning.startswith("/dev/isst_interface: instances: [300, 0, 0] do not fit")


# Changes


def test_cpus_are_put_into_a_class_of_service_core_by_core() -> None:
    device = fake()
    control = speed_select_control(device, MACHINE.online)
    domains = read_speed_select(device, MACHINE)
    control.associate(domains[1], CpuSet.parse("2,6"), 3)
    found = read_speed_select(device, MACHINE)
    assert found[1].clos_of == {4: 0, 5: 0, 6: 3, 7: 3}
    assert found[0].clos_of == dict.fromkeys(range(4), 0)
    assert device.writes == 1


@pytest.mark.parametrize(
    ("khz", "expected"),
    [
        ((800_000, 2_900_000), (800_000, 2_900_000)),
        ((0, MAX_KHZ), (0, MAX_KHZ)),
        ((899_999, 3_850_000), (800_000, 3_800_000)),
        ((-1, 99_000_000), (0, MAX_KHZ)),
    ],
)
def test_a_class_is_limited_in_steps_of_100_mhz(
    khz: tuple[int, int], expected: tuple[int, int]
) -> None:
    device = fake()
    (_, _, domain, _) = read_speed_select(device, MACHINE)
    speed_select_control(device, MACHINE.online).limit(domain, 3, *khz)
    (_, _, after, other) = read_speed_select(device, MACHINE)
    assert after.clos_khz[3] == expected
    assert other.clos_khz[3] == (0, MAX_KHZ)
    assert device.domains[1, 0].clos[3][2] == 3, "the proportional priority stays"


def test_features_are_switched_one_by_one() -> None:
    device = fake(s0d0=Domain(features=1))
    (domain, *_) = read_speed_select(device, MACHINE)
    control = speed_select_control(device, MACHINE.online)
    registers = device.domains[0, 0]
    control.set_core_power(domain, is_enabled=True)
    assert (registers.cp, registers.ordered, registers.features) == (1, 1, 1)
    control.set_turbo_frequency(domain, is_enabled=True)
    assert registers.features == 3
    control.set_turbo_frequency(domain, is_enabled=False)
    control.set_core_power(domain, is_enabled=False, is_ordered=False)
    assert (registers.cp, registers.ordered, registers.features) == (0, 0, 1)
    control.set_core_power(domain, is_enabled=True, is_ordered=False)
    assert (registers.cp, registers.ordered) == (1, 0)
    assert device.domains[0, 2].cp == 0


# The device file


def test_without_a_device_there_is_silence(tmp_path: Path) -> None:
    assert add_speed_select(MACHINE, str(tmp_path / "isst_interface")) is MACHINE


def test_a_file_that_is_no_device_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "isst_interface"
    path.touch()
    assert add_speed_select(MACHINE, str(path)).warnings == (
        f"{path}: not a device — Speed Select is not read",
    )


def test_another_device_is_a_warning() -> None:
    machine = add_speed_select(MACHINE, "/dev/null")
    assert machine.warnings == (
        "/dev/isst_interface: platform: inappropriate ioctl for device — Speed Select is not read",
    )
    assert machine.speed_select == ()


def test_a_folder_above_that_is_a_file_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    (warning,) = add_speed_select(MACHINE, f"{path}/isst_interface").warnings
    assert warning == f"{path}/isst_interface: not a directory — Speed Select is not read"


def test_the_device_is_closed_after_the_block() -> None:
    with open_device("/dev/null") as device:
        pass
    with pytest.raises(OSError, match="Bad file descriptor"):
        device.ask(isst.PLATFORM.number, bytes(8))
    assert isinstance(device, DeviceFile)


# The compiler's word on layouts and numbers

REQUESTS = {
    "PLATFORM": (isst.PLATFORM, "isst_if_platform_info", "GET_PLATFORM_INFO"),
    "PHYSICAL_ID": (isst.PHYSICAL_ID, "isst_if_cpu_maps", "GET_PHY_ID"),
    "REGISTERS": (punit_mailbox.REGISTERS, "isst_if_io_regs", "IO_CMD"),
    "MAILBOX": (punit_mailbox.MAILBOX, "isst_if_mbox_cmds", "MBOX_COMMAND"),
    "INSTANCES": (tpmi.INSTANCES, "isst_tpmi_instance_count", "COUNT_TPMI_INSTANCES"),
    "CORE_POWER": (tpmi.CORE_POWER, "isst_core_power", "CORE_POWER_STATE"),
    "CLOS": (tpmi.CLOS, "isst_clos_param", "CLOS_PARAM"),
    "ASSOCIATION": (tpmi.ASSOCIATION, "isst_if_clos_assoc_cmds", "CLOS_ASSOC"),
    "LEVELS": (tpmi.LEVELS, "isst_perf_level_info", "PERF_LEVELS"),
    "FEATURES": (tpmi.FEATURES, "isst_perf_feature_control", "PERF_SET_FEATURE"),
    "BASE_CPUS": (tpmi.BASE_CPUS, "isst_perf_level_cpu_mask", "GET_BASE_FREQ_CPU_MASK"),
    "TURBO": (tpmi.TURBO, "isst_turbo_freq_info", "GET_TURBO_FREQ_INFO"),
}


@pytest.mark.parametrize(("request_", "structure", "macro"), REQUESTS.values(), ids=REQUESTS)
def test_layouts_and_numbers_are_those_of_the_kernels_header(
    request_: Ioctl, structure: str, macro: str, tmp_path: Path
) -> None:
    compiler = shutil.which("gcc")
    header = Path("/usr/include/linux/isst_if.h")
    if compiler is None or not header.exists():
        pytest.skip("needs gcc and linux/isst_if.h")
    if f"ISST_IF_{macro}" not in header.read_text():
        pytest.skip(f"linux/isst_if.h of this machine is older than {structure}")
    source = tmp_path / "layout.c"
    source.write_text(
        "#include <stdio.h>\n#include <sys/ioctl.h>\n#include <linux/isst_if.h>\n"
        f'int main(void) {{ printf("%zu %lu", sizeof(struct {structure}),'
        f" (unsigned long)ISST_IF_{macro}); }}\n"
    )
    subprocess.run([compiler, source, "-o", tmp_path / "layout"], check=True)
    said = subprocess.run([tmp_path / "layout"], check=True, capture_output=True, text=True).stdout
    size = struct.calcsize(request_.layout + request_.item)
    assert said == f"{size} {request_.number}"


SIZES = {
    "PLATFORM": (isst.PLATFORM, 8, 0x8008FE00),
    "CORE_POWER": (tpmi.CORE_POWER, 6, 0xC008FE06),
    "CLOS": (tpmi.CLOS, 10, 0xC008FE07),
    "ASSOCIATION": (tpmi.ASSOCIATION, 12, 0xC008FE08),
    "LEVELS": (tpmi.LEVELS, 11, 0xC008FE09),
    "FEATURES": (tpmi.FEATURES, 3, 0x4008FE0B),
    "BASE_CPUS": (tpmi.BASE_CPUS, 24, 0x8008FE0F),
    "TURBO": (tpmi.TURBO, 134, 0x8008FE10),
}


@pytest.mark.parametrize(("request_", "size", "number"), SIZES.values(), ids=SIZES)
def test_layouts_where_the_header_is_older(request_: Ioctl, size: int, number: int) -> None:
    assert (struct.calcsize(request_.layout + request_.item), request_.number) == (size, number)
