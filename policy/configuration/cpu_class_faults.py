"""Faults of a class of cpus, whatever the machine."""

from collections.abc import Iterator, Mapping
from typing import Final

from ..text.quantity import NamedFrequency, QuantityError, parse_khz
from ..text.yaml_document import Path
from .config import CpuClass
from .shape import Fault, range_faults

_Frequency = str | int | None
_RANKS: Final[Mapping[NamedFrequency, int]] = {
    NamedFrequency.MIN: 0,
    NamedFrequency.BASE: 1,
    NamedFrequency.TURBO: 2,
}
_UNCORE_RANKS: Final = {**_RANKS, NamedFrequency.BASE: 2}
"""An uncore clock has two ends and nothing named in between."""


def cpu_class_faults(path: Path, one: CpuClass) -> Iterator[Fault]:
    """The faults of the class at a path."""
    yield from _limits(path, ("minFreq", one.min_freq), ("maxFreq", one.max_freq), _RANKS)
    yield from _limits(
        path,
        ("uncoreMinFreq", one.uncore_min_freq),
        ("uncoreMaxFreq", one.uncore_max_freq),
        _UNCORE_RANKS,
    )
    managed = ("pctMinFreq", one.pct_min_freq), ("pctMaxFreq", one.pct_max_freq)
    yield from _limits(path, *managed, _RANKS)
    if one.pct_priority is None:
        for name, value in managed:
            if value is not None:
                yield Fault((*path, name), "needs a pctPriority — write high or low there")
    yield from _empty_names(path, one)
    if one.turbo_priority < 0:
        yield Fault((*path, "turboPriority"), f"{one.turbo_priority} is negative — write 0 or more")
    yield from range_faults((*path, "sstClosID"), one.sst_clos_id, 0, 3)
    if one.publish_extended_resource and one.pct_priority is None and one.sst_clos_id is None:
        yield Fault(
            (*path, "publishExtendedResource"),
            "only Speed Select classes are published — write pctPriority, or leave it out",
        )


def _limits(
    path: Path,
    low: tuple[str, _Frequency],
    high: tuple[str, _Frequency],
    ranks: Mapping[NamedFrequency, int],
) -> Iterator[Fault]:
    found: list[int | NamedFrequency] = []
    for name, value in (low, high):
        if value is None:
            continue
        try:
            found.append(parse_khz(value))
        except QuantityError as error:
            yield Fault((*path, name), str(error))
    is_wrong = False
    match found:
        case [int(least), int(most)]:
            is_wrong = least > most
        case [NamedFrequency() as lower, NamedFrequency() as upper]:
            is_wrong = ranks[lower] > ranks[upper]
        case _:
            # How a name compares with a number depends on the machine.
            pass
    if is_wrong:
        yield Fault((*path, low[0]), f"{low[1]} is above {high[0]} {high[1]} — swap them")


def _empty_names(path: Path, one: CpuClass) -> Iterator[Fault]:
    advice = "is empty — name one, or leave it out"
    for field, value in (
        ("freqGovernor", one.freq_governor),
        ("energyPerformancePreference", one.energy_performance_preference),
    ):
        if isinstance(value, str) and not value.strip():
            yield Fault((*path, field), advice)
    for index, name in enumerate(one.disabled_cstates):
        if not name.strip():
            yield Fault((*path, "disabledCstates", index), advice)
