"""The runtime's stream of container events: one, the proxy's own, for all who ask for it.

Some runtimes hand each event to one reader alone (containerd issue 7318), so that the proxy and the
kubelet would take them from each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from ..api import cri_proxy_pb2 as cri
from .relay import Context, RefusedCallError
from .upstream import CONNECT_SECONDS, RUNTIME, Upstream

GET_EVENTS: Final = "GetContainerEvents"
_RETRY_SECONDS: Final = 0.5
_UNIMPLEMENTED_RETRY_SECONDS: Final = 30.0
_UNREAD_MAX: Final = 1000
"""Events that wait for one reader; as many as containerd keeps."""


class EventStream:
    """Container events of a runtime. For the loop's thread."""

    def __init__(
        self,
        upstream: Upstream,
        happened: Callable[[cri.EventResponse], None],
        look: Callable[[], None],
    ) -> None:
        """`happened`: told of each event. `look`: has the lists read, as some may be missing."""
        self._upstream = upstream
        self._happened = happened
        self._look = look
        self._readers: set[asyncio.Queue[bytes | grpc.aio.AioRpcError]] = set()
        self._changed = asyncio.Condition()
        self._is_open = False
        self._refusal: grpc.aio.AioRpcError | None = None
        """Why there is no stream, as the runtime said."""

    async def run(self) -> None:
        """Read events, until cancelled, whenever the runtime is there."""
        while True:
            pause = _RETRY_SECONDS
            if await self._upstream.is_connected():
                error = await self._read()
                if error is not None and error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    pause = _UNIMPLEMENTED_RETRY_SECONDS
                self._look()
            await asyncio.sleep(pause)

    async def _read(self) -> grpc.aio.AioRpcError | None:
        call = self._upstream.call(RUNTIME + GET_EVENTS, b"")
        await self._set(is_open=True, refusal=None)
        error: grpc.aio.AioRpcError | None = None
        try:
            async for event in call:
                self._take(event)
        except grpc.aio.AioRpcError as found:
            error = found
        finally:
            call.cancel()
        await self._set(is_open=False, refusal=error)
        for reader in self._readers:
            end = error or _error(
                grpc.StatusCode.UNAVAILABLE, "pinfold: the runtime ended its events"
            )
            _put(reader, end)
        return error

    async def _set(self, *, is_open: bool, refusal: grpc.aio.AioRpcError | None) -> None:
        async with self._changed:
            self._is_open, self._refusal = is_open, refusal
            self._changed.notify_all()

    def _take(self, event: bytes) -> None:
        for reader in self._readers:
            _put(reader, event)
        try:
            self._happened(cri.EventResponse.FromString(event))
        except DecodeError:
            self._look()

    async def serve(self, _context: Context) -> AsyncIterator[bytes]:
        """The events from now on, for one of many readers."""
        await self._opened()
        reader: asyncio.Queue[bytes | grpc.aio.AioRpcError] = asyncio.Queue(_UNREAD_MAX + 1)
        self._readers.add(reader)
        try:
            while True:
                event = await reader.get()
                if isinstance(event, grpc.aio.AioRpcError):
                    raise event
                yield event
        finally:
            self._readers.discard(reader)

    async def _opened(self) -> None:
        """Wait for the runtime's stream as for a connection; raise what the runtime said of it."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS), self._changed:
                while not self._is_open:
                    refusal = self._refusal
                    if refusal is not None and refusal.code() is grpc.StatusCode.UNIMPLEMENTED:
                        raise refusal
                    await self._changed.wait()
        except TimeoutError:
            text = "pinfold: the runtime does not answer at its CRI socket"
            raise RefusedCallError(grpc.StatusCode.UNAVAILABLE, text) from None


def _put(
    reader: asyncio.Queue[bytes | grpc.aio.AioRpcError], event: bytes | grpc.aio.AioRpcError
) -> None:
    if reader.qsize() >= _UNREAD_MAX and not isinstance(event, grpc.aio.AioRpcError):
        event = _error(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            f"pinfold: more than {_UNREAD_MAX} events were not read in time",
        )
    if not reader.full():
        reader.put_nowait(event)


def _error(code: grpc.StatusCode, text: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), text, None)
