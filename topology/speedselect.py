"""What Intel Speed Select says of a machine, as a value. Reading it is another module's task."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from .cpuset import NO_CPUS, CpuSet

if TYPE_CHECKING:
    from .machine import SocketId

DEVICE: Final = "/dev/isst_interface"
"""What says it on the machine this runs on."""
SNAPSHOT_FILE: Final = "pinfold/speedselect.json"
"""What says it in a snapshot, where there is no device to ask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedSelect:
    """What Intel Speed Select says of one power domain of a socket (a punit).

    Older parts have one for the whole socket. `supports_…` says that a feature could be enabled,
    `has_…` that it is. Source: Documentation/admin-guide/pm/intel-speed-select.rst.
    """

    socket: "SocketId"
    domain: int = 0
    """The number of the power domain in its socket; there may be gaps."""
    cpus: CpuSet
    """The online cpus of the domain."""
    supports_turbo_frequency: bool = False
    """SST-TF."""
    supports_core_power: bool = False
    """SST-CP."""
    has_turbo_frequency: bool = False
    has_core_power: bool = False
    clos_count: int = 4
    clos_order: tuple[int, ...] = ()
    """Classes of service, the preferred one first; none unless their priority is ordered."""
    clos_of: Mapping[int, int] = field(default_factory=dict[int, int])
    """Class of service by cpu id; a cpu whose class could not be read is missing."""
    clos_khz: Mapping[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """Lowest and highest frequency in kHz by class of service."""
    base_frequency_cpus: CpuSet = NO_CPUS
    """The high-priority cpus of SST-BF; none where it is not enabled."""
    high_priority_cpus: int = 0
    """How many cores SST-TF guarantees its highest turbo, in its smallest bucket; 0 is unknown.

    So many cpus have it wherever they are, and more where they share cores.
    """
