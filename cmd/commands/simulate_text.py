"""The results of scenarios as text for people."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ...policy.engine.decision import UNMET
from ...policy.engine.pool_drawing import pool_texts
from ...policy.scenarios.result import ContainerResult, NodeDiff, NodePlace, ScenarioResult
from ..report.console import table_lines, tree_lines
from ..report.escaped_text import escaped
from ..report.weight_text import weight_text
from .container_lines import cpus_text, natural_key, place_text, short_names

_COLUMNS: Final = ("container", "pool", "cpus", "memory", "why")
_MOVED_COLUMNS: Final = ("moved", "from", "to")
_NAMED_MAX: Final = 4
"""So many containers are named with what is to be said of all of them."""


def table_text(result: ScenarioResult) -> str:
    """A scenario as a table of its containers, then what was expected and what went wrong.

    Of a node that runs, the table has the containers that came; those that moved are in another.
    """
    lines = [_headline(result)]
    if rows := _rows(result):
        lines.extend(table_lines(_COLUMNS, rows))
    lines.extend(_diff_lines(result.diff))
    lines.extend(map(escaped, _verdicts(result)))
    return "\n".join(lines)


def tree_text(result: ScenarioResult) -> str:
    """A scenario as its pools, what is left of them and the containers in them."""
    lines = [_headline(result)]
    named = _named(result)
    if result.tree is not None:
        inside: dict[str, list[str]] = {}
        for name, one in named:
            if one.refused is None:
                text = place_text(name, _cpus(one), one.mems, _reason(one))
                inside.setdefault(one.pool, []).append(text)
        texts = pool_texts(result.tree, result.machine, inside, result.spare)
        lines.extend(tree_lines(texts))
    refused = [f"[{name}] {_reason(one)}" for name, one in named if one.refused is not None]
    lines.extend(map(escaped, refused))
    lines.extend(_diff_lines(result.diff))
    lines.extend(map(escaped, _verdicts(result)))
    return "\n".join(lines)


def _headline(result: ScenarioResult) -> str:
    return f"{result.id} on {result.topology}:"


def _named(result: ScenarioResult) -> list[tuple[str, ContainerResult]]:
    """The containers under the names people know them by, in natural order."""
    every = list(result.containers.values())
    names = short_names([(one.namespace, one.pod, one.name) for one in every])
    return sorted(zip(names, every, strict=True), key=lambda pair: natural_key(pair[0]))


def _rows(result: ScenarioResult) -> list[tuple[str, ...]]:
    return [
        (name, one.pool or "-", _cpus(one) or "-", one.mems or "-", _reason(one))
        for name, one in _named(result)
        if result.diff is None or one.refused is not None or _path(one) in result.diff.added
    ]


def _diff_lines(diff: NodeDiff | None) -> Iterator[str]:
    """The containers of a running node that are elsewhere now, or gone."""
    if diff is None:
        return
    if diff.moved:
        yield ""
        moved = sorted(diff.moved.items(), key=lambda pair: natural_key(pair[0]))
        rows = [(path, _place(before), _place(after)) for path, (before, after) in moved]
        yield from table_lines(_MOVED_COLUMNS, rows)
    for path in sorted(diff.gone, key=natural_key):
        yield escaped(f"  gone: {path}")
    if not (diff.added or diff.moved or diff.gone):
        yield "  nothing changes"


def _place(one: NodePlace) -> str:
    return f"{one.pool}, cpus {one.cpus or 'any'}, memory {one.mems or 'any'}"


def _path(one: ContainerResult) -> str:
    return f"{one.namespace}/{one.pod}/{one.name}"


def _cpus(one: ContainerResult) -> str:
    return cpus_text(one.kind, one.cpus, one.exclusive, one.shared)


def _reason(one: ContainerResult) -> str:
    if one.refused is not None:
        return f"refused: {one.refused}"
    rules = dict.fromkeys(given.rule for given in one.given)
    return f"{one.reason} (rule {', '.join(rules)})" if rules else one.reason


def _verdicts(result: ScenarioResult) -> Iterator[str]:
    shown = {_path(one) for one in result.containers.values() if one.refused is not None}
    for refusal in result.refusals:
        if refusal.path not in shown:
            yield f"  step {refusal.step}: {refusal.path} refused: {refusal.reason}"
    if (quality := result.quality) is not None:
        score, best = (
            weight_text(one, quality.scale) for one in (quality.score, quality.best_known)
        )
        yield f"  satisfied weight: {score}, the best known is {best}"
    yield from _note_lines(result)
    if result.expectations:
        holding = sum(one.holds for one in result.expectations)
        yield f"  {holding} of {len(result.expectations)} expectations hold"
    for one in result.expectations:
        if not one.holds:
            yield f"  step {one.step}: {one.expression} — {one.failure}"
    for skipped in result.skipped:
        yield f"  step {skipped.step} skipped: {skipped.reason}"
    reasons = [one.refused for one in result.containers.values() if one.refused is not None]
    yield from (f"  problem: {problem}" for problem in result.problems)
    yield from _unmet_lines(result)
    for remark in result.remarks:
        # What a container was refused for is said already.
        if remark.where != UNMET and not any(str(remark) in reason for reason in reasons):
            yield f"  {'advice' if remark.is_advice else 'problem'}: {remark}"


def _note_lines(result: ScenarioResult) -> Iterator[str]:
    """Notes, each with the first of the containers that have it: replicas may be thousands."""
    noted: dict[str, list[str]] = {}
    for container in result.containers.values():
        for note in container.notes:
            # What the table has as the reason is said already.
            if note != container.reason:
                noted.setdefault(note, []).append(_path(container))
    for note, paths in noted.items():
        yield f"  note: {_listed(paths)}: {note}"


def _unmet_lines(result: ScenarioResult) -> Iterator[str]:
    """Rules that do not hold, once each; then those that did not hold when somebody came."""
    names = {
        _path(one): {_rule_of(text) for text in one.unmet} for one in result.containers.values()
    }
    present: dict[str, None] = {}
    for one in result.containers.values():
        for text in one.unmet:
            rule = _rule_of(text)
            # Told to whom it is about, too; its owner says with whom it does not hold.
            owner = _parted(rule)[1]
            if owner == _path(one) or rule not in names.get(owner, ()):
                present[text] = None
    yield from _of_many("unmet", present)
    known = set[str]().union(*names.values())
    earlier = [one.what for one in result.remarks if one.where == UNMET]
    yield from _of_many("unmet for a while", [one for one in earlier if _rule_of(one) not in known])


def _of_many(what: str, texts: Iterable[str]) -> Iterator[str]:
    """Texts about rules; where very many own the same one, those of the first owners."""
    shown: dict[str, dict[str, list[str]]] = {}
    for text in texts:
        rule, owner = _parted(_rule_of(text))
        shown.setdefault(rule, {}).setdefault(owner, []).append(text)
    for rule, by_owner in shown.items():
        owners = list(by_owner)
        for owner in owners[:_NAMED_MAX]:
            yield from (f"  advice: {what}: {text}" for text in by_owner[owner])
        if others := owners[_NAMED_MAX:]:
            yield f"  advice: {what}: {rule} of {_listed(others)}"


def _listed(paths: Sequence[str]) -> str:
    named, more = ", ".join(paths[:_NAMED_MAX]), len(paths) - _NAMED_MAX
    return f"{named} and {more} more" if more > 0 else named


def _parted(rule: str) -> tuple[str, str]:
    """A rule, and the container whose it is."""
    text, _, owner = rule.rpartition(" of ")
    return text, owner


def _rule_of(text: str) -> str:
    """A rule that is told as unmet, and its owner, without the reason."""
    return text.rpartition(": ")[0]
