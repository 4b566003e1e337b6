"""One call of a gRPC method over a connection of its own, as bytes in and out. Sans-IO.

h2 speaks HTTP/2; here is what gRPC adds to it. Source: gRPC's "gRPC over HTTP2".
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

REQUEST_BYTES_MAX: Final = 65_535 - 5
"""What a server takes before it says that it takes more. Source: RFC 9113, 6.9.2."""
OK: Final = 0

_HEAD_BYTES: Final = 9
"""Of a frame: its length in 3 bytes, its type, its flags and its stream. RFC 9113, 4.1."""
_FRAME_BYTES_MAX: Final = 1 << 14
_GOAWAY: Final = 7
_LAST_STREAM: Final = slice(_HEAD_BYTES, _HEAD_BYTES + 4)
_HEADERS_BYTES_MAX: Final = 1 << 16
_STREAM: Final = 1
_MESSAGE: Final = struct.Struct(">BI")
"""What is before a message: whether it is compressed, and its length."""
_ROOM: Final = 1 << 21
"""Bytes that a server may send before it is told to go on, which it is after half of them."""
_FIRST_ROOM: Final = (1 << 16) - 1
"""The room of all calls together, until a server is told of more. Source: RFC 9113, 6.9.2."""

# What is said is always the same, and of what is heard two fields are looked at: to hold all others
# against the rules of HTTP takes a fifth of the call.
_CONFIGURATION: Final = H2Configuration(
    client_side=True,
    validate_outbound_headers=False,
    normalize_outbound_headers=False,
    validate_inbound_headers=False,
    normalize_inbound_headers=False,
)
_UNAVAILABLE: Final = 14
_INTERNAL: Final = 13
_STATUS_OF_RESETS: Final[dict[int, int]] = {
    ErrorCodes.REFUSED_STREAM: _UNAVAILABLE,
    ErrorCodes.CANCEL: 1,
    ErrorCodes.ENHANCE_YOUR_CALM: 8,
    ErrorCodes.INADEQUATE_SECURITY: 7,
}
"""Source: gRPC over HTTP2, "Errors"."""


class AnswerError(ValueError):
    """Bytes that are no answer of a gRPC server, or a request that is too long for one."""


class GrpcCall:
    """One call: what is to be sent, and the messages of the answer as they come."""

    def __init__(self, method: str, request: bytes, seconds: float | None, bytes_max: int) -> None:
        """`seconds`: how long the server may take; None for as long as it likes.

        `bytes_max`: of one message of the answer. Raises `AnswerError` for a request too long.
        """
        if len(request) > REQUEST_BYTES_MAX:
            raise AnswerError(f"more than {REQUEST_BYTES_MAX} bytes")
        self._bytes_max = bytes_max
        self._received = bytearray()
        self._data = bytearray()
        self._connection = _opened(method, request, seconds)
        self.status: int | None = None
        """The status of the call; None until it is over."""
        self.details = ""

    def to_send(self) -> bytes:
        """Bytes that are ready to be sent; they are told once."""
        return self._connection.data_to_send()

    def receive(self, data: bytes) -> Iterator[bytes]:
        """The messages that are whole with what came. Raises `AnswerError`."""
        self._received += data
        while self.status is None and (frame := self._frame()):
            # h2 takes any of these for the end of all calls, and would refuse what follows.
            if frame[3] == _GOAWAY and _last_stream(frame) >= _STREAM:
                continue
            try:
                events = self._connection.receive_data(frame)
            except ProtocolError as error:
                raise AnswerError(f"no HTTP/2: {error!r}") from error
            for event in events:
                yield from self._take(event)

    def _frame(self) -> bytes:
        """The next frame; nothing until it is whole. Raises `AnswerError`.

        h2 would wait for all of a frame that is too long, and that is what other protocols look
        like; and where an error follows, it does not tell what it has read before.
        """
        if len(self._received) < _HEAD_BYTES:
            return b""
        size = int.from_bytes(self._received[:3])
        if size > _FRAME_BYTES_MAX:
            raise AnswerError("a frame that is too long")
        end = _HEAD_BYTES + size
        if len(self._received) < end:
            return b""
        found = bytes(self._received[:end])
        del self._received[:end]
        return found

    def _take(self, event: Event) -> Iterator[bytes]:
        match event:
            case ResponseReceived() | TrailersReceived():
                self._take_fields(event.headers)
            case DataReceived():
                self._data += event.data
                self._connection.acknowledge_received_data(event.flow_controlled_length, _STREAM)
                yield from self._messages()
            case StreamReset():
                reason = int(event.error_code)
                status = _STATUS_OF_RESETS.get(reason, _INTERNAL)
                self._end(status, f"the call was reset ({reason})")
            case ConnectionTerminated():
                said = (event.additional_data or b"").decode("utf-8", "replace")
                self._end(_UNAVAILABLE, said or "no more calls are taken")
            case StreamEnded() if self.status is None:
                raise AnswerError("an answer without a status")
            case _:
                pass

    def _messages(self) -> Iterator[bytes]:
        while len(self._data) >= _MESSAGE.size:
            compressed, size = _MESSAGE.unpack_from(self._data)
            if compressed or size > self._bytes_max:
                raise AnswerError("a message that is compressed, or too long")
            end = _MESSAGE.size + size
            if len(self._data) < end:
                break
            yield bytes(self._data[_MESSAGE.size : end])
            del self._data[:end]

    def _take_fields(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        fields = dict(headers)
        status = fields.get(b"grpc-status", b"")
        if status.isdigit():
            self._end(int(status[:3]), unquote(fields.get(b"grpc-message", b"")))

    def _end(self, status: int, details: str) -> None:
        self.status, self.details = status, details


def _opened(method: str, request: bytes, seconds: float | None) -> H2Connection:
    """A connection with all that a client has to say: it needs no answer to go on."""
    found = H2Connection(_CONFIGURATION)
    found.local_settings = Settings(
        client=True,
        initial_values={
            SettingCodes.ENABLE_PUSH: 0,
            SettingCodes.INITIAL_WINDOW_SIZE: _ROOM,
            SettingCodes.MAX_HEADER_LIST_SIZE: _HEADERS_BYTES_MAX,
        },
    )
    found.initiate_connection()
    found.increment_flow_control_window(_ROOM - _FIRST_ROOM)
    patience = [] if seconds is None else [("grpc-timeout", f"{int(1000 * seconds)}m")]
    headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", "localhost"),
        *patience,
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ]
    found.send_headers(_STREAM, headers)
    body = _MESSAGE.pack(0, len(request)) + request
    for at in range(0, len(body), _FRAME_BYTES_MAX):
        end = at + _FRAME_BYTES_MAX
        found.send_data(_STREAM, body[at:end], end_stream=end >= len(body))
    return found


def _last_stream(frame: bytes) -> int:
    """The last call that a server still answers. Source: RFC 9113, 6.8."""
    return int.from_bytes(frame[_LAST_STREAM]) & 0x7FFF_FFFF
