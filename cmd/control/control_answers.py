"""The answers of the control API: a document for each question about a running daemon.

What it needs of the policy is one snapshot, taken in a turn; everything else is worked out in the
thread that asks, while the policy goes on.
"""

import threading
import time
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Final

import msgspec
from msgspec import Struct

from ...nri.dispatch.actuator import SUSPECT
from ...nri.dispatch.front import take_snapshot
from ...policy.engine.decision import KEPT
from ...policy.engine.pool_drawing import pools_document
from ...policy.engine.snapshot import Snapshot
from ...policy.model.container import Container, ContainerId
from ...policy.model.grant import Refusal
from ...policy.model.pinning import Pinning
from ..daemon.daemon import Daemon
from ..state.saved_states import SavedStates
from .container_names import NotHereError, find_container, is_called
from .decision_document import decision_document, with_unmet_of
from .decisions.decision_journal import DecisionJournal, JournalEntry
from .decisions.followed_decisions import followed_decisions
from .documents import (
    AuditDocument,
    ContainersDocument,
    DecisionDocument,
    DriftDocument,
    ExplainDocument,
    NodeDocument,
    RefusalsDocument,
    RefusedDocument,
    RuntimeDocument,
)
from .explain_document import explain_document, time_text
from .history.history_keeper import HistoryKeeper
from .history.saved_decision import SavedDecision
from .move_step import move_container, read_promised
from .slow_answers import SlowAnswers
from .status_document import container_documents, pin_document, status_document

_POLICY_SECONDS: Final = 2.0
_REFUSALS_TOLD: Final = 5


