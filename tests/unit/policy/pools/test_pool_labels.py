"""Labels of pools, from machines and configurations."""

import dataclasses

import pytest

from pinfold.policy.configuration.config import Amounts, Config, PoolLabels
from pinfold.policy.configuration.pool_label_names import MACHINE_LABELS
from pinfold.policy.cpus.picker import CpuPicker
from pinfold.policy.engine.engine import Engine
from pinfold.policy.pools.pool_labels import idle_pool_labels, pool_labels
from pinfold.policy.pools.supply import read_supply
from pinfold.policy.pools.tree_building import build_tree
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import CoreKind, Machine, MemoryKind


def labels_of(machine: Machine, **fields: object) -> dict[str, dict[str, str]]:
    config = Config(reserved_resources=Amounts(cpu="cpuset:0"), **fields)  # type: ignore[arg-type]  # as given
    tree = build_tree(machine, read_supply(machine, config, CpuPicker(machine)))
    found = pool_labels(tree, machine, config)
    return {pool.name: dict(found[pool.id]) for pool in tree.pools}


TWO_SOCKETS = machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:3G")


def test_a_pool_has_the_labels_of_the_domains_that_it_lies_in() -> None:
    labels = labels_of(TWO_SOCKETS)
    assert labels["NUMA node #3"] == {
        "kind": "numa",
        "cpus": "4",
        "socket": "1",
        "die": "1/0",
        "l3": "1",
        "numa": "3",
        "memory.dram-gib": "3",
        "memory.types": "dram",
        "core-kind": "performance",
    }
    assert labels["socket #1"] == {
        "kind": "socket",
        "cpus": "8",
        "socket": "1",
        "die": "1/0",
        "l3": "1",
        "memory.dram-gib": "6",
        "memory.types": "dram",
        "core-kind": "performance",
    }


def test_the_root_has_what_holds_for_all() -> None:
    assert labels_of(TWO_SOCKETS)["root"] == {
        "kind": "system",
        "cpus": "16",
        "memory.dram-gib": "12",
        "memory.types": "dram",
        "core-kind": "performance",
    }


def test_a_socket_with_one_numa_node_has_its_label() -> None:
    labels = labels_of(machine_from_spec("socket:2 core:2 mem:1G"))
    assert labels["socket #1"]["numa"] == "1"


def test_l3_groups_are_numbered_by_their_lowest_cpu() -> None:
    labels = labels_of(machine_from_spec("socket:2 l3:2 core:2 mem:1G"))
    numbers = {name: one.get("l3") for name, one in labels.items()}
    assert numbers["socket #1/L3 cache #3"] == "3"
    assert numbers["socket #1"] is None


def test_only_cpus_that_containers_may_have_are_counted() -> None:
    labels = labels_of(TWO_SOCKETS, available_resources=Amounts(cpu="cpuset:0-5"))
    assert labels["NUMA node #1"]["cpus"] == "2"
    assert labels["root"]["cpus"] == "6"
    assert labels["root"]["socket"] == "0"


def test_kinds_of_memory_and_of_cores() -> None:
    nodes = list(TWO_SOCKETS.numa_nodes)
    nodes[1] = dataclasses.replace(nodes[1], kind=MemoryKind.HBM)
    cpus = dict(TWO_SOCKETS.cpus)
    for cpu in (8, 9, 10, 11, 12):
        cpus[cpu] = dataclasses.replace(cpus[cpu], kind=CoreKind.EFFICIENT)
    machine = dataclasses.replace(TWO_SOCKETS, numa_nodes=tuple(nodes), cpus=cpus)
    labels = labels_of(machine)
    assert labels["NUMA node #1"]["memory.hbm-gib"] == "3"
    assert labels["socket #0"]["memory.types"] == "dram,hbm"
    assert labels["NUMA node #2"]["core-kind"] == "efficient"
    assert "core-kind" not in labels["NUMA node #3"]


def test_a_pool_is_isolated_where_all_of_its_cpus_are() -> None:
    labels = labels_of(machine_from_spec("socket:2 core:2 thread:2 mem:1G isolated:3-7"))
    assert labels["socket #1"]["isolated"] == "true"
    assert "isolated" not in labels["socket #0"]


