"""Laws of Speed Select: whatever classes come and go, at last the hardware is as it was found."""

import contextlib
import copy
import logging
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.cmd.kernel.kernel_settings import KernelSettings
from pinfold.cmd.kernel.knobs import Knobs
from pinfold.cmd.kernel.originals import Originals
from pinfold.cmd.kernel.speed_select.speed_select_registers import (
    Connect,
    DeviceRegisters,
    SpeedSelectSession,
)
from pinfold.cmd.kernel.speed_select_access import SpeedSelectAccess
from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.pools.supply import Supply
from pinfold.policy.tuning.effects import Effects, ExclusiveCpus, Hardware, Occupancy, effects
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine, SpeedSelect
from pinfold.topology.sets.cpuset import NO_CPUS, CpuSet
from pinfold.topology.sysfs.speed_select.device import read_speed_select, speed_select_control
from tests.unit.topology.sysfs.speed_select.fake_isst import Domain, FakeTpmi

PLAIN = machine_from_spec("socket:2 numa:1 core:4 thread:2 mem:4G")
NAMES = ("a", "b", "c")
KHZ = st.sampled_from([None, "min", "base", "turbo", "1.5GHz", "3GHz"])


@st.composite
def configs(draw: st.DrawFn) -> Config:
    """Three classes, in one of the modes."""
    mode = draw(st.sampled_from(["plain", "associated", "managed"]))
    classes: list[dict[str, object]] = [{"name": name, "minFreq": draw(KHZ)} for name in NAMES]
    if mode == "associated":
        for one in classes:
            one["sstClosID"] = draw(st.sampled_from([None, 0, 1, 2, 3]))
    if mode == "managed":
        for priority in draw(st.sets(st.sampled_from(["high", "low"]), min_size=1)):
            index = 0 if priority == "high" else 1
            classes[index]["pctPriority"] = priority
            classes[index]["pctMaxFreq"] = draw(KHZ)
    return config_from_values(
        {"cpuClasses": classes, "sharedPoolCPUClass": draw(st.sampled_from(NAMES))}
    )


@st.composite
def holdings(draw: st.DrawFn) -> tuple[ExclusiveCpus, ...]:
    """Disjoint sets of cpus, each with a class."""
    owners = draw(st.lists(st.sampled_from(["", *NAMES]), min_size=16, max_size=16))
    return tuple(
        ExclusiveCpus(
            cpus=CpuSet.collect(cpu for cpu in range(1, 16) if owners[cpu] == name), cpu_class=name
        )
        for name in NAMES
    )


domains = st.builds(
    Domain,
    has_tf=st.booleans(),
    has_cp=st.booleans(),
    features=st.integers(0, 3),
    cp=st.integers(0, 1),
    ordered=st.integers(0, 1),
    clos_of=st.dictionaries(st.integers(0, 3), st.integers(0, 3)),
)


def clocked(machine: Machine) -> Machine:
    """The machine with frequencies."""
    cpus = {
        number: replace(cpu, min_khz=800_000, base_khz=2_900_000, max_khz=3_800_000)
        for number, cpu in machine.cpus.items()
    }
    return replace(machine, cpus=cpus)


@settings(max_examples=60, deadline=None)
@given(
    found=st.tuples(domains, domains),
    life=st.lists(st.tuples(configs(), holdings(), st.booleans()), min_size=1, max_size=4),
)
def test_the_hardware_is_as_it_was_found_in_the_end(
    found: tuple[Domain, Domain], life: list[tuple[Config, tuple[ExclusiveCpus, ...], bool]]
) -> None:
    device = FakeTpmi(
        # MSR 0x54: the core from bit 3 on, the thread in bit 0.
        physical={cpu: (cpu >> 1 & 3) << 3 | cpu & 1 for cpu in range(16)},
        domains={(0, 0): copy.deepcopy(found[0]), (1, 0): copy.deepcopy(found[1])},
    )

    @contextlib.contextmanager
    def connect(machine: Machine) -> Generator[SpeedSelectSession, None, None]:
        yield read_speed_select(device, machine), speed_select_control(device, machine.online)

    plain = clocked(PLAIN)
    machine = replace(plain, speed_select=read_speed_select(device, plain))
    supply = Supply(isolated=NO_CPUS, reserved=CpuSet.of(0), sharable=CpuSet.parse("1-15"))
    with TemporaryDirectory() as folder:
        turning, access = _process(Path(folder), connect)
        for config, held, restarts in life:
            occupancy = Occupancy(machine=machine, config=config, supply=supply, holdings=held)
            wanted = _of_speed_select(effects(occupancy, Hardware()))
            plan = occupancy.speed_select
            for core in machine.cores:
                assert len({plan.clos_of.get(cpu) for cpu in core}) == 1, "threads are together"
            with access.session(machine):
                turning.apply(wanted)
            now = _clos_of(read_speed_select(device, plain))
            assert now == _clos_of(machine.speed_select) | dict(plan.clos_of)
            writes = device.writes
            if restarts:
                turning, access = _process(Path(folder), connect)
            seen = turning.as_found(replace(plain, speed_select=read_speed_select(device, plain)))
            assert seen == machine
            with access.session(machine):
                turning.apply(wanted)
            assert device.writes == writes, "the same again is no change"
        with access.session(machine):
            turning.apply(Effects())
    assert read_speed_select(device, plain) == machine.speed_select


def _of_speed_select(wanted: Effects) -> Effects:
    values = {
        knob: text for knob, text in wanted.values.items() if "Speed Select" in knob.kind.value
    }
    return Effects(values)


def _clos_of(domains: tuple[SpeedSelect, ...]) -> dict[int, int]:
    return {cpu: clos for one in domains for cpu, clos in one.clos_of.items()}


def _process(folder: Path, connect: Connect) -> tuple[KernelSettings, SpeedSelectAccess]:
    access = SpeedSelectAccess(lambda: DeviceRegisters(connect))
    log = logging.getLogger("laws")
    return KernelSettings(Knobs(folder, access), Originals(folder, "boot", log), log), access
