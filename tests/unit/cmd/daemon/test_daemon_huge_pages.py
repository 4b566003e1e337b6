"""Huge pages through a running daemon: accounted by node, given back, and never forgotten."""

import dataclasses
import json
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from pinfold.policy.configuration.config import Config
from pinfold.policy.manifests.pod_spec import PodSpec
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sysfs.discovery import read_machine
from tests.unit.cmd.daemon.paper_node import GIB, MIB, PaperNode, config, guaranteed
from tests.unit.topology.made.machine_files import machine_snapshot, write_tree

LARGE = 2 * MIB
SOME = 128 * MIB

# Number of pages of 2 MiB on each of four nodes; node 3 has one of 1 GiB, too.
COUNTS = (0, 128, 64, 64)


@pytest.fixture(name="tree", scope="module")
def fixture_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of two sockets with two NUMA nodes each, and pages on some of them."""
    plain = machine_from_spec("socket:2 numa:2 core:4 mem:4G")
    nodes = tuple(
        dataclasses.replace(one, hugepages={LARGE: count, GIB: int(one.id == 3)})
        for one, count in zip(plain.numa_nodes, COUNTS, strict=True)
    )
    root = tmp_path_factory.mktemp("root")
    write_tree(machine_snapshot(dataclasses.replace(plain, numa_nodes=nodes)), str(root))
    return root


Run = Callable[..., PaperNode]


@pytest.fixture(name="run")
def fixture_run(tree: Path) -> Generator[Run]:
    running: list[PaperNode] = []

    def run(settings: Config | None = None, folder: Path | None = None) -> PaperNode:
        running.append(PaperNode(read_machine(str(tree)), settings, folder=folder))
        running[-1].start()
        return running[-1]

    yield run
    for node in running:
        node.stop()


def paged(name: str, total: int, size: int = LARGE, milli: int = 1000) -> PodSpec:
    return guaranteed(name, milli, memory=100 * MIB, pages={size: total})


def left(node: PaperNode, size: int = LARGE) -> int:
    """Bytes in pages that nobody holds, by the policy's books."""
    node.look(node.daemon.engine.check)
    memory = node.look(node.daemon.engine.snapshot).memory
    held = sum(holding.pages().get(size, 0) for holding, _ in memory.holdings)
    return size * (memory.nodes.page_count(memory.nodes.with_memory, size) - held)


def test_containers_go_where_pages_are_and_not_where_they_ran_out(run: Run) -> None:
    node = run()
    assert left(node) == 512 * MIB
    for name, mems in (("a", "1"), ("b", "2"), ("c", "3"), ("d", "1")):
        node.run(paged(name, SOME))
        assert node.mems(name) == mems, name
    assert left(node) == 0
    node.run(guaranteed("plain", memory=MIB))
    assert node.mems("plain") == "0", "who wants no pages needs none"


def test_more_than_a_node_has_widens_the_set(run: Run) -> None:
    node = run()
    node.run(paged("a", 2 * SOME))
    assert node.mems("a") == "1"
    node.run(paged("b", 200 * MIB))
    assert node.mems("b") == "2-3"


def test_one_large_page_decides_the_pool(run: Run) -> None:
    node = run()
    node.run(paged("a", GIB, size=GIB))
    assert (node.cpus("a"), node.mems("a")) == ("12", "3")


@pytest.mark.parametrize(
    ("total", "size", "reason"),
    [
        pytest.param(
            400 * MIB, LARGE, "huge pages of 2 MiB: wanted 400 MiB, available 384 MiB", id="too few"
        ),
        pytest.param(
            MIB, 64 << 10, "huge pages of 64 KiB: wanted 1 MiB, available none", id="unknown size"
        ),
    ],
)
def test_pages_that_are_not_there_refuse_by_name(
    run: Run, total: int, size: int, reason: str
) -> None:
    node = run()
    node.run(paged("a", SOME))
    refusal = node.refusal(paged("b", total, size))
    assert reason in refusal
    assert "100 MiB of memory, " in refusal
    assert left(node) == 384 * MIB


def test_pages_that_are_there_are_not_blamed_for_memory_that_is_not(run: Run) -> None:
    node = run()
    refusal = node.refusal(guaranteed("a", memory=20 * GIB, pages={LARGE: SOME}))
    assert "memory: wanted 20 GiB, available 14" in refusal


def test_a_release_gives_pages_back(run: Run) -> None:
    node = run()
    node.run(paged("a", GIB, size=GIB))
    assert node.refusal(paged("b", GIB, size=GIB))
    node.remove("a")
    assert left(node, GIB) == GIB
    node.run(paged("c", GIB, size=GIB))
    assert node.mems("c") == "3"


def test_a_resize_without_a_word_of_pages_keeps_them(run: Run) -> None:
    node = run()
    node.run(paged("a", SOME))
    node.resize("a", 2000, 200 * MIB)
    assert len(node.grant("a").exclusive) == 2
    assert left(node) == 384 * MIB
    node.resize("a", 1000, 50 * MIB)
    assert left(node) == 384 * MIB
    assert node.mems("a") == "1"


@pytest.mark.parametrize("remembers", [True, False], ids=["with its file", "without a file"])
def test_a_restarted_daemon_knows_who_holds_pages(
    run: Run, tmp_path: Path, remembers: bool, caplog: pytest.LogCaptureFixture
) -> None:
    node = run(folder=tmp_path if remembers else None)
    node.run(paged("a", SOME), paged("b", 200 * MIB), paged("c", GIB, size=GIB))
    counts = node.runtime.update_counts.copy()
    node.restart()
    assert (left(node), left(node, GIB)) == (184 * MIB, 0)
    node.restart()
    assert (node.mems("a"), node.mems("b"), node.mems("c")) == ("1", "2-3", "3")
    assert node.runtime.update_counts == counts
    node.remove("b")
    assert left(node) == 384 * MIB
    assert not [one.message for one in caplog.records if one.levelname == "ERROR"]


def test_another_configuration_forgets_no_pages(run: Run) -> None:
    node = run()
    node.run(paged("a", SOME))
    assert node.daemon.reconfigure(config(colocatePods=True))
    assert left(node) == 384 * MIB


def test_an_annotation_of_resources_does_not_hide_pages(run: Run) -> None:
    node = run()
    said = {"cpu": "1", "memory": "100Mi"}
    resources = {"containers": {"a": {"requests": said, "limits": said}}}
    annotations = {"noderesource.dev/resources": json.dumps(resources)}
    node.run(dataclasses.replace(paged("a", SOME), annotations=annotations))
    assert left(node) == 384 * MIB
