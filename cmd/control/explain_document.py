"""The explanation of one decision as a document."""

import datetime
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from ...policy.engine.snapshot import Snapshot
from ...policy.inquiry.alternatives import find_alternatives
from ...policy.inquiry.counted_rules import classified_of, counted_rules
from ...policy.inquiry.current_notes import current_notes
from ...policy.model.container import Container
from ...policy.model.criterion_words import moved_text
from .documents import GRANT, DecisionDocument, ExplainDocument, GivenDocument, RuleDocument
from .status_document import pin_document

_MATCHES_MAX: Final = 100


def explain_document(
    snapshot: Snapshot, container: Container, decided: DecisionDocument, at: float | None
) -> ExplainDocument:
    """The explanation of a decision about a container, which may have been refused or be over.

    `at`: when it was made, in seconds since 1970. The place, the rules, the notes about them and
    the alternatives are those of the snapshot, candidates those of the decision.
    """
    is_granted = decided.result == GRANT
    if is_granted:
        decided = replace(decided, notes=current_notes(snapshot, container.id, decided.notes))
    now = snapshot.pinnings.get(container.id)
    pin = pin_document(now) if is_granted and now else None
    pool = _pool(snapshot, container, decided)
    if decided.pool and pool and pool != decided.pool:
        decided = replace(decided, notes=(*decided.notes, moved_text(decided.pool, pool)))
    return ExplainDocument(
        container=container.path,
        at=None if at is None else time_text(at),
        result=decided.result,
        pool=pool,
        cpus=pin.cpus if pin else decided.cpus,
        mems=pin.mems if pin else decided.mems,
        decided_by=decided.decided_by,
        against=decided.against,
        request=_request(snapshot, container, decided),
        rules=tuple(_rules(snapshot, container)),
        candidates=decided.candidates,
        moved=decided.moved,
        alternatives=find_alternatives(snapshot, container),
        given=tuple(
            GivenDocument(annotation=one.key, value=one.value, rule=one.rule)
            for one in (snapshot.containers.get(container.id) or container).given
        ),
        ended=is_granted and container.id not in snapshot.grants,
    )


def time_text(at: float) -> str:
    """A time in UTC. Source: RFC 3339."""
    moment = datetime.datetime.fromtimestamp(int(at), datetime.UTC)
    return moment.isoformat().replace("+00:00", "Z")


def _pool(snapshot: Snapshot, container: Container, decided: DecisionDocument) -> str | None:
    """The pool that a container is in by now; of one that is in none, that of the decision."""
    grant = snapshot.grants.get(container.id)
    if grant is None or decided.result != GRANT:
        return decided.pool
    return snapshot.tree.pools[grant.pool_id].name


def _request(
    snapshot: Snapshot, container: Container, decided: DecisionDocument
) -> Mapping[str, object]:
    request = classified_of(snapshot, container).request
    return {
        "text": decided.request,
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
        "unmet": list(decided.unmet),
        "notes": list(decided.notes),
        "problems": list(decided.problems),
    }


def _rules(snapshot: Snapshot, container: Container) -> Iterator[RuleDocument]:
    for one in counted_rules(snapshot, container):
        yield RuleDocument(
            owner=one.owner.path,
            text=one.text,
            kind=one.kind.value,
            weight=one.weight,
            matches=tuple(match.path for match in one.matches[:_MATCHES_MAX]),
            about_pools=one.is_about_pools,
        )
