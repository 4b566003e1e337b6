"""Homecoming: containers that others drive out of their pool's cpus, and that come back there."""

from collections.abc import Collection, Sequence
from itertools import islice
from typing import Final

from msgspec.structs import replace

from ..annotations.preferences import parse_preferences
from ..books.books import Books
from ..configuration.config import OnUnsatisfiable
from ..model.container import ContainerId
from ..model.cpu_preference import MovePreference
from ..model.grant import Grant, PoolId
from ..model.request import CpuType
from ..placing.growth import breaks_a_rule, held_back, homeless, is_homeless, wider_place
from ..placing.judging.judge import Judge
from ..placing.judging.judgement import Judgement
from .roster import Roster

_RETURNS_MAX: Final = 16
_WELCOME_MAX: Final = 12
"""Of these, so many that have room at home come before others."""


class Homecoming:
    """The shared containers that are left no cpu of their pool, where they go, and their return."""

    def __init__(self, books: Books, roster: Roster, judge: Judge) -> None:
        """Changes grants in the books, and nothing else."""
        self._books = books
        self._roster = roster
        self._judge = judge
        self._homes: dict[ContainerId, PoolId] = {}
        """The pools of containers left without a cpu there, which may have found no other place."""
        self.away: Collection[ContainerId] = self._homes.keys()
        """Containers that were driven out of their pools, and may come home."""

    def rehouse(self, *, moves_nobody: bool = False) -> tuple[ContainerId, ...]:
        """Give containers that were left no cpu of their pool a place where their rules hold.

        All those that have rules, or are what rules are about. Pens stay with their pool, so that
        containers in them go where everybody does who is left nothing there. `moves_nobody`: a
        container stays in its full pool where it would have to leave cpus on which it runs.
        """
        found: list[ContainerId] = []
        for grant in homeless(self._books):
            if grant.is_pen:
                found += self._books.ledger.members(grant.container_id)
            elif self._settle(grant, grant.pool_id, stays=moves_nobody):
                found.append(grant.container_id)
        return tuple(found)

    def return_home(self) -> tuple[ContainerId, ...]:
        """Give containers that were left no cpu of their pool its cpus back, where there are some.

        Or another place, where they found none so far in which their rules hold. Who asks for cpus
        and found one stays there, unless a rule that insists does not hold and there is room at
        home. A few at once, see `_next_away`. Who must be apart from one that has just moved comes
        later: where that one runs shows once it is told.
        """
        moved: list[ContainerId] = []
        for container_id in self._next_away():
            home = self._homes.pop(container_id)
            grant = self._books.ledger.grants.get(container_id)
            if grant is None or grant.pen is not None:
                # A pen stays with its pool, whatever pool this one had before.
                continue
            if grant.pool_id == home:
                if not is_homeless(grant, self._books):
                    continue
            elif grant.shared_milli or grant.exclusive:
                if not self._is_astray(container_id):
                    continue
                if self._books.ledger.room.grantable_milli[home] < grant.shared_milli:
                    self._homes[container_id] = home
                    continue
            self._settle(replace(grant, pool_id=home), home, moved)
            after = self._books.ledger.grants[container_id]
            if after.pool_id != home or is_homeless(after, self._books):
                self._homes[container_id] = home
            if after != grant:
                moved.append(container_id)
        return tuple(moved)

    def _next_away(self) -> list[ContainerId]:
        """The few that are looked at in one event, in turn, those with room at home first.

        Not these alone: a rule may keep all of them where they are, and others that are left no
        cpu may find another place. O(containers away).
        """
        ledger, homes = self._books.ledger, self._homes
        if len(homes) <= _RETURNS_MAX:
            return list(homes)
        grants, free = ledger.grants, ledger.free_sharable
        room = ledger.room.grantable_milli
        # Most were driven out of the same pools.
        pools = {home: room[home] for home in set(homes.values()) if free[home]}
        found = (
            one
            for one, home in homes.items()
            if home in pools and one in grants and grants[one].shared_milli <= pools[home]
        )
        first = dict.fromkeys(islice(found, _WELCOME_MAX))
        return list(islice({**first, **dict.fromkeys(homes)}, _RETURNS_MAX))

    def _is_astray(self, container_id: ContainerId) -> bool:
        """Whether a rule that insists does not hold where a container is."""
        judgement, books = self._judged(container_id), self._books
        here, pool_id = books.reach(container_id), books.pool_around(container_id)
        rules = judgement.restrictions if judgement is not None else ()
        return any(not one.can_break and one.is_broken_by(here, pool_id) for one in rules)

    def note_home(self, container_id: ContainerId) -> None:
        """Let a shared container come to the pool that it names and insists on, if it is outside.

        It runs there already, or did before it restarted: who drove it out may be long known. Or
        nobody did, so that who refuses to be moved stays.
        """
        books, rules = self._books, self._roster.classified[container_id].placement
        if rules.pool_name is None or rules.on_unsatisfiable is not OnUnsatisfiable.FAIL:
            return
        wished = parse_preferences(self._roster.containers[container_id])
        if wished.move is MovePreference.NEVER:
            return
        grant, home = books.ledger.grants[container_id], books.tree.named(rules.pool_name)
        is_shared = grant.cpu_type is CpuType.NORMAL and not grant.exclusive and grant.pen is None
        if is_shared and home is not None and home.id != grant.pool_id:
            self._homes.setdefault(container_id, home.id)

    def leave_home(self, grant: Grant, *, is_resized: bool) -> None:
        """Let a container that gets this grant stay there, if that is another place than it has.

        `is_resized`: it is not placed anew, though rules may leave it other cpus of its pool.
        """
        held = self._books.ledger.grants[grant.container_id]
        is_within = is_resized or held.within == grant.within
        if held.pool_id != grant.pool_id or not is_within:
            self._homes.pop(grant.container_id, None)

    def _settle(
        self,
        grant: Grant,
        home: PoolId,
        moved: Sequence[ContainerId] | None = None,
        *,
        stays: bool = False,
    ) -> bool:
        """Find a place for a grant, its pool's cpus first; whether rules say anything of it.

        With `moved` for one that has a place: it stays there where it must be apart from one of
        those, and where a rule that holds would break. One that `stays` leaves no cpu it runs on.
        """
        books, container_id = self._books, grant.container_id
        judgement = self._judged(container_id)
        if judgement is None or not judgement.kept_apart().isdisjoint(moved or ()):
            return False
        found = wider_place(judgement, grant, books)
        if found is None:
            self._homes.setdefault(container_id, home)
            return True
        if moved is not None and breaks_a_rule(judgement, found, books):
            return True
        if stays and self._leaves_cpus(found):
            return True
        if found != books.ledger.grants[container_id]:
            books.ledger.repool(found)
            books.pinner.mark(container_id)
            for other in held_back(judgement, found, found.exclusive.mask, books, ()):
                books.ledger.repool(other)
            if found.pool_id != home:
                self._homes.setdefault(container_id, home)
        return True

    def _leaves_cpus(self, found: Grant) -> bool:
        """Whether a container runs on cpus that are none of those of this grant, which shares."""
        told, books = self._books.pinner.told(found.container_id), self._books
        if told is None or told.cpus is None:
            return False
        there, within = books.ledger.free_sharable[found.pool_id], found.within
        if within is not None:
            there = there & within.mask or books.tree.root.reserved.mask & within.mask
        return bool(told.cpus.mask & ~(found.exclusive.mask | there))

    def _judged(self, container_id: ContainerId) -> Judgement | None:
        """The judgement about a container."""
        known = self._roster.classified[container_id]
        container = self._roster.containers[container_id]
        return self._judge.judge(container, known.placement, known.request)
