"""Decisions as documents, while somebody follows."""

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ....nri.dispatch.report import Decided, Released
from ....policy.model.container import ContainerId
from ....policy.model.pinning import Change
from ..decision_document import decision_document, moved_documents
from ..documents import FollowedDocument
from ..explain_document import time_text
from .decision_feed import DecisionFeed, FedDecision

ALIVE_SECONDS: Final = 30.0
"""After which a sign of life is sent: the gate drops who is silent."""
_LOOK_SECONDS: Final = 0.5

Paths = Callable[[], Mapping[ContainerId, str]]


def followed_decisions(
    feed: DecisionFeed, over: threading.Event, paths: Paths, clock: Callable[[], float]
) -> Iterator[FollowedDocument]:
    """Documents of all that comes until it is over. `paths`: those of containers, by id."""
    with feed.following() as follower:
        told, silent_seconds = 0, 0.0
        # The first word says that nothing is missed from here on.
        yield FollowedDocument(at=time_text(clock()), event="")
        while not over.is_set():
            fed = follower.take(_LOOK_SECONDS)
            silent_seconds += _LOOK_SECONDS
            if fed is not None:
                dropped = follower.dropped
                yield _document(fed, paths, dropped - told)
                told, silent_seconds = dropped, 0.0
            elif silent_seconds >= ALIVE_SECONDS:
                yield FollowedDocument(at=time_text(clock()), event="")
                silent_seconds = 0.0


def _document(fed: FedDecision, paths: Paths, dropped: int) -> FollowedDocument:
    known: Mapping[ContainerId, str]
    match fed.happening:
        case Released(container=container, changes=changes):
            return FollowedDocument(
                at=time_text(fed.at),
                event="release",
                container=container.path,
                id=container.shown_id,
                moved=tuple(moved_documents(changes, _known(changes, paths))),
                dropped=dropped,
            )
        case Decided(event=event, container=container, decision=decision):
            known = _known(decision.changes, paths)
            found = decision_document(container, decision, known, with_candidates=False)
            return FollowedDocument(
                at=time_text(fed.at),
                event=event,
                container=container.path,
                id=container.shown_id,
                result=found.result,
                pool=found.pool,
                cpus=found.cpus,
                mems=found.mems,
                decided_by=found.decided_by,
                moved=found.moved,
                dropped=dropped,
            )


def _known(changes: tuple[Change, ...], paths: Paths) -> Mapping[ContainerId, str]:
    # The policy is asked where there is somebody to name.
    return paths() if changes else {}
