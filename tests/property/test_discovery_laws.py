"""Laws of discovery: trees go round, and no damage makes it fail or give broken groups."""

import dataclasses
import tempfile
from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pinfold.topology.drawing.machine_json import machine_document
from pinfold.topology.drawing.machine_tree import machine_drawing
from pinfold.topology.made.snapshot import SysfsSnapshot, capture
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import (
    CoreKind,
    Domain,
    IoDevice,
    Machine,
    MemoryKind,
    NumaNode,
    NumaNodeId,
)
from pinfold.topology.sets.base_errors import TopologyError
from pinfold.topology.sets.cpuset import CpuSet
from pinfold.topology.sysfs.discovery import discover, read_machine
from tests.unit.topology.made.machine_files import machine_snapshot, tree_of, write_tree

COUNTS = st.integers(1, 3)


@st.composite
def specs(draw: st.DrawFn) -> str:
    """One line with any of the keys, in any order that nests."""
    outer = draw(st.permutations(["socket", "numa", "l3", "cluster"]))
    keys = [key for key in outer if draw(st.booleans())]
    if "socket" in keys and draw(st.booleans()):
        keys.insert(draw(st.integers(keys.index("socket") + 1, len(keys))), "die")
    keys += [key for key in ("core", "thread") if draw(st.booleans())]
    counts = {key: draw(COUNTS) for key in keys}
    words = [f"{key}:{count}" for key, count in counts.items()]
    words.append(f"mem:{draw(st.integers(0, 64))}{draw(st.sampled_from('KMGT'))}")
    total = 1
    for count in counts.values():
        total *= count
    if draw(st.booleans()):
        isolated = CpuSet.collect(draw(st.sets(st.integers(0, total - 1), min_size=1, max_size=5)))
        words.append(f"isolated:{isolated}")
    if draw(st.booleans()):
        distances = draw(st.lists(st.integers(10, 255), min_size=3, max_size=3))
        words.append(f"distance:{','.join(map(str, distances))}")
    return " ".join(words)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """A machine of one line, with traits that no line can write."""
    machine = machine_from_spec(draw(specs()))
    efficient = draw(st.sampled_from([CpuSet(), *machine.cores[:1], machine.online]))
    cpus = {
        cpu.id: dataclasses.replace(
            cpu,
            kind=CoreKind.EFFICIENT if cpu.id in efficient else CoreKind.PERFORMANCE,
            max_khz=draw(st.sampled_from([None, 3000000])),
        )
        for cpu in machine.cpus.values()
    }
    for number, cpu in cpus.items():
        if cpu.max_khz is not None:
            cpus[number] = dataclasses.replace(cpu, min_khz=800000, epp="power")
    nodes = list(machine.numa_nodes)
    rows = [list(row) for row in machine.distances]
    for kind in draw(st.lists(st.sampled_from(MemoryKind), max_size=3)):
        number = nodes[-1].id + draw(st.integers(1, 7))
        memory = draw(st.integers(1, 2**20)) * 2**20
        nodes.append(NumaNode(id=NumaNodeId(number), memory_bytes=memory, free_bytes=0, kind=kind))
        rows = [[*row, 40] for row in rows] + [[40] * len(rows) + [10]]
    index = draw(st.integers(0, len(nodes) - 1))
    nodes[index] = dataclasses.replace(
        nodes[index],
        hugepages={2**21: draw(st.integers(0, 9))},
        is_normal=not nodes[index].memory_bytes or draw(st.booleans()),
    )
    path = "devices/pci0000:00/0000:00:01.0/net/eth0"
    device = IoDevice(path=path, kind="net", name="eth0", numa_node=nodes[0].id, cpus=nodes[0].cpus)
    return dataclasses.replace(
        machine,
        cpus=cpus,
        numa_nodes=tuple(nodes),
        distances=tuple(map(tuple, rows)),
        possible=machine.possible | CpuSet.of(200),
        present=machine.present | CpuSet.collect(draw(st.sets(st.integers(100, 110)))),
        devices=draw(st.sampled_from([(), (device,)])),
    )