class ControlAnswers(Struct, frozen=True, kw_only=True):
    """A daemon and what is noted of its decisions. For several threads."""

    daemon: Daemon
    journal: DecisionJournal
    history: HistoryKeeper | None
    """None where nothing is kept."""
    slow: SlowAnswers
    kind: str
    """The kind of the runtime's interface: nri, embedded."""

    def status(self) -> bytes:
        """The status document. Raises `TimeoutError`."""
        snapshot = self._snapshot("status")
        kernel, unsettled = self._look(snapshot.grants)
        document = status_document(
            snapshot, self._runtime(), kernel, unsettled, tuple(self._problems())
        )
        reload = self.daemon.last_reload
        document = msgspec.structs.replace(
            document,
            config_fault=reload.fault if reload else "",
            state_fault=self.daemon.state_fault(),
            history_fault=self.daemon.history_fault(),
            refusals=self._refusals(),
        )
        return _encoded(document)

    def _refusals(self) -> RefusalsDocument | None:
        last, count = tuple(self._refused()), self.journal.refused
        return RefusalsDocument(count=count, last=last) if last else None

    def _refused(self) -> Iterator[RefusedDocument]:
        """The last containers that were refused, each once, the newest first."""
        last: dict[str, JournalEntry] = {}
        for one in self.journal.refusals:
            last.setdefault(one.container.path, one)
        for path, one in islice(last.items(), _REFUSALS_TOLD):
            reason = one.decision.result.reason if isinstance(one.decision.result, Refusal) else ""
            yield RefusedDocument(container=path, at=time_text(one.at or 0.0), reason=reason)

    def pools(self) -> bytes:
        """The pool tree under the configuration in force. Raises `TimeoutError`."""
        snapshot = self._snapshot("pools")
        return msgspec.json.encode(pools_document(snapshot, self.daemon.engine.warnings))

    def containers(self, name: str) -> bytes:
        """The containers of a name; all for none. Raises `TimeoutError`.

        A name that is nobody's has none.
        """
        snapshot = self._snapshot("containers")
        found = {one for one in snapshot.grants if is_called(snapshot.containers[one], name)}
        documents = container_documents(snapshot, found, *self._look(found))
        return _encoded(ContainersDocument(containers=documents))

    def _look(
        self, container_ids: Collection[ContainerId]
    ) -> tuple[Mapping[ContainerId, Pinning], Mapping[ContainerId, str]]:
        """Pinnings as the kernel has them, and what is not settled yet, with what went wrong."""
        looks = self.daemon.front.actuator.looks()
        unsettled = {
            container_id: look.problem
            for container_id, look in looks.items()
            if look.problem or not look.is_settled
        }
        return self.daemon.audit.read(one for one in looks if one in container_ids), unsettled

    def explain(self, name: str) -> bytes:
        """The explanation of a container's place. Raises `ControlRequestError`, `TimeoutError`."""
        snapshot = self._snapshot("explain")
        decided = self._decided(snapshot)
        try:
            container = find_container(name, [one.container for one in decided.values()])
        except NotHereError:
            return _encoded(self._past(snapshot, name))
        found = decided[container.id]
        document, at = self._remembered(snapshot, found)
        return _encoded(explain_document(snapshot, container, document, at))

    def _remembered(
        self, snapshot: Snapshot, found: JournalEntry
    ) -> tuple[DecisionDocument, float | None]:
        """The document of a decision: that from before a restart, where nothing moved in it."""
        container, decision = found.container, found.decision
        document = decision_document(container, decision, self._paths(snapshot))
        if decision.decided_by != KEPT or self.history is None:
            return document, found.at
        saved = self.history.last_of(container.shown_id)
        before = None if saved is None else saved.document()
        if saved is None or before is None or before.pool != document.pool:
            return document, found.at
        # Where it is, and what holds there, is as of now.
        kept = msgspec.structs.replace(before, cpus=document.cpus, mems=document.mems)
        return with_unmet_of(kept, document), saved.at

    def _past(self, snapshot: Snapshot, name: str) -> ExplainDocument:
        """The explanation of a container that is gone. Raises `ControlRequestError`."""
        known: dict[ContainerId, tuple[Container, SavedDecision]] = {}
        last: dict[str, Container] = {}
        for saved in self.history.past() if self.history is not None else ():
            container = saved.container()
            if container is not None:
                known[container.id] = (container, saved)
                last.setdefault(saved.path, container)
        try:
            # Of several of one name the last one.
            found = find_container(name, last.values())
        except NotHereError:
            found = find_container(name, [one for one, _ in known.values()])
        container, saved = known[found.id]
        document = saved.document()
        assert document is not None
        return explain_document(snapshot, container, document, saved.at)

    def audit(self, *, repair: bool) -> bytes:
        """The audit document; `repair`: have drift told again first. Raises `TimeoutError`."""
        audit = self.daemon.audit
        result = audit.look_and_repair() if repair else audit.look()
        drift = [
            DriftDocument(
                container=one.container.path,
                intended=pin_document(one.intended),
                kernel=pin_document(one.kernel),
                likely=result.problems[one.container.id] or one.likely,
                repaired=one.container.id in result.repaired,
            )
            for one in result.drifts
        ]
        drift.sort(key=lambda one: one.container)
        return _encoded(AuditDocument(containers=result.containers, drift=tuple(drift)))

    def state(self) -> bytes:
        """The state that would be saved at present. Raises `TimeoutError`."""
        # One of its own: those of the state's thread are not to be shared.
        return msgspec.json.encode(SavedStates().of(self._snapshot("state")))

    def move(
        self,
        container_id: ContainerId,
        from_pool: str,
        to_pool: str,
        *,
        moves_exclusive: bool,
        promised: str,
    ) -> bytes:
        """The end that a move came to. Raises `ControlRequestError`, `TimeoutError`."""
        end = move_container(
            self.daemon,
            self._snapshot("move"),
            container_id,
            from_pool,
            to_pool,
            moves_exclusive=moves_exclusive,
            promised=read_promised(promised),
        )
        return _encoded(end.document)

    def plan(self, moves: int | None, *, moves_exclusive: bool) -> bytes:
        """The moves that are worth it. Raises `ControlRequestError`, `TimeoutError`."""
        take = partial(self._snapshot, "plan")
        return _encoded(self.slow.plan(take, moves, moves_exclusive=moves_exclusive))

    def follow(self, over: threading.Event) -> Iterator[bytes]:
        """The documents of what is decided until it is over. Raises `TimeoutError`."""

        def paths() -> dict[ContainerId, str]:
            return self._paths(self._snapshot("follow"))

        return map(_encoded, followed_decisions(self.journal.feed, over, paths, time.time))

    def is_well(self) -> bool:
        """Whether the runtime is connected and the policy answers."""
        front = self.daemon.front
        try:
            front.owner.ask("health", lambda: None, _POLICY_SECONDS)
        except TimeoutError:
            return False
        return front.wait_until_ready(0) and not front.actuator.is_suspect

    def _snapshot(self, name: str) -> Snapshot:
        return take_snapshot(self.daemon.front, name, _POLICY_SECONDS)

    def _decided(self, snapshot: Snapshot) -> dict[ContainerId, JournalEntry]:
        """What was decided about every container: of several of one name about the present one.

        That is the one that holds something, or else the last one that was refused or ended.
        """
        placed = [snapshot.containers[one] for one in snapshot.grants]
        ended = [one for one in snapshot.containers.values() if one.id not in snapshot.grants]
        refused = {one.container.id: one for one in reversed(self.journal.refusals)}
        others = (*ended, *(one.container for one in refused.values()))
        by_path = {one.path: one for one in others}
        for one in placed:
            by_path.pop(one.path, None)
        found: dict[ContainerId, JournalEntry] = {}
        for one in (*placed, *by_path.values()):
            decision = snapshot.decisions.get(one.id)
            if decision is not None:
                at = self.journal.at(one.id)
                found[one.id] = JournalEntry(container=one, decision=decision, at=at)
            elif one.id in refused:
                found[one.id] = refused[one.id]
        return found

    def _paths(self, snapshot: Snapshot) -> dict[ContainerId, str]:
        """The names of containers by id, also of those that moved for others and are gone."""
        known = {one.id: one.path for one in snapshot.containers.values()}
        return {**self.journal.gone_paths(), **known}

    def _runtime(self) -> RuntimeDocument:
        name, _, version = self.journal.runtime.partition(" ")
        return RuntimeDocument(
            kind=self.kind,
            name=name,
            version=version,
            connected=self.daemon.front.wait_until_ready(0),
        )

    def _problems(self) -> Iterator[str]:
        front = self.daemon.front
        if not front.wait_until_ready(0):
            yield "runtime: not connected, or it did not tell what runs"
        if front.actuator.is_suspect:
            yield SUSPECT
        yield from self.daemon.engine.warnings


def _encoded(document: NodeDocument) -> bytes:
    return msgspec.json.encode(document)
