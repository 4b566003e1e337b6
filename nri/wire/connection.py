"""One end of an NRI connection as a value machine: bytes in, events out; no socket, no clock.

The trunk carries two ttRPC connections: on 1 the runtime calls the plugin, on 2 the plugin calls
the runtime. An end is server on one of them and client on the other.
"""

import enum

from google.protobuf.message import DecodeError
from msgspec import Struct

from ..api import ttrpc_pb2
from .mux import FrameDecoder, encode_message
from .ttrpc import SEND_MAX_BYTES, Code, Message, MessageDecoder, MessageType

_PLUGIN_SERVICE = 1
_RUNTIME_SERVICE = 2


class Role(enum.Enum):
    """The end of a connection; its value is the multiplexed connection whose calls it serves."""

    PLUGIN = _PLUGIN_SERVICE
    RUNTIME = _RUNTIME_SERVICE


class Call(Struct, frozen=True, kw_only=True):
    """The peer calls a method and waits for `Connection.respond`."""

    stream_id: int
    service: str
    method: str
    payload: bytes
    timeout_nano: int = 0
    """What is left of the caller's patience, counted from receipt; 0 where it does not say."""


class Rejection(Struct, frozen=True):
    """A call is answered with an error."""

    code: Code
    message: str


class BadCall(Struct, frozen=True):
    """A request that cannot be served; it has to be answered with its code."""

    stream_id: int
    code: Code
    message: str


class Reply(Struct, frozen=True, kw_only=True):
    """The peer's answer to a request of ours."""

    stream_id: int
    code: int = 0
    message: str = ""
    payload: bytes = b""


Event = Call | BadCall | Reply


class Connection:
    """The state of one end: decoders, stream ids, and the requests that wait for an answer.

    One thread may receive while another one requests or responds: they share the set of requests
    that wait and nothing else, and a request is in there before its bytes are known to anybody.
    """

    def __init__(self, role: Role) -> None:
        served = role.value
        called = _RUNTIME_SERVICE if role is Role.PLUGIN else _PLUGIN_SERVICE
        self._served, self._called = served, called
        self._frames = FrameDecoder()
        self._messages = {served: MessageDecoder(), called: MessageDecoder()}
        self._next_stream_id = 1
        self._last_served_stream_id = 0
        self._waiting: set[int] = set()
        self.fault = ""
        """Why the connection is over, once what was received last ended in garbage."""

    def receive(self, chunk: bytes) -> list[Event]:
        """Events in a chunk of the peer's bytes, in order of arrival.

        Raises `WireError` on garbage, after which the connection is over; where sense came before
        it in one chunk, that is returned, and `fault` is set. Frames of other connections, messages
        of other types and answers nobody waits for are dropped, as other implementations do.
        """
        events: list[Event] = []
        for frame in self._frames.feed(chunk):
            decoder = self._messages.get(frame.connection_id)
            if decoder is None:
                continue
            for message in decoder.feed(frame.payload):
                event = (
                    self._read_request(message)
                    if frame.connection_id == self._served
                    else self._read_response(message)
                )
                if event is not None:
                    events.append(event)
        self.fault = self._frames.fault
        return events

    def request(
        self, service: str, method: str, payload: bytes, timeout_nano: int = 0
    ) -> tuple[int, bytes]:
        """The stream id of a new request of ours and its bytes to send.

        `timeout_nano` 0 leaves the answer's time open.
        """
        stream_id = self._next_stream_id
        # Client streams are odd and strictly increasing.
        self._next_stream_id += 2
        self._waiting.add(stream_id)
        data = ttrpc_pb2.Request(
            service=service, method=method, payload=payload, timeout_nano=timeout_nano
        ).SerializeToString()
        message = Message(stream_id=stream_id, type=MessageType.REQUEST, data=data)
        return stream_id, encode_message(self._called, message.encode())

    def respond(self, stream_id: int, answer: bytes | Rejection) -> bytes:
        """The bytes that answer a call; a payload over the protocol's limit becomes an error."""
        if isinstance(answer, Rejection):
            status = ttrpc_pb2.Status(code=answer.code, message=answer.message)
            data = ttrpc_pb2.Response(status=status).SerializeToString()
        else:
            data = ttrpc_pb2.Response(payload=answer).SerializeToString()
            if len(data) > SEND_MAX_BYTES:
                text = f"response of {len(data)} bytes — the largest allowed is {SEND_MAX_BYTES}"
                return self.respond(stream_id, Rejection(Code.RESOURCE_EXHAUSTED, text))
        message = Message(stream_id=stream_id, type=MessageType.RESPONSE, data=data)
        return encode_message(self._served, message.encode())

    def _read_request(self, message: Message) -> Call | BadCall | None:
        stream_id = message.stream_id
        if message.type != MessageType.REQUEST:
            return None
        if stream_id % 2 == 0:
            return BadCall(stream_id, Code.INVALID_ARGUMENT, "stream id must be odd")
        if stream_id <= self._last_served_stream_id:
            return BadCall(stream_id, Code.INVALID_ARGUMENT, "stream id must increase")
        self._last_served_stream_id = stream_id
        if message.is_oversized:
            return BadCall(stream_id, Code.RESOURCE_EXHAUSTED, "request is too large")
        try:
            request = ttrpc_pb2.Request.FromString(message.data)
        except DecodeError as error:
            return BadCall(stream_id, Code.INVALID_ARGUMENT, f"request cannot be parsed: {error}")
        return Call(
            stream_id=stream_id,
            service=request.service,
            method=request.method,
            payload=request.payload,
            timeout_nano=max(0, request.timeout_nano),
        )

    def _read_response(self, message: Message) -> Reply | None:
        stream_id = message.stream_id
        if message.type != MessageType.RESPONSE or stream_id not in self._waiting:
            return None
        self._waiting.discard(stream_id)
        if message.is_oversized:
            return Reply(
                stream_id=stream_id, code=Code.RESOURCE_EXHAUSTED, message="response is too large"
            )
        try:
            response = ttrpc_pb2.Response.FromString(message.data)
        except DecodeError as error:
            return Reply(
                stream_id=stream_id,
                code=Code.INTERNAL,
                message=f"response cannot be parsed: {error}",
            )
        return Reply(
            stream_id=stream_id,
            code=response.status.code,
            message=response.status.message,
            payload=response.payload,
        )
