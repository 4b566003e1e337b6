"""Which cpus are of high, normal and low priority, and how sets of them compare."""

from dataclasses import replace
from typing import Any

import pytest

from pinfold.policy.cpus.cpu_blocks import CpuBlocks
from pinfold.policy.cpus.cpu_priority import PriorityClasses, priority_classes
from pinfold.policy.model.cpu_preference import CpuPriority
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import CoreKind, Machine, SocketId, SpeedSelect
from pinfold.topology.sets.cpuset import CpuSet

HIGH, NORMAL, LOW = CpuPriority.HIGH, CpuPriority.NORMAL, CpuPriority.LOW


def machine(
    base_khz: dict[int, int] | None = None,
    epp: dict[int, str] | None = None,
    efficient: str = "",
) -> Machine:
    """Two sockets of four cpus, 0-3 and 4-7."""
    plain = machine_from_spec("socket:2 core:4")
    few = CpuSet.parse(efficient)
    return replace(
        plain,
        cpus={
            i: replace(
                cpu,
                base_khz=(base_khz or {}).get(i),
                epp=(epp or {}).get(i),
                kind=CoreKind.EFFICIENT if i in few else CoreKind.PERFORMANCE,
            )
            for i, cpu in plain.cpus.items()
        },
    )


def listed(classes: PriorityClasses) -> tuple[str, str, str]:
    return str(CpuSet(classes.high)), str(CpuSet(classes.normal)), str(CpuSet(classes.low))


FAST_AND_SLOW = {0: 2_500_000, 1: 2_500_000, 2: 1_800_000, 3: 2_100_000}
EPPS = {0: "power", 1: "balance_power", 2: "performance", 3: "power"}

