"""Messages of the control API as bytes, for clients: protobuf takes longer to load than an answer.

Source: protobuf.dev, "Encoding". The service has its messages from the `.proto` file.
"""

from collections.abc import Iterator
from typing import Final

from ....nri.wire.varint import varint

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}
_CONTENT: Final = 1
"""The one field of an answer: a document, or an archive."""


class MessageError(ValueError):
    """Bytes that are no message."""


def request_bytes(fields: dict[int, str | int]) -> bytes:
    r"""A request: its fields by their numbers; what is empty or 0 is left out.

    >>> request_bytes({1: "web", 2: 300})
    b'\n\x03web\x10\xac\x02'
    """
    found = bytearray()
    for number, value in fields.items():
        if isinstance(value, str):
            # What a terminal gave that is no text is in no container's name.
            text = value.encode("utf-8", "replace")
            found += varint(number << 3 | _BYTES) + varint(len(text)) + text if text else b""
        elif value:
            found += varint(number << 3 | _VARINT) + varint(value)
    return bytes(found)


def content(answer: bytes) -> bytes:
    r"""The content of an answer. Raises `MessageError`.

    >>> content(b'\n\x02{}')
    b'{}'
    """
    found = b""
    for number, value in _fields(answer):
        if number == _CONTENT:
            found = value
    return found


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Fields of bytes by number; those of other kinds are passed over. Raises `MessageError`."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            _, at = _read_varint(message, at)
            continue
        if kind == _BYTES:
            size, at = _read_varint(message, at)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise MessageError(f"a field of kind {kind}")
        if at + size > len(message):
            raise MessageError("it is cut off")
        if kind == _BYTES:
            yield number, message[at : at + size]
        at += size


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    """A number and where what follows it begins. Raises `MessageError`."""
    value = 0
    for place, byte in enumerate(message[at : at + 10]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise MessageError("a number without an end")
