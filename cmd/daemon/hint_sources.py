"""The sources of topology hints on the machine the daemon runs on."""

import time
from collections.abc import Mapping
from functools import partial

from ...nri.hints.combined_hints import CombinedHints
from ...nri.hints.device_hints import DeviceNumber
from ...nri.hints.hint_probe import HintProbe
from ...nri.hints.kubelet_hints import KubeletHints
from ...nri.hints.pod_resources import KUBELET_SOCKET, PodResources
from ...policy.hints.hint_text import TEST_APIS
from ...topology.sysfs.sysfs_tree import open_tree
from ..kernel.host_paths import device_of, small_file


def find_hint_sources(root: str | None, environment: Mapping[str, str]) -> CombinedHints:
    """All sources there are; without a root (see `live_root`), only annotations of tests.

    Raises `TopologyError` where the root shows no machine.
    """
    has_test_hints = bool(environment.get(TEST_APIS))
    if root is None:
        return CombinedHints(has_test_hints=has_test_hints)
    above = root.rstrip("/")
    return CombinedHints(
        HintProbe(
            open_tree(root),
            partial(_device_below, above),
            read_file=lambda path: small_file(above + path),
        ),
        KubeletHints(PodResources(time.monotonic, above + KUBELET_SOCKET)),
        has_test_hints=has_test_hints,
    )


def _device_below(above: str, path: str) -> DeviceNumber | None:
    """The runtime's paths are the host's, which a container of ours sees below another folder."""
    return device_of(above + path)
