"""The make of processors, of any tree's /proc/cpuinfo."""

import subprocess
import sys
from pathlib import Path

import pytest

from pinfold.topology.drawing.machine_tree import machine_drawing
from pinfold.topology.made.snapshot import capture
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Processor
from pinfold.topology.sysfs.discovery import discover
from pinfold.topology.sysfs.processor import parse_processor
from pinfold.topology.sysfs.sysfs_tree import open_tree
from tests.unit.topology.made.machine_files import machine_snapshot, write_tree

INTEL = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8480+
stepping\t: 8
cpu MHz\t\t: {mhz}
cache size\t: 107520 KB
flags\t\t: fpu vme amx_tile avx512f
bogomips\t: 4000.00
"""
ARM = """processor\t: 0
BogoMIPS\t: 50.00
Features\t: fp asimd evtstrm
CPU implementer\t: 0x41
CPU architecture: 8
"""
POWER = """processor\t: 0
cpu\t\t: POWER9, altivec supported
clock\t\t: 2300.000000MHz
revision\t: 2.2 (pvr 004e 1202)
"""


@pytest.mark.parametrize(
    ("cpuinfo", "expected"),
    [
        pytest.param(
            INTEL,
            Processor(
                vendor="GenuineIntel",
                name="Intel(R) Xeon(R) Platinum 8480+",
                flags=("amx_tile", "avx512f", "fpu", "vme"),
            ),
            id="x86_64",
        ),
        pytest.param(
            POWER, Processor(vendor="", name="POWER9, altivec supported"), id="no vendor or flags"
        ),
        pytest.param(ARM, None, id="a number is no name"),
        pytest.param("", None, id="nothing"),
        pytest.param("\x00: :\n::::\nmodel name", None, id="nonsense"),
    ],
)
def test_a_processor_is_told_by_its_paragraph(cpuinfo: str, expected: Processor | None) -> None:
    assert parse_processor(cpuinfo) == expected


def tree(root: Path, mhz: str) -> str:
    root.mkdir()
    write_tree(machine_snapshot(machine_from_spec("core:2 mem:1G")), str(root))
    (root / "proc").mkdir(exist_ok=True)
    second = INTEL.replace("Platinum 8480+", "another").format(mhz="800.0")
    (root / "proc/cpuinfo").write_text(f"{INTEL.format(mhz=mhz)}\n{second}\n")
    return str(root)


def test_a_tree_and_its_snapshot_have_the_same_processor(tmp_path: Path) -> None:
    machine, snapshot = capture(open_tree(tree(tmp_path / "one", "2000.0")))
    line = "processor: Intel(R) Xeon(R) Platinum 8480+, GenuineIntel, 4 flags"
    assert line in machine_drawing(machine).heading
    (tmp_path / "kept").mkdir()
    write_tree(snapshot, str(tmp_path / "kept"))
    assert discover(open_tree(str(tmp_path / "kept"))) == machine
    assert discover(open_tree(tree(tmp_path / "later", "3100.5"))) == machine
    (tmp_path / "made").mkdir()
    write_tree(machine_snapshot(machine), str(tmp_path / "made"))
    assert discover(open_tree(str(tmp_path / "made"))).cpuinfo == machine.cpuinfo


def test_discovery_does_not_load_the_library(tmp_path: Path) -> None:
    root = tree(tmp_path / "root", "2000.0")
    program = (
        "import sys\n"
        "from pinfold.topology.sysfs.discovery import read_machine\n"
        f"machine = read_machine({root!r})\n"
        "print('cpuinfo' in sys.modules, 'GenuineIntel' in machine.cpuinfo)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert printed == "False True\n"
