"""The gRPC service behind the gate. Loads grpc: imported once somebody asks.

Whoever gets here was let in by the gate, so every method is for all callers.
"""

# The stubs of grpc leave the types of handlers open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

import grpc
from google.protobuf.message import Message

from ...policy.model.container import ContainerId
from .api import control_pb2 as api
from .container_names import ControlRequestError
from .control_answers import ControlAnswers
from .service_handlers import STREAMS_MAX, StreamPlaces, handler
from .tool_services import ToolServices

SERVICE: Final = "pinfold.control.v1.Control"
REQUEST_BYTES_MAX: Final = 1 << 16
ANSWER_BYTES_MAX: Final = 1 << 26
_CALLS_AT_ONCE: Final = 4
_CALLS_WAITING: Final = 16
_METADATA_BYTES_MAX: Final = 1 << 13
_DETAILS_MAX: Final = 4000
"""Characters of an error: they travel in a header."""
_STOP_SECONDS: Final = 1.0

_Request = TypeVar("_Request", bound=Message)


class ControlService:
    """A gRPC server at a socket of its own, in a folder that only this process's user can open."""

    def __init__(self, answers: ControlAnswers, beside: Path, log: logging.Logger) -> None:
        """`beside`: the control socket. Raises `OSError`, `RuntimeError`."""
        self._answers = answers
        self._log = log
        self._places = StreamPlaces()
        self._turns = threading.BoundedSemaphore(_CALLS_AT_ONCE)
        _clear(beside)
        self._folder = beside.with_name(f"{_mark(beside)}{secrets.token_hex(3)}")
        self._folder.mkdir(mode=0o700)
        self._path = self._folder / "s"
        self._server = grpc.server(
            # A stream has its thread for as long as it lasts.
            ThreadPoolExecutor(_CALLS_AT_ONCE + STREAMS_MAX, thread_name_prefix="control"),
            handlers=[
                *self._calls(answers),
                *ToolServices(answers.is_well, SERVICE, [api.DESCRIPTOR], self._places).handlers(),
            ],
            options=[
                ("grpc.max_receive_message_length", REQUEST_BYTES_MAX),
                ("grpc.max_send_message_length", ANSWER_BYTES_MAX),
                ("grpc.max_metadata_size", _METADATA_BYTES_MAX),
                ("grpc.max_concurrent_streams", _CALLS_AT_ONCE + STREAMS_MAX),
                ("grpc.so_reuseport", 0),
                # To measure the way to a client would take a ping and its echo for each call.
                ("grpc.http2.bdp_probe", 0),
            ],
            maximum_concurrent_rpcs=_CALLS_WAITING,
        )
        self._server.add_insecure_port(f"unix:{self._path}")
        self._server.start()

    def connect(self) -> socket.socket:
        """A new connection to it. Raises `OSError`."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(os.fspath(self._path))
        except OSError:
            connection.close()
            raise
        return connection

    def stop(self) -> None:
        """End, with the calls that are being answered."""
        self._server.stop(_STOP_SECONDS).wait(2 * _STOP_SECONDS)
        _remove(self._folder)

    def _calls(self, answers: ControlAnswers) -> list[grpc.GenericRpcHandler[object, object]]:
        """The calls, by their methods."""
        return [
            grpc.method_handlers_generic_handler(
                SERVICE,
                {
                    "Status": self._handler(api.StatusRequest, lambda _: answers.status()),
                    "Pools": self._handler(api.PoolsRequest, lambda _: answers.pools()),
                    "Containers": self._handler(
                        api.ContainersRequest, lambda request: answers.containers(request.name)
                    ),
                    "Explain": self._handler(
                        api.ExplainRequest, lambda request: answers.explain(request.container)
                    ),
                    "Audit": self._handler(
                        api.AuditRequest, lambda request: answers.audit(repair=request.repair)
                    ),
                    "State": self._handler(api.StateRequest, lambda _: answers.state()),
                    "Plan": self._handler(api.PlanRequest, lambda request: _plan(answers, request)),
                    "Capture": self._handler(
                        api.CaptureRequest,
                        lambda request: answers.slow.capture(request.name),
                        message=lambda content: api.Archive(content=content),
                    ),
                    "Move": self._handler(
                        api.MoveRequest,
                        lambda request: answers.move(
                            ContainerId(request.container_id),
                            request.from_pool,
                            request.to_pool,
                            moves_exclusive=request.exclusive,
                            promised=request.promised,
                        ),
                    ),
                    "Follow": handler(
                        grpc.unary_stream_rpc_method_handler, api.FollowRequest, self._follow
                    ),
                },
            )
        ]

    def _handler(
        self,
        request: type[_Request],
        work: Callable[[_Request], bytes],
        message: Callable[[bytes], Message] = lambda text: api.Document(json=text),
    ) -> grpc.RpcMethodHandler[_Request, Message]:
        def answer(asked: _Request, context: grpc.ServicerContext) -> Message:
            with self._turns, self._errors(context):
                return message(work(asked))
            raise AssertionError("an error ends the call")

        return handler(grpc.unary_unary_rpc_method_handler, request, answer)

    def _follow(
        self, _asked: api.FollowRequest, context: grpc.ServicerContext
    ) -> Iterator[api.Document]:
        with self._places.taken(context) as over, self._errors(context):
            for text in self._answers.follow(over):
                yield api.Document(json=text)

    @contextlib.contextmanager
    def _errors(self, context: grpc.ServicerContext) -> Generator[None]:
        try:
            yield
        except ControlRequestError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error)[:_DETAILS_MAX])
        except TimeoutError as error:
            context.abort(grpc.StatusCode.UNAVAILABLE, f"{error} — ask again")
        except Exception:
            self._log.exception("event=fault during=control")
            context.abort(grpc.StatusCode.INTERNAL, "a fault of ours — see the daemon's log")


def _plan(answers: ControlAnswers, request: api.PlanRequest) -> bytes:
    moves = request.moves if request.HasField("moves") else None
    return answers.plan(moves, moves_exclusive=request.exclusive)


def _mark(beside: Path) -> str:
    return f".{beside.name}-"


def _clear(beside: Path) -> None:
    """Remove folders that a daemon of this socket left when it was killed: we hold its lock."""
    for folder in list(beside.parent.iterdir()):
        if folder.name.startswith(_mark(beside)):
            _remove(folder)


def _remove(folder: Path) -> None:
    with contextlib.suppress(OSError):
        (folder / "s").unlink(missing_ok=True)
        folder.rmdir()
