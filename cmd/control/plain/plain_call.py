"""One call of a gRPC method over a connection of its own, as bytes in and out. Sans-IO.

Source: RFC 9113 (HTTP/2), and gRPC's "gRPC over HTTP2".
"""

import struct
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from .header_block import header_block, header_fields

REQUEST_BYTES_MAX: Final = 65_535 - 5
"""What a server takes before it says that it takes more. Source: RFC 9113, 6.9.2."""
OK: Final = 0

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""Source: RFC 9113, 3.4."""
_FRAME: Final = struct.Struct(">BHBBI")
"""Length in two parts, type, flags and stream. Source: RFC 9113, 4.1."""
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW, _MORE = 0, 1, 3, 4, 6, 7, 8, 9
_FRAME_BYTES_MAX: Final = 1 << 14
_HEADERS_BYTES_MAX: Final = 1 << 16
_STREAM: Final = 1
_END_STREAM, _ACK, _END_HEADERS, _PADDED, _PRIORITY = 1, 1, 4, 8, 32
_PRIORITY_BYTES: Final = 5
_SETTING: Final = struct.Struct(">HI")
_TABLE_SIZE, _PUSH, _WINDOW_SIZE = 1, 2, 4
_NUMBER: Final = struct.Struct(">I")
_MESSAGE: Final = struct.Struct(">BI")
"""What is before a message: whether it is compressed, and its length."""
_ROOM: Final = 1 << 30
"""Bytes that a server may send before it is told to go on."""
_ROOM_STEP: Final = 1 << 20

_UNAVAILABLE: Final = 14
_STATUS_OF_RESETS: Final = {7: _UNAVAILABLE, 8: 1, 11: 8, 12: 7}
"""Refused, cancelled, too much, and not safe enough. Source: gRPC over HTTP2, "Errors"."""
_INTERNAL: Final = 13


class AnswerError(ValueError):
    """Bytes that are no answer of a gRPC server, or a request that is too long for one."""


class PlainCall:
    """One call: what is to be sent, and the messages of the answer as they come."""

    def __init__(self, method: str, request: bytes, seconds: float | None, bytes_max: int) -> None:
        """`seconds`: how long the server may take; None for as long as it likes.

        `bytes_max`: of one message of the answer. Raises `AnswerError` for a request too long.
        """
        if len(request) > REQUEST_BYTES_MAX:
            raise AnswerError(f"more than {REQUEST_BYTES_MAX} bytes")
        self._bytes_max = bytes_max
        self._received = bytearray()
        self._block: bytearray | None = None
        """The beginning of headers that go on."""
        self._ends_with_block = False
        self._data = bytearray()
        self._taken = 0
        self._waiting = _opening(method, request, seconds)
        self.status: int | None = None
        """The status of the call; None until it is over."""
        self.details = ""

    def to_send(self) -> bytes:
        """Bytes to be sent by now; they are not told again."""
        found, self._waiting = self._waiting, b""
        return found

    def receive(self, data: bytes) -> Iterator[bytes]:
        """The messages that are whole with what came. Raises `AnswerError`."""
        self._received += data
        while self.status is None and len(self._received) >= _FRAME.size:
            high, low, kind, flags, stream = _FRAME.unpack_from(self._received)
            end = _FRAME.size + (high << 16 | low)
            if end > _FRAME.size + _FRAME_BYTES_MAX:
                raise AnswerError("a frame that is too long")
            if len(self._received) < end:
                return
            frame = bytes(self._received[_FRAME.size : end])
            del self._received[:end]
            yield from self._take(kind, flags, stream, frame)

    def _take(self, kind: int, flags: int, stream: int, frame: bytes) -> Iterator[bytes]:
        if kind == _DATA and stream == _STREAM:
            yield from self._take_data(flags, frame)
        elif kind == _HEADERS and stream == _STREAM:
            body = _unpadded(flags, frame)
            self._block = bytearray(body[_PRIORITY_BYTES if flags & _PRIORITY else 0 :])
            self._ends_with_block = bool(flags & _END_STREAM)
            self._end_block(flags)
        elif kind == _MORE and self._block is not None:
            self._block += frame
            self._end_block(flags)
        elif kind == _SETTINGS and not flags & _ACK:
            self._waiting += _frame(_SETTINGS, _ACK, 0)
        elif kind == _PING and not flags & _ACK:
            self._waiting += _frame(_PING, _ACK, 0, frame)
        elif kind == _RESET and stream == _STREAM:
            reason = _number(frame, 0)
            self._end(_STATUS_OF_RESETS.get(reason, _INTERNAL), f"the call was reset ({reason})")
        elif kind == _GOAWAY and _number(frame, 0) < _STREAM:
            said = frame[2 * _NUMBER.size :].decode("utf-8", "replace")
            self._end(_UNAVAILABLE, said or "no more calls are taken")

    def _take_data(self, flags: int, frame: bytes) -> Iterator[bytes]:
        self._data += _unpadded(flags, frame)
        self._taken += len(frame)
        if self._taken >= _ROOM_STEP:
            for stream in (0, _STREAM):
                self._waiting += _frame(_WINDOW, 0, stream, _NUMBER.pack(self._taken))
            self._taken = 0
        while len(self._data) >= _MESSAGE.size:
            compressed, size = _MESSAGE.unpack_from(self._data)
            if compressed or size > self._bytes_max:
                raise AnswerError("a message that is compressed, or too long")
            end = _MESSAGE.size + size
            if len(self._data) < end:
                break
            yield bytes(self._data[_MESSAGE.size : end])
            del self._data[:end]
        if flags & _END_STREAM:
            raise AnswerError("an answer without a status")

    def _end_block(self, flags: int) -> None:
        assert self._block is not None
        if len(self._block) > _HEADERS_BYTES_MAX:
            raise AnswerError("headers that are too long")
        if not flags & _END_HEADERS:
            return
        fields = dict(header_fields(bytes(self._block)))
        self._block = None
        status = fields.get("grpc-status", "")
        if status.isascii() and status.isdigit():
            self._end(int(status[:3]), unquote(fields.get("grpc-message", "")))
        elif self._ends_with_block:
            raise AnswerError("an answer without a status")

    def _end(self, status: int, details: str) -> None:
        self.status, self.details = status, details


def _opening(method: str, request: bytes, seconds: float | None) -> bytes:
    """All that a client has to say: it needs no answer to go on."""
    settings = ((_TABLE_SIZE, 0), (_PUSH, 0), (_WINDOW_SIZE, _ROOM))
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
    body = _MESSAGE.pack(0, len(request)) + request
    parts = [body[at : at + _FRAME_BYTES_MAX] for at in range(0, len(body), _FRAME_BYTES_MAX)]
    return b"".join(
        (
            _PREFACE,
            _frame(_SETTINGS, 0, 0, b"".join(_SETTING.pack(*one) for one in settings)),
            _frame(_WINDOW, 0, 0, _NUMBER.pack(_ROOM)),
            _frame(_HEADERS, _END_HEADERS, _STREAM, header_block(headers)),
            *(_frame(_DATA, 0, _STREAM, one) for one in parts[:-1]),
            _frame(_DATA, _END_STREAM, _STREAM, parts[-1]),
        )
    )


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    size = len(payload)
    return _FRAME.pack(size >> 16, size & 0xFFFF, kind, flags, stream) + payload


def _unpadded(flags: int, frame: bytes) -> bytes:
    """A frame's content. Source: RFC 9113, 6.1."""
    if not flags & _PADDED:
        return frame
    if not frame or frame[0] >= len(frame):
        raise AnswerError("more padding than there is of a frame")
    return frame[1 : len(frame) - frame[0]]


def _number(frame: bytes, at: int) -> int:
    if len(frame) < at + _NUMBER.size:
        raise AnswerError("a frame that is cut off")
    (found,) = _NUMBER.unpack_from(frame, at)
    return int(found)
