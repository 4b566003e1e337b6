"""Clients get through the proxy byte for byte what they get from the runtime itself."""

from pathlib import Path
from typing import Any, cast

import grpc
import pytest

from tests.e2e.api import cri_pb2 as api
from tests.e2e.containerd import Containerd
from tests.e2e.daemon import Daemon
from tests.e2e.node import Node
from tests.e2e.pods import PodSpec, best_effort

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("cri_alone")]

SHARED = PodSpec(name="shared", containers=(best_effort("first"), best_effort("second")))
SECONDS = 20


def outcome(socket: Path, method: str, request: bytes) -> tuple[object, ...]:
    """All that a client sees of a call without message types.

    The bytes of a reply are sorted: the runtime writes maps in another order each time.
    """
    # The stubs want serializers where bytes are sent.
    channel: Any = grpc.insecure_channel(f"unix://{socket}")
    try:
        reply, call = channel.unary_unary(method).with_call(request, timeout=SECONDS)
    except grpc.RpcError as error:
        failed = cast("grpc.Call", error)
        trailing = sorted(failed.trailing_metadata())
        return failed.code(), failed.details(), trailing
    finally:
        channel.close()
    return sorted(reply), sorted(call.initial_metadata()), sorted(call.trailing_metadata())


@pytest.mark.usefixtures("daemon")
def test_calls_have_the_same_replies_and_the_same_errors(
    containerd: Containerd, node: Node
) -> None:
    pod = node.start_pod(SHARED)
    one = api.ContainerStatusRequest(container_id=pod.containers["first"], verbose=True)
    calls = {
        "RuntimeService/Version": b"",
        "RuntimeService/Status": api.StatusRequest(verbose=True).SerializeToString(),
        "RuntimeService/ListContainers": b"",
        "RuntimeService/ListPodSandbox": b"",
        "RuntimeService/ContainerStatus": one.SerializeToString(),
        "RuntimeService/RuntimeConfig": b"",
        "RuntimeService/NotThere": b"",
        "RuntimeService/StartContainer": api.StartContainerRequest(
            container_id="unknown"
        ).SerializeToString(),
        "RuntimeService/CreateContainer": b"\xff\xff",
        "ImageService/ListImages": b"",
        "ImageService/ImageStatus": b"",
        "OtherService/Anything": b"abc",
    }
    for name, request in calls.items():
        method = f"/runtime.v1.{name}"
        through = outcome(containerd.kubelet_socket, method, request)
        assert through == outcome(containerd.socket, method, request), name


@pytest.mark.parametrize("command", ["version", "-n k8s.io images ls", "plugins ls"])
@pytest.mark.usefixtures("daemon", "node")
def test_ctr_prints_the_same(containerd: Containerd, command: str) -> None:
    through = containerd.ctr(*command.split(), socket=containerd.kubelet_socket)
    direct = containerd.ctr(*command.split())
    assert (through.returncode, through.stdout) == (direct.returncode, direct.stdout)
    assert direct.returncode == 0


@pytest.mark.usefixtures("node")
def test_the_socket_is_the_owners_alone(containerd: Containerd, daemon: Daemon) -> None:
    del daemon
    path = containerd.kubelet_socket
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
