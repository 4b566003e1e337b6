"""One decision as a document, as far as it speaks for itself: what was chosen, and from what."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from ...policy.engine.decision import UNMET, Decision
from ...policy.engine.reason import request_text, runner_up
from ...policy.model.container import Container, ContainerId
from ...policy.model.grant import Dropped, Grant, Refusal
from ...policy.model.pinning import Change
from .documents import (
    GRANT,
    REFUSAL,
    CandidateDocument,
    DecisionDocument,
    DroppedDocument,
    MovedDocument,
)
from .status_document import pin_document

_UNMET: Final = f"{UNMET}: "


def decision_document(
    container: Container,
    decision: Decision,
    paths: Mapping[ContainerId, str],
    *,
    with_candidates: bool = True,
    with_moved: bool = True,
) -> DecisionDocument:
    """The document of a decision; `paths`: those of containers by id, as far as they are known.

    O(pools x criteria) with candidates. `with_moved`: and with the containers that it moved.
    """
    result = decision.result
    is_granted = isinstance(result, Grant)
    pin = pin_document(decision.pinning)
    return DecisionDocument(
        result=GRANT if is_granted else REFUSAL,
        pool=decision.pool if is_granted else None,
        cpus=pin.cpus if is_granted else None,
        mems=pin.mems if is_granted else None,
        decided_by=result.reason if isinstance(result, Refusal) else decision.decided_by,
        against=(runner_up(decision) or None) if with_candidates else None,
        request=request_text(container, decision),
        unmet=decision.unmet,
        notes=decision.notes,
        problems=tuple(map(str, decision.problems)),
        candidates=tuple(_candidates(decision)) if with_candidates else (),
        moved=tuple(moved_documents(decision.changes, paths)) if with_moved else (),
    )


def with_unmet_of(document: DecisionDocument, later: DecisionDocument) -> DecisionDocument:
    """The document of a decision with the rules that did not hold later, in its problems, too."""
    problems = [one for one in document.problems if not one.startswith(_UNMET)]
    problems += [one for one in later.problems if one.startswith(_UNMET)]
    return msgspec.structs.replace(document, unmet=later.unmet, problems=tuple(problems))


def _candidates(decision: Decision) -> Iterator[CandidateDocument]:
    """Pools by their rank, the chosen one first; then those that were dropped."""
    if decision.lineup is None:
        return
    pairs = list(zip(decision.lineup.names, decision.candidates, strict=True))
    ranked = [(rank, name) for name, rank in pairs if not isinstance(rank, Dropped)]
    for rank, name in sorted(ranked):
        yield CandidateDocument(pool=name, rank=rank._asdict(), dropped=None)
    for name, one in pairs:
        if isinstance(one, Dropped):
            dropped = DroppedDocument(
                criterion=one.criterion, wanted=one.wanted, available=one.available
            )
            yield CandidateDocument(pool=name, rank=None, dropped=dropped)


def moved_documents(
    changes: Iterable[Change], paths: Mapping[ContainerId, str]
) -> Iterator[MovedDocument]:
    """The documents of containers that others' decisions change."""
    for change in changes:
        yield MovedDocument(
            container=paths.get(change.container_id, change.container_id),
            from_=pin_document(change.before),
            to=pin_document(change.after),
        )
