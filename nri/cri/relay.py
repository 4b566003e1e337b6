"""Calls passed on from the kubelet to the runtime, and their answers back."""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from .upstream import RUNTIME, Metadata, RawCall, UnaryCall, Upstream

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
"""How a lost connection is told under the status UNKNOWN, which is also most errors' own."""


class CallFailure(enum.Enum):
    """Failures of calls that brought no reply, by what is known of them."""

    NOT_DONE = enum.auto()
    """The runtime did not do it."""
    UNKNOWN = enum.auto()
    """The runtime may have done it all the same."""


def _unheard(_outcome: object) -> None:
    """An outcome that changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A hooked call on its way: what the runtime is sent, and what follows from its answer."""

    request: bytes
    done: Callable[[bytes], None] = _unheard
    """The runtime did it; with its reply. Before the caller has the reply."""
    failed: Callable[[CallFailure], None] = _unheard
    """The runtime did not reply. Must not wait."""


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
        self,
        upstream: Upstream,
        hooks: Mapping[str, Hook],
        streams: Mapping[str, Stream],
        crashed: Callable[[str, Exception], None],
    ) -> None:
        """`hooks` and `streams`: by name of a method of the RuntimeService.

        `crashed`: told of faults in hooks, which must not fail a call.
        """
        self._upstream = upstream
        self._crashed = crashed
        self._hooks = {RUNTIME + name: hook for name, hook in hooks.items()}
        self._streams = {RUNTIME + name: stream for name, stream in streams.items()}

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes]:
        """The handler of a method."""
        method = handler_call_details.method
        # Bytes in, bytes out; the stubs leave the types open.
        if (hook := self._hooks.get(method)) is not None:
            handler = grpc.unary_unary_rpc_method_handler(  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
                self._hooked(method, hook)
            )
        else:
            handler = grpc.unary_stream_rpc_method_handler(  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
                self._unhooked(method)
            )
        return cast("grpc.RpcMethodHandler[bytes, bytes]", handler)

    def _unhooked(self, method: str) -> Callable[[bytes, Context], AsyncIterator[bytes]]:
        async def serve(request: bytes, context: Context) -> AsyncIterator[bytes]:
            try:
                async for reply in self._answers(method, request, context):
                    yield reply
            except (RefusedCallError, grpc.aio.AioRpcError) as error:
                await _abort(context, error)

        return serve

    def _hooked(
        self, method: str, hook: Hook
    ) -> Callable[[bytes, Context], Coroutine[Any, Any, bytes]]:
        async def serve(request: bytes, context: Context) -> bytes:
            try:
                return await self._answer(method, hook, request, context)
            except (RefusedCallError, grpc.aio.AioRpcError) as error:
                await _abort(context, error)
                raise AssertionError("abort raises") from error

        return serve

    def _answers(self, method: str, request: bytes, context: Context) -> AsyncIterator[bytes]:
        if method.startswith(_OLD_SERVICES):
            text = f"{method}: CRI v1alpha2 is not passed on; use runtime.v1"
            raise RefusedCallError(grpc.StatusCode.UNIMPLEMENTED, text)
        if (stream := self._streams.get(method)) is not None:
            return stream(context)
        return self._passed(method, request, context)

    async def _passed(self, method: str, request: bytes, context: Context) -> AsyncIterator[bytes]:
        await self._connected()
        call = self._upstream.call(method, request, *_terms(context))
        try:
            await send_initial(call, context)
            async for reply in call:
                yield reply
            await set_trailing(call, context)
        finally:
            # Nothing happens to one that is over.
            call.cancel()

    async def _answer(self, method: str, hook: Hook, request: bytes, context: Context) -> bytes:
        """The reply to a hooked call, which is unary."""
        await self._connected()
        try:
            passage = await hook(request)
        except DecodeError:
            # The runtime is to say what is wrong with it.
            passage = Passage(request=request)
        except RefusedCallError:
            raise
        except Exception as error:
            # A container without a place is found in a list; one that is not created is not.
            self._crashed(method, error)
            passage = Passage(request=request)
        is_open = True
        try:
            await self._connected()
            call = self._upstream.call_unary(method, passage.request, *_terms(context))
            try:
                reply = await call
                is_open = False
                self._tell_done(method, passage, reply)
                await send_initial(call, context)
                await set_trailing(call, context)
                return reply
            finally:
                call.cancel()
        except grpc.aio.AioRpcError as error:
            if is_open:
                is_open = False
                passage.failed(_failure_of(error))
                if initial := passed_on(cast(Metadata, error.initial_metadata() or ())):
                    await context.send_initial_metadata(tuple(initial))
            raise
        except RefusedCallError:
            if is_open:
                is_open = False
                passage.failed(CallFailure.NOT_DONE)
            raise
        finally:
            if is_open:
                passage.failed(CallFailure.UNKNOWN)

    def _tell_done(self, method: str, passage: Passage, reply: bytes) -> None:
        try:
            passage.done(reply)
        except Exception as error:
            self._crashed(method, error)
            passage.failed(CallFailure.UNKNOWN)

    async def _connected(self) -> None:
        if not await self._upstream.is_connected():
            text = "pinfold: the runtime does not answer at its CRI socket"
            raise RefusedCallError(grpc.StatusCode.UNAVAILABLE, text)


def _terms(context: Context) -> tuple[Metadata, float | None]:
    """The metadata that goes with a call, and the seconds that it may take."""
    metadata = passed_on(cast(Metadata, context.invocation_metadata() or ()))
    return metadata, context.time_remaining()


async def _abort(context: Context, error: RefusedCallError | grpc.aio.AioRpcError) -> None:
    if isinstance(error, RefusedCallError):
        await context.abort(error.code, str(error))
    else:
        trailing = tuple(passed_on(cast(Metadata, error.trailing_metadata() or ())))
        await context.abort(error.code(), error.details() or "", trailing)


def _failure_of(error: grpc.aio.AioRpcError) -> CallFailure:
    is_lost = error.code() in _UNCERTAIN or (error.details() or "").startswith(_LOST)
    return CallFailure.UNKNOWN if is_lost else CallFailure.NOT_DONE


async def send_initial(call: RawCall | UnaryCall, context: Context) -> None:
    """Send the initial metadata of the runtime's answer on."""
    await context.send_initial_metadata(tuple(passed_on(await call.initial_metadata())))


async def set_trailing(call: RawCall | UnaryCall, context: Context) -> None:
    """Have the trailing metadata of the runtime's answer go with ours."""
    context.set_trailing_metadata(tuple(passed_on(await call.trailing_metadata() or ())))


def passed_on(metadata: Iterable[tuple[str, str | bytes]]) -> Metadata:
    """Metadata without what belongs to one connection alone."""
    return [
        (key, value)
        for key, value in metadata
        if key == _STATUS_DETAILS or not (key.startswith(("grpc-", ":")) or key in _OWN_METADATA)
    ]
