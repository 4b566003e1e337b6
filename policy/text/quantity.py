"""Amounts, frequencies and durations as people write them: exact integers, never floats.

Sources: the Quantity type of the Kubernetes API (apimachinery/pkg/api/resource/quantity.go) and
Go's time.ParseDuration.
"""

import enum
import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from msgspec import Struct

from ...topology.sets.base_errors import quoted
from ...topology.sets.cpuset import CpuSet, IdListError, NodeSet
from .errors import ConfigError

_NUMBER: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(.*)", re.ASCII | re.DOTALL)
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)

# Powers of ten, the small ones as a negative power.
_DECIMAL: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

_FREQUENCY: Final = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,9}))?\s*([kKMG])?(?:[Hh]z)?", re.ASCII)
# Powers of ten above one kHz; a bare number is in kHz, as in the kernel's files.
_KHZ: Final = {"": 0, "k": 0, "K": 0, "M": 3, "G": 6}

_DURATION: Final = re.compile(r"([0-9]{0,20})(?:\.([0-9]{0,20}))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_NANOSECONDS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}

_DIGITS_MAX: Final = 40
"""Longer numbers are no amount of anything here, and would only cost time."""


class QuantityError(ConfigError):
    """A text is no amount, frequency or duration."""


class CpuQuantity(Struct, frozen=True):
    """An amount of cpu, no matter which: "750m"."""

    milli: int


class OnlyCpus(Struct, frozen=True):
    """Exactly these cpus: "cpuset:0-3"."""

    cpus: CpuSet


class AllCpusBut(Struct, frozen=True):
    """All cpus there are except these: "exclude-cpuset:0-3"."""

    cpus: CpuSet


class ByteQuantity(Struct, frozen=True):
    """An amount of memory, no matter where: "2Gi"."""

    size_bytes: int


class OnlyNodes(Struct, frozen=True):
    """The memory of exactly these NUMA nodes: "nodeset:0-1"."""

    nodes: NodeSet


class AllNodesBut(Struct, frozen=True):
    """The memory of all NUMA nodes except these: "exclude-nodeset:2"."""

    nodes: NodeSet


class NamedFrequency(enum.Enum):
    """A frequency that depends on the cpu."""

    MIN = "min"
    BASE = "base"
    TURBO = "turbo"


CpuAmount = CpuQuantity | OnlyCpus | AllCpusBut
MemoryAmount = ByteQuantity | OnlyNodes | AllNodesBut | OnlyCpus | AllCpusBut
"""Cpus stand for the NUMA nodes they are in."""

_Set = TypeVar("_Set")

_CPU_SETS: Final[Mapping[str, Callable[[str], OnlyCpus | AllCpusBut]]] = {
    "cpuset": lambda ids: OnlyCpus(CpuSet.parse(ids)),
    "exclude-cpuset": lambda ids: AllCpusBut(CpuSet.parse(ids)),
}
_MEMORY_SETS: Final[
    Mapping[str, Callable[[str], OnlyNodes | AllNodesBut | OnlyCpus | AllCpusBut]]
] = {
    "nodeset": lambda ids: OnlyNodes(NodeSet.parse(ids)),
    "exclude-nodeset": lambda ids: AllNodesBut(NodeSet.parse(ids)),
    **_CPU_SETS,
}


def parse_milli(text: str) -> int:
    """Thousandths of the amount, rounded up as Kubernetes does ("0.0001" is 1).

    Raises `QuantityError`, which names the text.
    """
    return _scale(text, 3)


def parse_bytes(text: str) -> int:
    """The amount in whole units, rounded up ("100M" is 100000000, "1Gi" is 1073741824).

    Raises `QuantityError`, which names the text.
    """
    return _scale(text, 0)


def parse_page_bytes(text: str) -> int:
    """The size of a huge page, as in `hugepages-2Mi`.

    Raises `QuantityError`, which names the text: no page has the size 0.
    """
    size = parse_bytes(text)
    if not size:
        raise QuantityError(
            f"{quoted(text)} is no size of a page — write a size the machine has, as in '2Mi'"
        )
    return size


def parse_cpu_amount(text: str) -> CpuAmount:
    """A number of cpus or a list of them, all but a list included.

    Raises `QuantityError`, which names the text.
    """
    return _parse_set("failed to parse cpus", text, _CPU_SETS, "750m") or CpuQuantity(
        parse_milli(text)
    )


def parse_memory_amount(text: str) -> MemoryAmount:
    """An amount of memory, or a list of NUMA nodes or of the cpus in them, all but a list included.

    Raises `QuantityError`, which names the text.
    """
    return _parse_set("failed to parse memory", text, _MEMORY_SETS, "2Gi") or ByteQuantity(
        parse_bytes(text)
    )


def parse_khz(text: str | int) -> int | NamedFrequency:
    """The frequency in kHz, or its name: "3.2GHz", "2900MHz", 2900000, "turbo".

    Raises `QuantityError`, which names the text.
    """
    written = str(text).strip()
    for name in NamedFrequency:
        if written.lower() == name.value:
            return name
    if matched := _FREQUENCY.fullmatch(written):
        whole, fraction, unit = matched.groups(default="")
        shift = _KHZ[unit] - len(fraction)
        number = int(whole + fraction)
        if shift >= 0:
            return int(number * 10**shift)
        if number % 10**-shift == 0:
            return int(number // 10**-shift)
    raise QuantityError(
        f"failed to parse frequency {quoted(str(text))} — write '3.2GHz', '2900MHz', a whole number"
        " of kHz, min, base or turbo"
    )


def parse_nanoseconds(text: str) -> int:
    """The duration in nanoseconds, parts of one cut off: "1m30s", "1.5h", "250ms", "0".

    Raises `QuantityError`, which names the text.
    """
    if text == "0":
        return 0
    total = position = 0
    while matched := _DURATION.match(text, position):
        whole, fraction, unit = matched.groups(default="")
        if not whole + fraction:
            break
        total += int(whole + fraction) * _NANOSECONDS[unit] // int(10 ** len(fraction))
        position = matched.end()
    if position == 0 or position < len(text):
        raise QuantityError(
            f"failed to parse duration {quoted(text)} — write numbers with units h, m, s, ms, us,"
            " ns, as in '1m30s'"
        )
    return total


def _parse_set(
    what: str, text: str, kinds: Mapping[str, Callable[[str], _Set]], example: str
) -> _Set | None:
    """The list of ids of one of these kinds; None for a text without a kind, a quantity.

    `what` begins a complaint.
    """
    kind, colon, ids = text.strip().partition(":")
    if not colon:
        return None
    if kind not in kinds:
        *others, last = (f"'{one}:LIST'" for one in kinds)
        raise QuantityError(
            f"{what} {quoted(text)}: unknown kind {quoted(kind)} — write a quantity"
            f" ({example!r}), {', '.join(others)} or {last}"
        )
    try:
        return kinds[kind](ids)
    except IdListError as error:
        raise QuantityError(f"{what} {quoted(text)}: {error}") from error


def _scale(text: str, power: int) -> int:
    """`text` times ten to `power`, rounded up to an integer."""
    matched = _NUMBER.fullmatch(text.strip())
    sign, whole, fraction, suffix = matched.groups(default="") if matched else ("", "", "", text)
    digits = whole + fraction
    if not digits or len(digits) > _DIGITS_MAX:
        raise _bad_quantity(text)
    shift, doublings = _suffix(suffix, text)
    if sign == "-" and int(digits):
        raise QuantityError(
            f"failed to parse quantity {quoted(text)}: it is negative — write 0 or more"
        )
    number = int(digits) << doublings
    exponent = power + shift - len(fraction)
    if exponent >= 0:
        return int(number * 10**exponent)
    return -int(-number // 10**-exponent)


def _suffix(suffix: str, text: str) -> tuple[int, int]:
    """The power of ten and the power of two that a suffix stands for."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], 0
    if suffix in _BINARY:
        return 0, _BINARY[suffix]
    matched = _EXPONENT.fullmatch(suffix)
    if matched is None or len(matched[1]) > 3:
        raise _bad_quantity(text)
    return int(matched[1]), 0


def _bad_quantity(text: str) -> QuantityError:
    return QuantityError(
        f"failed to parse quantity {quoted(text)} — write a number with an optional suffix"
        " (n u m k M G T P E, Ki Mi Gi Ti Pi Ei) or exponent, as in '750m', '2.5G', '1Gi'"
    )
