"""Unmet rules: required rules that do not hold where containers are, in the decisions of both."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from ...books.books import Books
from ...model.container import Container, ContainerId
from ...model.grant import Grant
from ...model.last_place import Breach
from ...model.pinning import Change, moved_together
from ...placing.growth import is_outside
from ...placing.judging.judge import Judge
from ...placing.judging.judgement import Judgement
from ...placing.judging.near_blockers import NearBlockers
from ...placing.judging.restriction import TOLD_MAX, Restriction
from ...placing.judging.rule_look import EFFORT_OF_ONE, RuleLook
from ...placing.judging.rules_of_many import RulesOfMany
from ...placing.judging.unmet_texts import ToldRules, as_told, with_told_obstacles
from ...rules.podaffinity.rule_set import RequiredTerm
from ..decision import Decision, with_unmet
from ..roster import Roster
from .alike_owners import AlikeOwners
from .concerns import Concerns, others_of
from .lost_rules import LostRules
from .told_owners import tell_of_newcomer
from .uneven_owners import uneven_owners

_EFFORT_MAX: Final = 64
"""Containers are looked at again with so much effort after one event, the others later on."""
_EFFORT_WAITED_FOR: Final = 24
"""And with so much after one was placed or changed: two or three containers as a rule."""
_LASTING_MAX: Final = 32
"""So many owners of rules that are required during execution are looked at in one turn."""
_LASTING_EFFORT_MAX: Final = 192
"""And with so much effort, beside that for those that are due; the others in later turns."""


class UnmetRules:
    """The containers at which some required rule does not hold, and the notes about it."""

    def __init__(self, books: Books, roster: Roster, judge: Judge) -> None:
        """Changes decisions of the roster, and nothing else."""
        self._books = books
        self._roster = roster
        self._judge = judge
        self._many = RulesOfMany(books)
        self._concerns = Concerns(books.ledger.grants)
        self.lost = LostRules(books, roster, self._concerns)
        self._moved: set[ContainerId] = set()
        self._displaced: list[ContainerId] = []
        self._shifted: dict[ContainerId, frozenset[str]] = {}
        """Containers that get other parts of their pens, with the rules that did not hold then."""
        self._lasting_looks = 0
        self._due: dict[ContainerId, None] = {}
        """The containers still to be looked at again, in this order."""
        self._postponed: tuple[ContainerId, set[ContainerId]] | None = None
        """The last newcomer, and who moved for it: nobody has asked since who is due by it."""

    def told(self, decision: Decision, broken: Sequence[Restriction]) -> Decision:
        """A decision that tells which rules its placement breaks."""
        first = self._many.first(decision.container_id, broken)
        return self._told(decision, first, NearBlockers(self._books))

    def _told(self, told: Decision, broken: Sequence[Restriction], near: NearBlockers) -> Decision:
        if broken:
            self._concerns.add(told.container_id, others_of(broken, self._books))
        broken = with_told_obstacles(broken, told.unmet)
        return with_unmet(told, near.texts(broken, self._books.reach(told.container_id)))

    def tell_owners(self, newcomer: Container, broken: Sequence[Restriction]) -> None:
        """Note in the decisions of residents that a container breaks rules of theirs.

        Of very many owners of one rule the first; the others are told by `tidy`.
        """
        self._note_at_owners(newcomer, self._many.to_tell(newcomer.id, broken))

    def _note_at_owners(self, newcomer: Container, broken: Iterable[Restriction]) -> None:
        unsure = tell_of_newcomer(newcomer, broken, self._roster, self._concerns)
        self._due |= dict.fromkeys(unsure)

    def tell_adopted(
        self, container_id: ContainerId, judgement: Judgement, told: ToldRules, *, is_alone: bool
    ) -> None:
        """Tell of anti-affinity that does not hold at a container that runs already.

        And of the pool that it names. Other rules ignore what happens after its arrival: they go
        on if they were told. `is_alone`: nobody else is looked at. Among all that run each owner is
        told by itself.
        """
        books, cpus = self._books, self._books.reach(container_id)
        found = judgement.told_at(cpus, books.pool_around(container_id))
        broken = [
            r
            for r in found
            if told.go_on(r, container_id, is_fault=bool(r.blockers) or is_outside(r, cpus, books))
        ]
        if is_alone:
            self.tell_owners(self._roster.containers[container_id], broken)
        decision = self._roster.decisions[container_id]
        self._roster.decisions[container_id] = self.told(decision, broken)

    def look(self) -> RuleLook:
        """A look at containers, for as long as nobody changes places."""
        return RuleLook(self._books, self._roster.containers, self._roster.classified, self._judge)

    def names(self, container_id: ContainerId, look: RuleLook | None = None) -> frozenset[str]:
        """The rules that do not hold at a container, told or not."""
        look = self.look_at_postponed(look) or self.look()
        return frozenset(one.name for one in look.broken(container_id))

    def breaches(self, container_id: ContainerId) -> frozenset[Breach]:
        """The rules that do not hold between a container and others, if any is told."""
        self.look_at_postponed()
        if not (self._concerns.ids and self._concerns.is_any_of(container_id)):
            return frozenset()
        return self.look().breaches(container_id)

    def tell_changed(
        self, decision: Decision, earlier: Decision, before: Collection[str], look: RuleLook
    ) -> Decision:
        """Tell what still does not hold at a container that changed, and what broke by that.

        `before` are the rules that did not hold: what was told of none of them goes on untold, for
        rules are for those who come.
        """
        container_id = decision.container_id
        broken = [
            one
            for one in look.broken(container_id)
            if one.name not in before or one.is_told(earlier.unmet)
        ]
        self.tell_owners(self._roster.containers[container_id], broken)
        texts = *earlier.unmet, *decision.unmet
        told = self.told(decision, with_told_obstacles(broken, texts))
        self._roster.decisions[container_id] = told
        return told

    def note_displaced(self, containers: Iterable[ContainerId]) -> None:
        """Containers had to leave their places; they are looked at once all are told theirs."""
        self._displaced += containers

    def note_moves(self, changes: Iterable[Change]) -> None:
        """Containers have left cpus for others, or been lent some, and nobody decided about it."""
        moves = moved_together(changes)
        self.lost.note_moves(moves)
        for one in moves:
            before, after = one.before, one.after
            if lent := after.mask & ~before.mask:
                have_left = before.mask & ~after.mask
                self._displaced += one.ids if have_left else self._lent(one.ids, before.mask, lent)

    def _lent(self, ids: Iterable[ContainerId], before: int, lent: int) -> Sequence[ContainerId]:
        """Containers whose cpus besides may be beyond what their rules were held to."""
        ledger, found = self._books.ledger, list[ContainerId]()
        for container_id in ids:
            grant = ledger.grants[container_id]
            # In a pen it comes to others of its pod, and its rules may be about those.
            own = 0 if grant.pen else (grant.within or ledger.tree.pools[grant.pool_id].cpus).mask
            # One that had its own alone shares some again, wherever those are.
            if lent & ~own or not before & ~grant.exclusive.mask:
                found.append(container_id)
        return found

    def note_shifted(self, containers: Iterable[ContainerId]) -> None:
        """Containers are about to get other parts of their pens, or a pen round what they have."""
        look = self.look()
        for one in containers if self._books.standing.rules else ():
            self._shifted.setdefault(one, self.names(one, look))

    def note_left_alone(self, newcomer: Grant) -> None:
        """Containers may soon share cpus with nobody, as a newcomer is about to get those."""
        free = self._books.ledger.free_sharable[-1]
        if own := newcomer.exclusive.mask & free:
            self.note_shifted(self._books.ledger.narrowed.alone_without(own, free))

    def forget_shifted(self) -> None:
        """Containers that were about to get other parts of their pens have what they had."""
        self._shifted.clear()

    def look_at_displaced(self, look: RuleLook | None = None) -> RuleLook | None:
        """Tell what does not hold at containers that had to leave their places.

        And what broke at those that others in their pens came to, or went from. `look`: at others,
        since somebody changed places last. Returns it, or the one that was needed.
        """
        if not (self._shifted or self._displaced):
            return look
        look = look or self.look()
        while self._shifted:
            container_id, before = self._shifted.popitem()
            decision = self._roster.decisions.get(container_id)
            if decision is not None and container_id in self._books.ledger.grants:
                self.tell_changed(decision, decision, before, look)
        while self._displaced:
            container_id = self._displaced.pop()
            decision = self._roster.decisions.get(container_id)
            if decision is not None and container_id in self._books.ledger.grants:
                broken = look.broken(container_id)
                self.tell_owners(self._roster.containers[container_id], broken)
                self._roster.decisions[container_id] = self.told(decision, broken)
        return look

    def look_at_lasting(self) -> Mapping[ContainerId, tuple[str, ...]]:
        """Tell which rules required during execution do not hold, by owner, none where all do.

        Of a few owners at once, in turn.
        """
        owners = tuple(self._books.standing.lasting)
        begin = self._lasting_looks % len(owners) if owners else 0
        found: dict[ContainerId, tuple[str, ...]] = {}
        look, looks = self.look(), 0
        for container_id in (*owners[begin:], *owners[:begin])[:_LASTING_MAX]:
            if look.effort >= _LASTING_EFFORT_MAX:
                break
            looks += 1
            decision = self._roster.decisions.get(container_id)
            if decision is None or container_id not in self._books.ledger.grants:
                continue
            told = look.still_broken(container_id, decision.unmet, or_lasting=True)
            if told:
                self._roster.decisions[container_id] = self._told(
                    decision, told[:TOLD_MAX], look.near
                )
            elif decision.unmet:
                self._due[container_id] = None
            lasting = [one for one in told if one.is_lasting]
            found[container_id] = look.near.texts(lasting, self._books.reach(container_id))
        self._lasting_looks = begin + looks
        self.tidy(look)
        return found

    def carry_over(self, decision: Decision, others: Iterable[ContainerId]) -> None:
        """Look after a container at which a rule does not hold, whoever of these is in the way."""
        self._concerns.put(decision.container_id, {*others})

    def forget(self, container_id: ContainerId) -> None:
        """Forget what a container broke that gives back all it holds, and who kept it apart.

        Whoever tells of it is looked at soon: its next instance may come before that, as another.
        """
        self._concerns.forget(container_id)
        if self._concerns.ids:
            self._due |= dict.fromkeys(self._concerns.due_by(container_id, ()))
        self._many.forget(container_id)

    def follow(
        self, gone: ContainerId | None, moved: Iterable[ContainerId], changes: Sequence[Change]
    ) -> None:
        """Tell what does not hold, and forget what does, by changes that nobody was told yet.

        `gone`: a container that gave back what it held. `moved`: others that moved by it. O(what
        that one stood in the way).
        """
        # What comes free is lent to those as well who have no cpu of their pool.
        self.note_moves(changes)
        look, concerned = self.look_at_displaced(), self._concerns.ids
        if concerned or self._concerns.resting:
            moved = {*moved, *[one.container_id for one in changes]}
            due = self._concerns.due_by(gone, moved, self._books.standing.spreads.owners)
            if self._books.standing.has_required_affinity:
                wants_others = self._books.standing.wants_others
                near = [one for one in concerned if one in wants_others]
                due += near if moved else self._roster.tellers_of(near, gone)
            self._due.update(dict.fromkeys(due))
        self.look_at_due(look)

    def note_moved(self, container_id: ContainerId) -> None:
        """A container, or all of a pen, may have come out of others' way, see `refresh_moved`."""
        if self._concerns.ids:
            self._moved.update(self._books.ledger.occupants(container_id))

    def note_left(self, container_id: ContainerId, before: int, look: RuleLook) -> None:
        """Tell whom a container that ran on these cpus has left; see `refresh_moved`."""
        if before & ~self._books.presence(container_id):
            self.lost.note(container_id, before)
            self.note_moved(self._books.ledger.grants[container_id].held_as)
            self.refresh_moved(container_id, look=look)

    def refresh_moved(
        self,
        newest: ContainerId,
        changes: Iterable[Change] = (),
        look: RuleLook | None = None,
        *,
        is_awaited: bool = False,
    ) -> None:
        """Forget what holds again: others moved, or the newest one is whom somebody must be with.

        `changes`: what others were told because of it. Its own cpus may have driven out whom it
        must not be with. `is_awaited`: somebody waits for it; the others are looked at when they
        are asked for. O(those whose rules are about them), for a newcomer keeps nobody apart.
        `look`: see `look_at_displaced`.
        """
        look = self.look_at_postponed(look, is_awaited=is_awaited)
        moved, self._moved = self._moved, set()
        if not (self._concerns.ids or self._concerns.resting):
            return
        moved.update([one.container_id for one in changes])
        self._postponed = (newest, moved)
        if not is_awaited or self._concerns.is_stirred(newest, moved):
            self.look_at_postponed(look, is_awaited=is_awaited)

    def _due_by(self, newest: ContainerId, moved: set[ContainerId]) -> dict[ContainerId, None]:
        """The containers to be looked at again by a newcomer, and as others moved."""
        due: dict[ContainerId, None] = {}
        containers, standing = self._roster.containers, self._books.standing
        concerned = self._concerns.ids
        if standing.has_required_affinity:
            for one in standing.matching(containers[newest]):
                if isinstance(one.rule, RequiredTerm) and not one.rule.is_anti:
                    due.update(dict.fromkeys([id_ for id_ in one.owners if id_ in concerned]))
        due.update(dict.fromkeys(uneven_owners(newest, self._concerns, self._books, self._roster)))
        return due | dict.fromkeys(self._concerns.due_as_moved(newest, moved))

    def look_at_postponed(
        self, look: RuleLook | None = None, *, is_awaited: bool = False
    ) -> RuleLook | None:
        """Look at those that the last newcomer did not wait for; returns as `look_at_displaced`."""
        postponed, self._postponed = self._postponed, None
        if postponed is not None and postponed[0] in self._roster.containers:
            look, due = look or self.look(), self._due_by(*postponed)
            self._due.update(self._look_again(due, _EFFORT_WAITED_FOR, look))
        if self.lost.are_due:
            look = look or self.look()
            self.lost.look(_EFFORT_WAITED_FOR, look, is_awaited=is_awaited)
        return look

    def look_at_due(self, look: RuleLook | None = None) -> None:
        """Look again at containers that are still due. `look`: at others, in the same event."""
        self._due.update(dict.fromkeys(self.lost.take_met()))
        if self._postponed is None and not (self._due or self.lost.are_due):
            # So it is in most events.
            return
        look = self.look_at_postponed(look) or self.look()
        if self._due:
            self._due = self._look_again(self._due, _EFFORT_MAX, look)

    def tidy(self, look: RuleLook | None = None) -> bool:
        """Look at containers that are due, and tell more owners of rules of many what broke.

        For when nobody waits for the policy. Returns whether there may be more to look at. `look`:
        see `look_at_due`.
        """
        self.look_at_due(look)
        if self.lost.are_due:
            self.lost.look(_EFFORT_MAX, look or self.look())
        found = self._many.next()
        if found is not None:
            self._note_at_owners(self._roster.containers[found[0]], found[1])
        return found is not None or bool(self._due) or self.lost.are_due

    def refresh_all(self) -> None:
        """Tell what does not hold, and forget all that holds again, after what others did.

        O(containers at which something did not hold).
        """
        self.look_at_displaced()
        self._due.update(dict.fromkeys(self._concerns.everybody()))
        self.look_at_due()

    def _look_again(
        self, due: dict[ContainerId, None], effort_max: int, look: RuleLook
    ) -> dict[ContainerId, None]:
        """Look at containers until the effort is too much; returns those that are left.

        Whoever would take all of it is left, too.
        """
        enough, left_out = look.effort + effort_max, dict[ContainerId, None]()
        alike = AlikeOwners(self._books, self._roster, self._concerns)
        while due and look.effort < enough:
            container_id = next(iter(due))
            del due[container_id]
            rules = self._books.standing.of(container_id)
            if EFFORT_OF_ONE + len(rules.required) >= effort_max:
                left_out[container_id] = None
                continue
            self._due.pop(container_id, None)
            decision = self._roster.decisions.get(container_id)
            if decision is None or container_id not in self._books.ledger.grants:
                self._concerns.forget(container_id)
                continue
            if not self._many.has_more(container_id) and alike.repeat(decision):
                look.effort += alike.take_effort()
                continue
            look.effort += len(decision.unmet)
            texts = self._concerns.texts(decision)
            found = look.still_broken(container_id, texts)
            broken = [
                one for one in found if one.blockers or any(map(one.is_told_by, decision.unmet))
            ]
            broken += self._many.more(container_id, {one.name for one in broken})
            self._concerns.let_rest(decision, broken)
            near = look.near.named(broken, self._books.reach(container_id))
            left = as_told(decision.unmet, near)
            if left != decision.unmet:
                self._roster.decisions[container_id] = with_unmet(decision, left)
            others = others_of(broken, self._books) if broken else None
            self._concerns.put(container_id, others)
            alike.learn(decision, left, broken)
        return {**left_out, **due}
