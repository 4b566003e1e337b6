"""Health and reflection at the control socket, as gRPC's own tools ask for them."""

# The stubs of grpc leave the types of calls open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import contextlib
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import cast

import grpc
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message import Message

from pinfold.cmd.control.api import health_pb2
from pinfold.cmd.control.api import reflection_pb2 as reflection
from pinfold.cmd.control.service_handlers import STREAMS_MAX

from .asked_node import AskedNode

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
CONTROL = "pinfold.control.v1.Control"
SERVICES = [CONTROL, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"]
SECONDS = 20
# The last: each channel has a connection of its own, as each client has.
OPTIONS = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]


@pytest.fixture(name="node")
def fixture_node(tmp_path: Path) -> Generator[AskedNode]:
    node = AskedNode(tmp_path)
    node.start()
    yield node
    node.stop()


@contextlib.contextmanager
def watched(node: AskedNode, service: str = "") -> Generator[Iterator[int]]:
    """The statuses that a client is told, as they come."""
    with grpc.insecure_channel(f"unix:{node.path}", OPTIONS) as channel:
        call = channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        asked = health_pb2.HealthCheckRequest(service=service)
        answers = cast("Iterator[health_pb2.HealthCheckResponse]", call(asked, timeout=SECONDS))
        yield (one.status for one in answers)


def reflected(
    node: AskedNode, *questions: reflection.ServerReflectionRequest, version: str = "v1"
) -> Sequence[reflection.ServerReflectionResponse]:
    """The answers to questions of one stream."""
    with grpc.insecure_channel(f"unix:{node.path}", OPTIONS) as channel:
        call = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection.ServerReflectionResponse.FromString,
        )
        answers = call(iter(cast("Sequence[Message]", questions)), timeout=SECONDS)
        return list(cast("Iterator[reflection.ServerReflectionResponse]", answers))


def asked(**question: str) -> reflection.ServerReflectionRequest:
    # The stubs know each field's own type.
    return reflection.ServerReflectionRequest(**question)  # type: ignore[arg-type]


def test_a_watcher_is_told_the_status_and_when_it_is_another_one(node: AskedNode) -> None:
    with watched(node) as statuses:
        assert next(statuses) == SERVING
        node.daemon.front.stop()
        assert next(statuses) == NOT_SERVING


def test_a_watcher_of_a_service_that_is_not_here_is_told_so_and_goes_on(node: AskedNode) -> None:
    with watched(node, "other.Service") as statuses:
        assert next(statuses) == UNKNOWN


def test_one_watcher_more_than_there_are_places_is_sent_away_and_calls_are_answered(
    node: AskedNode,
) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(STREAMS_MAX):
            assert next(stack.enter_context(watched(node, CONTROL))) == SERVING
        with pytest.raises(grpc.RpcError) as raised:
            next(stack.enter_context(watched(node)))
        assert cast(grpc.Call, raised.value).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert node.client.status().runtime.connected


def test_a_place_is_free_again_when_its_watcher_is_gone(node: AskedNode) -> None:
    for _ in range(2 * STREAMS_MAX):
        with watched(node) as statuses:
            assert next(statuses) == SERVING


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_all_services_are_listed(node: AskedNode, version: str) -> None:
    (answer,) = reflected(node, asked(list_services="*"), version=version)
    assert [one.name for one in answer.list_services_response.service] == SERVICES


@pytest.mark.parametrize(
    ("symbol", "method"),
    [
        ("pinfold.control.v1.Control", "Explain"),
        ("pinfold.control.v1.Control.Explain", "Explain"),
        ("pinfold.control.v1.MoveRequest", "Move"),
        ("grpc.health.v1.Health", "Watch"),
        ("grpc.health.v1.HealthCheckResponse.ServingStatus", "Watch"),
        ("grpc.reflection.v1.ServerReflection", "ServerReflectionInfo"),
    ],
)
def test_a_symbol_is_described_by_the_file_it_is_in(
    node: AskedNode, symbol: str, method: str
) -> None:
    (answer,) = reflected(node, asked(file_containing_symbol=symbol))
    (text,) = answer.file_descriptor_response.file_descriptor_proto
    file = descriptor_pb2.FileDescriptorProto.FromString(text)
    assert method in [one.name for service in file.service for one in service.method]
    (again,) = reflected(node, asked(file_by_filename=file.name))
    assert again.file_descriptor_response == answer.file_descriptor_response


@pytest.mark.parametrize(
    "question",
    [
        asked(file_containing_symbol="pinfold.control.v1.Control.Nothing"),
        asked(file_containing_symbol="pinfold.control.v1"),
        asked(file_containing_symbol=""),
        asked(file_containing_symbol="runtime.v1.RuntimeService"),
        asked(file_by_filename="/etc/passwd"),
        asked(all_extension_numbers_of_type="pinfold.control.v1.Document"),
    ],
    ids=str,
)
def test_what_is_not_here_is_not_found_and_the_stream_goes_on(
    node: AskedNode, question: reflection.ServerReflectionRequest
) -> None:
    first, second = reflected(node, question, asked(list_services=""))
    assert first.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    assert first.original_request == question
    assert second.list_services_response.service


def test_a_question_that_asks_nothing_is_said_to_be_one(node: AskedNode) -> None:
    (answer,) = reflected(node, asked(host="node"))
    assert answer.error_response.error_code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert answer.valid_host == "node"
