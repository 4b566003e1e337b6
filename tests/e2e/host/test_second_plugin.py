"""Another NRI plugin that sets the cpus of our containers: the log says so, whatever follows."""

from typing import Final

import grpc
import pytest

from tests.e2e.agreement import eventually
from tests.e2e.containerd import Containerd
from tests.e2e.daemon import Daemon
from tests.e2e.node import Node
from tests.e2e.pods import PodSpec, best_effort
from tests.e2e.rival_plugin import RivalPlugin

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("nri_alone")]

DISPUTED: Final = PodSpec(name="disputed", containers=(best_effort("container"),))
UNDONE: Final = ["CreateContainer", "StopContainer", "REMOVE_CONTAINER"]


def test_a_conflict_with_a_plugin_that_is_asked_after_us_is_named(
    containerd: Containerd, node: Node, daemon: Daemon
) -> None:
    with (
        RivalPlugin(containerd.nri_socket, "95", cpus="0") as rival,
        pytest.raises(grpc.RpcError, match="both tried to set CPU pinning"),
    ):
        node.start_pod(DISPUTED)
    assert [event for event, container in rival.heard if container] == UNDONE
    assert eventually(lambda: names_the_conflict(daemon.log_tail())), daemon.log_tail()
    # With the other plugin gone everything is as ever.
    node.start_pod(PodSpec(name="undisputed", containers=(best_effort("container"),)))


def test_what_a_plugin_that_is_asked_before_us_placed_is_left_alone_and_named(
    containerd: Containerd, node: Node, daemon: Daemon
) -> None:
    with RivalPlugin(containerd.nri_socket, "10", cpus="0"):
        disputed = node.start_pod(DISPUTED)
    assert node.pins(disputed, "container").cpus == "0"
    assert eventually(lambda: names_the_conflict(daemon.log_tail())), daemon.log_tail()


def names_the_conflict(log: str) -> bool:
    """Whether a line names the container and what another plugin does to it."""
    return any("disputed" in line and "another NRI plugin" in line for line in log.splitlines())
