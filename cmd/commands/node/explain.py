"""`pinfold explain`: why a container is where it is, or why it was refused."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, cast

import click

from ....policy.model.criterion_words import EVERY_POOL, words_of
from ...control.control_client import ControlClient
from ...control.documents import GRANT, CandidateDocument, ExplainDocument, RuleDocument
from ...report.console import table_lines
from ...report.escaped_text import escaped
from ...report.path_type import PathType
from ..json_text import json_text
from ..options import control_option, output_option
from .document_text import pin_text
from .name_completion import complete_container

_MATCHES_SHOWN: Final = 8
_SHORT: Final = 60
"""A reason that is no longer is said of every pool."""
_THEN: Final = " — "
"""Between the parts of a refusal's reason."""
_SAME_RULE: Final = "besides, the same rule of "


@click.command()
@click.argument("container", shell_complete=complete_container)
@click.option(
    "--bundle",
    type=PathType(path_type=Path),
    metavar="FILE",
    help="Look into what 'pinfold gather' wrote instead of asking the daemon.",
)
@control_option
@output_option("text", "json", meaning="Sentences and a table or one JSON document for tools.")
def command(container: str, bundle: Path | None, control: Path | None, output: str) -> None:
    """Say why CONTAINER is where it is: what it asked for, what counted, and every candidate.

    CONTAINER is namespace/pod/container, a part of that, or the beginning of an id.
    """
    if bundle is None:
        found = ControlClient(control).explain(container)
    else:
        # Imported where a bundle is named: it takes as long to load as all that is asked for else.
        from ..bundle.gathered_explanation import gathered_explanation

        found = gathered_explanation(bundle, container)
    click.echo(json_text(found) if output == "json" else "\n".join(explanation_lines(found)))


def explanation_lines(found: ExplainDocument) -> Iterator[str]:
    """An explanation as a person would give it, then the table of candidates."""
    # Names, rules and their faults are strangers' texts.
    yield from map(escaped, _sentences(found))
    if found.candidates:
        yield ""
        yield from _candidate_lines(found.candidates)


def _sentences(found: ExplainDocument) -> Iterator[str]:
    outcome, *more = _outcome(found)
    yield f"{found.container} {outcome}"
    yield from (f"  {one}" for one in more)
    yield f"  it asked for {found.request.get('text')} ({found.request.get('qos')})"
    if found.result == GRANT:
        against = f"; next best was {found.against}" if found.against else ""
        yield f"  because: {_words(found.decided_by)}{against}"
    # Rules that do not hold are among them.
    problems = cast("Sequence[object]", found.request.get("problems", ()))
    yield from (f"  problem: {one}" for one in problems)
    yield from (
        f"  annotation {one.annotation}: {one.value!r}, given by rule {one.rule!r}"
        for one in found.given
    )
    notes = cast("Sequence[object]", found.request.get("notes", ()))
    yield from (f"  note: {one}" for one in notes)
    yield from (f"  rule: {one}" for one in _rule_texts(found.rules, found.container))
    for one in found.moved:
        yield f"  for it moved {one.container} from {pin_text(one.from_)} to {pin_text(one.to)}"
    yield from (f"  {one}" for one in found.alternatives)


def _outcome(found: ExplainDocument) -> Sequence[str]:
    """The result of a decision; of a refusal also what the table of candidates does not say."""
    at = f" at {found.at}" if found.at else ""
    if found.result != GRANT:
        first, *more = found.decided_by.split(_THEN)
        shown = [f"{one.pool}{mark}" for one in found.candidates for mark in ":,"]
        shown += [f"{EVERY_POOL}:"] if shown else []
        if shown and found.rules:
            # Those have lines of their own, and nothing stands before it there.
            shown.append(_SAME_RULE)
        left = [one for one in more if not one.startswith(tuple(shown))]
        return f"was refused{at}: {first}", *left
    cpus = "any cpus" if found.cpus is None else f"cpus {found.cpus}"
    mems = "any memory" if found.mems is None else f"memory {found.mems}"
    verb = "has ended: it was" if found.ended else "is"
    return (f"{verb} in {found.pool} on {cpus}, {mems}, decided{at}",)


def _rule_texts(rules: Sequence[RuleDocument], container: str) -> Iterator[str]:
    """Its own rules one by one, then those of others, each once for all who have it."""
    owners: dict[tuple[str, str, int | None], list[str]] = {}
    for one in rules:
        if one.owner != container:
            owners.setdefault((one.text, one.kind, one.weight), []).append(one.owner)
            continue
        parts = ["its own", *_force(one.kind, one.weight)]
        if one.matches:
            shown = ", ".join(one.matches[:_MATCHES_SHOWN])
            more = len(one.matches) - _MATCHES_SHOWN
            parts.append(f"matches {shown}{f' and {more} more' if more > 0 else ''}")
        elif not one.about_pools:
            parts.append("matches no container")
        yield f"{', '.join(parts)}: {one.text}"
    for (text, kind, weight), names in owners.items():
        others = len(names) - 1
        whose = f"that of {names[0]}"
        if others:
            whose += f" and {others} other{'s' if others > 1 else ''}"
        yield f"{', '.join([whose, *_force(kind, weight), 'matches it'])}: {text}"


def _force(kind: str, weight: int | None) -> Iterator[str]:
    """How much a rule counts, in words."""
    if kind != "weight":
        yield kind
    if weight is not None:
        yield f"of weight {weight}"


def _candidate_lines(candidates: Sequence[CandidateDocument]) -> list[str]:
    """A row for each pool, with the criteria alone that put some pool before another one."""
    telling = _telling([one.rank for one in candidates if one.rank is not None])
    rows: list[list[str]] = []
    pools_by_reason: dict[str, str] = {}
    for place, one in enumerate(candidates, 1):
        if one.rank is not None:
            rows.append([str(place), one.pool, *(str(one.rank[name]) for name in telling)])
        elif one.dropped is not None:
            dropped = one.dropped
            reason = f"{dropped.criterion}: wanted {dropped.wanted}, available {dropped.available}"
            first = pools_by_reason.setdefault(reason, one.pool)
            if first != one.pool and len(reason) > _SHORT:
                reason = f"as {first}"
            rows.append(["-", one.pool, *("" for _ in telling), reason])
    head = ["rank", "pool", *telling]
    if any(one.dropped for one in candidates):
        head.append("dropped")
    return [*table_lines(head, rows), *_legend_lines(telling)]


def _telling(ranks: Sequence[Mapping[str, int]]) -> Sequence[str]:
    """The criteria in which some rank first differs from the next one, in their order.

    Between any two ranks the first of them that differs is the one that decides.
    """
    decisive = {
        next((name for name in one if one[name] != after[name]), "")
        for one, after in pairwise(ranks)
    }
    return [name for name in ranks[0] if name in decisive] if ranks else []


def _legend_lines(criteria: Sequence[str]) -> Iterator[str]:
    """What the columns of criteria are about; nothing where there is none."""
    if criteria:
        yield ""
        yield "  the first column that differs decides, the smaller number wins:"
        width = max(map(len, criteria))
        yield from (f"    {name:{width}}  {_words(name)}" for name in criteria)


def _words(decided_by: str) -> str:
    """The meaning of a criterion, of which it need not be said here that it breaks ties."""
    return words_of(decided_by).removeprefix("a tie: ")
