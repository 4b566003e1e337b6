"""Cache objects and the groups of cpus that share one.

`indexN` is not a level: cpus of one machine can have different caches, and ia64 has L2 Data and L2
Instruction. Source: Documentation/ABI/stable/sysfs-devices-system-cpu.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from ..model.machine import Cache
from ..sets.cpuset import CpuSet
from .attributes import Attributes
from .cpus import CPU

_TYPES: Final = ("Data", "Instruction", "Unified")
_SIZES_KEPT: Final = 64
_UNITS: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_NAMED_LEVEL: Final = 3
"""From here on caches are called by their ids; narrower ones, thousands, by their cpus."""


def read_caches(attributes: Attributes, cores: tuple[CpuSet, ...]) -> tuple[Cache, ...]:
    """Every cache once, sorted by level, type and lowest cpu. Cores: those of the online cpus."""
    reader = _Reader(attributes, cores)
    most = 0
    for core in cores:
        shown: list[int] = []
        for cpu in core:
            # One thread speaks for its core, unless it shows few caches and another shows others,
            # or a cache is of some threads only: s390, and the cores of POWER9 that are two in one.
            is_left_out = reader.left_out >> cpu & 1
            if shown and len(shown) >= most and core is not cores[0] and not is_left_out:
                continue
            indexes = attributes.numbered(f"{CPU}/cpu{cpu}/cache", "index")
            if indexes and (indexes != shown or is_left_out):
                shown = indexes
                reader.read(cpu, core, indexes)
        most = max(most, len(shown))
    reader.read_unshared()
    reader.note_gaps()
    return in_order(reader.found)


def in_order(caches: Iterable[Cache]) -> tuple[Cache, ...]:
    """The caches sorted by level, type and lowest cpu."""
    return tuple(sorted(caches, key=lambda one: (one.level, one.type, one.cpus.lowest)))


def cache_groups(caches: tuple[Cache, ...], level: int) -> tuple[CpuSet, ...]:
    """The disjoint sets of cpus that share a cache for data at a level, sorted by lowest cpu."""
    found: list[CpuSet] = []
    taken = 0
    for_data = [one for one in caches if one.level == level and one.type != "Instruction"]
    for cache in sorted(for_data, key=lambda one: (one.cpus.lowest, -len(one.cpus))):
        # Only damaged files and odd overrides let two caches of a level overlap.
        own = cache.cpus.mask & ~taken
        if own:
            taken |= own
            found.append(cache.cpus if own == cache.cpus.mask else CpuSet(own))
    return tuple(sorted(found, key=lambda group: group.lowest))


@lru_cache(_SIZES_KEPT)
def cache_bytes(text: str) -> int | None:
    """The bytes a cache's size stands for: "32K", "16384K", "1M"."""
    digits, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 15 or unit not in _UNITS:
        return None
    return int(digits) * _UNITS[unit]


class _Kind(NamedTuple):
    """A cache by what it has in common with those of other cores."""

    level: int
    type: str
    own_bytes: int | None
    """Of a cache that the threads of a core have for themselves; None for all others."""


