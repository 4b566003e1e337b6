"""Handlers of methods, and places for streams: each has a thread for as long as it lasts."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator
from typing import Any, Final, cast

import grpc
from google.protobuf.message import Message

STREAMS_MAX: Final = 4
"""Streams of all clients at once; one more is told to come later."""


class StreamPlaces:
    """The places of one service."""

    def __init__(self) -> None:
        self._free = threading.BoundedSemaphore(STREAMS_MAX)

    @contextlib.contextmanager
    def taken(self, context: grpc.ServicerContext) -> Generator[threading.Event]:
        """A place until the end of the block, and the event that its client is gone.

        Where there is none the call ends with an error.
        """
        if not self._free.acquire(blocking=False):
            context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"{STREAMS_MAX} streams are open — end one of them",
            )
        over = threading.Event()
        try:
            # Nobody calls back for a client that is gone already.
            if not context.add_callback(over.set):
                over.set()
            yield over
        finally:
            self._free.release()


def handler(
    make: Callable[..., object], request: type[Message], answer: Callable[..., object]
) -> grpc.RpcMethodHandler[Any, Any]:
    """The handler of a method. `make`: grpc's own for methods of its kind."""
    found = make(answer, request_deserializer=request.FromString, response_serializer=_serialized)
    return cast("grpc.RpcMethodHandler[Any, Any]", found)


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()
