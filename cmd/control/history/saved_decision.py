"""Decisions as the history keeps them, with all that is needed to make them again elsewhere.

The structs are the file's format. A field that is added needs a default.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

import msgspec

from ....policy.engine.decision import KEPT, Decision
from ....policy.engine.reason import runner_up
from ....policy.model.container import Container, ContainerId
from ....policy.model.grant import Grant
from ....policy.model.pinning import Change, Pinning
from ....policy.placing.lineup import Lineup
from ...state.saved_container import (
    PlacedContainer,
    SavedContainer,
    SavedPod,
    bare_pod,
    saved_container,
    saved_newcomer,
    saved_pod,
)
from ..decision_document import decision_document, with_unmet_of
from ..documents import DecisionDocument, MovedDocument, PinDocument
from ..status_document import pin_document
from .saved_candidates import (
    SavedCandidates,
    candidate_documents,
    compressed_names,
    compressed_ranks,
)

PRESENT: Final = "present"
"""The event of a container that ran when the file was begun."""
RELEASE: Final = "release"
RETURN: Final = "return"
"""The event of a container that is kept where it was before a move that was refused."""
_PINNINGS_OF: Final[Callable[[Change], tuple[Pinning, Pinning]]] = attrgetter("before", "after")
_TEXT_CHARACTERS_MAX: Final = 8192
"""Of labels and annotations; those of one pod may be 256 KiB, and the whole file is bounded."""


class SavedMove(msgspec.Struct, frozen=True, kw_only=True):
    """Containers that a decision moved from one pinning to another.

    Those that share the cpus of a pool move together: each by itself, with what it had and has,
    would be most of a line.
    """

    containers: tuple[str, ...]
    from_: PinDocument = msgspec.field(name="from")
    to: PinDocument

    def documents(self) -> Iterator[MovedDocument]:
        """The containers, one by one."""
        for one in self.containers:
            yield MovedDocument(container=one, from_=self.from_, to=self.to)


class SavedDecision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event of one container, with what was decided where something was."""

    at: float
    """In seconds since 1970."""
    event: str
    id: str
    """The container's, once more: where it is looked for."""
    path: str
    pod: SavedPod | None = None
    """With this container alone; None for a release."""
    decision: DecisionDocument | None = None
    """Without its candidates, and without whom it moved, which files of older versions have there.
    """
    moves: tuple[SavedMove, ...] = ()
    """The containers that it moved, in the order of their changes."""
    ranks: bytes = b""
    """Its candidates, as JSON and compressed, where it is refused: those of others have lines of
    their own. Files of older versions have all here, or in another form, by another name."""
    pools: bytes = b""
    """What its candidates are called, as JSON and compressed."""

    @property
    def is_of_rules(self) -> bool:
        """Whether it tells alone which rules do not hold, of a container that is kept as it is."""
        if self.decision is None or self.event == RETURN:
            return False
        return self.decision.decided_by == KEPT and not self.ranks

    @property
    def unmet(self) -> tuple[str, ...]:
        """The rules that did not hold."""
        if self.decision is not None:
            return self.decision.unmet
        return () if self.pod is None else self.pod.containers[0].unmet

    def with_rules_of(self, later: "SavedDecision | None") -> "SavedDecision":
        """The decision with the rules that did not hold later on, if that was told.

        What was told of it in another pool, where nobody decided to put it: a reload did.
        """
        if self.decision is None or later is None or later.decision is None:
            return self
        if self.decision.pool != later.decision.pool:
            return later
        document = with_unmet_of(self.decision, later.decision)
        return msgspec.structs.replace(self, decision=document)

    def with_candidates(
        self, known: Mapping[tuple[str, float], SavedCandidates]
    ) -> "SavedDecision":
        """The decision with its candidates where a line of their own has them."""
        found = known.get((self.id, self.at))
        if found is None or self.decision is None or self.ranks:
            return self
        return msgspec.structs.replace(self, ranks=found.ranks, pools=found.pools)

    def document(self) -> DecisionDocument | None:
        """The whole decision; None where none was made. Raises `ValueError`, `zlib.error`."""
        document = self.decision
        if document is not None and self.moves:
            moved = (one for move in self.moves for one in move.documents())
            document = msgspec.structs.replace(document, moved=(*document.moved, *moved))
        if document is None or not self.ranks:
            return document
        candidates = candidate_documents(self.ranks, self.pools)
        return msgspec.structs.replace(document, candidates=candidates)

    def container(self) -> Container | None:
        """The container as it was. Raises `IdListError`."""
        if self.pod is None:
            return None
        return next(self.pod.running(), None)


def saved_decision(
    at: float,
    event: str,
    container: Container,
    decision: Decision,
    paths: Mapping[ContainerId, str],
    *,
    with_against: bool,
    with_candidates: bool,
) -> SavedDecision:
    """A decision to be kept. `paths`: of containers by id, as far as they are known.

    `with_against`: says which pool it was preferred to; `with_candidates`: has all of them.
    """
    document = decision_document(
        container, decision, paths, with_candidates=False, with_moved=False
    )
    if with_against:
        document = msgspec.structs.replace(document, against=runner_up(decision) or None)
    lineup = decision.lineup if with_candidates else None
    one = saved_newcomer(container, with_texts=_has_short_texts(container))
    if isinstance(decision.result, Grant):
        one = msgspec.structs.replace(
            one,
            pool=decision.pool,
            cpus=document.cpus,
            mems=document.mems,
            exclusive=str(decision.result.exclusive),
        )
    moves = tuple(_moves(decision.changes, paths))
    return _saved(at, event, container, one, document, lineup, moves)


def present_container(at: float, placed: PlacedContainer) -> SavedDecision:
    """A container that ran when the file was begun."""
    container = placed.container
    one = saved_container(placed, with_texts=_has_short_texts(container))
    return _saved(at, PRESENT, container, one, None)


def released(at: float, container_id: str, path: str) -> SavedDecision:
    """The end of a container."""
    return SavedDecision(at=at, event=RELEASE, id=container_id, path=path)


def _saved(
    at: float,
    event: str,
    container: Container,
    one: SavedContainer,
    document: DecisionDocument | None,
    lineup: Lineup | None = None,
    moves: tuple[SavedMove, ...] = (),
) -> SavedDecision:
    pod = container.pod
    whole = saved_pod(pod) if _has_short_texts(container) else bare_pod(pod, ())
    return SavedDecision(
        at=at,
        event=event,
        id=container.shown_id,
        path=container.path,
        pod=msgspec.structs.replace(whole, containers=(one,)),
        decision=document,
        moves=moves,
        ranks=b"" if lineup is None else compressed_ranks(lineup),
        pools=b"" if lineup is None else compressed_names(lineup),
    )


def _moves(changes: Sequence[Change], paths: Mapping[ContainerId, str]) -> Iterator[SavedMove]:
    """Changes as moves: as a rule those side by side have the same pinnings, before and after."""
    for (before, after), group in groupby(changes, _PINNINGS_OF):
        yield SavedMove(
            containers=tuple([paths.get(one.container_id, one.container_id) for one in group]),
            from_=pin_document(before),
            to=pin_document(after),
        )


def _has_short_texts(container: Container) -> bool:
    pod = container.pod
    texts = (*pod.annotations.values(), *pod.labels.values(), *container.labels.values())
    return sum(map(len, texts)) <= _TEXT_CHARACTERS_MAX
