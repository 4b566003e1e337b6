"""Bits of masks, asked all at once: in C, or by arithmetic on whole masks."""

from collections.abc import Iterable, Mapping
from typing import Final

_DIGITS: Final = bytes.maketrans(b"01", b"\0\1")
_TEXT: Final = bytes.maketrans(b"\0\1", b"01")


def selectors(mask: int) -> bytes:
    """Each bit of a mask as a byte, 0 or 1, the lowest first, as `itertools.compress` wants it."""
    return f"{mask:b}"[::-1].encode().translate(_DIGITS)


def mask_where(holds: Iterable[bool]) -> int:
    """The mask of the bits for which something holds; `holds` tells it of all, the lowest first."""
    return int(b"0" + bytes(holds)[::-1].translate(_TEXT), 2)


def bits_by_count(every: int, masks: Iterable[tuple[int, int]]) -> Mapping[int, int]:
    """The bits of `every` by how often they are in some masks, each of which counts several times.

    All bits are counted at once: the digits of their sums, in binary, are masks themselves.
    """
    digits: list[int] = []
    for mask, count in masks:
        place = 0
        while count:
            at, carry = place, mask if count & 1 else 0
            while carry:
                while at >= len(digits):
                    digits.append(0)
                digits[at], carry = digits[at] ^ carry, digits[at] & carry
                at += 1
            count >>= 1
            place += 1
    found = {0: every} if every else {}
    for place, digit in enumerate(digits):
        for number, bits in list(found.items()):
            if inside := bits & digit:
                found[number | 1 << place] = inside
                if bits != inside:
                    found[number] = bits ^ inside
                else:
                    del found[number]
    return found


def more_in(here: int, by_count: Mapping[int, int], more: int) -> Mapping[int, int]:
    """Bits by numbers, each of these by so many more. O(different numbers).

    >>> more_in(0b011, {2: 0b101, 1: 0b010}, 2)
    {4: 1, 2: 4, 3: 2}
    """
    found: dict[int, int] = {}
    for count, bits in by_count.items():
        for number, some in ((count + more, bits & here), (count, bits & ~here)):
            if some:
                found[number] = found.get(number, 0) | some
    return found


def one_less_in(here: int, by_count: Mapping[int, int]) -> Mapping[int, int]:
    """Bits by numbers, each of these by one less. O(different numbers).

    >>> one_less_in(0b011, {2: 0b101, 1: 0b010})
    {1: 1, 2: 4, 0: 2}
    """
    return more_in(here, by_count, -1)
