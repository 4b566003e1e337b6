"""Containers on a real kernel with four NUMA nodes in two sockets are near and far as told.

The machine: NUMA node N has the cpus 4N to 4N+3, cores are pairs of cpus, sockets pairs of nodes.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import pytest

from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.e2e.pins import Pins

pytestmark = [pytest.mark.e2e, pytest.mark.vm]

CPUS_PER_NUMA_NODE = 4
CPUS_PER_SOCKET = 8
ALL_CPUS = CpuSet.parse("0-15")


class Steps(Protocol):
    """What the guest's driver wrote down."""

    @property
    def refusals(self) -> Mapping[str, str]: ...

    @property
    def audit(self) -> Mapping[str, Any]: ...

    @property
    def status(self) -> Mapping[str, Any]: ...

    @property
    def log(self) -> str: ...

    def __getitem__(self, step: str) -> dict[str, Pins]: ...


def cpus(pins: Pins) -> CpuSet:
    """The cpus of a container; what the task has and what its cgroup was told must agree."""
    assert pins.cpus == pins.cgroup_cpus
    return CpuSet.parse(pins.cpus)


def numa_nodes(pins: Pins) -> set[int]:
    return {cpu // CPUS_PER_NUMA_NODE for cpu in cpus(pins)}


def sockets(pins: Pins) -> set[int]:
    return {cpu // CPUS_PER_SOCKET for cpu in cpus(pins)}


def test_peter_and_sheep_share_a_numa_node(observations: Steps) -> None:
    seen = observations["flock came"]
    assert len(numa_nodes(seen["peter"])) == 1
    assert numa_nodes(seen["peter"]) == numa_nodes(seen["sheep"])


def test_peter_and_wolf_share_no_socket(observations: Steps) -> None:
    seen = observations["flock came"]
    assert len(sockets(seen["wolf"])) == 1
    assert sockets(seen["peter"]).isdisjoint(sockets(seen["wolf"]))


@pytest.mark.parametrize("name", ["peter", "sheep", "wolf"])
def test_memory_comes_from_the_numa_node_of_the_cpus(observations: Steps, name: str) -> None:
    pins = observations["flock came"][name]
    assert pins.mems == pins.cgroup_mems
    assert set(NodeSet.parse(pins.mems)) == numa_nodes(pins)


@pytest.mark.parametrize("name", ["peter", "sheep", "wolf"])
def test_a_guaranteed_container_has_its_cpu_for_itself(observations: Steps, name: str) -> None:
    seen = observations["flock came"]
    own = cpus(seen[name])
    assert len(own) == 1
    for other in seen.keys() - {name}:
        assert cpus(seen[other])
        assert cpus(seen[other]).isdisjoint(own), other


def test_containers_that_share_are_kept_to_a_part_of_the_machine(observations: Steps) -> None:
    for name in ("grazer", "bird"):
        assert cpus(observations["meadow alone"][name]) < ALL_CPUS


def test_a_foreign_writer_of_memory_nodes_and_cpus_is_found_told_of_and_undone(
    observations: Steps,
) -> None:
    disturbed = observations["foreign writer"]
    assert disturbed["peter"].cgroup_mems == "0-3"
    assert disturbed["wolf"].cgroup_cpus == "0-15"
    assert observations["foreign writer undone"] == observations["flock came"]
    lines = [line for line in observations.log.splitlines() if "event=drift" in line]
    for name in ("peter", "wolf"):
        assert [line for line in lines if f"container={name}" in line and "likely=" in line], lines


def test_a_bound_thread_is_shown_with_its_cpu_and_those_of_its_container(
    observations: Steps,
) -> None:
    assert observations.audit["drift"] == []
    (bound,) = observations.audit["threads"]
    cpus_of_grazer = observations["flock came"]["grazer"].cpus
    assert (bound["container"], bound["threads"]) == ("default/meadow/grazer", 1)
    assert bound["intended"] == cpus_of_grazer
    assert bound["cpus"] == str(CpuSet.of(min(CpuSet.parse(cpus_of_grazer))))


@pytest.mark.parametrize("step", ["daemon killed", "daemon back"])
@pytest.mark.parametrize("name", ["peter", "sheep", "wolf"])
def test_the_flock_stays_where_it_is_without_and_with_a_new_daemon(
    observations: Steps, step: str, name: str
) -> None:
    assert observations[step][name] == observations["flock came"][name]


@pytest.mark.parametrize("name", ["grazer", "bird"])
def test_a_killed_daemon_leaves_those_who_share_where_they_are(
    observations: Steps, name: str
) -> None:
    assert observations["daemon killed"][name] == observations["flock came"][name]


def test_a_pod_that_came_without_the_daemon_is_pinned_when_it_is_back(observations: Steps) -> None:
    alone = observations["stray came while the daemon was down"]["stray"]
    assert CpuSet.parse(alone.cpus) == ALL_CPUS
    seen = observations["daemon back"]
    own = cpus(seen["stray"])
    assert len(own) == 1
    for other in seen.keys() - {"stray"}:
        assert cpus(seen[other]).isdisjoint(own), other


def test_those_who_share_get_the_cpus_of_an_ended_pod_back(observations: Steps) -> None:
    for name in ("grazer", "bird"):
        before, after = observations["meadow alone"][name], observations["flock gone"][name]
        assert cpus(after) == cpus(before)


HARD_STEPS = ["hard flock came", "pack refused", "daemon back to the hard flock"]


@pytest.mark.parametrize("step", HARD_STEPS)
def test_hard_rules_keep_peter_with_the_sheep_and_off_the_wolfs_socket(
    observations: Steps, step: str
) -> None:
    seen = observations[step]
    assert len(numa_nodes(seen["hard-peter"])) == 1
    assert numa_nodes(seen["hard-peter"]) == numa_nodes(seen["hard-sheep"])
    assert sockets(seen["hard-peter"]).isdisjoint(sockets(seen["hard-wolf"]))


@pytest.mark.parametrize("step", HARD_STEPS[1:])
@pytest.mark.parametrize("name", ["hard-peter", "hard-sheep", "hard-wolf"])
def test_neither_a_refusal_nor_a_new_daemon_moves_the_hard_flock(
    observations: Steps, step: str, name: str
) -> None:
    assert observations[step][name] == observations["hard flock came"][name]


def test_who_breaks_a_residents_hard_rule_is_refused_with_the_residents_name(
    observations: Steps,
) -> None:
    reason = observations.refusals["pack"]
    assert "default/pack/hermit" in reason
    assert "socket" in reason


def test_those_who_share_get_the_cpus_of_the_hard_flock_back(observations: Steps) -> None:
    for name in ("grazer", "bird"):
        before, after = observations["flock gone"][name], observations["hard flock gone"][name]
        assert cpus(after) == cpus(before)


def test_a_stopped_daemon_moves_nothing(observations: Steps) -> None:
    assert observations["daemon stopped"] == observations["hard flock gone"]


def test_a_daemon_in_a_pod_reads_the_cpusets_of_other_pods(observations: Steps) -> None:
    seen = observations["daemon back to the hard flock"]
    by_name = {one["container"]: one for one in observations.status["containers"]}
    assert len(by_name) == len(seen)
    for name, pod in (("grazer", "meadow"), ("hard-wolf", "hard-flock")):
        found = by_name[f"default/{pod}/{name}"]
        assert found["kernel"] == found["intended"]
        assert found["kernel"]["cpus"] == seen[name].cgroup_cpus
