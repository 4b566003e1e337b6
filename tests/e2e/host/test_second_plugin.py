"""Another NRI plugin that sets the cpus of our containers: nothing starts, and the log says why."""

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

UNDONE: Final = ["CreateContainer", "StopContainer", "REMOVE_CONTAINER"]


@pytest.mark.parametrize("index", ["10", "95"], ids=["asked before us", "asked after us"])
def test_the_log_names_a_conflict_with_another_plugin(
    containerd: Containerd, node: Node, daemon: Daemon, index: str
) -> None:
    disputed = PodSpec(name="disputed", containers=(best_effort("container"),))
    with (
        RivalPlugin(containerd.nri_socket, index, cpus="0") as rival,
        pytest.raises(grpc.RpcError, match="both tried to set CPU pinning"),
    ):
        node.start_pod(disputed)
    assert [event for event, container in rival.heard if container] == UNDONE
    assert eventually(lambda: names_the_conflict(daemon.log_tail())), daemon.log_tail()
    # With the other plugin gone everything is as ever.
    node.start_pod(PodSpec(name="undisputed", containers=(best_effort("container"),)))


def names_the_conflict(log: str) -> bool:
    """Whether a line names the container and what another plugin does to it."""
    return any("disputed" in line and "another NRI plugin" in line for line in log.splitlines())
