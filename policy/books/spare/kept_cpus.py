"""Kept cpus: where all who share cpus find what they were promised, whoever takes the others."""

from collections import Counter
from collections.abc import Mapping
from copy import copy
from functools import reduce
from typing import Final

from ....topology.sets.cpuset import iter_bits, lowest_cpu
from .asking_sets import AskingSets
from .full_sets import FullSets
from .way_on import WayOn, way_on

_CPU_MILLI: Final = 1000
_LOOKS_MAX: Final = 8192
"""After so many cpus and sets were looked at for who moves on, in answer to one question, nobody
does: more cpus are kept."""
_EFFORT_MAX: Final = 4 * _LOOKS_MAX
"""And after so many in answer to all questions of one event."""
_NEWCOMER: Final = -1


class KeptCpus:
    """Cpus that are kept for shares, and how much of each is whose; the other ones are spare.

    Shares move on where that spares a cpu for somebody. Sets of cpus are masks.
    """

    def __init__(self, free: int, shares: Mapping[int, int], asking: Mapping[int, int]) -> None:
        """`shares`: milli-cpus by set of cpus. `asking`: how many need one cpu of a set."""
        self.spare: int = free
        self.fixed: int = 0  # A mask of cpus that serve shares alone: they are never spared.
        self.short_milli: int = 0
        """What does not fit anywhere."""
        self._kept: int = 0
        self._partly: int = 0
        """Kept cpus of which something is left."""
        self._left: dict[int, int] = {}
        self._users: dict[int, dict[int, int]] = {}
        """Milli-cpus of each set of those who share, by cpu."""
        self._looks = self._count = 0
        self.effort = 0
        """What was looked at in this event: nothing again as soon as that is over."""
        self._numbers: dict[int, int] = {}
        self._sets: dict[int, int] = {}
        self._on: dict[int, int] = {}
        """Masks of the cpus of which each set has some."""
        self._lent: set[int] = set()
        """Cpus whose users are a copy's as well."""
        self._asking = AskingSets()
        self._full = FullSets()
        self._taken = self._asked = 0
        """A mask of the cpus that are taken off in a question; the milli-cpus that it is about."""
        # The small sets first: what is kept for them is kept for those around them, too.
        for _, cpus, milli in sorted([(one.bit_count(), one, shares[one]) for one in shares]):
            self.add(cpus, milli)
        for _, cpus, count in sorted([(one.bit_count(), one, asking[one]) for one in asking]):
            self.ask(cpus, count)

    def copy(self) -> "KeptCpus":
        """A copy that changes apart from this one. O(kept cpus + sets of cpus)."""
        other = copy(self)
        other._left, other._users = dict(self._left), dict(self._users)
        # Most of them stay as they are.
        self._lent, other._lent = set(self._users), set(self._users)
        other._numbers, other._sets = dict(self._numbers), dict(self._sets)
        other._on = dict(self._on)
        other._asking, other._full = self._asking.copy(), self._full.copy()
        return other

    def add(self, cpus: int, milli: int) -> None:
        """A share of these cpus is promised, so much of it."""
        number = self._numbers.get(cpus)
        if number is None:
            self._count += 1
            number = self._numbers[cpus] = self._count
            self._sets[number], self._on[number] = cpus, 0
        # As most find it, without a call for each cpu.
        left, users, on = self._left, self._users, 0
        while milli and (open_cpus := cpus & self._partly or cpus & self.spare):
            cpu = open_cpus.bit_length() - 1
            bit = 1 << cpu
            if not self._partly & bit:
                self.spare ^= bit
                self._kept |= bit
                self._partly |= bit
                left[cpu], users[cpu] = _CPU_MILLI, {}
            given = milli if milli < left[cpu] else left[cpu]
            here = users[cpu] if cpu not in self._lent else self._users_at(cpu)
            here[number] = here.get(number, 0) + given
            on |= bit
            milli -= given
            left[cpu] -= given
            if not left[cpu]:
                self._partly ^= bit
        self._on[number] |= on
        if milli:
            self._looks = 0
            self.short_milli += self._keep(number, milli)[0]

    def drop(self, cpus: int, milli: int) -> None:
        """A share is given back; only where nothing is short."""
        number = self._numbers[cpus]
        self._full.drop(cpus, milli)
        self._give_back(number, milli)
        if not self._on[number]:
            del self._numbers[cpus], self._sets[number], self._on[number]

    def ask(self, cpus: int, count: int) -> None:
        """A cpu of these is to be shared, as so many more need it; fewer where it is negative."""
        if self._asking.change(cpus, count):
            self._tidy(cpus & self._partly)
        else:
            self._keep_one(cpus)

    def take(self, cpus: int) -> None:
        """Spare cpus become somebody's own."""
        self.spare &= ~cpus

    def give(self, cpus: int) -> None:
        """Cpus that were somebody's own are spare."""
        self._full.give(cpus)
        self.spare |= cpus
        for cpu in iter_bits(cpus) if self._asking.counts else ():
            # Others had all cpus of some sets of which one is asked for: now one can be kept.
            for one in self._asking.with_cpu(cpu):
                self._keep_one(one)

    def spared(self, cpus: int, count: int, *, or_fewer: bool = True) -> int:
        """A mask of some of these cpus, so many if there are, that may be taken all at once.

        Those that are kept are spared where shares can move on to others. `or_fewer`: as many as
        there are where there are not so many; else some.
        """
        cpus &= (self.spare | self._kept) & ~self.fixed
        found = cpus & self.spare
        if found.bit_count() >= count or cpus.bit_count() < count or self.effort > _EFFORT_MAX:
            return found
        if not or_fewer and self._full.whole_left(cpus) < count:
            return found
        self._looks = 0
        self.spare ^= found
        dead = self._full.closed_by(found)
        least = sorted([(-self._left[cpu], cpu) for cpu in iter_bits(cpus & self._kept & ~dead)])
        more = count - found.bit_count()
        for _, cpu in least:
            if dead >> cpu & 1:
                continue
            self._taken = found | 1 << cpu
            tight = self._release(cpu)
            if tight:
                # As much is promised there as leaves no whole cpu.
                dead |= tight
                continue
            found = self._taken
            more -= 1
            if not more:
                break
            dead |= self._full.closed_by(found)
        if more and self._asking.counts:
            found = self._exchanged(cpus, found, count)
        self._taken = 0
        self.spare |= found
        return found

    def spared_apart(self, cpus: int, count: int) -> int:
        """The cpus that `spared` would find; everything stays as it is."""
        if (cpus & self.spare).bit_count() >= count:
            return self.spared(cpus, count)
        other = self.copy()
        # What is full is so whoever moves on.
        other._full = self._full
        return other.spared(cpus, count)

    def grants(self, own: int, cpus: int, milli: int) -> bool:
        """Whether a share of some cpus may get so much, once others are taken; see `grantable`."""
        is_full = self._full.left(own, cpus & ~own, milli) < milli
        return not is_full and self.grantable(own, cpus, milli) >= milli

    def grantable(self, own: int, cpus: int, milli: int) -> int:
        """Milli-cpus up to so many that a share of some cpus may get, once others are taken.

        `own`: spare cpus.
        """
        self._looks = 0
        cpus &= ~own
        milli = self._full.left(own, cpus, milli)
        here, left = cpus & self._partly, milli - _CPU_MILLI * (cpus & self.spare).bit_count()
        while here and left > 0:
            cpu = here.bit_length() - 1
            here ^= 1 << cpu
            left -= self._left[cpu]
        if left <= 0:
            # Nobody has to move on.
            return milli
        self.spare ^= own
        self._sets[_NEWCOMER], self._on[_NEWCOMER] = cpus, 0
        self._taken, self._asked = own, milli
        found = milli - self._keep(_NEWCOMER, milli)[0]
        self._taken = self._asked = 0
        self._give_back(_NEWCOMER, milli)
        self.spare |= own
        return found

    def check(self, fresh: "KeptCpus") -> None:
        """Assert that it keeps cpus for the same promises as another one, and those of each set."""
        assert self._asking.counts == fresh._asking.counts
        assert self.spare | self._kept == fresh.spare | fresh._kept
        assert not self.spare & self._kept
        assert all(one & self._kept or not one & self.spare for one in self._asking.counts)
        assert self._milli() == fresh._milli() or self.short_milli or fresh.short_milli
        for cpu in iter_bits(self._kept):
            assert self._left[cpu] == _CPU_MILLI - sum(self._users[cpu].values())
            assert bool(self._left[cpu]) == bool(self._partly >> cpu & 1)
            for number in self._users[cpu]:
                assert self._sets[number] >> cpu & self._on[number] >> cpu & 1

    def _milli(self) -> Mapping[int, int]:
        found = Counter[int]()
        for cpu in iter_bits(self._kept):
            for number, milli in self._users[cpu].items():
                found[self._sets[number]] += milli
        return found

    def _keep(self, number: int, milli: int) -> tuple[int, int]:
        """Keep more cpus of a set for so many milli-cpus; what of these does not fit is returned.

        And the cpus to which nobody could move on from there, or their next.
        """
        cpus = self._sets[number]
        while milli > 0:
            milli -= self._fill(number, milli)
            if not milli:
                break
            if new := cpus & self.spare:
                self._open(new & -new)
                continue
            moved, reach = self._move_on(number, milli)
            if not moved:
                return milli, reach
            milli -= moved
        return 0, 0

    def _exchanged(self, cpus: int, found: int, count: int) -> int:
        """Spared cpus; more where one is kept in place of several that are kept to be asked for."""
        while found.bit_count() < count and self.effort <= _EFFORT_MAX:
            here = [*iter_bits(cpus & self._kept & self._partly)]
            self.effort += len(here)
            unused = [cpu for cpu in here if not self._users[cpu]]
            one, others = self._asking.in_place_of(unused, self._kept, found)
            if not others:
                break
            self.spare |= one
            self._open(one)
            self._kept ^= others
            self._partly ^= others
            found ^= one | others
        return found

    def _keep_one(self, cpus: int) -> bool:
        if not cpus & self._kept and (new := cpus & self.spare):
            self._open(new & -new)
        return bool(cpus & self._kept)

    def _release(self, cpu: int) -> int:
        """Let a kept cpu be nobody's; 0, or the cpus around of which then too few are left."""
        bit = 1 << cpu
        self.effort += 1
        self._kept ^= bit
        self._partly &= ~bit
        # Most of them have another one that is kept.
        kept = self._kept
        asking = [one for one in self._asking.with_cpu(cpu) if not one & kept]
        if asking and not all([self._keep_one(one) for one in asking]):
            self._put_back(cpu)
            return bit
        users = self._users_at(cpu)
        for number in tuple(users):
            milli = users.pop(number)
            self._left[cpu] += milli
            self._on[number] ^= bit
            left, tight = self._keep(number, milli)
            if left:
                users[number] = left
                self._left[cpu] -= left
                self._on[number] |= bit
                self._put_back(cpu)
                return tight | bit
        return 0

    def _put_back(self, cpu: int) -> None:
        self._kept |= 1 << cpu
        if self._left[cpu]:
            self._partly |= 1 << cpu

    def _give_back(self, number: int, milli: int) -> None:
        """Take so much from a set, or what it has."""
        here = self._on[number]
        while milli and here:
            cpu = here.bit_length() - 1
            users, bit = self._users_at(cpu), 1 << cpu
            here ^= bit
            given = min(users[number], milli)
            milli -= given
            users[number] -= given
            self._left[cpu] += given
            self._partly |= bit
            if not users[number]:
                del users[number]
                self._on[number] ^= bit
                if not users:
                    self._tidy(bit)

    def _tidy(self, cpus: int) -> None:
        """Let those of some cpus be spare of which nobody has some, and nobody needs one."""
        asking = self._asking.with_cpu
        while cpus:
            bit = 1 << (cpu := cpus.bit_length() - 1)
            cpus ^= bit
            if not self._users[cpu] and all(map((self._kept & ~bit).__and__, asking(cpu))):
                self._kept ^= bit
                self._partly ^= bit
                self.spare |= bit

    def _open(self, bit: int) -> None:
        self.spare ^= bit
        self._kept |= bit
        self._partly |= bit
        cpu = lowest_cpu(bit)
        self._left[cpu], self._users[cpu] = _CPU_MILLI, {}

    def _users_at(self, cpu: int) -> dict[int, int]:
        """The users of a cpu, to be changed."""
        users = self._users[cpu]
        if cpu in self._lent:
            self._lent.discard(cpu)
            users = self._users[cpu] = dict(users)
        return users

    def _fill(self, number: int, milli: int) -> int:
        """Milli-cpus, up to so many, given to a set out of what is left of its kept cpus."""
        here, given = self._sets[number] & self._partly, 0
        while here and given < milli:
            cpu = here.bit_length() - 1
            here ^= 1 << cpu
            given += self._take(cpu, number, min(self._left[cpu], milli - given))
        return given

    def _take(self, cpu: int, number: int, milli: int) -> int:
        users = self._users_at(cpu)
        users[number] = users.get(number, 0) + milli
        self._on[number] |= 1 << cpu
        self._left[cpu] -= milli
        if not self._left[cpu]:
            self._partly ^= 1 << cpu
        return milli

    def _move_on(self, first: int, milli: int) -> tuple[int, int]:
        """Milli-cpus that another set gives back to one, as its users move on to other cpus.

        And the cpus to which nobody can move on from there, or their next, where nobody can.
        """
        sets, usable = self._sets, self._partly | self.spare
        looks_max = min(_LOOKS_MAX - self._looks, _EFFORT_MAX - self.effort)
        found = way_on(first, sets, self._users, self._kept, usable, looks_max)
        self._looks += found.looks
        self.effort += found.looks
        if found.end >= 0:
            return self._passed_on(found, milli), 0
        if found.looks > looks_max:
            return 0, 0
        around = reduce(int.__or__, map(sets.__getitem__, found.came))
        # All who have some of these cpus have others of these alone, or of those that are taken.
        taken = around & self._taken
        left = _CPU_MILLI * taken.bit_count() + self._asked - milli
        self._full.note(found.seen | taken, around, left)
        return 0, found.seen

    def _passed_on(self, found: WayOn, milli: int) -> int:
        """The milli-cpus of so many that everybody on a way moves on with."""
        end, steps = found.end, found.steps()
        if self.spare >> end & 1:
            self._open(1 << end)
        milli = min(milli, self._left[end], *[self._users[cpu][one] for one, cpu, _ in steps])
        self._take(end, found.last, milli)
        for one, cpu, before in steps:
            users, bit = self._users_at(cpu), 1 << cpu
            users[before] = users.get(before, 0) + milli
            self._on[before] |= bit
            users[one] -= milli
            if not users[one]:
                del users[one]
                self._on[one] ^= bit
        return milli
