"""The health service at the control socket, as gRPC's own tools ask it."""

from collections.abc import Generator
from pathlib import Path
from typing import cast

import grpc
import pytest

from pinfold.cmd.control.api import health_pb2

from .asked_node import AskedNode

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture(name="node")
def fixture_node(tmp_path: Path) -> Generator[AskedNode]:
    node = AskedNode(tmp_path)
    node.start()
    yield node
    node.stop()


def check(node: AskedNode, service: str = "") -> int:
    options = [("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(f"unix:{node.path}", options) as channel:
        call = cast(
            "grpc.UnaryUnaryMultiCallable[object, health_pb2.HealthCheckResponse]",
            channel.unary_unary(  # pyright: ignore[reportUnknownMemberType]  # the stubs' own
                "/grpc.health.v1.Health/Check",
                request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
                response_deserializer=health_pb2.HealthCheckResponse.FromString,
            ),
        )
        return call(health_pb2.HealthCheckRequest(service=service), timeout=10).status


@pytest.mark.parametrize("service", ["", "pinfold.control.v1.Control"])
def test_a_daemon_with_its_runtime_serves(node: AskedNode, service: str) -> None:
    assert check(node, service) == SERVING


def test_a_daemon_without_its_runtime_does_not(node: AskedNode) -> None:
    node.daemon.front.stop()
    assert check(node) == NOT_SERVING


def test_a_service_that_is_not_here_is_not_found(node: AskedNode) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        check(node, "other.Service")
    assert cast(grpc.Call, raised.value).code() is grpc.StatusCode.NOT_FOUND
