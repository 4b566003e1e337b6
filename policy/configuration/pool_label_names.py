"""Names of the labels of pools that a machine gives them, whatever a configuration adds."""

from typing import Final

MACHINE_LABELS: Final = ("kind", "socket", "die", "numa", "l3", "cpus", "core-kind", "isolated")
"""Labels of pools that are found out, beside those that begin with memory. and cpu."""

MEASURED_LABELS: Final = (
    "memory.dram-gib",
    "memory.hbm-gib",
    "memory.pmem-gib",
    "memory.cxl-gib",
    "memory.types",
    "cpu.vendor",
    "cpu.model",
    "cpu.base-mhz",
    "cpu.max-mhz",
)
"""Labels that a machine is measured for, without the flags of the processor."""

FLAG_LABEL: Final = "cpu.flag/"
"""The begin of the label of a flag."""
