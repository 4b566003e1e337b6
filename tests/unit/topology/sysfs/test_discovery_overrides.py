"""Overrides from the environment replace what discovery found."""

import json

import pytest

from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import CoreKind, Machine, MemoryKind
from pinfold.topology.sets.base_errors import TopologyError
from pinfold.topology.sets.cpuset import CpuSet
from pinfold.topology.sysfs.overrides import Overrides, override_machine, parse_overrides

MACHINE = machine_from_spec("socket:2 core:4 thread:2")


def overridden(environment: dict[str, str], machine: Machine = MACHINE) -> Machine:
    return override_machine(machine, parse_overrides(environment))


def caches(*rows: dict[str, object]) -> dict[str, str]:
    return {"OVERRIDE_SYS_CACHES": json.dumps(rows)}


def memory(text: str) -> dict[str, str]:
    return {"OVERRIDE_SYS_MEMORY_TYPE": text}


def test_nothing_is_overridden_by_other_variables() -> None:
    assert parse_overrides({"PATH": "/bin"}) == Overrides()
    assert overridden({}) == MACHINE


def test_cache_groups_follow_overridden_caches() -> None:
    machine = overridden(
        caches(
            {"cpusets": ["0-3", "4-7"], "level": 3, "size": "16M"},
            {"cpusets": ["8-15"], "level": 3, "size": "16M"},
        )
    )
    assert [str(group) for group in machine.l3_groups] == ["0-3", "4-7", "8-15"]
    assert [(cache.id, cache.size_bytes) for cache in machine.caches] == [
        (0, 2**24),
        (1, 2**24),
        (2, 2**24),
    ]
    assert machine.l2_groups == ()


def test_ids_count_up_per_level_and_kind_in_listing_order() -> None:
    machine = overridden(
        caches(
            {"cpusets": ["8-15", "0-7"], "level": 3},
            {"cpusets": ["0-7", "8-15"], "level": 2, "kind": "d"},
            {"cpusets": ["0-15"], "level": -1, "kind": "i"},
        )
    )
    assert [(one.level, one.type, one.id, str(one.cpus)) for one in machine.caches] == [
        (1, "Instruction", 0, "0-15"),
        (2, "Data", 0, "0-7"),
        (2, "Data", 1, "8-15"),
        (3, "Unified", 1, "0-7"),
        (3, "Unified", 0, "8-15"),
    ]


def test_cpus_that_no_override_mentions_keep_their_caches() -> None:
    machine = overridden(caches({"cpusets": ["0-7"], "level": 3}))
    assert [str(group) for group in machine.l3_groups] == ["0-7", "8-15"]
    assert [str(group) for group in machine.l2_groups] == ["8-9", "10-11", "12-13", "14-15"]


def test_overridden_caches_are_restricted_to_online_cpus() -> None:
    machine = overridden(caches({"cpusets": ["0-99", "100-200"], "level": 3}))
    assert machine.l3_groups == (machine.online,)


@pytest.mark.parametrize(
    ("environment", "efficient"),
    [
        ({"OVERRIDE_SYS_CORE_CPUS": "0-7"}, "8-15"),
        ({"OVERRIDE_SYS_ATOM_CPUS": "0-3"}, "0-3"),
        ({"OVERRIDE_SYS_CORE_CPUS": "0-7", "OVERRIDE_SYS_ATOM_CPUS": "8-11"}, "8-11"),
        ({"OVERRIDE_SYS_ATOM_CPUS": ""}, ""),
    ],
)
def test_core_kinds_are_overridden(environment: dict[str, str], efficient: str) -> None:
    cpus = overridden(environment).cpus.values()
    found = CpuSet.collect(cpu.id for cpu in cpus if cpu.kind is CoreKind.EFFICIENT)
    assert str(found) == efficient


def test_frequencies_are_overridden() -> None:
    rows = [{"cpus": "0-1,99", "base": 2000000, "min": 800000, "max": 3000000}]
    machine = overridden({"OVERRIDE_SYS_CPUFREQ": json.dumps(rows)})
    assert (machine.cpus[1].base_khz, machine.cpus[1].max_khz) == (2000000, 3000000)
    assert machine.cpus[2] == MACHINE.cpus[2]


def test_types_of_memory_are_overridden_with_or_without_cpus() -> None:
    machine = overridden(memory('{"1": "pmem", "0": "Hbm"}'), machine_from_spec("numa:3 core:2"))
    kinds = [node.kind for node in machine.numa_nodes]
    assert kinds == [MemoryKind.HBM, MemoryKind.PMEM, MemoryKind.DRAM]
    assert machine.warnings == ()


def test_the_type_of_a_node_that_is_not_there_is_a_warning() -> None:
    machine = overridden(memory('{"7": "PMEM"}'))
    assert machine.numa_nodes == MACHINE.numa_nodes
    assert machine.warnings == ("OVERRIDE_SYS_MEMORY_TYPE: no NUMA node 7 here — ignored",)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"OVERRIDE_SYS_CACHES": "{"}, "OVERRIDE_SYS_CACHES: .* — it holds a JSON list"),
        ({"OVERRIDE_SYS_CACHES": "{}"}, "OVERRIDE_SYS_CACHES: not a list — "),
        ({"OVERRIDE_SYS_CACHES": "[1]"}, r"OVERRIDE_SYS_CACHES\[0\]: 1 is not an object"),
        (caches({"cpusets": ["x"]}), r"OVERRIDE_SYS_CACHES\[0\]: 'x' is not a list of ids"),
        (caches({"cpusets": "0-1"}), r"cpusets is not a list — "),
        (caches({"cpusets": [], "level": "3"}), r"bad level or kind — "),
        (caches({"cpusets": [], "kind": "z"}), r"bad level or kind — "),
        (caches({"cpusets": [], "size": "16X"}), r"'16X' is not a size — "),
        ({"OVERRIDE_SYS_CORE_CPUS": "a"}, "OVERRIDE_SYS_CORE_CPUS: 'a' is not a list of ids"),
        ({"OVERRIDE_SYS_CPUFREQ": '[{"cpus": "0", "max": "3G"}]'}, "whole kHz — "),
        (memory("[]"), r"OVERRIDE_SYS_MEMORY_TYPE: \[\] is not an object"),
        (memory("{"), "OVERRIDE_SYS_MEMORY_TYPE: .* — it holds a JSON object"),
        (memory('{"a": "DRAM"}'), "OVERRIDE_SYS_MEMORY_TYPE: 'a' is no NUMA node — name it as"),
        (memory('{"²": "DRAM"}'), "'²' is no NUMA node"),
        (
            memory('{"0": "ROM"}'),
            r"MEMORY_TYPE\[0\]: 'ROM' is no type — one of DRAM, PMEM, HBM, CXL",
        ),
        (memory('{"0": 1}'), "1 is no type — "),
    ],
)
def test_errors_name_the_variable(environment: dict[str, str], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        parse_overrides(environment)
