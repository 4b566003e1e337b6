r"""Shell patterns: `*`, `?`, `[a-z]`, `[^a-z]`, `[!a-z]` and `\` before a character taken as is.

As in Go's path.Match, a pattern matches the whole text, and `*` and `?` do not match a `/`, unless
another separator or none is named.
"""

from dataclasses import dataclass, field
from functools import lru_cache

MAX_LENGTH = 512
SEPARATOR = "/"
_NO_CLASS = "write \\[ for a ["


class GlobError(ValueError):
    """What is wrong with a pattern, and in `fix` how to mend it."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.fix = fix


@dataclass(frozen=True, slots=True, kw_only=True)
class Glob:
    """A compiled pattern: a set of states in one integer, bit i for "the first i items matched".

    Matching takes one step per character of the text, whatever the pattern.

    >>> compile_glob("redis-*").matches("redis-0"), compile_glob("[a-c]?").matches("d1")
    (True, False)
    """

    pattern: str
    prefix: str
    """The text is ruled out at once unless it begins so."""
    is_exact: bool
    """Whether the pattern is nothing but its prefix."""
    final: int
    separator: str = SEPARATOR
    """The character, if any, that only matches itself."""
    stars: int = 0
    """States that a `*` lets stay where they are."""
    wildcards: int = 0
    literals: dict[str, int] = field(default_factory=dict[str, int], compare=False)
    classes: tuple[tuple[int, "_Class"], ...] = ()

    def matches(self, text: str) -> bool:
        """Whether the pattern matches the whole text. O(length of the text)."""
        if self.is_exact or not text.startswith(self.prefix):
            return self.is_exact and text == self.prefix
        states = 1
        for character in text:
            accepted = self.literals.get(character, 0)
            stay = 0
            if character != self.separator:
                accepted |= self.wildcards
                stay = states & self.stars
                for bit, members in self.classes:
                    if states & bit and members.holds(character):
                        accepted |= bit
            states = (states & accepted) << 1 | stay
            if not states:
                return False
        return bool(states & self.final)


@dataclass(frozen=True, slots=True)
class _Class:
    ranges: tuple[tuple[str, str], ...]
    is_negated: bool

    def holds(self, character: str) -> bool:
        return any(low <= character <= high for low, high in self.ranges) != self.is_negated


@lru_cache(maxsize=512)
def compile_glob(pattern: str, separator: str = SEPARATOR) -> Glob:
    """The compiled pattern. Raises `GlobError`."""
    if len(pattern) > MAX_LENGTH:
        raise GlobError(f"{len(pattern)} characters", f"write at most {MAX_LENGTH}")
    bit, stars, wildcards, position = 1, 0, 0, 0
    prefix: list[str] = []
    is_exact = True
    literals: dict[str, int] = {}
    classes: list[tuple[int, _Class]] = []
    while position < len(pattern):
        character = pattern[position]
        position += 1
        if character == "*":
            stars |= bit
            is_exact = False
            continue
        if character == "?":
            wildcards |= bit
            is_exact = False
        elif character == "[":
            members, position = _parse_class(pattern, position)
            classes.append((bit, members))
            is_exact = False
        else:
            if character == "\\":
                character, position = _parse_character(pattern, position - 1)
            literals[character] = literals.get(character, 0) | bit
            if is_exact:
                prefix.append(character)
        bit <<= 1
    return Glob(
        pattern=pattern,
        prefix="".join(prefix),
        is_exact=is_exact,
        final=bit,
        separator=separator,
        stars=stars,
        wildcards=wildcards,
        literals=literals,
        classes=tuple(classes),
    )


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
