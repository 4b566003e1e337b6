"""Tables and trees of the command line, drawn by rich: the one module that knows it.

Rich is imported where something is drawn: it takes some 30 ms of cpu, which neither the daemon nor
a JSON document shall pay.
"""

import os
import sys
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING, Final

from ...topology.drawing.text_tree import TextTree
from .escaped_text import escaped

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text
    from rich.tree import Tree

_COLUMNS: Final = 1 << 30
"""Wider than every line: none is wrapped or cut, whatever the terminal; it wraps for itself."""
_GUTTER: Final = 2
_NARROW_GUIDES: Final = ("   ", "│  ", "├─ ", "└─ ")


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as lines of text: indented, two spaces or more between its columns."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 0, 0, _GUTTER), header_style="")
    for name in head:
        # A span is as long as the name; a style of the cell would reach to the end of the column.
        title = _text(name)
        title.stylize("bold")
        table.add_column(title, no_wrap=True, overflow="ignore")
    for row in rows:
        table.add_row(*map(_text, row))
    return _lines(table)


def tree_lines(tree: TextTree) -> list[str]:
    """A tree as lines of text, its root first."""
    from rich.tree import Tree

    drawn = Tree(_text(tree.text), guide_style="dim")
    guides: list[tuple[str, str, str, str]] = [_NARROW_GUIDES for _ in Tree.TREE_GUIDES]
    drawn.TREE_GUIDES = guides
    _grow(drawn, tree.below)
    return _lines(drawn)


def branch_lines(branches: Sequence[TextTree]) -> list[str]:
    """The branches of a tree that has no root to show, as lines of text."""
    from rich.tree import Tree

    drawn = Tree("", guide_style="dim")
    _grow(drawn, branches)
    # To a root that is hidden rich draws no lines.
    return _lines(drawn)[1:]


def _grow(drawn: "Tree", branches: Sequence[TextTree]) -> None:
    for branch in branches:
        _grow(drawn.add(_text(branch.text)), branch.below)


def _text(text: str) -> "Text":
    """A text as it is: rich reads a str as markup, and loses control characters of a `Text`."""
    from rich.text import Text

    return Text(escaped(text), no_wrap=True, overflow="ignore")


def _lines(drawn: "RenderableType") -> list[str]:
    from rich.console import Console

    # Standard output is absent where the process was started with it closed.
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    # To a string, not to standard output: rich answers a reader that leaves early with status 1.
    text = StringIO()
    console = Console(
        file=text,
        force_terminal=is_terminal and not os.environ.get("NO_COLOR"),
        # Both, or rich asks the terminal, and a dumb one has 80 columns.
        width=_COLUMNS,
        height=1,
        # It would look for a notebook.
        force_jupyter=False,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(drawn)
    return [line.rstrip() for line in text.getvalue().splitlines()]
