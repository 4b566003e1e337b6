"""Health and reflection: the services by which gRPC's own tools look at a server.

Their streams last as long as their clients like, so they have places of their own: calls of the
control API never wait for them.
"""

# The stubs of grpc leave the types of handlers open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import grpc
from google.protobuf.descriptor import FileDescriptor

from .api import health_pb2 as health
from .api import reflection_pb2 as reflection
from .service_handlers import StreamPlaces, handler

HEALTH: Final = "grpc.health.v1.Health"
REFLECTION: Final = "grpc.reflection.v1.ServerReflection"
OLDER_REFLECTION: Final = "grpc.reflection.v1alpha.ServerReflection"
_LOOK_SECONDS: Final = 1.0
_REPEAT_SECONDS: Final = 30.0
"""After which a status that has not changed is said again: the gate drops who is silent."""


class ToolServices:
    """The handlers of health and reflection of one server."""

    def __init__(
        self,
        is_well: Callable[[], bool],
        service: str,
        files: Sequence[FileDescriptor],
        places: StreamPlaces,
    ) -> None:
        """`service`: the server's own, besides these. `files`: those that describe it."""
        self._is_well = is_well
        self._service = service
        own = (health.DESCRIPTOR, reflection.DESCRIPTOR)
        self._files = {one.name: one for one in (*files, *own)}
        self._places = places

    def handlers(self) -> list[grpc.GenericRpcHandler[object, object]]:
        """The handlers for a server."""
        asked, question = health.HealthCheckRequest, reflection.ServerReflectionRequest
        checked = {
            "Check": handler(grpc.unary_unary_rpc_method_handler, asked, self._check),
            "Watch": handler(grpc.unary_stream_rpc_method_handler, asked, self._watch),
        }
        reflected = {
            "ServerReflectionInfo": handler(
                grpc.stream_stream_rpc_method_handler, question, self._reflect
            )
        }
        return [
            grpc.method_handlers_generic_handler(name, methods)
            for name, methods in (
                (HEALTH, checked),
                (REFLECTION, reflected),
                (OLDER_REFLECTION, reflected),
            )
        ]

    def _check(
        self, asked: health.HealthCheckRequest, context: grpc.ServicerContext
    ) -> health.HealthCheckResponse:
        if not self._is_here(asked.service):
            context.abort(grpc.StatusCode.NOT_FOUND, f"no service {asked.service!r} is here")
        return self._status(asked.service)

    def _watch(
        self, asked: health.HealthCheckRequest, context: grpc.ServicerContext
    ) -> Iterator[health.HealthCheckResponse]:
        """The status, and again whenever it is another one; also of a service that is not here."""
        with self._places.taken(context) as over:
            said, silent_seconds = self._status(asked.service), 0.0
            yield said
            while not over.wait(_LOOK_SECONDS):
                silent_seconds += _LOOK_SECONDS
                found = self._status(asked.service)
                if found != said or silent_seconds >= _REPEAT_SECONDS:
                    said, silent_seconds = found, 0.0
                    yield said

    def _status(self, service: str) -> health.HealthCheckResponse:
        """Whether containers are placed: the runtime is connected, and the policy answers."""
        kind = health.HealthCheckResponse
        if not self._is_here(service):
            return kind(status=kind.SERVICE_UNKNOWN)
        return kind(status=kind.SERVING if self._is_well() else kind.NOT_SERVING)

    def _is_here(self, service: str) -> bool:
        return service in ("", self._service)

    def _reflect(
        self,
        questions: Iterator[reflection.ServerReflectionRequest],
        context: grpc.ServicerContext,
    ) -> Iterator[reflection.ServerReflectionResponse]:
        with self._places.taken(context):
            for asked in questions:
                answer = self._described(asked)
                answer.valid_host = asked.host
                answer.original_request.CopyFrom(asked)
                yield answer

    def _described(
        self, asked: reflection.ServerReflectionRequest
    ) -> reflection.ServerReflectionResponse:
        match asked.WhichOneof("message_request"):
            case "list_services":
                names = (self._service, HEALTH, REFLECTION)
                listed = [reflection.ServiceResponse(name=one) for one in names]
                services = reflection.ListServiceResponse(service=listed)
                return reflection.ServerReflectionResponse(list_services_response=services)
            case "file_by_filename":
                return _file_answer(self._files.get(asked.file_by_filename))
            case "file_containing_symbol":
                return _file_answer(self._file_of(asked.file_containing_symbol))
            case None:
                return _error(grpc.StatusCode.INVALID_ARGUMENT, "no question was asked")
            case _:
                return _error(grpc.StatusCode.NOT_FOUND, "no message here can be extended")

    def _file_of(self, symbol: str) -> FileDescriptor | None:
        """The file that describes a service or message, or something in one."""
        for file in self._files.values():
            prefix = f"{file.package}."
            if not symbol.startswith(prefix):
                continue
            outermost, _, inner = symbol.removeprefix(prefix).partition(".")
            service = file.services_by_name.get(outermost)
            if service is not None and (not inner or inner in service.methods_by_name):
                return file
            if outermost in file.message_types_by_name or outermost in file.enum_types_by_name:
                return file
        return None


def _file_answer(file: FileDescriptor | None) -> reflection.ServerReflectionResponse:
    if file is None:
        return _error(grpc.StatusCode.NOT_FOUND, "nothing of this name is here")
    # None of the files imports another one, or it would have to be sent along.
    assert not file.dependencies
    found = reflection.FileDescriptorResponse(file_descriptor_proto=[file.serialized_pb])
    return reflection.ServerReflectionResponse(file_descriptor_response=found)


def _error(code: grpc.StatusCode, message: str) -> reflection.ServerReflectionResponse:
    number, _ = code.value
    found = reflection.ErrorResponse(error_code=number, error_message=message)
    return reflection.ServerReflectionResponse(error_response=found)