@settings(deadline=None, max_examples=100)
@given(machines())
def test_a_generated_tree_shows_the_machine_it_was_made_from(machine: Machine) -> None:
    machine = dataclasses.replace(machine, possible=machine.possible | machine.present)
    found = discover(tree_of(machine_snapshot(machine)))
    assert found == machine


@settings(deadline=None, max_examples=40)
@given(machines())
def test_a_captured_tree_shows_the_machine_it_was_captured_from(machine: Machine) -> None:
    found, snapshot = capture(tree_of(machine_snapshot(machine)))
    assert discover(tree_of(snapshot)) == found


@settings(deadline=None, max_examples=15)
@given(specs())
def test_a_tree_on_disk_is_read_like_one_in_memory(spec: str) -> None:
    machine = machine_from_spec(spec)
    with tempfile.TemporaryDirectory() as root:
        write_tree(machine_snapshot(machine), root)
        assert read_machine(root) == machine


JUNK = (
    st.sampled_from(
        ["", "-1", "0", "3", "65535", "0-3", "2,5-7", "0-9000", "f", "00000000", "ff,00000000",
         "x", "10 20", "Node 0 MemTotal: 5 kB", "Data", "Instruction", "99999999999999999999"]
    )
    | st.text(max_size=8)
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> SysfsSnapshot:
    """A tree in which some files are gone or hold something else."""
    snapshot = machine_snapshot(draw(machines()))
    files = dict(snapshot.files)
    paths = sorted(files)
    for path in draw(st.lists(st.sampled_from(paths), max_size=12)):
        if draw(st.booleans()):
            files.pop(path, None)
        else:
            files[path] = draw(JUNK)
    # Whole kinds of files are missing on older kernels.
    for name in draw(st.lists(st.sampled_from([path.rpartition("/")[2] for path in paths]))):
        files = {path: text for path, text in files.items() if not path.endswith(f"/{name}")}
    return dataclasses.replace(snapshot, files=files)


def is_partition(groups: Sequence[CpuSet | Domain], whole: CpuSet) -> bool:
    sets = [group.cpus if isinstance(group, Domain) else group for group in groups]
    union = CpuSet()
    for cpus in sets:
        union |= cpus
    ordered = [cpus.lowest for cpus in sets]
    return (
        union == whole
        and sum(map(len, sets)) == len(whole)
        and all(sets)
        and ordered == sorted(ordered)
    )


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(damaged())
def test_damage_never_makes_discovery_fail_or_groups_overlap(snapshot: SysfsSnapshot) -> None:
    try:
        machine = discover(tree_of(snapshot))
    except TopologyError as error:
        assert "no cpu is online" in str(error)  # noqa: PT017 - most examples raise nothing
        return
    online = machine.online
    assert online <= machine.present <= machine.possible
    assert machine.isolated <= online
    assert list(machine.cpus) == list(online)
    assert is_partition(machine.sockets, online)
    assert is_partition(machine.dies, online)
    assert is_partition(machine.cores, online)
    for groups in (machine.clusters, machine.l2_groups, machine.l3_groups):
        union = CpuSet()
        for group in groups:
            union |= group.cpus if isinstance(group, Domain) else group
        assert is_partition(groups, union)
        assert union <= online
    labels = [domain.label for domain in machine.sockets]
    assert len(set(labels)) == len(labels)
    for socket in machine.sockets:
        assert {str(machine.cpus[cpu].socket) for cpu in socket.cpus} == {socket.label}
    assert len({die.label for die in machine.dies}) == len(machine.dies)
    assert len({one.label for one in machine.clusters}) == len(machine.clusters)
    assert all(node.cpus <= online for node in machine.numa_nodes)
    assert machine.numa_nodes
    assert not machine.distances or {len(row) for row in machine.distances} == {
        len(machine.numa_nodes)
    }
    assert all(": " in text and "\n" not in text for text in machine.warnings)
    assert machine_document(machine)["online_cpus"] == str(online)
    assert machine_drawing(machine).heading[0].startswith(str(len(online)))
    assert discover(tree_of(snapshot)) == machine
