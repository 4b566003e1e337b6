"""Places in a file of the characters of a scalar, however it is quoted, folded or indented."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from .yaml_nodes import TextScalar

_Place = tuple[int, int]

# Source: YAML 1.2, 5.7 Escaped Characters; all others are one character.
_ESCAPED_DIGITS: Final[Mapping[str, int]] = {"x": 2, "u": 4, "U": 8}
_PROPERTIES: Final = re.compile(r"([!&]\S*\s+)*")


class WrittenScalar:
    """A scalar beside the lines of the file that it is written in."""

    def __init__(self, scalar: TextScalar, lines: Sequence[str]) -> None:
        self._text = scalar.value
        self._lines = self._text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._places = _aligned(scalar, lines)

    def find(self, line: int, column: int) -> _Place | None:
        """The line and column in the file of a place in the text; None where it is not known.

        All count from 1; column 0 stands for the first one of the line that is neither blank nor
        the dash of a list.
        """
        if self._lines and (line, column) == (len(self._lines) + 1, 1):
            # Behind the last line: a parser may miss something at the end.
            line, column = line - 1, len(self._lines[-1].removesuffix("\n")) + 1
        if not 0 < line <= len(self._lines):
            return None
        if not column:
            inner = self._lines[line - 1]
            column = len(inner) - len(inner.lstrip(" -")) + 1
        index = self._starts[line - 1] + column - 1
        if index < len(self._places):
            row, place = self._places[index]
        elif index == len(self._text) == len(self._places):
            row, place = self._places[-1]
            place += 1
        else:
            return None
        return row + 1, place + 1


def _aligned(scalar: TextScalar, lines: Sequence[str]) -> list[_Place]:
    """The place of each character, from 0, as far as text and file can be laid side by side."""
    text, style, row, column = scalar.value, scalar.style, scalar.mark.line, scalar.mark.column
    if row < len(lines) and (properties := _PROPERTIES.match(lines[row], column)):
        column = properties.end()
    if style == "|":
        return _aligned_lines(text, row + 1, lines)
    if style == ">":
        row, column = row + 1, 0
    elif style:
        column += 1
    found: list[_Place] = []
    while len(found) < len(text) and row < len(lines):
        line, char = lines[row], text[len(found)]
        if column >= len(line):
            # What a break and the blanks around it come to depends on the style.
            while len(found) < len(text) and text[len(found)].isspace():
                found.append((row, column))
            row, column = _next_word(lines, row + 1)
        elif style == '"' and line[column] == "\\":
            if column + 1 == len(line):
                row, column = _next_word(lines, row + 1)
                continue
            found.append((row, column))
            column += 2 + _ESCAPED_DIGITS.get(line[column + 1], 0)
        elif line[column] == char:
            found.append((row, column))
            column += 2 if char == style == "'" else 1
        elif line[column].isspace():
            column += 1
        else:
            break
    return found


def _aligned_lines(text: str, row: int, lines: Sequence[str]) -> list[_Place]:
    """The place of each character of a literal block, whose lines stand indented from a row on."""
    inner = text.splitlines()
    indent = next(
        (
            len(written) - len(one)
            for one, written in zip(inner, lines[row:], strict=False)
            if not one.isspace() and one
        ),
        0,
    )
    found: list[_Place] = []
    for one, kept in zip(inner, text.splitlines(keepends=True), strict=True):
        if row >= len(lines) or lines[row][indent:] != one:
            break
        found += [(row, indent + column) for column in range(len(kept))]
        row += 1
    return found


def _next_word(lines: Sequence[str], row: int) -> _Place:
    """The first place from a row on that is not blank."""
    while row < len(lines):
        line = lines[row]
        if line and not line.isspace():
            return row, len(line) - len(line.lstrip())
        row += 1
    return row, 0
