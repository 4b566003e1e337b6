"""The kubelet's PodResources service, answered by functions, for tests."""

# The stubs of grpc leave the types of handlers open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable
from typing import Any

import grpc

from pinfold.nri.api import podresources_pb2 as api

_Answer = Callable[[Any, grpc.ServicerContext], object]


def serve_pod_resources(server: grpc.Server, socket: str, listed: _Answer, found: _Answer) -> None:
    """Start a server of the two calls, `List` and `Get`, on a unix socket."""
    handlers = {
        "List": grpc.unary_unary_rpc_method_handler(
            listed,
            request_deserializer=api.ListPodResourcesRequest.FromString,
            response_serializer=api.ListPodResourcesResponse.SerializeToString,
        ),
        "Get": grpc.unary_unary_rpc_method_handler(
            found,
            request_deserializer=api.GetPodResourcesRequest.FromString,
            response_serializer=api.GetPodResourcesResponse.SerializeToString,
        ),
    }
    handler = grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers)
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
