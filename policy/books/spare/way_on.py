"""Ways on: sets of cpus whose shares move on, each to a cpu of the next, to where some is left.

Whoever waits for cpus has what the first of them leaves.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct


class WayOn(Struct, frozen=True, kw_only=True):
    """The shortest way on for some set of cpus, as far as one was found."""

    came: Mapping[int, tuple[int, int]]
    """By set that was looked at, the one that it would leave a cpu, and this; -1 for the first."""
    last: int
    """The set that moves on to where some is left."""
    end: int
    """The cpu of which some is left; -1 where there is no way."""
    seen: int
    """A mask of the cpus that were looked at."""
    looks: int

    def steps(self) -> Sequence[tuple[int, int, int]]:
        """The sets that move on, the last one first, each with the cpu it leaves, and to whom."""
        found, one = list[tuple[int, int, int]](), self.last
        while self.came[one][1] >= 0:
            before, cpu = self.came[one]
            found.append((one, cpu, before))
            one = before
        return found


def way_on(
    first: int,
    sets: Mapping[int, int],
    users: Mapping[int, Mapping[int, int]],
    kept: int,
    usable: int,
    looks_max: int,
) -> WayOn:
    """The shortest way on from the kept cpus of one set. O(cpus and sets looked at).

    `sets`: masks of their cpus. `users`: the sets that have some of each cpu. `usable`: cpus of
    which some is left; the first set has none of them. Once more than `looks_max` cpus and sets
    were looked at there is none.
    """
    came: dict[int, tuple[int, int]] = {first: (first, -1)}
    pending, seen, looks = [first], 0, 0
    for number in pending:
        here = sets[number] & kept & ~seen
        seen |= here
        looks += 1
        while here:
            cpu = here.bit_length() - 1
            here ^= 1 << cpu
            looks += 1
            for other in users[cpu]:
                if other in came:
                    continue
                came[other] = number, cpu
                if ends := sets[other] & usable:
                    # None that waits has any: so nobody looks at all who share with those.
                    end = ends.bit_length() - 1
                    return WayOn(came=came, last=other, end=end, seen=seen, looks=looks)
                pending.append(other)
        if looks > looks_max:
            break
    return WayOn(came=came, last=first, end=-1, seen=seen, looks=looks)
