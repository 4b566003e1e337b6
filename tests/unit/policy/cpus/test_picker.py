"""Which cpus are taken, on small machines one can draw."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from pinfold.policy.cpus.clusters import CpuCluster
from pinfold.policy.cpus.cpu_priority import PriorityClasses
from pinfold.policy.cpus.picker import CpuPicker
from pinfold.policy.model.cpu_preference import CpuPriority, SmtPreference
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Cache, CoreKind, Domain, Machine
from pinfold.topology.sets.cpuset import CpuSet

NONE, HIGH, NORMAL, LOW = (
    CpuPriority.NONE,
    CpuPriority.HIGH,
    CpuPriority.NORMAL,
    CpuPriority.LOW,
)

SMALL = "socket:2 numa:2 core:2 thread:2"
"""Sockets 0-7, 8-15; cores of two adjacent threads."""
CACHED = "socket:2 l3:4 core:4 thread:2"
"""Sockets 0-31, 32-63; L3 groups of eight cpus, four to a socket."""


def mask(text: str) -> int:
    return CpuSet.parse(text).mask


def listed(cpus: int | None) -> str | None:
    return None if cpus is None else str(CpuSet(cpus))


def picker(spec: str) -> CpuPicker:
    return CpuPicker(machine_from_spec(spec))


PLAIN = {
    "no cpu is asked for": (SMALL, "0-15", 0, ""),
    "all that is free is taken": (SMALL, "3,5,9", 3, "3,5,9"),
    "too few cpus are a refusal, not a part": (SMALL, "3,5,9", 4, None),
    "offline cpus are not free": (SMALL, "14-20", 3, None),
    "one cpu comes from the lowest core": (SMALL, "0-15", 1, "0"),
    "one cpu comes from a core in use before an idle one": (SMALL, "0-1,5,8-15", 1, "5"),
    "two cpus are the lowest idle core": (SMALL, "1,3-5,10-11", 2, "4-5"),
    "three cpus are an idle core and a thread of a core in use": (SMALL, "2-3,5,6-7", 3, "2-3,5"),
    "a whole idle socket goes before the same number elsewhere": (SMALL, "1-15", 8, "8-15"),
    "what is over a whole socket comes from the other": (SMALL, "0-6,8-15", 10, "0-1,8-15"),
    "cores stay in one socket where one has enough": (SMALL, "2-3,6,8-11,14", 4, "8-11"),
    "cores of two sockets where none has enough": (
        SMALL,
        "2-3,6-7,10-11,14-15",
        6,
        "2-3,6-7,10-11",
    ),
    "the last thread is in the socket of the first ones": (SMALL, "1,8-9,12", 3, "8-9,12"),
    "a socket's worked example: two idle cores": (SMALL, "1-3,5-7", 4, "2-3,6-7"),
    "single threads when no core is idle": (SMALL, "1,3,5,8,10", 2, "1,3"),
}


@pytest.mark.parametrize(("spec", "free", "count", "expected"), PLAIN.values(), ids=PLAIN)
def test_whole_free_domains_are_picked_first(
    spec: str, free: str, count: int, expected: str | None
) -> None:
    assert listed(picker(spec).pick(mask(free), count)) == expected


CACHE = {
    "a whole idle group": ("0-5,8-31", 8, "8-15"),
    "a whole group and a part of one in use": ("0-3,8-31", 12, "0-3,8-15"),
    "a part of the group with the least to spare": ("0-5,8-11,16-31", 4, "8-11"),
    "the idle group is left whole": ("0-5,8-15", 4, "0-3"),
    "an idle group is broken where no group in use suffices": ("0-3,8-15,16-31", 6, "8-13"),
    "the largest part first where there is no idle group": ("0-3,8-13,16-21", 8, "0-1,8-13"),
    "one group in another socket before two in this one": ("0-5,8-13,32-39", 8, "32-39"),
    "no thread beside a neighbour where the group has idle cores": ("0,2,8-15", 2, "8-9"),
    "threads of one group where no core is idle": ("0,2,8,10,12,14", 3, "8,10,12"),
    "the socket in which fewer groups suffice": ("0-3,8-11,16-19,32-37,40-45", 12, "32-37,40-45"),
    "one cpu does not look at caches": ("1,8-31", 1, "1"),
    "more than any socket has": ("0-3,8-15,32-35,40-45", 20, "0-3,8-15,32-35,40-43"),
    "an odd count ends in a core in use": ("0-3,5,8-15", 5, "0-3,5"),
}


@pytest.mark.parametrize(("free", "count", "expected"), CACHE.values(), ids=CACHE)
def test_cache_groups_are_picked_whole(free: str, count: int, expected: str) -> None:
    assert listed(picker(CACHED).pick(mask(free), count)) == expected


def test_a_single_l3_cache_known_without_inner_caches_still_divides() -> None:
    machine = machine_from_spec(CACHED)
    only_l3 = replace(machine, caches=tuple(c for c in machine.caches if c.level == 3))
    assert len(only_l3.caches) < len(machine.caches)
    assert listed(CpuPicker(only_l3).pick(mask("0-5,8-31"), 8)) == "8-15"


def test_groups_that_cross_numa_nodes_are_not_units() -> None:
    machine = machine_from_spec("socket:1 numa:2 core:4 thread:2")
    (node, other) = machine.numa_nodes
    l3 = [c for c in machine.caches if c.level == 3]
    crossing = tuple(
        replace(l3[0], cpus=CpuSet.parse(text), id=i)
        for i, text in enumerate(("0-3,8-11", "4-7,12-15"))
    )
    crossed = replace(machine, caches=(*(c for c in machine.caches if c.level < 3), *crossing))
    assert (str(node.cpus), str(other.cpus)) == ("0-7", "8-15")
    assert listed(CpuPicker(crossed).pick(mask("1-15"), 8)) == "2-9"


CLUSTERED = "socket:2 numa:2 cluster:4 core:4"
"""Sockets 0-31, 32-63 of two NUMA nodes with four clusters of four cores each."""
SMT_CLUSTERED = "socket:1 cluster:4 core:4 thread:2"
"""Clusters of eight cpus, cores of two adjacent ones."""


def clustered(spec: str, *levels: int) -> CpuPicker:
    """A machine whose clusters share no cache, but perhaps one of wider levels."""
    machine = machine_from_spec(spec)
    caches = tuple(cache for cache in machine.caches if cache.level in levels)
    return CpuPicker(replace(machine, caches=caches, l2_groups=()))


PARTS = {
    "exactly enough in one cluster": (CLUSTERED, "1,5,9-10,12-15", 2, "9-10"),
    "an idle cluster is broken rather than two in use": (CLUSTERED, "1,5,9,12-15", 2, "12-13"),
    "the one with the least to spare": (CLUSTERED, "0-2,4-5,8-11", 2, "4-5"),
    "the lowest of equals": (CLUSTERED, "0-3,5-6,9-10", 2, "5-6"),
    "one cpu leaves an idle cluster whole": (CLUSTERED, "0-3,5", 1, "5"),
    "the largest part first where none suffices": (CLUSTERED, "1,5,8-9,13,17", 3, "1,8-9"),
    "the rest from the one with the least to spare": (CLUSTERED, "0-2,4-6,8-9", 5, "0-2,8-9"),
    "in one NUMA node where one has enough": (CLUSTERED, "0-2,16-17,20-21,24", 4, "16-17,20-21"),
    "in the NUMA node where the fewest suffice": (
        CLUSTERED,
        "0,4,8,12,16-18,20",
        4,
        "16-18,20",
    ),
    "the rest beside a whole cluster": (CLUSTERED, "1,17-18,20-23,33-34", 6, "17-18,20-23"),
    "in the NUMA node of the whole cluster": (CLUSTERED, "0-1,17,20-23,25", 6, "17,20-23,25"),
    "in the socket of the whole cluster": (CLUSTERED, "8-9,20-23,32-33", 6, "8-9,20-23"),
    "elsewhere only if there is no more": (CLUSTERED, "8,20-23,32-33", 6, "20-23,32-33"),
    "over two sockets": (CLUSTERED, "0-1,4-5,32-34", 6, "0-1,4,32-34"),
    "idle cores of one cluster": (SMT_CLUSTERED, "0-1,3,8-9,12-14", 4, "8-9,12-13"),
    "an odd count ends in a core in use": (SMT_CLUSTERED, "0-5,8-9,11-12", 3, "8-9,11"),
    "one thread beside a neighbour before an idle core": (SMT_CLUSTERED, "0-1,8-11,13", 1, "13"),
    "one cluster though no core is idle": (SMT_CLUSTERED, "0,8,10,12", 2, "8,10"),
}


@pytest.mark.parametrize(("spec", "free", "count", "expected"), PARTS.values(), ids=PARTS)
def test_parts_of_clusters_are_picked_where_none_fits_whole(
    spec: str, free: str, count: int, expected: str
) -> None:
    assert listed(clustered(spec).pick(mask(free), count)) == expected
    assert listed(clustered(spec).pick(mask(free), count, smt=SmtPreference.HIDE)) == expected


def test_clusters_inside_an_l3_group() -> None:
    chosen = clustered(CLUSTERED.replace("numa", "l3"), 3)
    assert listed(chosen.pick(mask("1,5,12-15,16-17,32-63"), 2)) == "16-17"
    assert listed(chosen.pick(mask("1,5,9,12-15,20-31"), 2)) == "12-13"


def test_threads_decide_before_clusters_if_asked_to() -> None:
    chosen, free = clustered(SMT_CLUSTERED), mask("0-1,8,10,12-13")
    assert listed(chosen.pick(free, 3, smt=SmtPreference.PACK)) == "0-1,8"
    assert listed(chosen.pick(free, 4, smt=SmtPreference.SPREAD)) == "0,8,10,12"


def test_clusters_of_a_class() -> None:
    machine = replace(machine_from_spec(CLUSTERED), caches=(), l2_groups=())
    classes = PriorityClasses(high=mask("1,5,9-10"), normal=mask("12-15"))
    chosen = CpuPicker(machine, classes)
    assert listed(chosen.pick(mask("1,5,9-10,12-15"), 2, HIGH)) == "9-10"
    assert listed(chosen.pick(mask("1,5,13-15"), 3, HIGH)) == "1,5,13"


CLASSES = PriorityClasses(high=mask("4-7"), normal=mask("0-3,8-11"), low=mask("12-15"))

PRIORITY = {
    "high cpus where there are enough": ("0-15", 2, HIGH, "4-5"),
    "high threads before idle cores of others": ("0-3,5,7", 2, HIGH, "5,7"),
    "high, then normal ones": ("0-1,5,12-15", 3, HIGH, "0-1,5"),
    "normal ones where none is high": ("1,3,12-15", 2, HIGH, "1,3"),
    "low cpus": ("0-15", 3, LOW, "12-14"),
    "a whole part of a socket": ("0-15", 4, LOW, "12-15"),
    "normal before high where low ones run out": ("4-5,10-11,12", 3, LOW, "10-12"),
    "normal ones": ("0-15", 2, NORMAL, "0-1"),
    "low before high where normal ones run out": ("3-7,12-15", 3, NORMAL, "3,12-13"),
    "normal cores in the order of their ids": ("0-3,8-9", 2, NORMAL, "0-1"),
    "no preference": ("12-15,4-7", 2, NONE, "4-5"),
}


@pytest.mark.parametrize(("free", "count", "priority", "expected"), PRIORITY.values(), ids=PRIORITY)
def test_cpus_of_the_asked_priority_are_picked_first(
    free: str, count: int, priority: CpuPriority, expected: str
) -> None:
    chosen = CpuPicker(machine_from_spec(SMALL), CLASSES).pick(mask(free), count, priority)
    assert listed(chosen) == expected


FOUR = "socket:1 core:4 thread:4"
SMT = {
    "pack: one core of four threads": (FOUR, "1-15", 3, SmtPreference.PACK, "1-3"),
    "pack: the core with the least to spare": (FOUR, "0-3,5-7", 2, SmtPreference.PACK, "5-6"),
    "pack: the fullest core, then a rest": (
        FOUR,
        "0-1,4-6,8-11",
        6,
        SmtPreference.PACK,
        "0-1,8-11",
    ),
    "pack: one core before the most used ones": (FOUR, "0,4-6", 3, SmtPreference.PACK, "4-6"),
    "any: the most used cores before one": (FOUR, "0,4-6", 3, SmtPreference.ANY, "0,4-5"),
    "any: threads of the most used cores": (FOUR, "0-1,4,8-11", 2, SmtPreference.ANY, "0,4"),
    "spread: one thread of each core": (FOUR, "0-15", 4, SmtPreference.SPREAD, "0,4,8,12"),
    "spread: idle cores first": (SMALL, "0,2-5", 2, SmtPreference.SPREAD, "2,4"),
    "spread: then siblings": (SMALL, "0-3", 3, SmtPreference.SPREAD, "0-2"),
    "spread: within one socket": (SMALL, "0-3,8-15", 3, SmtPreference.SPREAD, "8,10,12"),
    "spread: within one cache group": (CACHED, "0-5,8-31", 4, SmtPreference.SPREAD, "8,10,12,14"),
    "hide: picked as if nothing was said": (SMALL, "0-15", 2, SmtPreference.HIDE, "0-1"),
}


@pytest.mark.parametrize(("spec", "free", "count", "smt", "expected"), SMT.values(), ids=SMT)
def test_threads_are_packed_or_spread_as_asked(
    spec: str, free: str, count: int, smt: SmtPreference, expected: str
) -> None:
    assert listed(picker(spec).pick(mask(free), count, smt=smt)) == expected


EXTEND = {
    "the sibling first": ("4", "0-3,5-15", 1, "5"),
    "then the same cache group": ("16-17", "0-15,20-21,24-31", 2, "20-21"),
    "then the same socket": ("16-23", "8-11,32-63", 4, "8-11"),
    "then elsewhere": ("0-31", "32-35,40-43", 4, "32-35"),
    "ring after ring": ("0", "1,6-7,30,40", 5, "1,6-7,30,40"),
    "nothing held yet": ("", "8-15", 2, "8-9"),
    "nothing more": ("0-3", "4-7", 0, ""),
    "too few": ("0-3", "2-5", 3, None),
}


@pytest.mark.parametrize(("held", "free", "more", "expected"), EXTEND.values(), ids=EXTEND)
def test_more_cpus_are_picked_near_those_that_are_held(
    held: str, free: str, more: int, expected: str | None
) -> None:
    assert listed(picker(CACHED).extend(mask(held), mask(free), more)) == expected


NEAR = {
    "the rest of a cluster": ("16", "1-3,17-18", 2, "17-18"),
    "the same NUMA node before an emptier one": ("16-19", "4-7,20,24-25", 2, "24-25"),
    "the same socket": ("16-31", "4-5,40-43", 2, "4-5"),
}


@pytest.mark.parametrize(("held", "free", "more", "expected"), NEAR.values(), ids=NEAR)
def test_more_cpus_are_picked_beside_held_clusters(
    held: str, free: str, more: int, expected: str
) -> None:
    assert listed(clustered(CLUSTERED).extend(mask(held), mask(free), more)) == expected


SPREAD, PACK = SmtPreference.SPREAD, SmtPreference.PACK
THREADS = {
    "spread: idle cores before siblings": (SMALL, "0,2", "1,3-7", 2, SPREAD, "4,6"),
    "spread: a core in use before siblings": (SMALL, "0,2", "1,3,5,8", 1, SPREAD, "5"),
    "spread: an idle core before one in use": (SMALL, "0", "1,3,4-5", 1, SPREAD, "4"),
    "spread: its own socket before another": (SMALL, "0", "1,3,8-15", 1, SPREAD, "3"),
    "spread: another socket before siblings": (SMALL, "0", "1,10-11", 1, SPREAD, "10"),
    "spread: siblings when the cores run out": (SMALL, "0,2", "1,3,4-5", 3, SPREAD, "1,3-4"),
    "spread: its own cache group first": (CACHED, "8", "0-7,9-11,14-15", 2, SPREAD, "10,14"),
    "spread: nothing held yet": (SMALL, "", "0-7", 2, SPREAD, "0,2"),
    "spread: nothing more": (SMALL, "0", "1-7", 0, SPREAD, ""),
    "spread: too few": (SMALL, "0", "1-3", 4, SPREAD, None),
    "pack: siblings first": (SMALL, "0,2", "1,3-7", 2, PACK, "1,3"),
    "pack: then as few cores as possible": (FOUR, "0-3", "4,8,12-13", 2, PACK, "12-13"),
    "hide: siblings first": (SMALL, "0", "1-7", 1, SmtPreference.HIDE, "1"),
}


@pytest.mark.parametrize(
    ("spec", "held", "free", "more", "smt", "expected"), THREADS.values(), ids=THREADS
)
def test_more_cpus_are_picked_by_threads_as_asked(
    spec: str, held: str, free: str, more: int, smt: SmtPreference, expected: str | None
) -> None:
    assert listed(picker(spec).extend(mask(held), mask(free), more, smt=smt)) == expected


def hybrid() -> Machine:
    """Four performance cores (0-7) and two clusters of four efficient ones (8-11, 12-15)."""
    machine = machine_from_spec("socket:1 core:16")
    return replace(
        machine,
        cpus={
            i: replace(cpu, kind=CoreKind.PERFORMANCE if i < 8 else CoreKind.EFFICIENT)
            for i, cpu in machine.cpus.items()
        },
        cores=tuple(map(CpuSet.parse, ("0-1", "2-3", "4-5", "6-7", *map(str, range(8, 16))))),
        clusters=domains(("0-1", "2-3", "4-5", "6-7", "8-11", "12-15")),
        caches=(),
        l2_groups=(),
    )


def domains(lists: Iterable[str]) -> tuple[Domain, ...]:
    return tuple(Domain(label=str(i), cpus=CpuSet.parse(text)) for i, text in enumerate(lists))


HYBRID = {
    "all performance cores together are a cluster": ("0-15", 8, NONE, "0-7"),
    "efficient clusters for low priority": ("0-15", 4, LOW, "8-11"),
    "two of them": ("1-15", 8, LOW, "8-15"),
    "the performance cores for the rest": ("1-15", 2, NORMAL, "2-3"),
    "an efficient cluster where nothing else is free": ("9-15", 4, NONE, "12-15"),
    "performance threads for one normal cpu": ("1,8-15", 1, NORMAL, "1"),
}


@pytest.mark.parametrize(("free", "count", "priority", "expected"), HYBRID.values(), ids=HYBRID)
def test_kinds_of_cores_are_not_mixed_without_need(
    free: str, count: int, priority: CpuPriority, expected: str
) -> None:
    assert listed(CpuPicker(hybrid()).pick(mask(free), count, priority)) == expected


def test_cache_groups_of_the_other_kind_are_left_alone() -> None:
    machine = hybrid()
    caches = (Cache(level=2, type="Unified", cpus=one.cpus) for one in machine.clusters)
    chosen = CpuPicker(replace(machine, caches=tuple(caches)))
    assert listed(chosen.pick(mask("1-7,9-15"), 3)) == "1-3"
    assert listed(chosen.pick(mask("1-7,9-15"), 3, LOW)) == "9-11"


def test_clusters_of_one_machine_kind_are_taken_whole() -> None:
    clusters = [CpuCluster(mask(text)) for text in ("0-3", "4-7", "8-11", "12-15")]
    chosen = CpuPicker(machine_from_spec(SMALL), clusters=clusters)
    assert listed(chosen.pick(mask("1-15"), 4)) == "4-7"
    assert listed(chosen.pick(mask("0-7,9-15"), 12)) == "0-7,12-15"
    assert listed(chosen.pick(mask("1-15"), 2)) == "2-3"
