"""Calls passed on from the kubelet to the runtime, and their answers back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from .upstream import RUNTIME, Metadata, RawCall, Upstream, last_of

Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"
if TYPE_CHECKING:
    # Generic in the stubs alone.
    RawHandler = grpc.GenericRpcHandler[bytes, bytes]
else:
    RawHandler = grpc.GenericRpcHandler

_OWN_METADATA: Final = frozenset(("user-agent", "te", "content-type"))
"""What each end of a connection says of itself."""
_STATUS_DETAILS: Final = "grpc-status-details-bin"
_OLD_SERVICES: Final = "/runtime.v1alpha2."

_UNCERTAIN: Final = frozenset(
    (
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.INTERNAL,
    )
)
"""Statuses that also come from the connection: the runtime may have done all the same."""
_LOST: Final = "Stream removed"
"""What a lost connection is called under the status UNKNOWN, which is also most errors' own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A hooked call on its way: what the runtime is sent, and what follows from its answer."""

    request: bytes
    done: Callable[[bytes], None]
    """The runtime did it; with its reply. Before the caller has the reply."""
    failed: Callable[[bool], None]
    """The runtime did not do it; or (False) nobody knows whether it did. Must not wait."""


class RefusedCallError(Exception):
    """A call that the proxy answers itself, with an error."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


Hook: TypeAlias = Callable[[bytes], Awaitable[Passage]]
"""Reads a request before the runtime does. Raises `RefusedCallError`."""
Stream: TypeAlias = "Callable[[Context], AsyncIterator[bytes]]"
"""Serves a streaming call in the place of the runtime's own stream."""


class Relay(RawHandler):
    """Every method there is, or will be: hooked ones are looked at, all others are bytes."""

    def __init__(
        self, upstream: Upstream, hooks: Mapping[str, Hook], streams: Mapping[str, Stream]
    ) -> None:
        """`hooks` and `streams`: by name of a method of the RuntimeService."""
        self._upstream = upstream
        self._hooks = {RUNTIME + name: hook for name, hook in hooks.items()}
        self._streams = {RUNTIME + name: stream for name, stream in streams.items()}

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes]:
        """The handler of a method."""
        method = handler_call_details.method

        async def serve(request: bytes, context: Context) -> AsyncIterator[bytes]:
            try:
                async for reply in self._answers(method, request, context):
                    yield reply
            except RefusedCallError as refusal:
                await context.abort(refusal.code, str(refusal))
            except grpc.aio.AioRpcError as error:
                trailing = tuple(passed_on(cast(Metadata, error.trailing_metadata() or ())))
                await context.abort(error.code(), error.details() or "", trailing)

        # Bytes in, bytes out; the stubs leave the types open.
        handler = grpc.unary_stream_rpc_method_handler(  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            serve
        )
        return cast("grpc.RpcMethodHandler[bytes, bytes]", handler)

    def _answers(self, method: str, request: bytes, context: Context) -> AsyncIterator[bytes]:
        if method.startswith(_OLD_SERVICES):
            text = f"{method}: CRI v1alpha2 is not passed on; use runtime.v1"
            raise RefusedCallError(grpc.StatusCode.UNIMPLEMENTED, text)
        if (stream := self._streams.get(method)) is not None:
            return stream(context)
        if (hook := self._hooks.get(method)) is not None:
            return self._hooked(method, hook, request, context)
        return self._passed(method, request, context)

    async def _passed(self, method: str, request: bytes, context: Context) -> AsyncIterator[bytes]:
        call = await self._begun(method, request, context)
        try:
            await send_initial(call, context)
            async for reply in call:
                yield reply
            await set_trailing(call, context)
        finally:
            # Nothing happens to one that is over.
            call.cancel()

    async def _hooked(
        self, method: str, hook: Hook, request: bytes, context: Context
    ) -> AsyncIterator[bytes]:
        await self._connected()
        try:
            passage = await hook(request)
        except DecodeError:
            # The runtime is to say what is wrong with it.
            async for reply in self._passed(method, request, context):
                yield reply
            return
        is_open = True
        reply = b""
        try:
            call = await self._begun(method, passage.request, context)
            try:
                reply = await last_of(call)
                is_open = False
                passage.done(reply)
                await send_initial(call, context)
                await set_trailing(call, context)
            finally:
                call.cancel()
        except grpc.aio.AioRpcError as error:
            if is_open:
                is_open = False
                passage.failed(error.code() not in _UNCERTAIN and error.details() != _LOST)
            raise
        except RefusedCallError:
            if is_open:
                is_open = False
                passage.failed(True)
            raise
        finally:
            if is_open:
                passage.failed(False)
        yield reply

    async def _begun(self, method: str, request: bytes, context: Context) -> RawCall:
        await self._connected()
        metadata = tuple(passed_on(cast(Metadata, context.invocation_metadata() or ())))
        seconds = context.time_remaining()
        return self._upstream.call(method, request, metadata, seconds)

    async def _connected(self) -> None:
        if not await self._upstream.is_connected():
            text = "pinfold: the runtime does not answer at its CRI socket"
            raise RefusedCallError(grpc.StatusCode.UNAVAILABLE, text)


async def send_initial(call: RawCall, context: Context) -> None:
    """Send the initial metadata of the runtime's answer on."""
    await context.send_initial_metadata(tuple(passed_on(await call.initial_metadata())))


async def set_trailing(call: RawCall, context: Context) -> None:
    """Have the trailing metadata of the runtime's answer go with ours."""
    context.set_trailing_metadata(tuple(passed_on(await call.trailing_metadata() or ())))


def passed_on(metadata: Iterable[tuple[str, str | bytes]]) -> Metadata:
    """Metadata without what belongs to one connection alone."""
    return [
        (key, value)
        for key, value in metadata
        if key == _STATUS_DETAILS or not (key.startswith(("grpc-", ":")) or key in _OWN_METADATA)
    ]
