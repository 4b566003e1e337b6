"""The runtime's CRI socket, as the proxy calls it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, TypeAlias, TypeVar, cast

import grpc
import grpc.aio
from google.protobuf.message import Message

MESSAGE_BYTES_MAX: Final = 16 << 20
"""Of a message, both ways: the limit of kubelet and containerd."""
CONNECT_SECONDS: Final = 2.0
"""For which a call waits for the connection."""
RUNTIME: Final = "/runtime.v1.RuntimeService/"

MESSAGE_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # Texts of errors are metadata; usually they are cut off with their status at 8 to 16 KiB.
    ("grpc.max_metadata_size", MESSAGE_BYTES_MAX),
    ("grpc.absolute_max_metadata_size", MESSAGE_BYTES_MAX),
)
_OPTIONS: Final = (
    *MESSAGE_OPTIONS,
    # A proxy named in the environment is for other hosts.
    ("grpc.enable_http_proxy", 0),
    # A runtime that comes back is met soon; the usual pauses grow to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # What clients retry they retry themselves: a creation must not be made twice.
    ("grpc.enable_retries", 0),
)

Metadata = Sequence[tuple[str, "str | bytes"]]
RawCall: TypeAlias = "grpc.aio.UnaryStreamCall[bytes, bytes]"
UnaryCall: TypeAlias = "grpc.aio.UnaryUnaryCall[bytes, bytes]"
_Reply = TypeVar("_Reply", bound=Message)


class Upstream:
    """One connection to a runtime. To be made, and used, in the loop's thread."""

    def __init__(self, path: str) -> None:
        self._channel = grpc.aio.insecure_channel(f"unix:{path}", options=_OPTIONS)

    async def is_connected(self) -> bool:
        """Whether the runtime is there within `CONNECT_SECONDS`."""
        state = self._channel.get_state(try_to_connect=True)
        if state is grpc.ChannelConnectivity.READY:
            return True
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                while state is not grpc.ChannelConnectivity.READY:
                    await self._channel.wait_for_state_change(state)
                    state = self._channel.get_state(try_to_connect=True)
        except TimeoutError:
            return False
        return True

    def call(
        self,
        method: str,
        request: bytes,
        metadata: Metadata = (),
        seconds: float | None = None,
    ) -> RawCall:
        """Call any method, unary or streaming: on the wire a single reply is a stream of one.

        Sent as one request: with a stream of requests a refusal at once would race with the rest of
        them, and become INTERNAL.
        """
        # Without serializers messages are bytes; the stubs leave the type open.
        start = self._channel.unary_stream(  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            method, None, None
        )
        return cast("RawCall", start(request, timeout=seconds, metadata=tuple(metadata)))

    def call_unary(
        self,
        method: str,
        request: bytes,
        metadata: Metadata = (),
        seconds: float | None = None,
    ) -> UnaryCall:
        """Call a method that is known to be unary, for which less is to be waited for."""
        # As above.
        start = self._channel.unary_unary(  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            method, None, None
        )
        return cast("UnaryCall", start(request, timeout=seconds, metadata=tuple(metadata)))

    async def ask(self, name: str, request: Message, kind: type[_Reply], seconds: float) -> _Reply:
        """The reply to a call of our own. Raises `grpc.aio.AioRpcError`."""
        call = self.call_unary(RUNTIME + name, request.SerializeToString(), (), seconds)
        return kind.FromString(await call)

    async def close(self) -> None:
        """End the connection, and the calls under way."""
        await self._channel.close(None)
