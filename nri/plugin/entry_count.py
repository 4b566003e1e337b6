"""Number of entries on the outermost level of a message, without reading what is in them.

An entry of two bytes on the wire takes hundreds in memory once it is parsed, so the entries are
counted before. Source: the protobuf encoding (protobuf.dev/programming-guides/encoding).
"""

from typing import Final

_LENGTH_DELIMITED: Final = 2
_FIXED_BYTES: Final = {1: 8, 5: 4}


def count_entries(message: bytes, most: int) -> int:
    """Number of entries with a length in a message; beyond `most` none is counted. O(entries).

    It ends where the message makes no sense: the parser is to complain of that.

    >>> count_entries(bytes([0x12, 0, 0x12, 1, 0x41, 0x18, 1]), 10)
    2
    """
    count = at = 0
    while at < len(message) and count <= most:
        tag, at = _varint(message, at)
        wire_type = tag & 7
        if wire_type == _LENGTH_DELIMITED:
            size, at = _varint(message, at)
            at += size
            count += 1
        elif wire_type in _FIXED_BYTES:
            at += _FIXED_BYTES[wire_type]
        elif wire_type == 0:
            _, at = _varint(message, at)
        else:
            break
    return count


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 70:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return value, at
