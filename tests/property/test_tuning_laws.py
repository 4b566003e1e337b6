"""What is wanted no more is as it was found; what is wanted is there; nothing else is touched."""

import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.cmd.kernel.kernel_settings import KernelSettings
from pinfold.cmd.kernel.knobs import Knobs
from pinfold.cmd.kernel.originals import Originals
from pinfold.policy.annotations.annotation_values import IrqAffinity, IrqMode
from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.pools.supply import Supply
from pinfold.policy.text.glob import compile_glob
from pinfold.policy.tuning.effects import (
    Effects,
    ExclusiveCpus,
    Hardware,
    Knob,
    KnobKind,
    Occupancy,
    effects,
)
from pinfold.policy.tuning.interrupts import Interrupt, InterruptTable, route
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet

LOG = logging.getLogger("laws")
CPUS = 4
FILES = {
    **{f"proc/irq/{irq}/smp_affinity_list": f"{irq % CPUS}" for irq in range(3)},
    **{
        f"sys/devices/system/cpu/cpu{cpu}/cpufreq/{name}": text
        for cpu in range(CPUS)
        for name, text in (
            ("scaling_governor", "schedutil"),
            ("scaling_min_freq", "800000"),
            ("scaling_max_freq", "3500000"),
        )
    },
}
sets = st.integers(1, 2**CPUS - 1).map(CpuSet)
knobs = st.one_of(
    st.tuples(st.builds(Knob, st.just(KnobKind.IRQ_AFFINITY), st.integers(0, 3)), sets.map(str)),
    st.tuples(
        st.builds(Knob, st.just(KnobKind.GOVERNOR), st.integers(0, CPUS)),
        st.sampled_from(["performance", "powersave", "schedutil"]),
    ),
    st.tuples(
        st.builds(
            Knob,
            st.sampled_from([KnobKind.MIN_FREQUENCY, KnobKind.MAX_FREQUENCY]),
            st.integers(0, CPUS),
        ),
        st.integers(800, 3500).map(lambda mhz: f"{mhz}000"),
    ),
)
wanted_values = st.lists(knobs, max_size=12).map(dict[Knob, str])


def content(root: Path) -> dict[str, str]:
    return {path: (root / path).read_text() for path in FILES}


def expected(kernel: Knobs, wanted: Mapping[Knob, str]) -> dict[str, str]:
    changed = {kernel.path(knob): text for knob, text in wanted.items()}
    return {path: changed.get(path, text) for path, text in FILES.items()}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(wanted_values, st.booleans()), min_size=1, max_size=5))
def test_files_hold_what_is_wanted_and_else_what_they_held(
    steps: list[tuple[dict[Knob, str], bool]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for path, text in FILES.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        kernel = Knobs(root)
        turning = KernelSettings(kernel, Originals(root, "", LOG), LOG)
        for wanted, is_restarted in steps:
            if is_restarted:
                turning = KernelSettings(kernel, Originals(root, "", LOG), LOG)
            turning.apply(Effects(wanted))
            assert content(root) == expected(kernel, wanted)
            assert turning.apply(Effects(wanted)) == 0
        turning.apply(Effects())
        assert content(root) == FILES


patterns = st.lists(st.sampled_from(["*", "*eth*", "*disk*", "0", "1", "7"]), max_size=2)
wishes = st.builds(
    IrqAffinity,
    claim=patterns.map(tuple),
    mask=patterns.map(tuple),
    mode=st.sampled_from(IrqMode),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(wishes, sets), max_size=4), st.lists(sets, min_size=3, max_size=3))
def test_no_interrupt_is_left_without_cpus_and_order_does_not_matter(
    asked: list[tuple[IrqAffinity, CpuSet]], affinities: list[CpuSet]
) -> None:
    interrupts = [
        Interrupt(number=number, description=text, affinity=affinities[number])
        for number, text in enumerate(("MSI eth0", "MSI disk0", "ACPI"))
    ]
    table, allowed = InterruptTable(interrupts), CpuSet.parse("0-3")
    routing = route(table, asked, allowed)
    assert all(routing.targets.values())
    assert routing == route(InterruptTable(interrupts), list(reversed(asked)), allowed)
    claimed = {
        one.number for wish, _ in asked for text in wish.claim for one in table.matching(text)
    }
    masked = {one.number for wish, _ in asked for text in wish.mask for one in table.matching(text)}
    assert routing.targets.keys() == claimed | masked


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(["*", "a", "b/", "?", "[ab]", "\\*"]), max_size=4).map("".join),
    st.lists(st.sampled_from("ab/*"), max_size=4).map("".join),
)
def test_a_pattern_that_is_no_number_is_a_glob_without_separator(pattern: str, text: str) -> None:
    one = Interrupt(number=1, description=text, affinity=CpuSet.of(0))
    expected = compile_glob(pattern, separator="").matches(text)
    assert (InterruptTable([one]).matching(pattern) == [one]) is expected


MACHINE = machine_from_spec("socket:2 numa:1 core:4 thread:1 mem:4G")
SUPPLY = Supply(isolated=CpuSet(), reserved=CpuSet.of(0), sharable=CpuSet.parse("1-7"))


def config(shared: str, reserved: str) -> Config:
    return config_from_values(
        {
            "cpuClasses": [{"name": one, "freqGovernor": one} for one in "abc"],
            "sharedPoolCPUClass": shared,
            "reservedPoolCPUClass": reserved,
        }
    )


@settings(max_examples=100, deadline=None)
@given(
    st.builds(config, st.sampled_from("abc"), st.sampled_from("abc")),
    st.lists(st.sampled_from("abc"), max_size=3),
)
def test_every_usable_cpu_is_in_exactly_one_class_and_set_as_it_says(
    configured: Config, names: list[str]
) -> None:
    holdings = tuple(
        ExclusiveCpus(cpus=CpuSet.of(2 * position + 1), cpu_class=name)
        for position, name in enumerate(names)
    )
    occupancy = Occupancy(machine=MACHINE, config=configured, supply=SUPPLY, holdings=holdings)
    values = effects(occupancy, Hardware()).values
    for cpu in range(8):
        (name,) = (name for name, cpus in occupancy.classes.items() if cpu in cpus)
        assert values[Knob(KnobKind.GOVERNOR, cpu)] == name
    for one in holdings:
        assert one.cpus <= occupancy.classes[one.cpu_class or ""]
