import pytest

from pinfold.policy.scenarios.expressions.evaluator import evaluate
from pinfold.policy.scenarios.expressions.values import Value
from pinfold.policy.scenarios.scenario_facts import MachineNames, fact_names, set_ids
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

NAMES = MachineNames(machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:2G"))


def fact(name: str, cpus: str = "", mems: str = "") -> Value:
    running = {"c": (CpuSet.parse(cpus), NodeSet.parse(mems))}
    names = fact_names(NAMES, running, lambda one: one[0], lambda one: one[1])
    return evaluate(f"{name}['c']", names)


@pytest.mark.parametrize(
    ("name", "cpus", "expected"),
    [
        pytest.param("cpus", "8,15", {"cpu08", "cpu15"}, id="cpus are padded"),
        pytest.param("nodes", "3-4", {"node0", "node1"}, id="NUMA nodes of cpus"),
        pytest.param("sockets", "3-4", {"socket0"}, id="sockets of cpus"),
        pytest.param("dies", "0,8", {"socket0/die0", "socket1/die0"}, id="dies name the socket"),
        pytest.param("cores", "4-6", {"node1/core2", "node1/core3"}, id="cores name the node"),
        pytest.param("threads", "5", {"node1/core2/thread1"}, id="threads count in their core"),
        pytest.param("cpus", "", set[str](), id="nothing"),
    ],
)
def test_facts_of_a_container(name: str, cpus: str, expected: set[str]) -> None:
    assert fact(name, cpus) == frozenset[Value](expected)


def test_memory_nodes_have_names() -> None:
    assert fact("mems", mems="0,3") == frozenset[Value]({"node0", "node3"})


@pytest.mark.parametrize(
    ("strings", "chars", "expected"),
    [
        pytest.param({"cpu08", "cpu11"}, "cpu", {8, 11}, id="stripped characters"),
        pytest.param({"node1/core02"}, "", {(1, 2)}, id="several parts"),
        pytest.param({"socket3"}, "[a-z]", {3}, id="a range of characters"),
    ],
)
def test_ids_are_numbers(strings: set[str], chars: str, expected: set[object]) -> None:
    assert set_ids(frozenset(strings), chars) == expected


def test_ids_need_digits() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        set_ids(frozenset({"cpu"}))