class _Reader:
    """Cache objects by (level, type): the first cpu that shows a cache defines who shares it.

    Cores with as many caches and a first one of the same size are of one make: level and type of
    their caches are read once, and whether a cache of level 1, of what size, is shared by the
    threads of its core alone. Not where cpus are offline, nor for wider caches: what is shared with
    an offline cpu looks like a core's own.
    """

    def __init__(self, attributes: Attributes, cores: tuple[CpuSet, ...]) -> None:
        self._attributes = attributes
        self._online = CpuSet()
        for core in cores:
            self._online |= core
        present = attributes.first_cpus(CPU, ("present",))
        self._are_all_online = present == self._online
        self._makes: dict[tuple[str | int | None, ...], tuple[_Kind | None, ...]] = {}
        self._taken: dict[tuple[int, str], int] = {}
        self._unshared: list[tuple[int, CpuSet, str, _Kind]] = []
        self._without_id = False
        self.left_out = 0
        """The mask of cpus that a cache of another thread of their core does not name."""
        self.found: list[Cache] = []

    def read(self, cpu: int, core: CpuSet, indexes: list[int]) -> None:
        directories = [f"{CPU}/cpu{cpu}/cache/index{one}" for one in indexes]
        size = self._attributes.text(f"{directories[0]}/size")
        make = size, *indexes
        kinds = self._makes.get(make)
        if kinds is None:
            kinds = tuple(self._kind(one, core) for one in directories)
            if size and None not in kinds:
                self._makes[make] = kinds
        for directory, kind in zip(directories, kinds, strict=True):
            if kind is not None and not self._taken.get(kind[:2], 0) >> cpu & 1:
                self._add(cpu, core, directory, kind)

    def _kind(self, directory: str, core: CpuSet) -> _Kind | None:
        attributes = self._attributes
        level = attributes.number(f"{directory}/level")
        kind = attributes.text(f"{directory}/type") or "Unified"
        if level is None or level < 1 or kind not in _TYPES:
            attributes.warn(directory, f"passed over: level {level}, type {kind[:40]!r}")
            return None
        is_own = level == 1 and self._are_all_online and self._shared(directory) == core
        return _Kind(level, kind, self._bytes(directory) if is_own else None)

    def _bytes(self, directory: str) -> int:
        return cache_bytes(self._attributes.text(f"{directory}/size") or "") or 0

    def _shared(self, directory: str) -> CpuSet | None:
        return self._attributes.first_cpus(directory, ("shared_cpu_list", "shared_cpu_map"))

    def _add(self, cpu: int, core: CpuSet, directory: str, kind: _Kind) -> None:
        shared = core if kind.own_bytes is not None else self._shared(directory)
        if shared:
            self._keep(cpu, core, directory, kind, shared)
        else:
            self._unshared.append((cpu, core, directory, kind))

    def read_unshared(self) -> None:
        """Keeps the caches that name no cpu, and that no other cpu shows, as their core's own.

        ia64 kernels show all-zero maps.
        """
        for cpu, core, directory, kind in self._unshared:
            if not self._taken.get(kind[:2], 0) >> cpu & 1:
                self._keep(cpu, core, directory, kind, core)

    def _keep(self, cpu: int, core: CpuSet, directory: str, kind: _Kind, shared: CpuSet) -> None:
        level, name, own_bytes = kind
        self.left_out |= core.mask & ~shared.mask
        taken = self._taken.get((level, name), 0)
        mask = shared.mask & self._online.mask & ~taken | 1 << cpu
        # A core's caches and the core itself share one set: thousands of them are megabytes.
        cpus = shared if mask == shared.mask else CpuSet(mask)
        self._taken[level, name] = taken | cpus.mask
        number: int | None = None
        if level >= _NAMED_LEVEL:
            number = self._attributes.number(f"{directory}/id")
            self._without_id |= number is None
        self.found.append(
            Cache(
                level=level,
                type=name,
                cpus=cpus,
                id=number if number is not None and number >= 0 else None,
                size_bytes=self._bytes(directory) if own_bytes is None else own_bytes,
            )
        )

    def note_gaps(self) -> None:
        attributes = self._attributes
        if not self.found:
            attributes.warn(f"{CPU}/cpu*/cache", "no caches shown: cache groups are not known")
            return
        if self._without_id:
            attributes.warn(f"{CPU}/cpu*/cache/index*/id", "missing: caches are told by their cpus")
        if self._unshared:
            silent = CpuSet()
            for _, core, _, _ in self._unshared:
                silent |= core
            attributes.warn(
                f"{CPU}/cpu*/cache/index*/shared_cpu_map",
                f"names no cpu on cpus {silent}: taken as others show it, or as the core's own",
            )
        dataless = self._online
        for cache in self.found:
            dataless -= cache.cpus
        if dataless:
            attributes.warn(f"{CPU}/cpu*/cache", f"no caches of cpus {dataless} are shown")
