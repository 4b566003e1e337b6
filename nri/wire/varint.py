"""Numbers as protobuf writes them.

Source: the protobuf encoding (protobuf.dev/programming-guides/encoding).
"""


def varint(value: int) -> bytes:
    """A number that is not negative: seven bits a byte, the lowest first; another follows bit 8.

    >>> varint(300).hex()
    'ac02'
    """
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
