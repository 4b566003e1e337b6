"""Findings of lint: problems with their places in a file, and the line there."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ..text.errors import Problem

_INDENT: Final = "    "
_EXCERPT_MAX: Final = 160
"""Characters of a line that are shown."""


class Finding(Struct, frozen=True, kw_only=True):
    """A problem, its place in the file (0 if unknown), and that line with the place underlined.

    Without the excerpt, line and column of the problem are inside the text that begins there.
    """

    problem: Problem
    line: int = 0
    column: int = 0
    excerpt: str = ""

    @property
    def message(self) -> str:
        """`where: what — fix`, and the place inside the text where that in the file is unknown."""
        problem = self.problem
        fix = f" — {problem.fix}" if problem.fix else ""
        is_told = self.excerpt or (self.line, self.column) == (problem.line, problem.column)
        inside = "" if is_told or not problem.column else f":{problem.line}:{problem.column}"
        return f"{problem.where}{inside}: {problem.what}{fix}"


def finding_at(problem: Problem, line: int, column: int, lines: Sequence[str]) -> Finding:
    """A problem at a place in a text of these lines, with the excerpt."""
    excerpt = ""
    if line and column and line <= len(lines):
        written, at = lines[line - 1], column - 1
        # A manifest of a machine may be one line of megabytes.
        begin = at - _EXCERPT_MAX // 2 if len(written) > _EXCERPT_MAX else 0
        begin = min(begin, len(written) - _EXCERPT_MAX) if begin > 0 else 0
        part = _printable(written[begin : begin + _EXCERPT_MAX].rstrip())
        margin = 0 if begin else min(len(part) - len(part.lstrip()), at)
        before = "…" if begin else ""
        after = "…" if len(written.rstrip()) > begin + _EXCERPT_MAX else ""
        indent = " " * (len(before) + at - begin - margin)
        excerpt = f"{_INDENT}{before}{part[margin:]}{after}\n{_INDENT}{indent}^"
    return Finding(problem=problem, line=line, column=column, excerpt=excerpt)


def _printable(line: str) -> str:
    # What a stranger wrote must not steer the terminal.
    return "".join(one if one.isprintable() else " " for one in line)
