"""The processor of a machine by vendor, name and flags, from /proc/cpuinfo, as py-cpuinfo reads it.

py-cpuinfo's public call describes the machine that it runs on, takes most of a second and runs
machine code of its own in further processes. Its reader of /proc/cpuinfo does neither, and is given
the text of any tree. It is loaded when a processor is asked for: discovery only keeps the text.
"""

import importlib
from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any, Final

from ..model.machine import Processor
from .sysfs_tree import SysfsTree

CPUINFO: Final = "proc/cpuinfo"
_OF_THE_MOMENT: Final = "cpu MHz"


def read_cpuinfo(tree: SysfsTree) -> str:
    """The first entry of proc/cpuinfo; empty where the kernel says nothing.

    That of each cpu would be megabytes, and on most machines the same.
    """
    text = tree.beginning(CPUINFO) or ""
    lines = text.lstrip("\n").partition("\n\n")[0].splitlines()
    # The same machine is equal at any moment.
    return "\n".join(line for line in lines if not line.startswith(_OF_THE_MOMENT))


@cache
def parse_processor(cpuinfo: str) -> Processor | None:
    r"""The processor that a cpu's paragraph of /proc/cpuinfo describes; None where it has no name.

    XX
    Processor(vendor='GenuineIntel', name='Xeon', flags=('avx', 'sse'))
    """
    found: Mapping[str, Any] = _fields(cpuinfo) if cpuinfo else {}
    vendor, name = str(found.get("vendor_id_raw", "")), str(found.get("brand_raw", ""))
    if not vendor and not name:
        return None
    return Processor(vendor=vendor, name=name, flags=tuple(found.get("flags", ())))


def _fields(cpuinfo: str) -> Mapping[str, Any]:
    library: Any = importlib.import_module("cpuinfo.cpuinfo")
    source = library.DataSource
    library.DataSource = SimpleNamespace(
        has_proc_cpuinfo=lambda: True, cat_proc_cpuinfo=lambda: (0, cpuinfo)
    )
    try:
        found: Mapping[str, Any] = library._get_cpu_info_from_proc_cpuinfo()
    finally:
        library.DataSource = source
    return found
