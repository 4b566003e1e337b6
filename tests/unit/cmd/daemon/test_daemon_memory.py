"""Memory of several kinds through a running daemon, on a generated machine."""

import dataclasses
import queue
import threading
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from pinfold.nri.dispatch.report import Adjusted, Happening
from pinfold.policy.configuration.config import Config
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine, MemoryKind, NumaNode, NumaNodeId
from pinfold.topology.sysfs.discovery import read_machine
from tests.unit.cmd.daemon.paper_node import GIB, MIB, PaperNode, config, guaranteed
from tests.unit.topology.made.machine_files import machine_snapshot, write_tree

PMEM, HBM, CXL = MemoryKind.PMEM, MemoryKind.HBM, MemoryKind.CXL
SIZES = {PMEM: 16 * GIB, CXL: 16 * GIB, HBM: GIB}

# By NUMA node: 0 and 1 are the sockets' own, 2 and 3 hang on them, and so do 4 and 5.
NEAR = ((10, 17, 18), (21, 28, 29))


def tiered(*kinds: MemoryKind) -> Machine:
    """Two sockets with 4 GiB of DRAM each, and a node of each of these kinds near each."""
    plain = machine_from_spec("socket:2 core:4 mem:4G")
    further = [(kind, socket) for kind in kinds for socket in range(2)]
    nodes = tuple(
        NumaNode(id=NumaNodeId(2 + place), memory_bytes=SIZES[kind], kind=kind)
        for place, (kind, _) in enumerate(further)
    )
    ids = range(2 + len(nodes))
    distances = tuple(
        tuple(10 if one == other else NEAR[(one ^ other) & 1][max(one, other) // 2] for one in ids)
        for other in ids
    )
    return dataclasses.replace(plain, numa_nodes=(*plain.numa_nodes, *nodes), distances=distances)


class Node(PaperNode):
    """A node that tells when the policy changes something by itself."""

    def __init__(self, machine: Machine, settings: Config | None, folder: Path) -> None:
        self.adjusted: queue.SimpleQueue[Adjusted] = queue.SimpleQueue()
        super().__init__(machine, settings, folder=folder, reports=(self._note,))

    def _note(self, happening: Happening) -> None:
        if isinstance(happening, Adjusted):
            self.adjusted.put(happening)

    def memory(self, name: str) -> str:
        """The nodes that a container holds by the policy's books, pinned to them or not."""
        self.look(self.daemon.engine.check)
        return str(self.grant(name).memory)


Run = Callable[..., Node]


@pytest.fixture(name="run")
def fixture_run(tmp_path: Path) -> Generator[Run]:
    running: list[Node] = []

    def run(*kinds: MemoryKind, settings: Config | None = None) -> Node:
        root = tmp_path / "root"
        root.mkdir()
        write_tree(machine_snapshot(tiered(*kinds)), str(root))
        machine = read_machine(str(root))
        assert [one.kind for one in machine.numa_nodes[2::2]] == list(kinds)
        running.append(Node(machine, settings, tmp_path))
        running[-1].start()
        return running[-1]

    yield run
    for node in running:
        node.stop()


ALL = (PMEM, HBM)


@pytest.mark.parametrize(
    ("kinds", "types", "mems"),
    [
        pytest.param(ALL, "", "1,3", id="nothing said: DRAM and PMEM, HBM is for who asks"),
        pytest.param(ALL, "dram", "1", id="DRAM alone"),
        pytest.param(ALL, "pmem", "3", id="PMEM alone"),
        pytest.param(ALL, "hbm", "5", id="HBM alone"),
        pytest.param(ALL, "HBM, dram", "1,5", id="two kinds, in any case"),
        pytest.param(ALL, "mixed", "1,3,5", id="all there are"),
        pytest.param((CXL,), "cxl", "3", id="CXL by its own name"),
        pytest.param((CXL,), "pmem", "3", id="CXL where PMEM is asked for and there is none"),
        pytest.param((CXL,), "", "1,3", id="CXL serves who says nothing"),
        pytest.param((HBM,), "pmem", "1", id="a kind the machine lacks: DRAM"),
        pytest.param((), "hbm", "1", id="a machine of one kind"),
    ],
)
def test_an_annotation_chooses_kinds(
    run: Run, kinds: tuple[MemoryKind, ...], types: str, mems: str
) -> None:
    node = run(*kinds)
    pod = guaranteed("a", 500, memory=512 * MIB, memory_type=types)
    node.run(pod if types else dataclasses.replace(pod, annotations={}))
    assert node.mems("a") == mems == node.memory("a")


def test_scarce_memory_widens_by_its_own_kind_first(run: Run) -> None:
    node = run(HBM)
    node.run(guaranteed("a", 500, memory=GIB * 3 // 2, memory_type="hbm"))
    assert node.mems("a") == "2-3"
    node.run(guaranteed("b", 500, memory=GIB, memory_type="hbm"))
    assert (node.mems("a"), node.mems("b")) == ("0-3", "2"), "the first one is told to spread"


@pytest.mark.parametrize("pins", [True, False], ids=["pinned", "not pinned"])
def test_the_timer_of_the_daemon_ends_a_cold_start(run: Run, pins: bool) -> None:
    node = run(PMEM, settings=config(pinMemory=pins))
    node.run(guaranteed("cold", 500, memory=512 * MIB, cold_start="duration: 2s"))
    assert node.memory("cold") == "3"
    assert node.mems("cold") == ("3" if pins else "")
    if pins:
        adjusted = node.adjusted.get(timeout=5)
        assert (adjusted.container.name, adjusted.cause) == ("cold", "end of cold start")
    else:
        ended = threading.Event()
        node.daemon.timers.once("after it", 2, ended.set)
        assert ended.wait(5)
    node.settle()
    assert node.memory("cold") == "1,3"
    assert node.mems("cold") == ("1,3" if pins else "")


def test_without_pinning_memory_is_accounted_and_nobody_is_told(run: Run) -> None:
    node = run(*ALL, settings=config(pinMemory=False))
    homes = {"fast": ("hbm", "5"), "slow": ("pmem", "2"), "usual": ("dram", "1")}
    for name, (kind, home) in homes.items():
        node.run(guaranteed(name, 500, memory=512 * MIB, memory_type=kind))
        assert (node.mems(name), node.memory(name)) == ("", home)
        assert node.cpus(name)
    node.restart()
    assert {name: node.memory(name) for name in homes} == {
        name: home for name, (_, home) in homes.items()
    }
    assert not node.runtime.update_counts


def test_memory_is_pinned_as_soon_as_the_configuration_says_so(run: Run) -> None:
    node = run(*ALL, settings=config(pinMemory=False))
    node.run(guaranteed("a", 500, memory=512 * MIB, memory_type="hbm"))
    assert node.daemon.reconfigure(config())
    node.settle()
    assert node.mems("a") == "5"
