r"""Shell patterns: `*`, `?`, `[a-z]`, `[^a-z]`, `[!a-z]` and `\` before a character taken as is.

As in Go's path.Match, a pattern matches the whole text, and `*` and `?` do not match a `/`, unless
another separator or none is named.
"""

from dataclasses import dataclass, field
from functools import lru_cache

from msgspec import Struct

MAX_LENGTH = 512
SEPARATOR = "/"
_NO_CLASS = "write \\[ for a ["
_ASCII = 128


class GlobError(ValueError):
    """A pattern is malformed; `fix` says how to mend it."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.fix = fix


class Glob(Struct, frozen=True):
    """One compiled pattern.

    >>> compile_glob("redis-*").matches("redis-0"), compile_glob("[a-c]?").matches("d1")
    (True, False)
    """

    pattern: str
    automaton: "Automaton"
    prefix: str
    """The text is ruled out at once unless it begins so."""
    is_exact: bool
    """Whether the pattern is nothing but its prefix."""

    def matches(self, text: str) -> bool:
        """Whether the pattern matches the whole text. O(length of the text)."""
        if self.is_exact or not text.startswith(self.prefix):
            return self.is_exact and text == self.prefix
        return self.automaton.accepts(text)


@dataclass(slots=True, kw_only=True)
class Automaton:
    """Patterns side by side: a set of states in one integer, one bit per item of a pattern.

    A text takes one step per character, whatever the patterns; a step over many patterns is dearer
    than one over few, as the integer is longer.
    """

    initial: int = 0
    final: int = 0
    separator: str = SEPARATOR
    """The character, if any, that only matches itself."""
    size: int = 0
    """Bits."""
    stars: int = 0
    """States that a `*` lets stay where they are."""
    wildcards: int = 0
    literals: dict[str, int] = field(default_factory=dict[str, int])
    classes: list[tuple[int, "_Class"]] = field(default_factory=list[tuple[int, "_Class"]])
    _steps: dict[str, int] = field(default_factory=dict[str, int], repr=False)

    def add(self, pattern: str) -> None:
        """Put one more pattern beside the others. Raises `GlobError`."""
        if len(pattern) > MAX_LENGTH:
            raise GlobError(f"{len(pattern)} characters", f"write at most {MAX_LENGTH}")
        bit, position, literals = 1 << self.size, 0, self.literals
        self.initial |= bit
        while position < len(pattern):
            character = pattern[position]
            position += 1
            if character == "*":
                self.stars |= bit
                continue
            if character == "?":
                self.wildcards |= bit
            elif character == "[":
                members, position = _parse_class(pattern, position)
                self.classes.append((bit, members))
            else:
                if character == "\\":
                    character, position = _parse_character(pattern, position - 1)
                literals[character] = literals.get(character, 0) | bit
            bit <<= 1
        self.final |= bit
        self.size = bit.bit_length()

    def accepts(self, text: str) -> bool:
        """Whether one of the patterns matches the whole text."""
        states, stars, steps, separator = self.initial, self.stars, self._steps, self.separator
        for character in text:
            step = steps.get(character)
            if step is None:
                step = self._step(character)
            stay = states & stars if character != separator else 0
            states = (states & step) << 1 | stay
            if not states:
                return False
        return bool(states & self.final)

    def _step(self, character: str) -> int:
        """The items that a character fulfils."""
        step = self.literals.get(character, 0)
        if character != self.separator:
            step |= self.wildcards
            for bit, members in self.classes:
                if members.holds(character):
                    step |= bit
        if ord(character) < _ASCII:
            self._steps[character] = step
        return step


class _Class(Struct, frozen=True):
    ranges: tuple[tuple[str, str], ...]
    is_negated: bool

    def holds(self, character: str) -> bool:
        return any(low <= character <= high for low, high in self.ranges) != self.is_negated


@lru_cache(maxsize=512)
def compile_glob(pattern: str, separator: str = SEPARATOR) -> Glob:
    """The compiled pattern. Raises `GlobError`."""
    automaton = Automaton(separator=separator)
    automaton.add(pattern)
    position, prefix = 0, ""
    while position < len(pattern) and pattern[position] not in "*?[":
        character, position = _parse_character(pattern, position)
        prefix += character
    return Glob(pattern, automaton, prefix, position == len(pattern))


def _parse_class(pattern: str, position: int) -> tuple[_Class, int]:
    """The members of `[ ("^" | "!") range { range } ]`, a range being c or c-c."""
    is_negated = pattern[position : position + 1] in ("^", "!")
    position += is_negated
    ranges: list[tuple[str, str]] = []
    while position < len(pattern) and pattern[position] != "]":
        low, position = _parse_character(pattern, position)
        high = low
        if pattern[position : position + 1] == "-":
            high, position = _parse_character(pattern, position + 1)
        if high < low:
            raise GlobError(f"the range {low}-{high} is backwards", f"write [{high}-{low}]")
        ranges.append((low, high))
    if not ranges:
        raise GlobError("an empty or open [...]", _NO_CLASS)
    if pattern[position : position + 1] != "]":
        raise GlobError("a '[' without its ']'", _NO_CLASS)
    return _Class(tuple(ranges), is_negated), position + 1


def _parse_character(pattern: str, position: int) -> tuple[str, int]:
    if pattern[position : position + 1] == "\\":
        position += 1
        if position >= len(pattern):
            raise GlobError("it ends after a '\\'", "write \\\\ for a \\")
    if position >= len(pattern):
        raise GlobError("a '[' without its ']'", _NO_CLASS)
    return pattern[position], position + 1
