"""Shares that shift: containers that others' places narrow, or drive out of their pool's cpus."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec.structs import replace

from ...topology.sets.cpuset import CpuSet
from ..annotations.preferences import parse_preferences
from ..books.books import Books
from ..configuration.config import OnUnsatisfiable
from ..model.container import Container, ContainerId
from ..model.cpu_preference import MovePreference
from ..model.grant import Grant, PoolId
from ..model.pinning import Change
from ..model.request import CpuType
from ..placing.growth import (
    breaks_a_rule,
    held_back,
    homeless,
    is_homeless,
    kept_where_lent,
    wider_place,
)
from ..placing.judging.judge import Judge
from ..placing.judging.judgement import Judgement
from ..placing.judging.scene import Scene
from ..placing.openings.crowds import standing_cpus
from ..placing.openings.narrowing import may_make_way
from ..placing.openings.regrowth import (
    REGROWTH_EFFORT_MAX,
    KeptAway,
    grown,
    let_grow,
    narrowed_beside,
)
from ..placing.placer import Placement
from ..placing.restart import RESTARTED
from ..rules.podaffinity.rule_set import RequiredTerm
from .roster import Roster

_RETURNS_MAX: Final = 16
_WELCOME_MAX: Final = 12
"""Of these, so many that have room at home come before others."""
_EFFORT_OF_ONE: Final = 8
"""Beside one for each rule that is read."""

_Waiting = Sequence[tuple[Container, RequiredTerm]]


class ShiftedShares:
    """The shared containers whose cpus change because of somebody else's place, and back."""

    def __init__(self, books: Books, roster: Roster, judge: Judge) -> None:
        """Changes grants in the books, and nothing else."""
        self._books = books
        self._roster = roster
        self._judge = judge
        self._homes: dict[ContainerId, PoolId] = {}
        """The pools of containers left without a cpu there, which may have found no other place."""
        self._due: dict[ContainerId, None] = {}
        """Containers that may be given more, in this order."""

    def widen(self, gone: ContainerId) -> None:
        """Give containers that were narrowed for another, which is gone, what rules leave now.

        Those that were for a pen later, see `end`: who restarts is to find the pen's cpus again.
        And those that could not make way once more.
        """
        free: list[ContainerId] = []
        if self._books.ledger.narrowed.ids:
            last = self._roster.remembered_place(self._roster.containers[gone])
            if last is None or last.pen is None:
                found = dict.fromkeys(self._narrowed_for(gone))
                may = may_make_way(found, self._books)
                waiting = self._roster.affinity_of_ended() if may else ()
                free = [one for one in may if not self._is_awaited(one, waiting)]
                self._due.update(dict.fromkeys(free))
        if self._due:
            self.widen_due(free)

    def end(self, gone: ContainerId) -> None:
        """Widen what a forgotten container leaves room for, if it ever had a place."""
        if not self._due and not self._books.ledger.narrowed.ids:
            return
        decision = self._roster.decisions.get(gone)
        if decision is None or not isinstance(decision.result, Grant):
            return
        self._due.update(dict.fromkeys(self._narrowed_for(gone)))
        if gone not in self._books.ledger.grants:
            self.widen_due(forgotten=gone)

    def widen_later(self, placement: Placement) -> None:
        """Give a container that is back narrowed what rules leave, if who it made way for is not.

        Once somebody else gives something back: they may have ended together.
        """
        grant = placement.booking.grant
        if placement.decided_by == RESTARTED and grant.within is not None:
            self._due[grant.container_id] = None

    def _is_awaited(self, held_as: ContainerId, waiting: _Waiting) -> bool:
        """Whether who has ended, and may be back, wants a container, or one in a pen, with it."""
        containers = self._roster.containers
        members = tuple(self._books.ledger.members(held_as)) or (held_as,)
        return any(
            rule.term.includes(owner, containers[one]) for owner, rule in waiting for one in members
        )

    def _is_kept(self, held_as: ContainerId, ended: Iterable[KeptAway]) -> bool:
        """Whether one is narrow for another that has ended, and would not make way once more."""
        # Most are narrow for nobody who has: of the others it takes long to tell.
        if not any(one.is_narrowed(held_as) for one in ended):
            return False
        is_free = may_make_way((held_as,), self._books)
        return not is_free or self._is_awaited(held_as, self._roster.affinity_of_ended())

    def _narrowed_for(self, gone: ContainerId) -> Iterator[ContainerId]:
        """Narrowed containers, and pens, that rules keep from the domains of one that is gone."""
        kept = self._kept_away(gone) if self._books.ledger.narrowed.ids else None
        return iter(()) if kept is None else kept.narrowed()

    def _kept_away(self, gone: ContainerId) -> KeptAway | None:
        known = self._roster.classified.get(gone)
        if known is None:
            return None
        container = self._roster.containers[gone]
        return KeptAway.by(container, known.placement, self._left_by(container), self._books)

    def _left_by(self, gone: Container) -> int:
        """A mask of the cpus that a container, or its pen, had; all where that is not known."""
        last = self._roster.remembered_place(gone)
        held = None if last is None else last.pen or last.grant
        if held is None or held.cpu_type is not CpuType.NORMAL:
            return self._books.tree.root.cpus.mask
        shared = standing_cpus(held, self._books.ledger) if held.has_shared_part else 0
        return held.exclusive.mask | shared

    def widen_due(
        self, free: Sequence[ContainerId] = (), forgotten: ContainerId | None = None
    ) -> None:
        """Give some of those that were narrowed for others, who are gone, what rules leave now.

        `free`: those that would make way again. `forgotten`: one that has ended for good.
        """
        ledger, effort = self._books.ledger, 0
        gone = [one.id for one in self._roster.ended() if one.id != forgotten]
        # The same for all who are due: those that are widened narrow nobody's rules.
        ended = list(filter(None, map(self._kept_away, gone))) if self._due else []
        scenes: dict[ContainerId | None, Scene] = {}
        while self._due and effort < REGROWTH_EFFORT_MAX:
            held_as = next(iter(self._due))
            del self._due[held_as]
            grant = ledger.pens.get(held_as) or ledger.grants.get(held_as)
            if grant is None or grant.within is None:
                continue
            members = tuple(ledger.members(held_as)) or (held_as,)
            if any(map(self._roster.unmet_of, members)):
                continue
            if ended and held_as not in free and self._is_kept(held_as, ended):
                continue
            judgements = self._judgements(members, scenes)
            effort += _EFFORT_OF_ONE * len(members) + sum(one.effort for one in judgements)
            self._widen(grant, members, judgements)

    def regain(self, freed: CpuSet) -> Iterator[Change]:
        """Give containers that were narrowed those freed cpus of their pools that rules leave them.

        One by one, as each is told at once: so nobody has to keep away from one that gets none.
        """
        ledger, scenes = self._books.ledger, dict[ContainerId | None, Scene]()
        for held_as in narrowed_beside(freed, self._books):
            members = tuple(ledger.members(held_as)) or (held_as,)
            if any(map(self._roster.unmet_of, members)):
                continue
            self._widen(ledger.counted(held_as), members, self._judgements(members, scenes), freed)
            if changes := self._books.pinner.changes():
                scenes.clear()
                yield from changes

    def _judgements(
        self, members: Sequence[ContainerId], scenes: dict[ContainerId | None, Scene]
    ) -> list[Judgement]:
        """The judgements about a container, or all in a pen. `scenes`: those known, by pen."""
        pen_id = self._books.pen_around(members[0])
        if pen_id not in scenes:
            scenes[pen_id] = Scene(self._books, pen_id)
        found = [self._judged(one, scenes[pen_id]) for one in members]
        return [one for one in found if one is not None]

    def _widen(
        self,
        grant: Grant,
        members: Sequence[ContainerId],
        judgements: Sequence[Judgement],
        onto: CpuSet | None = None,
    ) -> None:
        """Give a container, or a pen, what rules leave now; `onto`: of these, beside its own."""
        books = self._books
        wider = grown(grant, books.presence(members[0]), judgements, books)
        if onto is not None and grant.within is not None:
            sharable = books.tree.pools[grant.pool_id].sharable
            within = grant.within | CpuSet(standing_cpus(wider, books.ledger)) & onto
            wider = replace(grant, within=None if sharable <= within else within)
        if wider.within == grant.within:
            return
        let_grow(wider, judgements, books)
        books.pinner.mark(grant.container_id)

    def _judged(self, container_id: ContainerId, scene: Scene | None = None) -> Judgement | None:
        """The judgement about a container; of a scene, without what is only preferred."""
        known = self._roster.classified[container_id]
        container, judge = self._roster.containers[container_id], self._judge.judge
        has_pulls = scene is None
        return judge(container, known.placement, known.request, scene, has_pulls=has_pulls)

    def hold_back(self, judgement: Judgement, grant: Grant, cpus: int) -> None:
        """Let a container on these cpus, and others, grow only where rules go on holding.

        And let nobody take the last cpu that others share beside it whom it must be with.
        """
        ledger = self._books.ledger
        held = grant
        if grant.has_shared_part:
            held = kept_where_lent(judgement, grant, cpus, self._books)
        needed = judgement.beside(cpus, grant.exclusive.mask)
        if needed:
            held = replace(held, beside=tuple(dict.fromkeys((*held.beside, *needed))))
        if held is not grant:
            ledger.repool(held)
            grant = held
        for other in held_back(judgement, grant, cpus, self._books, ()):
            ledger.repool(other)

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

    @property
    def has_away(self) -> bool:
        """Whether anybody was driven out of its pool, and may come home."""
        return bool(self._homes)

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
        rules = judgement.restrictions() if judgement is not None else ()
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
