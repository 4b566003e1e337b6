"""What each memory node could still give, and what of it is in use."""

from pathlib import Path

import pytest

from pinfold.topology.sysfs.available_memory import read_available_memory, read_used_memory
from pinfold.topology.sysfs.sysfs_tree import open_tree

KIB = 1024


def meminfo(node: int, **amounts: int) -> str:
    names = {"active": "Active(file)", "inactive": "Inactive(file)"}
    lines = [f"Node {node} {names.get(key, key)}: {value} kB" for key, value in amounts.items()]
    return "\n".join(lines) + "\n"


CASES = [
    pytest.param(meminfo(0, MemTotal=900, MemFree=100), 100 * KIB, id="free memory alone"),
    pytest.param(
        meminfo(0, MemFree=100, active=20, inactive=30, SReclaimable=5),
        155 * KIB,
        id="file pages and reclaimable kernel memory count",
    ),
    pytest.param(
        meminfo(0, MemFree=100, inactive=30, Dirty=10, Writeback=5),
        115 * KIB,
        id="pages that must be written first do not",
    ),
    pytest.param(
        meminfo(0, MemFree=100, Dirty=50), 100 * KIB, id="never less than what is free already"
    ),
]


@pytest.mark.parametrize(("text", "available"), CASES)
def test_available_memory_of_a_node(tmp_path: Path, text: str, available: int) -> None:
    node = tmp_path / "sys/devices/system/node/node0"
    node.mkdir(parents=True)
    (tmp_path / "sys/devices/system/cpu/cpu0").mkdir(parents=True)
    (node / "meminfo").write_text(text)
    assert read_available_memory(open_tree(str(tmp_path))) == {0: available}


def test_nodes_that_say_nothing_are_left_out(tmp_path: Path) -> None:
    base = tmp_path / "sys/devices/system/node"
    (tmp_path / "sys/devices/system/cpu/cpu0").mkdir(parents=True)
    for node, text in (("node0", "Node 0 MemTotal: 5 kB\n"), ("node3", meminfo(3, MemFree=7))):
        (base / node).mkdir(parents=True)
        (base / node / "meminfo").write_text(text)
    (base / "node5").mkdir()
    (base / "possible").write_text("0-5\n")
    assert read_available_memory(open_tree(str(tmp_path))) == {3: 7 * KIB}


def test_memory_in_use_is_told_by_node(tmp_path: Path) -> None:
    base = tmp_path / "sys/devices/system/node"
    (tmp_path / "sys/devices/system/cpu/cpu0").mkdir(parents=True)
    for node, text in (("node0", meminfo(0, MemTotal=5)), ("node3", meminfo(3, MemUsed=7))):
        (base / node).mkdir(parents=True)
        (base / node / "meminfo").write_text(text)
    assert read_used_memory(open_tree(str(tmp_path))) == {3: 7 * KIB}


def test_memory_in_use_is_found_among_all_lines(tmp_path: Path) -> None:
    node = tmp_path / "sys/devices/system/node/node0"
    node.mkdir(parents=True)
    (tmp_path / "sys/devices/system/cpu/cpu0").mkdir(parents=True)
    text = meminfo(0, MemTotal=9, MemUsed=7, MemUsedByOthers=1) + "\0"
    (node / "meminfo").write_text(text)
    assert read_used_memory(open_tree(str(tmp_path))) == {0: 7 * KIB}
