"""The results of scenarios as text for people."""

from collections.abc import Iterator

from ..policy.drawpools import draw_pools
from ..policy.scenarios.result import ContainerResult, ScenarioResult


def table_text(result: ScenarioResult) -> str:
    """A scenario as a table of its containers, then what was expected and what went wrong."""
    lines = [_headline(result)]
    if result.containers:
        lines.extend(_table(result))
    lines.extend(_verdicts(result))
    return "\n".join(lines)


def tree_text(result: ScenarioResult) -> str:
    """A scenario as its pools with the containers in them."""
    lines = [_headline(result)]
    if result.tree is not None:
        inside: dict[str, list[str]] = {}
        for key, one in sorted(result.containers.items()):
            if one.refused is None:
                text = f"[{key}] cpus {_cpus(one)}; memory {one.mems}; {_reason(one)}"
                inside.setdefault(one.pool, []).append(text)
        lines.append(draw_pools(result.tree, result.machine, inside))
    for key, one in sorted(result.containers.items()):
        if one.refused is not None:
            lines.append(f"[{key}] {_reason(one)}")
    lines.extend(_verdicts(result))
    return "\n".join(lines)


def _headline(result: ScenarioResult) -> str:
    return f"{result.id} on {result.topology}:"


def _table(result: ScenarioResult) -> Iterator[str]:
    rows = [("container", "pool", "cpus", "memory", "why")]
    for key, one in sorted(result.containers.items()):
        rows.append((key, one.pool or "-", _cpus(one), one.mems or "-", _reason(one)))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield "  " + "  ".join((*cells, row[4])).rstrip()


def _cpus(one: ContainerResult) -> str:
    parts = [
        f"{cpus} {kind}"
        for cpus, kind in ((one.exclusive, "exclusive"), (one.shared, "shared"))
        if cpus
    ]
    return " + ".join(parts) or one.cpus or "-"


def _reason(one: ContainerResult) -> str:
    if one.refused is not None:
        return f"refused: {one.refused}"
    return one.decided_by.replace("_", " ")


def _verdicts(result: ScenarioResult) -> Iterator[str]:
    if result.expectations:
        holding = sum(one.holds for one in result.expectations)
        yield f"  {holding} of {len(result.expectations)} expectations hold"
    for one in result.expectations:
        if not one.holds:
            yield f"  step {one.step}: {one.expression} — {one.error or 'does not hold'}"
    for skipped in result.skipped:
        yield f"  step {skipped.step} skipped: {skipped.reason}"
    for problem in (*result.problems, *result.remarks):
        yield f"  problem: {problem}"
