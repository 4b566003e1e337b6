"""Frames of the trunk: several byte streams over one socket.

A frame is eight bytes of header (stream id, payload length, both u32 big endian) and its payload.
It is a chunk of a byte stream, not a message. Source: NRI `pkg/net/multiplex`.
"""

import struct
from typing import Final

from msgspec import Struct

from ...topology.sets.base_errors import PinfoldError

_HEADER: Final = struct.Struct(">II")

PAYLOAD_MAX_BYTES: Final = 10 + (4 << 20)
"""The largest payload a peer sends: a ttRPC message of the full 4 MiB with its header."""

HEAD_MAX_BYTES: Final = 4096
"""The frame that begins a message may not be larger: Go peers read message headers through a
buffer of this size and drop the connection when a frame does not fit."""


class WireError(PinfoldError):
    """The peer broke the framing; nothing after it can be understood, so the connection is over."""


class Frame(Struct, frozen=True):
    """A chunk of the byte stream `connection_id`."""

    connection_id: int
    payload: bytes

    def encode(self) -> bytes:
        """The frame as sent."""
        return _HEADER.pack(self.connection_id, len(self.payload)) + self.payload


def encode_message(connection_id: int, message: bytes) -> bytes:
    """A whole message as frames.

    The first has at most 4096 bytes and the next carries the rest: not more frames than needed,
    because Go peers queue at most 256 unread ones per stream.
    """
    head = message[:HEAD_MAX_BYTES]
    parts = [_HEADER.pack(connection_id, len(head)), head]
    for start in range(HEAD_MAX_BYTES, len(message), PAYLOAD_MAX_BYTES):
        payload = message[start : start + PAYLOAD_MAX_BYTES]
        parts += [_HEADER.pack(connection_id, len(payload)), payload]
    return b"".join(parts)


class FrameDecoder:
    """Bytes in any split to frames.

    >>> FrameDecoder().feed(bytes.fromhex("00000001 00000002 6869 0000"))
    [Frame(connection_id=1, payload=b'hi')]
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.fault = ""
        """Why nothing can follow, once the bytes ended in a broken frame."""

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames completed by `chunk`.

        A header that promises too large a payload ends the stream. Frames before it are returned
        still, however the bytes were split; `fault` says so, and every later call raises
        `WireError`, as does this one if it has nothing to return.
        """
        if self.fault:
            raise WireError(self.fault)
        self._buffer += chunk
        frames: list[Frame] = []
        start = 0
        while len(self._buffer) - start >= _HEADER.size:
            connection_id, length = _HEADER.unpack_from(self._buffer, start)
            if length > PAYLOAD_MAX_BYTES:
                self.fault = (
                    f"trunk: frame of {length} bytes for connection {connection_id}"
                    f" — the largest allowed is {PAYLOAD_MAX_BYTES}"
                )
                break
            end = start + _HEADER.size + length
            if len(self._buffer) < end:
                break
            payload = bytes(memoryview(self._buffer)[start + _HEADER.size : end])
            frames.append(Frame(connection_id, payload))
            start = end
        del self._buffer[:start]
        if self.fault:
            self._buffer.clear()
            if not frames:
                raise WireError(self.fault)
        return frames
