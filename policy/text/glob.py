r"""Shell patterns: `*`, `?`, `[a-z]`, `[^a-z]`, `[!a-z]` and `\` before a character taken as is.

As in Go's path.Match, a pattern matches the whole text, and `*` and `?` do not match a `/`, unless
another separator or none is named.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate

from msgspec import Struct

MAX_LENGTH = 512
SEPARATOR = "/"
_NO_CLASS = "write \\[ for a ["
_ASCII = 128
_SPECIAL = re.compile(r"[\[\\]")
_WILDCARDS = frozenset("*?[")


class GlobError(ValueError):
    """A pattern is malformed; `fix` says how to mend it."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.fix = fix


def has_wildcard(text: str) -> bool:
    """Whether a text is meant for a pattern, and not for a name of something in Kubernetes."""
    return not _WILDCARDS.isdisjoint(text)


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
    turns: dict[int, int] = field(default_factory=dict[int, int])
    """By character code, the classes that it is in where the one before it is not, or else the
    other way round."""
    _members: tuple[list[int], list[int]] | None = field(default=None, repr=False)
    """The codes of the turns in order, and the classes of a character from each on."""
    _steps: dict[str, int] = field(default_factory=dict[str, int], repr=False)

    def add(self, pattern: str) -> None:
        """Put one more pattern beside the others. Raises `GlobError`."""
        if len(pattern) > MAX_LENGTH:
            raise _too_long(pattern)
        bit, position, literals, turns = 1 << self.size, 0, self.literals, self.turns
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
                codes, position = _parse_class(pattern, position)
                for code in codes:
                    turns[code] = turns.get(code, 0) ^ bit
            else:
                if character == "\\":
                    character, position = _parse_character(pattern, position - 1)
                literals[character] = literals.get(character, 0) | bit
            bit <<= 1
        self.final |= bit
        self.size = bit.bit_length()
        self._members = None
        self._steps.clear()

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
            if self.turns:
                step |= self._classes(ord(character))
        if ord(character) < _ASCII:
            self._steps[character] = step
        return step

    def _classes(self, code: int) -> int:
        """The classes that a character is in. O(log turns), once these are in order."""
        if self._members is None:
            codes = sorted(self.turns)
            self._members = codes, [0, *accumulate([self.turns[one] for one in codes], int.__xor__)]
        codes, members = self._members
        return members[bisect_right(codes, code)]


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


def check_glob(pattern: str) -> None:
    """Raise `GlobError` where a pattern is malformed. Cheaper than to compile it."""
    if len(pattern) > MAX_LENGTH:
        raise _too_long(pattern)
    found = _SPECIAL.search(pattern)
    while found:
        if found[0] == "[":
            _, position = _parse_class(pattern, found.end())
        else:
            _, position = _parse_character(pattern, found.start())
        found = _SPECIAL.search(pattern, position)


def _too_long(pattern: str) -> GlobError:
    return GlobError(f"{len(pattern)} characters", f"write at most {MAX_LENGTH}")


def _parse_class(pattern: str, position: int) -> tuple[tuple[int, ...], int]:
    """The members of `[ ("^" | "!") range { range } ]`, a range being c or c-c.

    As codes in order: at each a run of members begins or ends.
    """
    end = pattern.find("]", position)
    if position < end <= position + _PLAIN_LENGTH and pattern[end - 1] != "-":
        body = pattern[position:end]
        if "\\" not in body:
            return _plain_class(body), end + 1
    return _any_class(pattern, position)


_PLAIN_LENGTH = 32
"""Characters of most classes: those are read once."""


@lru_cache(maxsize=2048)
def _plain_class(body: str) -> tuple[int, ...]:
    """The members of a class of these characters, none of which is escaped."""
    return _any_class(body + "]", 0)[0]


def _any_class(pattern: str, position: int) -> tuple[tuple[int, ...], int]:
    is_negated = pattern[position : position + 1] in ("^", "!")
    position += is_negated
    ranges: list[tuple[int, int]] = []
    while position < len(pattern) and pattern[position] != "]":
        low, position = _parse_character(pattern, position)
        high = low
        if pattern[position : position + 1] == "-":
            high, position = _parse_character(pattern, position + 1)
        if high < low:
            raise GlobError(f"the range {low}-{high} is backwards", f"write [{high}-{low}]")
        ranges.append((ord(low), ord(high)))
    if not ranges:
        raise GlobError("an empty or open [...]", _NO_CLASS)
    if pattern[position : position + 1] != "]":
        raise GlobError("a '[' without its ']'", _NO_CLASS)
    runs = _runs(ranges)
    # Of a negated class all characters before the first run are members.
    return ((0, *runs) if is_negated else tuple(runs)), position + 1


def _runs(ranges: list[tuple[int, int]]) -> Iterator[int]:
    """Where each run of ranges begins, and what comes after it."""
    ranges.sort()
    first, last = ranges[0]
    for low, high in ranges:
        if low > last + 1:
            yield from (first, last + 1)
            first = low
        last = max(last, high)
    yield from (first, last + 1)


def _parse_character(pattern: str, position: int) -> tuple[str, int]:
    if pattern[position : position + 1] == "\\":
        position += 1
        if position >= len(pattern):
            raise GlobError("it ends after a '\\'", "write \\\\ for a \\")
    if position >= len(pattern):
        raise GlobError("a '[' without its ']'", _NO_CLASS)
    return pattern[position], position + 1
