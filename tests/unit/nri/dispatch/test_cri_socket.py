"""Updates over a CRI socket, against a gRPC server that keeps what it is asked."""

# The stubs of grpc leave the types of handlers open.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

import socket
from collections.abc import Generator
from concurrent import futures
from pathlib import Path

import grpc
import pytest

from pinfold.nri.dispatch.cri_socket import CriSocket
from pinfold.nri.dispatch.update_sender import NoAnswerError
from pinfold.nri.plugin.cri_socket_paths import AUTO, OFF, find_cri_socket
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.e2e.api import cri_pb2 as api

A, B = ContainerId("a"), ContainerId("b")
PINNED = Pinning(cpus=CpuSet.of(2, 3), mems=NodeSet.of(1))


class Runtime:
    """A runtime's end of a CRI socket."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.asked: list[api.UpdateContainerResourcesRequest] = []
        self.unknown: set[str] = set()
        self.server = grpc.server(futures.ThreadPoolExecutor(1))
        handlers = {
            "Version": grpc.unary_unary_rpc_method_handler(
                self.version,
                request_deserializer=api.VersionRequest.FromString,
                response_serializer=api.VersionResponse.SerializeToString,
            ),
            "UpdateContainerResources": grpc.unary_unary_rpc_method_handler(
                self.update,
                request_deserializer=api.UpdateContainerResourcesRequest.FromString,
                response_serializer=api.UpdateContainerResourcesResponse.SerializeToString,
            ),
        }
        service = grpc.method_handlers_generic_handler("runtime.v1.RuntimeService", handlers)
        self.server.add_generic_rpc_handlers((service,))
        self.server.add_insecure_port(f"unix://{path}")
        self.server.start()

    def version(
        self, _request: api.VersionRequest, _context: grpc.ServicerContext
    ) -> api.VersionResponse:
        return api.VersionResponse(runtime_name="containerd", runtime_version="1.7.24")

    def update(
        self, request: api.UpdateContainerResourcesRequest, context: grpc.ServicerContext
    ) -> api.UpdateContainerResourcesResponse:
        self.asked.append(request)
        if request.container_id in self.unknown:
            context.abort(grpc.StatusCode.NOT_FOUND, "not found")
        return api.UpdateContainerResourcesResponse()


@pytest.fixture(name="runtime")
def fixture_runtime(tmp_path: Path) -> Generator[Runtime]:
    runtime = Runtime(str(tmp_path / "cri.sock"))
    yield runtime
    runtime.server.stop(None).wait()


def test_an_update_sets_cpus_and_memory_nodes_and_nothing_else(runtime: Runtime) -> None:
    cri = CriSocket(runtime.path, "containerd")
    assert cri.send({A: PINNED}) == {}
    cri.close()
    expected = api.LinuxContainerResources(cpuset_cpus="2-3", cpuset_mems="1")
    assert [(one.container_id, one.linux) for one in runtime.asked] == [("a", expected)]


def test_nothing_is_sent_where_nothing_is_pinned(runtime: Runtime) -> None:
    cri = CriSocket(runtime.path, "containerd")
    assert cri.send({A: Pinning(), ContainerId(""): PINNED}) == {}
    cri.close()
    assert runtime.asked == []


def test_a_failed_update_does_not_hold_up_the_others(runtime: Runtime) -> None:
    runtime.unknown.add("a")
    cri = CriSocket(runtime.path, "containerd")
    assert cri.send({A: PINNED, B: PINNED}) == {A: "NOT_FOUND: not found"}
    cri.close()
    assert [one.container_id for one in runtime.asked] == ["a", "b"]


def test_another_runtime_at_the_socket_gets_nothing(runtime: Runtime) -> None:
    cri = CriSocket(runtime.path, "cri-o")
    reason = f"{runtime.path}: here is 'containerd', not 'cri-o' — name the runtime's socket with"
    assert cri.send({A: PINNED}) == {A: f"{reason} --cri-socket"}
    cri.close()
    assert runtime.asked == []


def test_a_socket_where_nobody_is_says_how_to_name_another(tmp_path: Path) -> None:
    cri = CriSocket(str(tmp_path / "none.sock"), "containerd")
    [error] = cri.send({A: PINNED}).values()
    cri.close()
    assert error.startswith(f"{tmp_path}/none.sock: UNAVAILABLE: ")
    assert error.endswith("name the runtime's socket with --cri-socket")


def test_a_socket_that_takes_connections_and_never_answers_is_no_failure_but_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pinfold.nri.dispatch.cri_socket._VERSION_SECONDS", 0.1)
    path = str(tmp_path / "mute.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as mute:
        mute.bind(path)
        mute.listen()
        cri = CriSocket(path, "containerd")
        for _ in range(2):
            with pytest.raises(NoAnswerError, match=r"mute\.sock: DEADLINE_EXCEEDED"):
                cri.send({A: PINNED})
        cri.close()


def test_nothing_is_sent_once_it_is_closed(runtime: Runtime) -> None:
    cri = CriSocket(runtime.path, "containerd")
    cri.send({A: PINNED})
    cri.close()
    cri.close()
    assert set(cri.send({B: PINNED})) == {B}
    assert len(runtime.asked) == 1


@pytest.mark.parametrize("prefix", ["", "unix://"])
def test_a_socket_that_is_named_is_taken(runtime: Runtime, prefix: str) -> None:
    found = find_cri_socket(f"{prefix}{runtime.path}", "containerd", is_usual=False)
    assert isinstance(found, CriSocket)
    assert found.send({A: PINNED}) == {}
    found.close()


@pytest.mark.parametrize(
    ("option", "runtime", "is_usual", "reason"),
    [
        pytest.param(OFF, "containerd", True, "is off", id="switched off"),
        pytest.param(AUTO, "containerd", False, "not at its usual place", id="an odd NRI socket"),
        pytest.param(AUTO, "other", True, "no CRI socket of other is known", id="an odd runtime"),
        pytest.param(AUTO, "", True, "no CRI socket of this runtime", id="a nameless runtime"),
    ],
)
def test_why_there_is_no_socket(option: str, runtime: str, reason: str, *, is_usual: bool) -> None:
    found = find_cri_socket(option, runtime, is_usual=is_usual)
    assert isinstance(found, str)
    assert reason in found
