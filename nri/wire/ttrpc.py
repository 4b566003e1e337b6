"""Messages of ttRPC: requests and responses on numbered streams of one byte stream.

Ten bytes of header (data length u32, stream id u32, type u8, flags u8, big endian) and the data.
Source: containerd/ttrpc `PROTOCOL.md` and `channel.go`.
"""

import enum
import struct
from typing import Final

from msgspec import Struct

_HEADER: Final = struct.Struct(">IIBB")

HEADER_BYTES: Final = _HEADER.size

SEND_MAX_BYTES: Final = 4 << 20
"""The protocol's limit for the data of one message."""

RECEIVE_MAX_BYTES: Final = 64 << 20
"""What we take: older runtimes send a Synchronize of any size as one message."""


class MessageType(enum.IntEnum):
    """The types a message header knows; peers may send others, which are skipped."""

    REQUEST = 1
    RESPONSE = 2
    DATA = 3


class Code(enum.IntEnum):
    """The status codes of gRPC that are used here."""

    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class Message(Struct, frozen=True, kw_only=True):
    """One message; `is_oversized` ones had their data thrown away as it came."""

    stream_id: int
    type: int
    data: bytes = b""
    flags: int = 0
    is_oversized: bool = False

    def encode(self) -> bytes:
        """The message as sent."""
        return _HEADER.pack(len(self.data), self.stream_id, self.type, self.flags) + self.data


class MessageDecoder:
    """Bytes in any split to messages. No input is an error: every header means something.

    A message whose header promises more than `limit_bytes` is reported at once and its data is
    skipped, never stored.
    """

    def __init__(self, limit_bytes: int = RECEIVE_MAX_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._buffer = bytearray()
        self._skip = 0

    def feed(self, chunk: bytes) -> list[Message]:
        """The messages completed by `chunk`, and oversized ones as their headers arrive."""
        self._buffer += chunk
        messages: list[Message] = []
        start = 0
        while True:
            skipped = min(self._skip, len(self._buffer) - start)
            self._skip -= skipped
            start += skipped
            if self._skip or len(self._buffer) - start < HEADER_BYTES:
                break
            length, stream_id, kind, flags = _HEADER.unpack_from(self._buffer, start)
            body = start + HEADER_BYTES
            if length > self._limit_bytes:
                messages.append(
                    Message(stream_id=stream_id, type=kind, flags=flags, is_oversized=True)
                )
                self._skip = length
                start = body
                continue
            if len(self._buffer) < body + length:
                break
            start = body + length
            data = bytes(memoryview(self._buffer)[body:start])
            messages.append(Message(stream_id=stream_id, type=kind, data=data, flags=flags))
        del self._buffer[:start]
        return messages
