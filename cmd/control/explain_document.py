"""The explanation of one decision as a document."""

import datetime
from collections.abc import Iterator, Mapping
from typing import Final

from ...policy.engine.decision import Decision
from ...policy.engine.reason import request_text, runner_up
from ...policy.engine.snapshot import Snapshot
from ...policy.inquiry.alternatives import find_alternatives
from ...policy.inquiry.counted_rules import classified_of, counted_rules
from ...policy.model.container import Container
from ...policy.model.grant import Dropped, Grant, Refusal
from ...policy.model.pinning import Pinning
from .documents import (
    GRANT,
    REFUSAL,
    CandidateDocument,
    DroppedDocument,
    ExplainDocument,
    MovedDocument,
    RuleDocument,
)
from .status_document import pin_document

_MATCHES_MAX: Final = 100


def explain_document(
    snapshot: Snapshot, container: Container, decision: Decision, at: float | None
) -> ExplainDocument:
    """The explanation of a decision about a container, which may have been refused or be over.

    `at`: when it was made, in seconds since 1970. Rules and alternatives are those of the snapshot,
    candidates those of the decision.
    """
    result = decision.result
    is_granted = isinstance(result, Grant)
    now = snapshot.pinnings.get(container.id) or decision.pinning
    pin = pin_document(now if is_granted else Pinning())
    return ExplainDocument(
        container=container.path,
        at=None if at is None else _time_text(at),
        result=GRANT if is_granted else REFUSAL,
        pool=decision.pool if is_granted else None,
        cpus=pin.cpus,
        mems=pin.mems,
        decided_by=result.reason if isinstance(result, Refusal) else decision.decided_by,
        against=runner_up(decision) or None,
        request=_request(snapshot, container, decision),
        rules=tuple(_rules(snapshot, container)),
        candidates=tuple(_candidates(decision)),
        moved=tuple(_moved(snapshot, decision)),
        alternatives=find_alternatives(snapshot, container),
    )


def _time_text(at: float) -> str:
    """A time in UTC. Source: RFC 3339."""
    moment = datetime.datetime.fromtimestamp(int(at), datetime.UTC)
    return moment.isoformat().replace("+00:00", "Z")


def _request(snapshot: Snapshot, container: Container, decision: Decision) -> Mapping[str, object]:
    request = classified_of(snapshot, container).request
    return {
        "text": request_text(container, decision),
        "qos": request.qos.value,
        "cpus": request.cpu_type.value,
        "exclusive": request.exclusive,
        "shared_milli": request.shared_milli,
        "cpu_limit_milli": request.cpu_limit_milli,
        "isolated": request.isolation.value,
        "priority": request.priority.value,
        "memory_bytes": request.memory_bytes,
        "memory_limit_bytes": request.memory_limit_bytes,
        "memory_kinds": sorted(kind.name for kind in request.memory_kinds),
        "hugepage_bytes": {str(size): total for size, total in request.hugepage_bytes.items()},
        "hints": [hint.provider for hint in request.hints],
        "unmet": list(decision.unmet),
        "notes": list(decision.notes),
        "problems": [str(problem) for problem in decision.problems],
    }


def _rules(snapshot: Snapshot, container: Container) -> Iterator[RuleDocument]:
    for one in counted_rules(snapshot, container):
        yield RuleDocument(
            owner=one.owner.path,
            text=one.text,
            kind=one.kind.value,
            weight=one.weight,
            matches=tuple(match.path for match in one.matches[:_MATCHES_MAX]),
        )


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


def _moved(snapshot: Snapshot, decision: Decision) -> Iterator[MovedDocument]:
    for change in decision.changes:
        known = snapshot.containers.get(change.container_id)
        yield MovedDocument(
            container=known.path if known else change.container_id,
            from_=pin_document(change.before),
            to=pin_document(change.after),
        )