def test_speeds_are_those_of_the_slowest_cpu() -> None:
    speeds = {cpu: 3_000_000 + 100_000 * (cpu % 2) for cpu in range(16)}
    cpus = {
        cpu: dataclasses.replace(
            one, base_khz=speeds[cpu], max_khz=None if cpu == 15 else 4_000_999
        )
        for cpu, one in TWO_SOCKETS.cpus.items()
    }
    labels = labels_of(dataclasses.replace(TWO_SOCKETS, cpus=cpus))
    assert labels["NUMA node #0"]["cpu.base-mhz"] == "3000"
    assert labels["NUMA node #0"]["cpu.max-mhz"] == "4000"
    assert "cpu.max-mhz" not in labels["NUMA node #3"]


def test_the_processor_is_told_by_vendor_model_and_flags() -> None:
    cpuinfo = "vendor_id\t: GenuineIntel\nmodel name\t: Xeon\nflags\t\t: sse avx512f\n"
    machine = dataclasses.replace(TWO_SOCKETS, cpuinfo=cpuinfo)
    for labels in labels_of(machine).values():
        assert labels["cpu.vendor"] == "GenuineIntel"
        assert labels["cpu.model"] == "Xeon"
        assert labels["cpu.flag/avx512f"] == "true"
        assert "cpu.flag/amx" not in labels


def test_the_configuration_labels_pools_by_name_or_by_cpus() -> None:
    labels = labels_of(
        TWO_SOCKETS,
        pool_labels=(
            PoolLabels(pool="NUMA node #*", labels={"nic": "fast", "rack": "a"}),
            PoolLabels(cpus="8-15", labels={"rack": "b"}),
        ),
    )
    found = {name: (one.get("nic"), one.get("rack")) for name, one in labels.items()}
    assert found == {
        "NUMA node #0": ("fast", "a"),
        "NUMA node #1": ("fast", "a"),
        "socket #0": (None, None),
        "NUMA node #2": ("fast", "b"),
        "NUMA node #3": ("fast", "b"),
        "socket #1": (None, "b"),
        "root": (None, None),
    }


@pytest.mark.parametrize("name", list(labels_of(TWO_SOCKETS)))
def test_the_configuration_gives_no_label_that_the_machine_gives(name: str) -> None:
    given = {key for key in labels_of(TWO_SOCKETS)[name] if not key.startswith(("memory.", "cpu."))}
    assert given <= {*MACHINE_LABELS}


@pytest.mark.parametrize(
    ("written", "warning"),
    [
        pytest.param(PoolLabels(pool="NUMA node #*", labels={}), "", id="a pattern of names"),
        pytest.param(PoolLabels(pool="root", labels={}), "", id="the root by its name"),
        pytest.param(PoolLabels(cpus="0-3", labels={}), "", id="all cpus of a pool"),
        pytest.param(
            PoolLabels(pool="NUMA node #4", labels={}),
            "poolLabels[0].pool: no pool of this machine is called 'NUMA node #4' — did you mean"
            " 'NUMA node #3'? 'pinfold pools' prints their names",
            id="a pool of a greater machine",
        ),
        pytest.param(
            PoolLabels(pool="*xyz*", labels={}),
            "poolLabels[0].pool: no pool of this machine is called '*xyz*' — 'pinfold pools' prints"
            " their names",
            id="a name that is like none",
        ),
        pytest.param(
            PoolLabels(cpus="4-6", labels={}),
            "poolLabels[0].cpus: no pool has all its cpus among '4-6' — write all cpus of a pool,"
            " as 'pinfold pools' prints them",
            id="a part of a pool's cpus",
        ),
    ],
)
def test_labels_for_pools_that_the_machine_does_not_have_are_told(
    written: PoolLabels, warning: str
) -> None:
    config = Config(pool_labels=(written,))
    engine = Engine(TWO_SOCKETS, config)
    assert list(idle_pool_labels(engine.tree, config)) == [warning] * bool(warning)
    assert engine.warnings == (warning,) * bool(warning)
