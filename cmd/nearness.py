"""The sources of topology hints on the machine the daemon runs on."""

import time
from collections.abc import Mapping
from functools import partial

from ..nri.kubelethints import KubeletHints
from ..nri.locality import DeviceNumber
from ..nri.lookout import Lookout
from ..nri.podresources import KUBELET_SOCKET, PodResources
from ..nri.surroundings import Surroundings
from ..policy.hints.text import TEST_APIS
from ..topology.sysfs import open_tree
from .hostdevice import device_of


def find_surroundings(root: str | None, environment: Mapping[str, str]) -> Surroundings:
    """All sources there are; without a root (see `chores.live_root`), only annotations of tests.

    Raises `TopologyError` where the root shows no machine.
    """
    has_test_hints = bool(environment.get(TEST_APIS))
    if root is None:
        return Surroundings(has_test_hints=has_test_hints)
    above = root.rstrip("/")
    return Surroundings(
        Lookout(open_tree(root), partial(_device_below, above)),
        KubeletHints(PodResources(time.monotonic, above + KUBELET_SOCKET)),
        has_test_hints=has_test_hints,
    )


def _device_below(above: str, path: str) -> DeviceNumber | None:
    """The runtime's paths are the host's, which a container of ours sees below another folder."""
    return device_of(above + path)
