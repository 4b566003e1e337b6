"""Groups of cpus (cores, clusters, sockets) asked all at once, as arithmetic on int masks.

Groups that look alike up to a shift (every core {c, c+64}) share a *shape*: one shift of the whole
machine's mask asks all of them together, so the cost does not grow with their number.
"""

from collections.abc import Iterable
from functools import cached_property

from ...topology.sets.bits import bits_by_count
from ...topology.sets.cpuset import iter_bits


def lowest_bits(mask: int, count: int) -> int:
    """The `count` lowest cpus of `mask`; all of it where it has no more."""
    if count >= mask.bit_count():
        return mask
    if count <= 8:
        taken = 0
        for _ in range(count):
            low = mask & -mask
            taken |= low
            mask ^= low
        return taken
    below, above = 0, mask.bit_length()
    while above - below > 1:
        middle = (below + above) >> 1
        if (mask & ((1 << middle) - 1)).bit_count() < count:
            below = middle
        else:
            above = middle
    return mask & ((1 << above) - 1)


def _firsts(masks: Iterable[int]) -> int:
    """The lowest cpu of each of some groups."""
    found = 0
    for mask in masks:
        found |= mask & -mask
    return found


class _Shape:
    """The groups of one shape; its offsets are the distances of the members from the lowest one."""

    def __init__(self, pattern: int, masks: tuple[int, ...]) -> None:
        """`pattern`: a group shifted so that its lowest cpu is 0."""
        self.masks = masks
        self.firsts = _firsts(masks)
        """The lowest members of all groups of this shape."""
        self.size = pattern.bit_count()
        self.is_shifted = 2 * self.size < len(masks)
        """Whether shifting costs less than going through the groups one by one: to shift a mask
        takes more than twice as long as to hold a group against it."""
        self._pattern = pattern

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Ascending, beginning with 0. Nobody asks for them of a few large groups."""
        return tuple(iter_bits(self._pattern))

    @cached_property
    def by_first(self) -> tuple[tuple[int, int], ...]:
        """The groups, each with its lowest cpu as a mask. Nobody asks for them of many groups."""
        return tuple([(mask & -mask, mask) for mask in self.masks])


class CpuBlocks:
    """A family of cpu groups; a group is named by its lowest cpu ("firsts" are masks of those).

    `covering` and `lowest_members` also hold for groups that overlap, the rest for disjoint ones.
    """

    def __init__(self, masks: Iterable[int]) -> None:
        by_pattern: dict[int, list[int]] = {}
        for mask in masks:
            if mask:
                pattern = mask >> ((mask & -mask).bit_length() - 1)
                by_pattern.setdefault(pattern, []).append(mask)
        self._shapes = tuple(_Shape(pattern, tuple(group)) for pattern, group in by_pattern.items())
        self.size_max = max((shape.size for shape in self._shapes), default=0)
        self.size_min = min((shape.size for shape in self._shapes), default=0)
        sizes: dict[int, int] = {}
        for shape in self._shapes:
            sizes[shape.size] = sizes.get(shape.size, 0) | shape.firsts
        self.firsts_by_size = tuple(sorted(sizes.items()))
        """(number of members, firsts of the groups of that size), smallest first."""

    def idle(self, free: int) -> int:
        """The firsts of the groups that lie wholly in `free`."""
        found = 0
        for shape in self._shapes:
            if shape.is_shifted:
                here = shape.firsts & free
                for offset in shape.offsets[1:]:
                    if not here:
                        break
                    here &= free >> offset
                found |= here
            else:
                for first, mask in shape.by_first:
                    if mask & free == mask:
                        found |= first
        return found

    def idle_full(self, usable: int, free: int) -> int:
        """All cpus of the groups with the most members in `usable`, if they lie wholly in `free`.

        Of a machine with cores of several kinds those with the most threads: so many cpus are asked
        for as make whole cores of these.
        """
        return self.members(self.idle(free) & self.by_free_count(usable)[-1])

    def members(self, firsts: int) -> int:
        """All cpus of the groups named by `firsts`."""
        cpus = 0
        for shape in self._shapes:
            here = firsts & shape.firsts
            if not here:
                continue
            if shape.is_shifted:
                for offset in shape.offsets:
                    cpus |= here << offset
            else:
                for first, mask in shape.by_first:
                    if first & here:
                        cpus |= mask
        return cpus

    def covering(self, cpus: int) -> int:
        """All cpus of the groups that hold at least one of `cpus`."""
        covered = 0
        for shape in self._shapes:
            if not shape.is_shifted:
                for mask in shape.masks:
                    if mask & cpus:
                        covered |= mask
                continue
            touched = 0
            for offset in shape.offsets:
                touched |= cpus >> offset
            touched &= shape.firsts
            if touched:
                for offset in shape.offsets:
                    covered |= touched << offset
        return covered

    def touched(self, cpus: int) -> int:
        """The firsts of the groups that hold at least one of `cpus`."""
        found = 0
        for shape in self._shapes:
            if shape.is_shifted:
                here = 0
                for offset in shape.offsets:
                    here |= cpus >> offset
                found |= here & shape.firsts
            else:
                for first, mask in shape.by_first:
                    if mask & cpus:
                        found |= first
        return found

    def by_free_count(self, free: int) -> list[int]:
        """For each k the firsts of the groups with exactly k members in `free`."""
        exactly = [0] * (self.size_max + 1)
        for shape in self._shapes:
            if shape.is_shifted:
                here = [((free >> offset) & shape.firsts, 1) for offset in shape.offsets]
                for count, firsts in bits_by_count(shape.firsts, here).items():
                    exactly[count] |= firsts
            else:
                for first, mask in shape.by_first:
                    exactly[(mask & free).bit_count()] |= first
        return exactly

    def highest_members(self, cpus: int) -> int:
        """The highest of `cpus` in each group that has any."""
        highest = 0
        for shape in self._shapes:
            if not shape.is_shifted:
                for mask in shape.masks:
                    if here := mask & cpus:
                        highest |= 1 << (here.bit_length() - 1)
                continue
            seen = 0
            for offset in reversed(shape.offsets):
                here = (cpus >> offset) & shape.firsts & ~seen
                highest |= here << offset
                seen |= here
        return highest

    def lowest_members(self, cpus: int) -> int:
        """The lowest of `cpus` in each group that has any."""
        lowest = 0
        for shape in self._shapes:
            seen = 0
            for offset in shape.offsets:
                here = (cpus >> offset) & shape.firsts & ~seen
                lowest |= here << offset
                seen |= here
        return lowest
