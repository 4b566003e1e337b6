"""Lines of meminfo, sound and odd."""

import time
from collections.abc import Mapping

import pytest

from pinfold.topology.sysfs.available_memory import parse_meminfo


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        pytest.param("MemTotal:       4 kB\n", {"MemTotal": 4096}, id="a line of the machine"),
        pytest.param("Node 12 MemFree:  1 kB\n", {"MemFree": 1024}, id="a line of a NUMA node"),
        pytest.param("Active(file): 2 kB", {"Active(file)": 2048}, id="brackets in a name"),
        pytest.param(
            "MemTotal: 1 kB\r\nMemFree:\t1 kB", {"MemTotal": 1024, "MemFree": 1024}, id="odd blanks"
        ),
        pytest.param("HugePages_Total: 7\n", {}, id="a count is no amount"),
        pytest.param("MemTotal: 1 MB\nMemTotal: -1 kB\nMemTotal: ² kB", {}, id="no kB, no number"),
        pytest.param(f"MemTotal: {'9' * 17} kB", {}, id="more than any machine has"),
        pytest.param(": 1 kB\n\nMemFree 1 kB", {}, id="no name, no line, no colon"),
        pytest.param("MemTotal:\n1 kB", {}, id="an amount in another line"),
    ],
)
def test_amounts_are_read_line_by_line(text: str, amounts: Mapping[str, int]) -> None:
    assert parse_meminfo(text) == amounts


@pytest.mark.slow
@pytest.mark.parametrize("part", ["a", "(", " ", ":", "1", "MemTotal:", "MemTotal: 1"])
def test_cost_grows_with_the_characters(part: str) -> None:
    text = part * (4_000_000 // len(part))
    began = time.process_time()
    assert parse_meminfo(text) == {}
    assert time.process_time() - began < 5
