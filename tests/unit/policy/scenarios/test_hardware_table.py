import textwrap

import pytest

from pinfold.policy.scenarios.hardware_table import machine_from_table
from pinfold.policy.text.yaml_fields import FieldError, read_fields
from pinfold.topology.model.machine import Machine, MemoryKind


def build(text: str) -> Machine:
    (table,) = read_fields(textwrap.dedent(text), "table.yaml")
    return machine_from_table(table)


TWO_NODES = """
    threads_per_core: 2
    isolated_cpus: 6
    base_frequency_khz: 2000000
    epp: power
    nodes:
    - {id: 0, socket: 0, die: 1, cpus: 0-3, mem: 2G}
    - {id: 1, socket: 1, cpus: 4-7, mem_kb: 1024, type: HBM}
    - {id: 4, cpus: '', mem: 8G, type: PMEM, normal: false}
    distances: [[10, 21, 17], [21, 10, 28], [17, 28, 10]]
"""


def test_a_table_of_nodes_is_a_machine() -> None:
    machine = build(TWO_NODES)
    assert str(machine.online) == "0-7"
    assert [(one.label, str(one.cpus)) for one in machine.sockets] == [("0", "0-3"), ("1", "4-7")]
    assert [one.label for one in machine.dies] == ["0/1", "1/0"]
    assert [str(one) for one in machine.cores] == ["0-1", "2-3", "4-5", "6-7"]
    assert [machine.cpus[cpu].core for cpu in range(8)] == [0, 0, 1, 1, 0, 0, 1, 1]
    assert str(machine.isolated) == "6"
    assert machine.cpus[3].base_khz == 2_000_000
    assert machine.cpus[3].epp == "power"
    first, second, third = machine.numa_nodes
    assert first.memory_bytes == first.free_bytes == 2 << 30
    assert (second.memory_bytes, second.kind) == (1 << 20, MemoryKind.HBM)
    assert (third.id, third.kind, third.is_normal) == (4, MemoryKind.PMEM, False)
    assert str(third.initiators) == "0"
    assert machine.numa_distances.between(third.id, second.id) == 28
    assert [str(one) for one in machine.l3_groups] == ["0-3", "4-7"]


@pytest.mark.parametrize(
    ("numbering", "cores"),
    [
        pytest.param("sequential; threads of a core are adjacent", ["0-1", "2-3"], id="adjacent"),
        pytest.param("HT sibling of c is (c+2)%4", ["0,2", "1,3"], id="the other half"),
    ],
)
def test_threads_follow_the_numbering(numbering: str, cores: list[str]) -> None:
    machine = build(
        f"""
        threads_per_core: 2
        cpu_numbering: '{numbering}'
        nodes: [{{id: 0, cpus: 0-3}}]
        """
    )
    assert [str(one) for one in machine.cores] == cores


@pytest.mark.parametrize(
    ("text", "sockets"),
    [
        pytest.param(
            "{threads_per_core: 2, cpu_numbering: 'socket0 0-3, socket1 4-7'}",
            ["0-3", "4-7"],
            id="sockets in a sentence",
        ),
        pytest.param(
            "{threads_per_core: 2, cpu_numbering: 'package 0: 0-1,4-5; package 1: 2-3,6-7'}",
            ["0-1,4-5", "2-3,6-7"],
            id="packages in a sentence",
        ),
        pytest.param(
            "{sockets: 2, cores_per_socket: 2, threads_per_core: 2}", ["0-3", "4-7"], id="counts"
        ),
    ],
)
def test_sockets_without_nodes_follow_the_numbering(text: str, sockets: list[str]) -> None:
    machine = build(text)
    assert [str(one.cpus) for one in machine.sockets] == sockets
    (node,) = machine.numa_nodes
    assert node.cpus == machine.online


def test_nodes_only_counted_get_an_even_part_each() -> None:
    machine = build(
        "{sockets: 2, numa_nodes: 4, cores_per_socket: 4, threads_per_core: 1, mem: 1G}"
    )
    assert [str(node.cpus) for node in machine.numa_nodes] == ["0-1", "2-3", "4-5", "6-7"]
    assert all(node.memory_bytes == 1 << 30 for node in machine.numa_nodes)
    assert machine.warnings == ("nodes are not listed: cores of a socket were dealt out in order",)


def test_l3_groups_may_be_listed() -> None:
    machine = build("{nodes: [{id: 0, cpus: 0-3}], l3: [2-3, 0-1]}")
    assert [str(one) for one in machine.l3_groups] == ["0-1", "2-3"]
    assert [(one.id, str(one.cpus)) for one in machine.caches if one.level == 3] == [
        (0, "0-1"),
        (1, "2-3"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("{sockets: 2}", "table.yaml:1:1: describes no cpus", id="no cpus"),
        pytest.param("{nodes: [{id: 0, cpus: 0-x}]}", "nodes[0].cpus: ", id="no cpu list"),
        pytest.param("{nodes: [{cpus: 0-1}]}", "nodes[0].id: is missing", id="no id"),
        pytest.param(
            "{nodes: [{id: 0, cpus: 0}, {id: 0, cpus: 1}]}", "nodes: two NUMA nodes", id="one id"
        ),
        pytest.param(
            "{nodes: [{id: 0, cpus: 0, mem: lots}]}", "'lots' is not a size", id="no size"
        ),
        pytest.param("{nodes: [{id: 0, cpus: 0, type: ROM}]}", "one of: DRAM, PMEM", id="no kind"),
        pytest.param(
            "{nodes: [{id: 0, cpus: 0}], distances: [[10, 20]]}", "1 rows of 1", id="distances"
        ),
        pytest.param(
            "{cpu_numbering: 'sibling of c is (c+1)%0', nodes: [{id: 0, cpus: 0-1}]}",
            "counts modulo 0",
            id="modulo zero",
        ),
        pytest.param(
            "{sockets: 100000000, cores_per_socket: 1}", "too many cpus", id="too many sockets"
        ),
    ],
)
def test_errors_name_the_field(text: str, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        build(text)
    assert message in str(caught.value)