FACTS = {
    "nothing is known": (machine(), ("", "0-7", "")),
    "one frequency for all": (machine(dict.fromkeys(range(8), 2_000_000)), ("", "0-7", "")),
    "the lowest base frequency is low, others high": (
        machine(FAST_AND_SLOW),
        ("0-1,3", "4-7", "2"),
    ),
    "frequencies differ between sockets only": (
        machine({i: 2_000_000 + i // 4 for i in range(8)}),
        ("", "0-7", ""),
    ),
    "a cpu without a frequency stays normal": (
        machine({0: 2_000_000, 1: 1_000_000}),
        ("0", "2-7", "1"),
    ),
    "preference overrides frequency": (machine(FAST_AND_SLOW, EPPS), ("1-2", "4-7", "0,3")),
    "one preference for all changes nothing": (
        machine(FAST_AND_SLOW, dict.fromkeys(range(8), "performance")),
        ("0-1,3", "4-7", "2"),
    ),
    "an unknown preference does not count": (
        machine(epp={0: "128", 1: "performance", 2: "balance_performance"}),
        ("1", "0,3-7", "2"),
    ),
    "efficient cores are low whatever their frequency": (
        machine({0: 2_000_000, 1: 3_000_000}, efficient="1,6-7"),
        ("", "2-5", "0-1,6-7"),
    ),
    "preferences of efficient cores do not count": (
        machine(epp={0: "performance", 1: "power"}, efficient="1"),
        ("", "0,2-7", "1"),
    ),
}


@pytest.mark.parametrize(("facts", "expected"), FACTS.values(), ids=FACTS)
def test_frequencies_make_classes_of_cpus(facts: Machine, expected: tuple[str, str, str]) -> None:
    assert listed(priority_classes(facts)) == expected


CLOS = {0: 0, 1: 1, 2: 2, 3: 3}
ALL = CpuSet.parse("0-3")


def domain(**facts: Any) -> SpeedSelect:
    """A power domain that is the whole first socket, unless told otherwise."""
    whole: dict[str, Any] = {"socket": SocketId(0), "cpus": ALL}
    return SpeedSelect(**{**whole, **facts})


SST = {
    "turbo frequency: classes 0 and 1 are high": (
        [domain(has_turbo_frequency=True, has_core_power=True, clos_of=CLOS)],
        ("0-1", "4-7", "2-3"),
    ),
    "core power: first class high, last low": (
        [domain(has_core_power=True, clos_order=(1, 0, 3, 2), clos_of=CLOS)],
        ("1", "0,3-7", "2"),
    ),
    "core power: a cpu of unknown class is normal": (
        [domain(has_core_power=True, clos_order=(0, 1), clos_of={0: 0, 1: 1})],
        ("0", "2-7", "1"),
    ),
    "core power: classes that nobody is in do not count": (
        [domain(has_core_power=True, clos_order=(0, 1, 2, 3), clos_of={0: 1, 1: 1, 2: 2, 3: 2})],
        ("0-1", "4-7", "2-3"),
    ),
    "core power with everybody in one class orders nothing: frequencies": (
        [domain(has_core_power=True, clos_order=(0, 1, 2, 3), clos_of=dict.fromkeys(range(4), 0))],
        ("0-1,3", "4-7", "2"),
    ),
    "core power that orders nothing leaves it to base frequency": (
        [domain(has_core_power=True, clos_of=CLOS, base_frequency_cpus=CpuSet.parse("2-3"))],
        ("2-3", "4-7", "0-1"),
    ),
    "core power of proportional priority orders nothing: frequencies": (
        [domain(has_core_power=True, clos_of=CLOS)],
        ("0-1,3", "4-7", "2"),
    ),
    "base frequency: the listed cpus are high, the others of the domain pay for it": (
        [domain(base_frequency_cpus=CpuSet.parse("2-3"))],
        ("2-3", "4-7", "0-1"),
    ),
    "nothing enabled: frequencies": ([domain()], ("0-1,3", "4-7", "2")),
    "another socket's facts change nothing here": (
        [
            domain(
                socket=SocketId(1),
                cpus=CpuSet.parse("4-7"),
                base_frequency_cpus=CpuSet.parse("4"),
            )
        ],
        ("0-1,3-4", "", "2,5-7"),
    ),
    "two power domains of a socket, each by its own classes of service": (
        [
            domain(cpus=CpuSet.parse("0-1"), has_turbo_frequency=True, clos_of={0: 3, 1: 1}),
            domain(
                domain=1,
                cpus=CpuSet.parse("2-3"),
                has_core_power=True,
                clos_order=(0, 1, 2, 3),
                clos_of={2: 0, 3: 2},
            ),
        ],
        ("1-2", "4-7", "0,3"),
    ),
    "of two power domains one orders nothing: its cpus by frequencies among themselves": (
        [
            domain(cpus=CpuSet.parse("0-1"), has_turbo_frequency=True, clos_of={0: 3, 1: 3}),
            domain(domain=1, cpus=CpuSet.parse("2-3")),
        ],
        ("3", "4-7", "0-2"),
    ),
    "cpus that are not online are left out": (
        [domain(cpus=CpuSet.parse("0-3,64"), has_turbo_frequency=True, clos_of={64: 0})],
        ("", "0-7", ""),
    ),
}


@pytest.mark.parametrize(("domains", "expected"), SST.values(), ids=SST)
def test_classes_of_speed_select(
    domains: list[SpeedSelect], expected: tuple[str, str, str]
) -> None:
    facts = replace(machine(FAST_AND_SLOW), speed_select=tuple(domains))
    assert listed(priority_classes(facts)) == expected


def test_efficient_cores_are_low_under_speed_select_too() -> None:
    first = domain(base_frequency_cpus=CpuSet.parse("0-1"))
    facts = replace(machine(efficient="1"), speed_select=(first,))
    assert listed(priority_classes(facts)) == ("0", "4-7", "1-3")


CLASSES = PriorityClasses(high=0xF, normal=0xF0, low=0xF00)

BETTER = {
    "enough with less to spare": ("0-1", "0-2", HIGH, 2),
    "enough before too few": ("0-2", "0-1", HIGH, 3),
    "the most where none has enough": ("0-1", "0", HIGH, 3),
    "a high cpu before enough normal ones": ("0", "4-7", HIGH, 2),
    "enough normal ones where none is high": ("4-5", "4-7", HIGH, 2),
    "the most where the count is open": ("0-2", "0-1", HIGH, -1),
    "lower classes decide next": ("0,4-5", "0,4", HIGH, 1),
    "normal: fewer high ones wasted": ("4-5", "0,4-5", NORMAL, 2),
    "low: fewer high ones before fewer normal ones": ("4-6,8", "0,8", LOW, 1),
}


@pytest.mark.parametrize(("winner", "loser", "priority", "count"), BETTER.values(), ids=BETTER)
def test_the_set_that_suits_a_priority_better_wins(
    winner: str, loser: str, priority: CpuPriority, count: int
) -> None:
    ranks = [CLASSES.rank(CpuSet.parse(text).mask, priority, count) for text in (winner, loser)]
    assert ranks[0] < ranks[1]


def test_without_a_preference_all_sets_are_equal() -> None:
    assert CLASSES.rank(0x1, CpuPriority.NONE, 1) == CLASSES.rank(0xFFF, CpuPriority.NONE, 1)


HIDDEN = {
    "of two siblings the lower one": ("0-3", "0,2"),
    "a lone sibling stays": ("1,2-3", "1-2"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("cpus", "expected"), HIDDEN.values(), ids=HIDDEN)
def test_one_thread_of_each_core_stays_of_hidden_siblings(cpus: str, expected: str) -> None:
    cores = CpuBlocks(core.mask for core in machine_from_spec("core:4 thread:2").cores)
    assert str(CpuSet(cores.lowest_members(CpuSet.parse(cpus).mask))) == expected
