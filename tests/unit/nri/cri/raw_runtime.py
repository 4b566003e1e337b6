"""A runtime that speaks bytes, and the relay alone before it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio

from pinfold.nri.cri.relay import Hook, RawHandler, Relay
from pinfold.nri.cri.upstream import MESSAGE_OPTIONS, RUNTIME, Upstream

DETAILS = b"\x00\x01\xff details"


class RawRuntime(RawHandler):
    """Calls by the last part of their method: Echo, Fail, Begin, Lost, Long, Count, Wait, Big."""

    def __init__(self) -> None:
        self.metadata: dict[str, str | bytes] = {}
        self.seconds_left: float | None = None
        self.methods: list[str] = []
        self.has_begun = threading.Event()
        """A call waits there."""
        self.is_cancelled = threading.Event()

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        method = handler_call_details.method
        self.methods.append(method)
        serve = getattr(self, "_" + method.rpartition("/")[2].lower(), None)
        if serve is None:
            return None
        # The stubs leave the types of raw handlers open.
        handler: Any = grpc.unary_stream_rpc_method_handler(serve)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return cast("grpc.RpcMethodHandler[bytes, bytes]", handler)

    def _echo(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        self.metadata = dict(context.invocation_metadata())
        self.seconds_left = context.time_remaining()
        context.send_initial_metadata((("begin", "one"), ("begin-bin", b"\x00\xff")))
        context.set_trailing_metadata((("end", "two"), ("end-bin", b"\xff\x00")))
        yield request

    def _fail(self, _request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        context.set_trailing_metadata((("grpc-status-details-bin", DETAILS), ("why", "so")))
        context.abort(grpc.StatusCode.NOT_FOUND, 'no container "x" — really')
        yield b""

    def _begin(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        """Something goes ahead before it fails."""
        context.send_initial_metadata((("begin", "one"), ("begin", "two")))
        yield from self._fail(request, context)

    def _lost(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        context.abort(grpc.StatusCode.UNKNOWN, request.decode())
        yield b""

    def _long(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        context.abort(grpc.StatusCode.UNKNOWN, "x" * int(request))
        yield b""

    def _count(self, request: bytes, _context: grpc.ServicerContext) -> Iterator[bytes]:
        for number in range(int(request)):
            yield str(number).encode()

    def _wait(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        context.add_callback(self.is_cancelled.set)
        self.has_begun.set()
        yield request
        self.is_cancelled.wait(20)

    def _big(self, request: bytes, _context: grpc.ServicerContext) -> Iterator[bytes]:
        yield bytes(int(request))


@contextmanager
def serving(path: Path, handler: RawRuntime) -> Generator[None]:
    """The runtime at a path."""
    server = grpc.server(  # pyright: ignore[reportUnknownMemberType]
        ThreadPoolExecutor(8),
        handlers=[handler],
        options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)],
    )
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait()


@contextmanager
def relaying(
    runtime: Path, path: Path, hooks: Mapping[str, Hook] | None = None
) -> Generator[list[str]]:
    """A relay at a path, for a runtime at another, in a thread of its own; and its faults."""
    faults: list[str] = []
    is_up, loop = threading.Event(), asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve() -> None:
        upstream = Upstream(str(runtime))
        relay = Relay(upstream, hooks or {}, {}, lambda _, error: faults.append(str(error)))
        server = grpc.aio.server(  # pyright: ignore[reportUnknownMemberType]
            handlers=[relay], options=MESSAGE_OPTIONS
        )
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        is_up.set()
        await over.wait()
        await server.stop(None)
        await upstream.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert is_up.wait(10)
        yield faults
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


class RawClient:
    """A client without message types."""

    def __init__(self, path: Path) -> None:
        # The stubs want serializers where bytes are sent.
        self.channel: Any = grpc.insecure_channel(
            f"unix:{path}",
            options=[
                ("grpc.max_receive_message_length", -1),
                ("grpc.max_send_message_length", -1),
                # As Go's clients have it.
                ("grpc.max_metadata_size", 16 << 20),
                ("grpc.absolute_max_metadata_size", 16 << 20),
            ],
        )

    def stream(self, name: str, request: bytes, **options: Any) -> Any:
        """A call whose replies are a stream."""
        return self.channel.unary_stream(_path(name))(request, **{"timeout": 10, **options})

    def unary(self, name: str, request: bytes, **options: Any) -> tuple[bytes, Any]:
        """The only reply of a call, and the call."""
        start = self.channel.unary_unary(_path(name))
        return cast("tuple[bytes, Any]", start.with_call(request, **{"timeout": 10, **options}))


def _path(name: str) -> str:
    return name if name.startswith("/") else RUNTIME + name
