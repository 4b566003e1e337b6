"""Sets of cpus and of memory nodes: one int bitmask, the kernel's list format in and out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import Final, Self

from .base_errors import PinfoldError, quoted
from .bits import selectors

MAX_IDS: Final = 8192
"""No id reaches this: the largest `CONFIG_NR_CPUS` of any architecture (x86 `MAXSMP`)."""


_LIST_CHARACTERS_MAX: Final = 5 * MAX_IDS
"""As long as a list is that names every id by itself; the kernel's own are half as long."""

_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")

_TEXTS_KEPT: Final = 256
"""Texts of sets; each may have some ten thousand characters."""

_KNOWN_CHARACTERS_MAX: Final = 2048
"""Of texts whose sets are kept: strangers may write longer ones, machines hardly do."""


class IdListError(PinfoldError):
    """A text is not a list of ids in the kernel's format."""


def _read_id(text: str, source: str) -> int:
    # str.isdigit alone accepts "²" and other alphabets' digits, which the kernel never writes.
    if not (text.isascii() and text.isdigit()):
        what = f"{quoted(source)} is not a list of ids"
        raise IdListError(f"{what} — write N or N-M, as in '0-3,8'")
    # Capped before shifting: "4000000000" would be a 500 MB integer.
    value = int(text) if len(text) <= 9 else MAX_IDS
    if value >= MAX_IDS:
        what = f"{quoted(source)}: id {text[:20]} is too large"
        raise IdListError(f"{what} — ids are below {MAX_IDS}")
    return value


def _span(first: int, last: int) -> int:
    return ((1 << (last - first + 1)) - 1) << first


def _strides(first: int, last: int, width: int, step: int) -> int:
    """The first `width` of every `step` ids of a range, in as many steps as its length has bits."""
    mask, covered = (1 << width) - 1, step
    while covered <= last - first:
        mask |= mask << covered
        covered *= 2
    return mask << first & _span(first, last)


def _read_list(text: str) -> int:
    """The bits of the ids in a text in the kernel's list format; see `IdSet.parse`."""
    mask = 0
    if len(text) > _LIST_CHARACTERS_MAX:
        what = f"{quoted(text)}: a list of {len(text)} characters"
        raise IdListError(f"{what} — write at most {_LIST_CHARACTERS_MAX}, ranges as N-M")
    stripped = text.strip(" \t\r\n\0")
    if not stripped:
        return 0
    for part in stripped.split(","):
        span, colon, stride = part.strip().partition(":")
        low, dash, high = span.partition("-")
        first = _read_id(low, text)
        last = _read_id(high, text) if dash else first
        if last < first:
            what = f"{quoted(text)}: range {quoted(span)} runs backwards"
            raise IdListError(f"{what} — write '{last}-{first}'")
        if not colon:
            mask |= _span(first, last)
            continue
        used, slash, group = stride.partition("/")
        step = _read_id(group if slash else used, text)
        width = _read_id(used, text) if slash else 1
        if step < 1 or not 1 <= width <= step:
            what = f"{quoted(text)}: {quoted(stride)} is not a stride"
            raise IdListError(f"{what} — write N, or N/M with N at most M, neither of them 0")
        mask |= _strides(first, last, width, step)
    return mask


# Containers that share cpus are listed with the same set, one after the other.
_known_list = lru_cache(maxsize=_TEXTS_KEPT)(_read_list)


def iter_bits(mask: int) -> Iterator[int]:
    """The positions of the bits set in `mask`, ascending."""
    length = mask.bit_length()
    if 16 * mask.bit_count() > length + 256:
        # Where they are many, each position costs less by itself.
        return compress(range(length), selectors(mask))
    return _iter_few_bits(mask)


def _iter_few_bits(mask: int) -> Iterator[int]:
    # Those of one part of a machine are near each other: a mask from the first on is short.
    first = (mask & -mask).bit_length() - 1
    rest = mask >> first if mask else 0
    while rest:
        low = rest & -rest
        yield first + low.bit_length() - 1
        rest ^= low


def lowest_cpu(mask: int) -> int:
    """The lowest id in a mask; -1 in an empty one."""
    return (mask & -mask).bit_length() - 1


def bit_runs(mask: int) -> list[tuple[int, int]]:
    """Runs of the bits set in `mask`, ascending: the first position, and that behind the last."""
    found: list[tuple[int, int]] = []
    base = 0
    while mask:
        skip = (mask & -mask).bit_length() - 1
        mask >>= skip
        base += skip
        run = (mask ^ (mask + 1)).bit_length() - 1
        found.append((base, base + run))
        mask >>= run
        base += run
    return found


