"""Speed Select of a machine: from its device, a snapshot or the environment.

The one door of this room to the folder `speed_select`, opened only where something tells of Speed
Select: without the folder every other machine is read as ever.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Final

from ..model.machine import SPEED_SELECT_DEVICE, Machine, SpeedSelect
from ..sets.base_errors import TopologyError
from ..sets.cpuset import CpuSet
from .attributes import Attributes

SNAPSHOT_FILE: Final = "pinfold/speedselect.json"
"""What tells of Speed Select in a snapshot, where there is no device to ask."""
VARIABLE: Final = "OVERRIDE_SST"
"""The environment variable that replaces what the hardware tells."""


def ask_hardware(machine: Machine, device: str = SPEED_SELECT_DEVICE) -> Machine:
    """The machine this runs on with what no file says of it: Speed Select, where there is any."""
    # Who has no such hardware is spared the modules.
    if not os.path.lexists(device):
        return machine
    from .speed_select.device import add_speed_select

    return add_speed_select(machine, device)


def kept_speed_select(attributes: Attributes, online: CpuSet) -> tuple[SpeedSelect, ...]:
    """Power domains that a snapshot keeps; a fault in them is a warning."""
    text = attributes.tree.read(SNAPSHOT_FILE)
    if text is None:
        return ()
    from .speed_select.json_file import parse_speed_select

    try:
        found = parse_speed_select(f"{attributes.tree.root}/{SNAPSHOT_FILE}", text)
    except TopologyError as error:
        attributes.warnings.append(f"{error}; Speed Select is not read")
        return ()
    return on_cpus(found, online)


def given_speed_select(environment: Mapping[str, str]) -> tuple[SpeedSelect, ...] | None:
    """Power domains in the environment; None where it has none. Raises `TopologyError`."""
    text = environment.get(VARIABLE, "")
    if not text.strip():
        return None
    from .speed_select.json_file import parse_speed_select

    return parse_speed_select(VARIABLE, text)


def snapshot_files(machine: Machine) -> Mapping[str, str]:
    """Texts by path that a snapshot keeps of the Speed Select of a machine."""
    if not machine.speed_select:
        return {}
    from .speed_select.json_file import speed_select_text

    return {SNAPSHOT_FILE: speed_select_text(machine.speed_select)}


def on_cpus(domains: tuple[SpeedSelect, ...], online: CpuSet) -> tuple[SpeedSelect, ...]:
    """The domains restricted to the cpus that are online; those without any are left out."""
    return tuple(
        dataclasses.replace(
            domain,
            cpus=domain.cpus & online,
            clos_of={cpu: clos for cpu, clos in domain.clos_of.items() if cpu in online},
            base_frequency_cpus=domain.base_frequency_cpus & online,
        )
        for domain in domains
        if domain.cpus & online
    )
