"""Header blocks of HTTP/2, as far as a client of the control API needs them.

Source: RFC 7541. The table of what was said before is switched off by the client's settings, and
texts are not packed: gRPC's servers pack bytes alone, which no header has that is read here.
"""

from collections.abc import Iterable, Iterator
from typing import Final

_PACKED: Final = 0x80
_INDEXED: Final = 0x80
_INDEXING: Final = 0x40
_TABLE_SIZE: Final = 0x20
_LENGTH_BYTES_MAX: Final = 5
UNREAD: Final = ""
"""The name or the text that is not spelled out, or is packed."""


class HeaderError(ValueError):
    """Bytes that are no header block."""


def header_block(fields: Iterable[tuple[str, str]]) -> bytes:
    r"""A block of header fields, each spelled out.

    >>> header_block([("te", "trailers")])
    b'\x00\x02te\x08trailers'
    """
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in fields)


def header_fields(block: bytes) -> Iterator[tuple[str, str]]:
    r"""The fields of a block; `UNREAD` for what it does not spell out. Raises `HeaderError`.

    >>> list(header_fields(b"\x88\x40\x02te\x08trailers"))
    [('', ''), ('te', 'trailers')]
    """
    at = 0
    while at < len(block):
        first = block[at]
        if first & _INDEXED:
            _, at = _number(block, at, 7)
            yield UNREAD, UNREAD
        elif first & (_INDEXING | _TABLE_SIZE) == _TABLE_SIZE:
            _, at = _number(block, at, 5)
        else:
            index, at = _number(block, at, 6 if first & _INDEXING else 4)
            name = UNREAD
            if not index:
                name, at = _read_text(block, at)
            value, at = _read_text(block, at)
            yield name, value


def _text(text: str) -> bytes:
    found, size = bytearray(), len(text)
    if size < 0x7F:
        found.append(size)
    else:
        found.append(0x7F)
        size -= 0x7F
        while size > 0x7F:
            found.append(size & 0x7F | 0x80)
            size >>= 7
        found.append(size)
    return bytes(found) + text.encode("latin-1")


def _read_text(block: bytes, at: int) -> tuple[str, int]:
    if at >= len(block):
        raise HeaderError("it is cut off")
    is_packed = block[at] & _PACKED
    size, at = _number(block, at, 7)
    end = at + size
    if end > len(block):
        raise HeaderError("it is cut off")
    return UNREAD if is_packed else block[at:end].decode("latin-1"), end


def _number(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """A number that begins in the last bits of a byte, and where what follows begins.

    Source: RFC 7541, 5.1.
    """
    most = (1 << bits) - 1
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    for place, byte in enumerate(block[at : at + _LENGTH_BYTES_MAX]):
        value += (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise HeaderError("a number without an end")
