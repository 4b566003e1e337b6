"""Shares that shift: containers that others' places narrow, and what they get back."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from msgspec.structs import replace

from ...topology.sets.cpuset import CpuSet
from ..books.books import Books
from ..model.container import Container, ContainerId
from ..model.grant import Grant
from ..model.pinning import Change
from ..model.request import CpuType
from ..placing.growth import held_back, kept_where_lent
from ..placing.judging.judge import Judge
from ..placing.judging.judgement import Judgement
from ..placing.judging.rule_look import EFFORT_OF_ONE
from ..placing.judging.scene import Scene
from ..placing.openings.crowds import standing_cpus
from ..placing.openings.narrowing import may_make_way
from ..placing.openings.regrowth import (
    NOBODY_GROWN,
    REGROWTH_EFFORT_MAX,
    KeptAway,
    NarrowedResidents,
    grown,
    let_grow,
    narrowed_beside,
)
from ..rules.podaffinity.rule_set import RequiredTerm
from .advice import Advice
from .roster import Roster
from .unmet.parted_owners import PartedOwners

_EFFORT_OF_TELLING: Final = 2
"""Whether one would make way again."""
_TOLD_TOGETHER: Final = 16
"""So many are asked about at once: the same rules may require many of them."""

_Waiting = Sequence[tuple[Container, RequiredTerm]]


class ShiftedShares:
    """The shared containers that somebody else's place narrows, and that get cpus back."""

    def __init__(self, books: Books, roster: Roster, judge: Judge) -> None:
        """Changes grants in the books, and nothing else."""
        self._books = books
        self._roster = roster
        self._judge = judge
        self._due: dict[ContainerId, None] = {}
        """Containers that may be given more, in this order."""
        self._beside_others: dict[ContainerId, None] = {}
        """And those that may be as soon as they are beside nobody whom they must not be with."""
        self.parted = PartedOwners(books, roster)

    def widen(self, gone: ContainerId) -> None:
        """Give containers that were narrowed for another, which is gone, what rules leave now.

        Those that were for a pen later, see `end`: who restarts is to find the pen's cpus again.
        And those that could not make way once more.
        """
        if self._books.ledger.narrowed.ids:
            last = self._roster.remembered_place(self._roster.containers[gone])
            if last is None or last.pen is None:
                self._due.update(dict.fromkeys(self._narrowed_for(gone)))
        self._call_up()
        if self._due:
            self.widen_due()

    def end(self, gone: ContainerId) -> None:
        """Widen what a forgotten container leaves room for, if it ever had a place."""
        if (known := self._roster.containers.get(gone)) is not None:
            # Nothing more is kept by it: a refusal that names it counts on the cpus that it leaves.
            self.parted.expect_end(known)
        if not self._due and not self._books.ledger.narrowed.ids:
            return
        decision = self._roster.decisions.get(gone)
        if decision is None or not isinstance(decision.result, Grant):
            return
        self._due.update(dict.fromkeys(self._narrowed_for(gone)))
        self._call_up()
        if gone not in self._books.ledger.grants:
            self.widen_due(forgotten=gone)

    def widen_later(self, container_id: ContainerId) -> None:
        """Give a container that is back narrowed what rules leave, if who it made way for is not.

        Once somebody else gives something back: they may have ended together.
        """
        self._due[container_id] = None

    def carry_over(self, container_id: ContainerId) -> None:
        """Look after a container that stands beside others, if it or its pen is narrowed."""
        ledger = self._books.ledger
        if container_id in ledger.grants and self._roster.is_beside_others(container_id):
            grant = ledger.counted(container_id)
            if grant.within is not None:
                self._beside_others[grant.container_id] = None

    def _call_up(self) -> None:
        """Let those be due that stand beside others no longer. O(those that did)."""
        found = [one for one in self._beside_others if not self._is_beside_others(one)]
        for one in found:
            del self._beside_others[one]
        self._due.update(dict.fromkeys(found))

    def _is_beside_others(self, held_as: ContainerId) -> bool:
        """Whether anti-affinity is told not to hold at a container, or at one in a pen."""
        return any(map(self._roster.is_beside_others, self._books.ledger.occupants(held_as)))

    def _is_awaited(self, held_as: ContainerId, waiting: _Waiting) -> bool:
        """Whether who has ended, and may be back, wants a container, or one in a pen, with it."""
        containers = self._roster.containers
        members = self._books.ledger.occupants(held_as)
        return any(
            rule.term.includes(owner, containers[one]) for owner, rule in waiting for one in members
        )

    def _would_make_way(self, held: Iterable[ContainerId]) -> Mapping[ContainerId, bool]:
        """Whether each of some would make way once more for one that has ended and is back."""
        ledger = self._books.ledger
        some = [one for one in held if one in ledger.grants or one in ledger.pens]
        may = may_make_way(some, self._books)
        waiting = self._roster.affinity_of_ended() if may else ()
        free = {one for one in may if not self._is_awaited(one, waiting)}
        return {one: one in free for one in some}

    def _narrowed_for(self, gone: ContainerId) -> Iterator[ContainerId]:
        """Narrowed containers, and pens, that rules keep from the domains of one that is gone."""
        kept = self._kept_away(gone) if self._books.ledger.narrowed.ids else None
        return iter(()) if kept is None else kept.narrowed()

    def _kept_away(
        self, gone: ContainerId, among: NarrowedResidents | None = None
    ) -> KeptAway | None:
        known = self._roster.classified.get(gone)
        if known is None:
            return None
        container = self._roster.containers[gone]
        left = self._left_by(container)
        return KeptAway.by(container, known.placement, left, self._books, among)

    def _left_by(self, gone: Container) -> int:
        """A mask of the cpus that a container, or its pen, had; all where that is not known."""
        last = self._roster.remembered_place(gone)
        held = None if last is None else last.pen or last.grant
        if held is None or held.cpu_type is not CpuType.NORMAL:
            return self._books.tree.root.cpus.mask
        shared = standing_cpus(held, self._books.ledger) if held.has_shared_part else 0
        return held.exclusive.mask | shared

    def widen_due(self, forgotten: ContainerId | None = None) -> None:
        """Give some of those that were narrowed for others, who are gone, what rules leave now.

        But for those that could not make way again. `forgotten`: one that has ended for good.
        """
        ledger = self._books.ledger
        # One effort for both: where both are many neither waits for all of the others.
        effort = self.parted.look(REGROWTH_EFFORT_MAX // (2 if self._due else 1))
        gone = [one.id for one in self._roster.ended() if one.id != forgotten]
        # The same for all who are due: those that are widened narrow nobody's rules.
        ended: list[KeptAway] = []
        if self._due and gone:
            # Some that are due may be narrowed by others before it is their turn.
            among = NarrowedResidents.of(self._books, self._due)
            ended = list(filter(None, [self._kept_away(one, among) for one in gone]))
        scenes: dict[ContainerId | None, Scene] = {}
        before: dict[ContainerId, Grant] = {}
        told: dict[ContainerId, bool] = {}
        while self._due and effort < REGROWTH_EFFORT_MAX:
            held_as = next(iter(self._due))
            del self._due[held_as]
            grant = ledger.pens.get(held_as) or ledger.grants.get(held_as)
            if grant is None or grant.within is None:
                continue
            if self._is_beside_others(held_as):
                self._beside_others[held_as] = None
                continue
            members = ledger.occupants(held_as)
            # Most are narrow for nobody who has ended: of the others it takes long to tell.
            if any([one.is_narrowed(held_as) for one in ended]):
                if held_as not in told:
                    some = [held_as, *islice(self._due, _TOLD_TOGETHER - 1)]
                    effort += _EFFORT_OF_TELLING * len(some)
                    told |= self._would_make_way(some)
                if not told[held_as]:
                    continue
            judgements = self._judgements(members, scenes)
            effort += EFFORT_OF_ONE * len(members) + sum(one.effort for one in judgements)
            if self._widen(grant, members, judgements, before=before):
                # They are told later: till then others know nothing of what these got.
                before |= dict.fromkeys(members, ledger.counted(held_as))

    def regain(self, freed: CpuSet) -> Iterator[Change]:
        """Give containers that were narrowed those freed cpus of their pools that rules leave them.

        One by one, as each is told at once: so nobody has to keep away from one that gets none.
        """
        ledger, scenes = self._books.ledger, dict[ContainerId | None, Scene]()
        for held_as in narrowed_beside(freed, self._books):
            if self._is_beside_others(held_as):
                continue
            members = ledger.occupants(held_as)
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

    def _judged(self, container_id: ContainerId, scene: Scene) -> Judgement | None:
        """The judgement about a container, without what is only preferred."""
        known = self._roster.classified[container_id]
        container, judge = self._roster.containers[container_id], self._judge.judge
        return judge(container, known.placement, known.request, scene, has_pulls=False)

    def _widen(
        self,
        grant: Grant,
        members: Sequence[ContainerId],
        judgements: Sequence[Judgement],
        onto: CpuSet | None = None,
        before: Mapping[ContainerId, Grant] = NOBODY_GROWN,
    ) -> bool:
        """Give a container, or a pen, what rules leave now; whether that is more.

        `onto`: of these, beside its own. `before`: see `grown`.
        """
        books = self._books
        wider = grown(grant, books.presence(members[0]), judgements, books, before)
        if onto is not None and grant.within is not None:
            sharable = books.tree.pools[grant.pool_id].sharable
            within = grant.within | CpuSet(standing_cpus(wider, books.ledger)) & onto
            wider = replace(grant, within=None if sharable <= within else within)
        if wider.within == grant.within:
            return False
        let_grow(wider, judgements, books)
        books.pinner.mark(grant.container_id)
        return True

    def recall(self, container_id: ContainerId, advice: Advice) -> bool:
        """Keep those cpus shared for an adopted container, or its pen, that are remembered.

        False where those of another grant are, or of other rules.
        """
        ledger, tree = self._books.ledger, self._books.tree
        grant, held = ledger.grants[container_id], ledger.counted(container_id)
        usable = self._books.supply.usable
        if not advice.knows_beside(grant, tree.pools[grant.pool_id], usable):
            return False
        if advice.beside:
            ledger.repool(_with_beside(held, advice.beside))
            # Whoever they are for may be gone since, or have ended.
            self.parted.note(container_id)
        return True

    def hold_all_back(self) -> None:
        """Let containers with rules grow only where these go on holding, as others have grown."""
        scenes = dict[ContainerId | None, Scene]()
        for one in self._books.standing.rules:
            if one in self._books.ledger.grants:
                for judgement in self._judgements((one,), scenes):
                    grant, cpus = self._books.ledger.counted(one), self._books.reach(one)
                    self.hold_back(judgement.of_growth(), grant, cpus, is_recalled=True)

    def hold_back(
        self, judgement: Judgement, grant: Grant, cpus: int, *, is_recalled: bool
    ) -> None:
        """Let a container on these cpus, and others, grow only where rules go on holding.

        And let nobody take the last cpu that others share beside it whom it must be with, unless
        it is recalled which ones those are.
        """
        ledger = self._books.ledger
        held = grant
        if grant.has_shared_part:
            held = kept_where_lent(judgement, grant, cpus, self._books)
        if not is_recalled and (needed := judgement.beside(cpus, grant.exclusive.mask)):
            held = _with_beside(held, needed)
        if held is not grant:
            ledger.repool(held)
            grant = held
        for other in held_back(judgement, grant, cpus, self._books, ()):
            ledger.repool(other)


def _with_beside(grant: Grant, more: Sequence[CpuSet]) -> Grant:
    return replace(grant, beside=tuple(dict.fromkeys((*grant.beside, *more))))