# Containers that share cpus are told the same set, one after the other.
@lru_cache(maxsize=_TEXTS_KEPT)
def _list_format(mask: int) -> str:
    """The kernel's list format of the positions of the bits set in `mask`."""
    return ",".join(
        [str(first) if end == first + 1 else f"{first}-{end - 1}" for first, end in bit_runs(mask)]
    )


@dataclass(frozen=True, slots=True, order=False)
class IdSet:
    """A set of small ids as one int; the shared code of `CpuSet` and `NodeSet`.

    `<=` is subset, a partial order: sort by `.mask` or `.lowest`, never by the sets themselves.
    """

    mask: int = 0

    @classmethod
    def of(cls, *ids: int) -> Self:
        """The set of these ids."""
        return cls.collect(ids)

    @classmethod
    def collect(cls, ids: Iterable[int]) -> Self:
        """The set of the ids of an iterable.

        Raises `IdListError` for an id outside 0..`MAX_IDS` - 1.
        """
        mask = 0
        for one in ids:
            if not 0 <= one < MAX_IDS:
                raise IdListError(f"id {one} is out of range — ids are 0 to {MAX_IDS - 1}")
            mask |= 1 << one
        return cls(mask)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The set written in the kernel's list format, strides ("0-62:2", "0-31:4/8") included.

        O(characters), of which there may be as many as a list of all ids has. Raises `IdListError`.
        Source: Documentation/admin-guide/kernel-parameters.rst, "cpu lists".
        """
        read = _known_list if len(text) <= _KNOWN_CHARACTERS_MAX else _read_list
        return cls(read(text))

    @classmethod
    def parse_mask(cls, text: str) -> Self:
        """The set written as the kernel's hexadecimal words ("00000000,0000000f").

        Raises `IdListError`.
        """
        words = text.strip(" \t\r\n\0").split(",")
        mask = 0
        for position, word in enumerate(words):
            # Inner words are 32 bits wide even where leading zeros were dropped by a tool.
            is_short = 0 < len(word) <= (MAX_IDS // 4 if len(words) == 1 else 8)
            # int() alone accepts "-1", "0x1", "1_0" and blanks.
            if not (is_short and _HEX_DIGITS.issuperset(word)):
                raise IdListError(f"{text[:80]!r} is not a hexadecimal mask of 32-bit words")
            value = int(word, 16)
            mask |= value << (32 * (len(words) - 1 - position))
            if mask.bit_length() > MAX_IDS:
                raise IdListError(f"{text[:80]!r}: the mask is too wide — ids are below {MAX_IDS}")
        return cls(mask)

    @property
    def lowest(self) -> int:
        """The smallest id; -1 for the empty set."""
        return (self.mask & -self.mask).bit_length() - 1

    def isdisjoint(self, other: Self) -> bool:
        """Whether the two have no id in common."""
        return not self.mask & other.mask

    def __str__(self) -> str:
        return _list_format(self.mask)

    def __repr__(self) -> str:
        return f"{type(self).__name__}.parse({str(self)!r})"

    def __bool__(self) -> bool:
        return self.mask != 0

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __iter__(self) -> Iterator[int]:
        return iter_bits(self.mask)

    def __contains__(self, one: object) -> bool:
        return isinstance(one, int) and one >= 0 and bool(self.mask >> one & 1)

    def __and__(self, other: Self) -> Self:
        return type(self)(self.mask & other.mask)

    def __or__(self, other: Self) -> Self:
        return type(self)(self.mask | other.mask)

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.mask & ~other.mask)

    def __xor__(self, other: Self) -> Self:
        return type(self)(self.mask ^ other.mask)

    def __le__(self, other: Self) -> bool:
        return not self.mask & ~other.mask

    def __lt__(self, other: Self) -> bool:
        return self.mask != other.mask and not self.mask & ~other.mask

    def __ge__(self, other: Self) -> bool:
        return not other.mask & ~self.mask

    def __gt__(self, other: Self) -> bool:
        return self.mask != other.mask and not other.mask & ~self.mask


@dataclass(frozen=True, slots=True, repr=False)
class CpuSet(IdSet):
    """A set of cpus (hardware threads, the kernel's numbers).

    >>> str(CpuSet.parse("0-3,8") | CpuSet.of(4))
    '0-4,8'
    """


@dataclass(frozen=True, slots=True, repr=False)
class NodeSet(IdSet):
    """A set of memory nodes (NUMA node ids); another type than `CpuSet`, so they cannot mix.

    >>> str(NodeSet.of(0, 1, 3))
    '0-1,3'
    """


NO_CPUS: Final = CpuSet()
NO_NODES: Final = NodeSet()
