"""Engines to try containers in: what a snapshot shows, but for the one that is asked about."""

from collections.abc import Sequence

from msgspec import structs

from ..engine.engine import Engine
from ..engine.snapshot import Snapshot
from ..model.container import Container, ContainerState, Resources
from ..model.grant import Refusal
from ..pens.pen_name import pod_pen
from ..placing.classifier import Classified
from ..placing.judging.scene import Scene
from ..placing.placer import Failure
from ..rules.central_rules import CentralRules


class TrialEngine(Engine):
    """The engine of a snapshot in which one container starts again and again, and nobody moves."""

    def __init__(self, snapshot: Snapshot, asked: Container) -> None:
        # It has its annotations, those of rules included; without its rules it would get them anew.
        central = CentralRules(structs.replace(snapshot.config, rules=()))
        super().__init__(snapshot.machine, snapshot.config, layout=snapshot.layout, central=central)
        self._known: Container | None = None
        """The last one that was planned for; its rules count until another one is."""
        self._scene: Scene | None = None
        self._hold(snapshot)
        self.remove(asked.id)
        self._grants = dict(self.grants)
        self._pens = dict(self._allocator.books.ledger.pens)
        self._ended = self._allocator.pens.bookings.ended()

    def room_of_pools(self) -> Sequence[int]:
        """Room of each pool for shares, in milli-cpus, by pool id."""
        return self._allocator.books.ledger.room.shared_milli

    def pool_of(self, container: Container, size: Resources | None = None) -> str:
        """The pool that a container would get; empty where it would be refused.

        Found by a plan, as long as others have nothing to do with it: nothing is booked then. Else
        by a start, see `has_changed`. `size`: that of its pod, where it is another one with it.
        """
        fresh = structs.replace(
            container, state=ContainerState.CREATED, cpus=None, mems=None, given=()
        )
        self.forget_places()
        before = self.pod_size(container.pod)
        planned = self._planned(self.completed(fresh), size)
        if planned is not None:
            return planned
        self._forget()
        return self._started(fresh, size, before)

    def _planned(self, container: Container, size: Resources | None) -> str | None:
        """The pool by a plan alone; None for containers in pens, and for further instances."""
        allocator, pod = self._allocator, container.pod
        if self._known is not None and self._known.pod is not pod:
            self._forget()
        if allocator.roster.instance(container) not in (None, container.id):
            return None
        if pod_pen(pod).id in allocator.books.ledger.pens:
            return None
        classified = self._classified(container)
        if self._is_penned(container, classified, size):
            return None
        if allocator.planner.objection(container, classified.problems) is not None:
            return ""
        known, scene = self._known or container, self._scene
        plan, _ = allocator.planner.plan(known, classified, None, allocator.occupancy, scene=scene)
        return "" if isinstance(plan, Failure) else self.tree.pools[plan.booking.grant.pool_id].name

    def _is_penned(
        self, container: Container, classified: Classified, size: Resources | None
    ) -> bool:
        pens, pod, before = self._allocator.pens, container.pod, self.pod_size(container.pod)
        note_size = self._allocator.roster.note_size
        if size is None or before is None:
            return pens.name_of(container, classified) is not None
        note_size(pod, size)
        name = pens.name_of(container, classified)
        note_size(pod, before)
        return name is not None

    def _classified(self, container: Container) -> Classified:
        """The demand of a container, whose rules count from here on."""
        allocator, roster = self._allocator, self._allocator.roster
        if self._known is None:
            self._known, self._scene = container, Scene(allocator.books)
            return allocator.know(container)
        # They count already, and are the same however much it asks for.
        classified = allocator.classifier.classify(container)
        classified = roster.counted_once(container, classified)
        roster.add(container, classified)
        return classified

    def _forget(self) -> None:
        if self._known is not None:
            self._allocator.forget(self._known.id)
        self._known = self._scene = None

    def _started(
        self, container: Container, size: Resources | None, before: Resources | None
    ) -> str:
        if size is not None and isinstance(self.resize_pod(container.pod, size), Refusal):
            return ""
        decision = self.create(container)
        self.remove(container.id)
        # The pen of a trial is no place that the next one could come back to.
        self._allocator.pens.bookings.remember_only(self._ended)
        if size is not None and before is not None and not self.has_changed():
            self.resize_pod(container.pod, before)
        return "" if isinstance(decision.result, Refusal) else decision.pool

    def has_changed(self) -> bool:
        """Whether others hold something else than before the first container was tried.

        Then this engine is of no use any more.
        """
        ledger = self._allocator.books.ledger
        return (ledger.grants, ledger.pens) != (self._grants, self._pens)
