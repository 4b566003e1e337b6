"""What a `Machine` answers from its fields."""

import dataclasses

from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import CoreKind
from pinfold.topology.sets.cpuset import CpuSet

MACHINE = machine_from_spec("socket:2 core:2 thread:2")


def test_offline_cpus_are_present_but_not_online() -> None:
    machine = dataclasses.replace(MACHINE, present=CpuSet.parse("0-9"))
    assert str(machine.offline) == "8-9"
    assert not MACHINE.offline


def test_cores_and_nodes_are_found_by_id() -> None:
    assert str(MACHINE.core_of[5]) == "4-5"
    assert str(MACHINE.node_by_id[1].cpus) == "4-7"
    assert MACHINE.threads_per_core_max == 2


def test_a_machine_is_hybrid_when_it_has_cores_of_both_kinds() -> None:
    assert not MACHINE.is_hybrid
    cpus = dict(MACHINE.cpus)
    cpus[0] = dataclasses.replace(cpus[0], kind=CoreKind.EFFICIENT)
    assert dataclasses.replace(MACHINE, cpus=cpus).is_hybrid


def test_distances_fall_back_to_the_kernels_own() -> None:
    known = MACHINE.numa_distances
    assert known.between(0, 1) == 21
    assert known.between(0, 7) == 20
    bare = dataclasses.replace(MACHINE, distances=()).numa_distances
    assert (bare.between(0, 0), bare.between(0, 1)) == (10, 20)
