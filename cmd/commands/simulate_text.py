"""The results of scenarios as text for people."""

from collections.abc import Iterator
from typing import Final

from ...policy.engine.pool_drawing import pool_texts
from ...policy.scenarios.result import ContainerResult, ScenarioResult
from ..report.console import table_lines, tree_lines
from ..report.escaped_text import escaped
from ..report.weight_text import weight_text
from .container_lines import cpus_text, natural_key, place_text, short_names

_COLUMNS: Final = ("container", "pool", "cpus", "memory", "why")


def table_text(result: ScenarioResult) -> str:
    """A scenario as a table of its containers, then what was expected and what went wrong."""
    lines = [_headline(result)]
    if result.containers:
        lines.extend(table_lines(_COLUMNS, _rows(result)))
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
    ]


def _cpus(one: ContainerResult) -> str:
    return cpus_text(one.kind, one.cpus, one.exclusive, one.shared)


def _reason(one: ContainerResult) -> str:
    if one.refused is not None:
        return f"refused: {one.refused}"
    rules = dict.fromkeys(given.rule for given in one.given)
    return f"{one.reason} (rule {', '.join(rules)})" if rules else one.reason


def _verdicts(result: ScenarioResult) -> Iterator[str]:
    shown = {
        f"{one.namespace}/{one.pod}/{one.name}"
        for one in result.containers.values()
        if one.refused is not None
    }
    for refusal in result.refusals:
        if refusal.path not in shown:
            yield f"  step {refusal.step}: {refusal.path} refused: {refusal.reason}"
    if (quality := result.quality) is not None:
        score, best = (
            weight_text(one, quality.scale) for one in (quality.score, quality.best_known)
        )
        yield f"  satisfied weight: {score}, the best known is {best}"
    if result.expectations:
        holding = sum(one.holds for one in result.expectations)
        yield f"  {holding} of {len(result.expectations)} expectations hold"
    for one in result.expectations:
        if not one.holds:
            yield f"  step {one.step}: {one.expression} — {one.error or 'does not hold'}"
    for skipped in result.skipped:
        yield f"  step {skipped.step} skipped: {skipped.reason}"
    reasons = [one.refused for one in result.containers.values() if one.refused is not None]
    yield from (f"  problem: {problem}" for problem in result.problems)
    for remark in result.remarks:
        # What a container was refused for is said already.
        if not any(str(remark) in reason for reason in reasons):
            yield f"  {'advice' if remark.is_advice else 'problem'}: {remark}"
