"""Single containers and what they hold: placed, adopted, resized, released."""

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import structs

from ..books.books import Books
from ..model.container import Container, ContainerId, Resources
from ..model.grant import Grant, PoolId
from ..model.move_purpose import MovePurpose
from ..model.pinning import Change
from ..placing.classifier import Classified, Classifier
from ..placing.judging.judge import Judge
from ..placing.judging.rule_look import RuleLook
from ..placing.judging.uncounted_rules import with_uncounted
from ..placing.judging.unmet_texts import NOTHING_TOLD, ToldRules
from ..placing.mover import Mover
from ..placing.openings.regrowth import Regrowth
from ..placing.placer import Failure, Placement, Placer
from ..placing.planner import Planner
from ..placing.pool_choice import Chooser
from ..placing.restart import RESTARTED, RestartPlacer
from ..tuning.effects import Occupancy
from ..tuning.interrupts import Interrupt
from .decision import Decision, left_as_it_was, refused, with_changes, with_objection
from .heeded_resize import heeded_resize
from .homecoming import Homecoming
from .pen_resizer import PenResizer
from .penning import Penning
from .replacing.asked_move import AskedMove
from .replacing.party import Parties
from .replacing.replacement import nothing_to_move, plan_replacement, relocated
from .restoring.restoration import snapshot_of
from .roster import Roster
from .shifted_shares import ShiftedShares
from .snapshot import Snapshot, occupancy_of
from .unmet.unmet_rules import UnmetRules


