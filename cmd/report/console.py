"""Tables, trees and progress of the command line, drawn by rich: the one module that knows it.

Rich is imported where something is drawn: it takes some 60 ms of cpu, which neither the daemon nor
a JSON document shall pay. Nor shall who asks why a container is where it is: tables whose
characters are all of one width are drawn here, and look the same.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from itertools import zip_longest
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TextIO, TypeVar

from .escaped_text import escaped

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress
    from rich.text import Text
    from rich.tree import Tree

    from ...topology.drawing.text_tree import TextTree

_Step = TypeVar("_Step")

_COLUMNS: Final = 1 << 30
"""Wider than every line: none is wrapped or cut, whatever the terminal; it wraps for itself."""
_GUTTER: Final = 2
_QUIET_SECONDS: Final = 1.0
"""A run that is over sooner needs no progress bar."""
_REDRAW_SECONDS: Final = 0.1
_PLAIN_TERMINALS: Final = ("dumb", "unknown")
"""Source: rich.console, `Console.is_dumb_terminal`."""
_NARROW: Final = str.maketrans("", "", "█·…—")
"""What our own tables have besides ASCII, and is as wide."""
_NARROW_GUIDES: Final = ("   ", "│  ", "├─ ", "└─ ")


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as lines of text: indented, two spaces or more between its columns."""
    cells = [[escaped(one) for one in row] for row in (head, *rows)]
    if all(one.translate(_NARROW).isascii() for row in cells for one in row):
        return _narrow_table(cells)
    return rich_table(head, rows)


def rich_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table in whatever characters, each as wide as a terminal shows it."""
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


@contextmanager
def live_lines() -> Generator[Callable[[Sequence[str]], None]]:
    """A function that shows lines in place of those it showed before; the last ones stay.

    Where nothing can be taken back, as in a pipe, they come after those, and an empty line.
    """
    if not _is_terminal() or os.environ.get("TERM", "") in _PLAIN_TERMINALS:
        yield lambda lines: print(*lines, "", sep="\n", flush=True)
        return
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False, vertical_overflow="crop") as live:
        yield lambda lines: live.update(Text("\n").join(map(Text.from_ansi, lines)), refresh=True)


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


class ProgressBar:
    """The share of steps that are done, on a terminal's standard error, while it takes long.

    It is drawn from the second second on and gone at the end.
    """

    def __init__(
        self,
        total: int,
        terminal: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`total`: how many steps there will be. `terminal`: standard error, if not given."""
        self._total = total
        self._terminal = sys.stderr if terminal is None else terminal
        self._clock = clock
        self._next = clock() + _QUIET_SECONDS
        self._done = 0
        self._drawn: Progress | None = None

    def __enter__(self) -> Self:
        """The bar, of which nothing is drawn yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wipe the bar off the terminal."""
        if self._drawn is not None:
            self._drawn.stop()

    def track(self, steps: Iterable[_Step]) -> Iterator[_Step]:
        """The steps, each counted when the next one is asked for."""
        for step in steps:
            yield step
            self._done += 1
            if self._clock() >= self._next and self._is_terminal:
                self._next = self._clock() + _REDRAW_SECONDS
                self._draw()

    @property
    def _is_terminal(self) -> bool:
        # Standard error is absent where the process was started with it closed.
        stream: TextIO | None = self._terminal
        return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"

    def _draw(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        if self._drawn is None:
            console = Console(file=self._terminal, force_terminal=True, force_jupyter=False)
            columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn())
            # Without a thread of its own: it would take time from what is waited for.
            self._drawn = Progress(*columns, console=console, transient=True, auto_refresh=False)
            self._drawn.add_task("", total=self._total, completed=self._done)
            self._drawn.start()
        self._drawn.update(self._drawn.task_ids[0], completed=self._done)
        self._drawn.refresh()


def _grow(drawn: Tree, branches: Sequence[TextTree]) -> None:
    for branch in branches:
        _grow(drawn.add(_text(branch.text)), branch.below)


def _narrow_table(cells: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table of characters of one width, whose first row is its head."""
    widths = [max(map(len, column)) for column in zip_longest(*cells, fillvalue="")]
    begin, end = ("\x1b[1m", "\x1b[0m") if _is_styled() else ("", "")
    lines: list[str] = []
    for row in cells:
        parts = [
            f"{'':{_GUTTER}}{begin}{cell}{end}{'':{width - len(cell)}}"
            for cell, width in zip(row, widths, strict=False)
        ]
        lines.append("".join(parts).rstrip())
        begin = end = ""
    return lines


def _is_terminal() -> bool:
    # Standard output is absent where the process was started with it closed.
    return sys.stdout is not None and sys.stdout.isatty()


def _is_styled() -> bool:
    """Whether standard output is a terminal with bold letters, whose owner wants them."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in _PLAIN_TERMINALS
    return _is_terminal() and not is_plain


def _text(text: str) -> Text:
    """A text as it is: rich reads a str as markup, and loses control characters of a `Text`."""
    from rich.text import Text

    return Text(escaped(text), no_wrap=True, overflow="ignore")


def _lines(drawn: RenderableType) -> list[str]:
    from rich.console import Console

    # To a string, not to standard output: rich answers a reader that leaves early with status 1.
    text = StringIO()
    console = Console(
        file=text,
        force_terminal=_is_terminal() and not os.environ.get("NO_COLOR"),
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