class Allocator:
    """The books and the roster of one machine, changed together, container by container."""

    def __init__(self, books: Books, interrupts: tuple[Interrupt, ...]) -> None:
        """`books`: empty ones."""
        self.books, self.interrupts = books, interrupts
        self.roster = Roster()
        self.classifier = Classifier(books.config, interrupts, books.machine)
        judge = self._judge = Judge(books, books.config)
        chooser, classified = Chooser(books.tree, books.picker.classes), self.roster.classified
        regrowth = Regrowth(books, classified, self.roster.is_beside_others)
        self._placer = Placer(books, chooser, judge, classified, regrowth)
        self._restarts = RestartPlacer(self.books, self._placer, classified)
        self.planner = Planner(self.books, self._judge, self._restarts)
        self.unmet = UnmetRules(self.books, self.roster, self._judge)
        self.shares = ShiftedShares(self.books, self.roster, self._judge)
        self.homes = Homecoming(self.books, self.roster, self._judge)
        self._resized = partial(heeded_resize, books=books, judge=judge, regrowth=regrowth)
        self.pens = Penning(books, self.roster, judge, self._restarts, self.unmet, self.classifier)
        self.pen_resizer = PenResizer(self.pens)
        self.parties = Parties(self.pens)

    def anew(self, books: Books | None = None) -> "Allocator":
        """An allocator of the same node that knows of no container. `books`: other empty ones."""
        found = Allocator(books or self.books.emptied(), self.interrupts)
        found.roster.unread = self.roster.unread
        return found

    def occupancy(self) -> Occupancy:
        """The cpus that containers have for themselves. O(grants)."""
        return occupancy_of(self.books, self.books.ledger.grants, self.roster.classified)

    def snapshot(self) -> Snapshot:
        """The snapshot of this moment. O(grants); O(pools) where their room is stale."""
        self.unmet.look_at_postponed()
        return snapshot_of(self.books, self.roster)

    def know(self, container: Container) -> Classified:
        """Classify a container, and let its rules count."""
        self.unmet.look_at_postponed(is_awaited=True)
        classified = self.roster.counted_once(container, self.classifier.classify(container))
        count = self.books.let_count(container, classified.rules, classified.placement)
        classified = with_uncounted(classified, container, count) if count.rules else classified
        self.roster.add(container, classified)
        return classified

    def forget(self, container_id: ContainerId) -> None:
        """Release all that a container holds, and know it no more. Unknown ids change nothing."""
        if container_id not in self.roster.containers:
            return
        books = self.books
        is_counted = container_id in books.ledger.grants or container_id in books.affinity
        if is_counted or container_id in books.due_dram:
            self._give_back(container_id)
        else:
            # As one that stopped: it gave back everything then.
            self.unmet.forget(container_id)
        self.roster.remove(container_id)

    def place(
        self, container: Container, classified: Classified, *, runs: bool = False
    ) -> Decision:
        """The best place for a known container, booked; a refusal books nothing.

        No rule between containers refuses one that `runs`: at worst some break, and are told.
        """
        failure, problems = None, classified.problems
        if problems:
            was_there = runs or self.pens.has_place_of(container)
            failure = self.planner.objection(container, problems, was_there=was_there)
        if failure is None:
            penned = self.pens.place(container, classified, runs=runs)
            if penned is not None:
                return self._outside_again(penned, container, classified)
            last = self.roster.last_place(container)
            plan, classified = self.planner.plan(
                container, classified, last, self.occupancy, runs=runs
            )
            if isinstance(plan, Placement):
                return self._apply(plan, classified)
            failure = plan
        self.books.withdraw(container.id)
        return refused(container.id, failure, classified.problems)

    def _outside_again(
        self, penned: Decision, container: Container, classified: Classified
    ) -> Decision:
        """The decision about a container's pen; where it is refused, the place it had outside."""
        last, refusal = self.roster.last_place(container), penned.result
        if last is None or isinstance(refusal, Grant):
            return penned
        self.books.let_count(container, classified.rules, classified.placement)
        judgement = self._judge.judge(container, classified.placement, classified.request)
        failure = Failure(refusal=refusal, lineup=penned.lineup)
        placement = self._restarts.plan_back(classified.request, last, judgement, failure)
        if isinstance(placement, Failure):
            self.books.withdraw(container.id)
            return refused(container.id, placement, penned.problems)
        return self._apply(placement, classified)

    def place_running(self, container: Container, classified: Classified) -> Decision:
        """Place a known container that runs already: it cannot be refused any more."""
        decision = self.place(container, classified, runs=True)
        if isinstance(decision.result, Grant):
            return decision
        self.books.let_count(container, classified.rules, classified.placement)
        judgement = self._judge.judge(container, classified.placement, classified.request)
        placement = self._placer.plan_anyway(classified.request, judgement)
        grant = placement.booking.grant
        self.books.adopt_memory(classified.request, grant, grant.memory)
        forced = self._apply(placement, classified)
        self.unmet.note_displaced((container.id,))
        return structs.replace(
            forced,
            decided_by=f"it runs already: {decision.result.reason}",
            degraded=decision.result.reason,
            lineup=decision.lineup,
        )

    def heed_rules(
        self,
        container: Container,
        told: ToldRules = NOTHING_TOLD,
        *,
        is_alone: bool = False,
        is_recalled: bool = False,
    ) -> None:
        """Let an adopted container grow only where rules go on holding; tell of broken ones.

        `told`: rules told before. `is_alone`: nobody else is adopted. `is_recalled`: see `recall`.
        """
        cpus, grant = self.books.reach(container.id), self.books.ledger.counted(container.id)
        known = self.roster.classified[container.id]
        judgement = self._judge.judge(container, known.placement, known.request, has_pulls=False)
        if judgement is not None:
            self.unmet.tell_adopted(container.id, judgement, told, is_alone=is_alone)
            self.shares.hold_back(judgement.of_growth(), grant, cpus, is_recalled=is_recalled)
            self.homes.note_home(container.id)
        if is_alone and self.books.standing.rules:
            self.rehouse()

    def rehouse(self, *, moves_nobody: bool = False) -> None:
        """Give containers that were left no cpu of their pool a place where their rules hold."""
        before = dict(self.books.ledger.grants)
        found = self.homes.rehouse(moves_nobody=moves_nobody)
        after = self.books.ledger.grants
        self.unmet.note_displaced(one for one in found if after[one] is not before[one])

    def shift_shares(self) -> None:
        """Look after containers that were left no cpu of their pool by what a pen got."""
        if self.books.standing.rules:
            self.unmet.note_displaced(self.homes.rehouse())

    def resize(self, container_id: ContainerId, resources: Resources) -> Decision:
        """Other resources for a container that holds some; a refusal leaves it what it had."""
        grant = self.books.ledger.grants[container_id]
        last = self.roster.decisions[container_id]
        container = structs.replace(self.roster.containers[container_id], resources=resources)
        if last.fault:
            # It is looked at again at the next adoption.
            self.roster.add(container, self.roster.classified[container_id])
            return structs.replace(last, changes=())
        classified = self.roster.counted_once(container, self.classifier.classify(container))
        if grant.pen is not None:
            cpus, look = self.unmet.lost.expect_move(container.id), self.unmet.look()
            decision = self.pen_resizer.resize(container, classified)
            if isinstance(decision.result, Grant):
                self.conclude(decision, look)
                self.unmet.note_left(container.id, cpus, look)
                return self._with_returns(self.roster.decisions[container.id])
            self.unmet.forget_shifted()
            return decision
        look = self.unmet.look()
        placement = self._resized(container, grant, classified, look.scene(container_id))
        if isinstance(placement, Failure):
            return left_as_it_was(grant, placement, self.books, classified.problems)
        self.roster.add(container, classified)
        self.pens.sizes.note_resized(container)
        return self._with_returns(self._change(placement, classified, look, is_resized=True))

    def move(self, container_id: ContainerId, pool_id: PoolId, purpose: MovePurpose) -> Decision:
        """Another pool for a container that holds cpus; a refusal leaves it where it is."""
        if (grant := self.books.ledger.grants.get(container_id)) is None:
            return nothing_to_move(container_id)
        classified = self.roster.classified[container_id]
        self.unmet.look_at_postponed()
        if self.roster.decisions[container_id].unmet or self._judge.is_tied(container_id):
            return self.place_anew(container_id, AskedMove(pool_id, purpose), mends_told=True)
        placement = Mover(self.books).plan(grant, classified.request, pool_id, purpose)
        if isinstance(placement, Failure):
            return left_as_it_was(grant, placement, self.books, classified.problems)
        return self._change(placement, classified, self.unmet.look())

    def place_anew(
        self, container_id: ContainerId, asked: AskedMove, *, mends_told: bool
    ) -> Decision:
        """Another place where rules of a container hold, with its pen; a refusal moves nobody."""
        if (held := self.books.ledger.grants.get(container_id)) is None:
            return nothing_to_move(container_id)
        if mends_told:
            self.unmet.look_at_postponed()
        classified = self.roster.classified[container_id]
        party = self.parties.of(container_id, asked.awaited)
        placement = plan_replacement(party, self.parties, asked, mends_told=mends_told)
        if isinstance(placement, Failure):
            return left_as_it_was(held, placement, self.books, classified.problems)
        look = self.unmet.look()
        if not party.held.is_pen:
            return self._change(placement, classified, look)
        self.unmet.note_displaced(one.id for one in party.others(container_id))
        relocate = partial(relocated, container_id, party, placement, self.parties)
        return self.make_change(container_id, relocate, look)

    def _change(
        self,
        placement: Placement,
        classified: Classified,
        look: RuleLook,
        *,
        is_resized: bool = False,
    ) -> Decision:
        """The decision about a container that was placed already, and gets another grant.

        `look`: at where it was.
        """
        container_id = placement.booking.grant.container_id
        self.homes.leave_home(placement.booking.grant, is_resized=is_resized)
        return self.make_change(container_id, partial(self._apply, placement, classified), look)

    def make_change(
        self, container_id: ContainerId, change: Callable[[], Decision], look: RuleLook
    ) -> Decision:
        """The decision about a container that had a place before, with all that follows from it."""
        earlier, broken = self.roster.decisions[container_id], self.unmet.names(container_id, look)
        cpus, after = self.unmet.lost.expect_move(container_id), self.unmet.look()
        decision = self.conclude(change(), after)
        self.shares.parted.part(container_id, earlier.result)
        self.unmet.note_left(container_id, cpus, after)
        return self.unmet.tell_changed(decision, earlier, broken, after)

    def mend(self, container_id: ContainerId) -> Decision:
        """As many cpus of its own as a container asks for; a refusal leaves it what it has."""
        classified = self.roster.classified[container_id]
        grant = self.books.ledger.grants[container_id]
        container, look = self.roster.containers[container_id], self.unmet.look()
        placement = self._resized(container, grant, classified, look.scene(container_id))
        if isinstance(placement, Failure):
            return left_as_it_was(grant, placement, self.books, classified.problems)
        return self._change(placement, classified, look, is_resized=True)

    def conclude(
        self, decision: Decision, look: RuleLook | None = None, *, is_awaited: bool = False
    ) -> Decision:
        """Note what the container and the others are told; see `UnmetRules.refresh_moved`.

        `look`: one that has seen nobody so far, for what is to be told afterwards as well.
        """
        if isinstance(decision.result, Grant) and decision.result.pen is not None:
            self.shift_shares()
        pinning, changes = self.books.settle(decision.container_id)
        decision = structs.replace(decision, pinning=pinning, changes=changes)
        self.roster.decisions[decision.container_id] = decision
        if self.books.standing.rules:
            # Who was adopted on fewer cpus than it could have may grow with this event.
            self.unmet.note_moves(changes)
        look = self.unmet.look_at_displaced(look)
        self.unmet.refresh_moved(decision.container_id, changes, look, is_awaited=is_awaited)
        return self.roster.decisions[decision.container_id]

    def carry_over(self, decision: Decision) -> None:
        """Note a decision that an older engine made."""
        self.roster.decisions[decision.container_id] = decision
        if decision.unmet:
            self.unmet.carry_over(decision, self.books.ledger.grants)
            self.shares.carry_over(decision.container_id)

    def release(self, container_id: ContainerId) -> tuple[Change, ...]:
        """Take back what a container held. Unknown ids change nothing."""
        if container_id in self.books.ledger.grants:
            self._give_back(container_id)
            self.books.relax()
            self.shares.widen(container_id)
            return self.return_home(container_id)
        return self.changes()

    def remove(self, container_id: ContainerId) -> tuple[Change, ...]:
        """Forget a container for good, and what others had because of it. Unknown ids are fine."""
        self.shares.end(container_id)
        changes = self.release(container_id)
        self.forget(container_id)
        self.shares.parted.part_ended()
        return changes

    def return_home(self, left_by: ContainerId | None) -> tuple[Change, ...]:
        """Let those come home who were driven out of what a container, or a pod, gives back."""
        return self.changes(left_by, self.homes.return_home() if self.homes.away else ())

    def changes(
        self, left_by: ContainerId | None = None, moved: Sequence[ContainerId] = ()
    ) -> tuple[Change, ...]:
        """Changes that nobody was told yet, with what rules hold by them, and do not.

        `left_by`: a container that has given back what it held. `moved`: others that moved by it.
        """
        changes = self.books.pinner.changes()
        if changes or left_by is not None:
            self.unmet.follow(left_by, moved, changes)
        return changes

    def _with_returns(self, decision: Decision) -> Decision:
        if self.homes.away:
            changes, decisions = self.return_home(decision.container_id), self.roster.decisions
            decision = with_changes(decisions[decision.container_id], changes, self.books)
            decisions[decision.container_id] = decision
        return decision

    def _give_back(self, container_id: ContainerId) -> None:
        """Give back all that a container holds; a pen it is in goes to who is left there."""
        ledger = self.books.ledger
        grant = ledger.grants.get(container_id)
        pen = ledger.pens[grant.pen] if grant is not None and grant.pen is not None else None
        if grant is not None:
            self.roster.remember_place(grant, pen, self.unmet.breaches(container_id))
        self.unmet.forget(container_id)
        self.books.release(container_id)
        if grant is not None and pen is not None:
            self.pens.left(pen, grant)

    def _apply(self, placement: Placement, classified: Classified) -> Decision:
        own, has_rules = placement.booking.grant.exclusive.mask, bool(self.books.standing.rules)
        if own and has_rules:
            self.unmet.note_left_alone(placement.booking.grant)
        grant = self.books.take(placement.booking)
        if has_rules:
            for one in placement.booking.lifted:
                self.unmet.note_moved(one.container_id)
            if own:
                self.unmet.note_displaced(self.homes.rehouse())
            if placement.decided_by == RESTARTED and grant.within is not None:
                self.shares.widen_later(grant.container_id)
        container = self.roster.containers[grant.container_id]
        decision = Decision(
            container_id=grant.container_id,
            result=grant,
            pool=self.books.tree.pools[grant.pool_id].name,
            lineup=placement.lineup,
            decided_by=placement.decided_by,
            degraded=placement.degraded,
            problems=with_objection(classified.problems, container, placement),
            scheduling=classified.scheduling,
            classes=classified.classes,
            cold_start_ns=classified.request.cold_start_ns,
            notes=placement.notes,
            weights=placement.weights,
        )
        if placement.broken:
            self.homes.note_home(container.id)
            self.unmet.tell_owners(container, placement.broken)
            return self.unmet.told(decision, placement.broken)
        return decision
