"""Several shell patterns as one test, sorted by what each kind of pattern needs."""

import re
from functools import cached_property

from .glob import SEPARATOR, Automaton, compile_glob

CHUNK_STATES = 1024
"""The integers of a larger automaton would be dear to copy: it is split."""

_ODD = re.compile(r"[?\[\\]")
_HEAD = re.compile(r"[^*?\[\\]*")
_TAIL = re.compile(r"[^*?\]\\]*\Z")


class GlobSet:
    """A test that a text passes if one of the patterns matches the whole of it.

    Most patterns are plain text with a `*` before or after it; comparing ends answers those. The
    others become automata. Nothing is sorted or compiled before the first text.
    """

    def __init__(self, patterns: tuple[str, ...]) -> None:
        """All patterns are well-formed."""
        self.patterns = patterns

    def __call__(self, text: str) -> bool:
        """Whether one of the patterns matches."""
        if text in self.exact:
            return True
        if SEPARATOR in text:
            return (
                any(begins(text, head) for head in self.heads)
                or any(ends(text, tail) for tail in self.tails)
                or any(has_part(text, part) for part in self.parts)
                or self.accepts(text)
            )
        return (
            text.startswith(self.heads)
            or text.endswith(self.tails)
            or any(part in text for part in self.parts)
            or self.accepts(text)
        )

    @cached_property
    def _sorted(self) -> dict[str, list[str]]:
        """What is literal in each plain pattern by where its stars are; the others under "?"."""
        found: dict[str, list[str]] = {}
        has_odd = any(odd in "".join(self.patterns) for odd in "?[\\")
        for pattern in dict.fromkeys(self.patterns):
            begins_so, ends_so = pattern[:1] == "*", pattern[-1:] == "*"
            literal = pattern[begins_so : len(pattern) - (ends_so and pattern != "*")]
            is_plain = "*" not in literal and not (has_odd and _ODD.search(literal))
            kind = f"{'*' * begins_so}_{'*' * (ends_so and pattern != '*')}" if is_plain else "?"
            found.setdefault(kind, []).append(literal if is_plain else pattern)
        return found

    @cached_property
    def exact(self) -> frozenset[str]:
        """The patterns without any star."""
        return frozenset(self._sorted.get("_", ()))

    @cached_property
    def heads(self) -> tuple[str, ...]:
        """What is before the star of patterns that end with their only one."""
        return tuple(self._sorted.get("_*", ()))

    @cached_property
    def tails(self) -> tuple[str, ...]:
        """What is after the star of patterns that begin with their only one."""
        return tuple(self._sorted.get("*_", ()))

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """What is between two stars."""
        return tuple(self._sorted.get("*_*", ()))

    @cached_property
    def others(self) -> tuple[tuple[str, str], ...]:
        """For every other pattern what a text must begin and end with, which may be empty."""
        found = ((_HEAD.match(one), _TAIL.search(one)) for one in self._sorted.get("?", ()))
        return tuple((head[0] if head else "", tail[0] if tail else "") for head, tail in found)

    @cached_property
    def automata(self) -> tuple[Automaton, ...]:
        """The patterns that are not plain, compiled."""
        made: list[Automaton] = []
        for pattern in self._sorted.get("?", ()):
            if not made or made[-1].size + len(pattern) > CHUNK_STATES:
                made.append(Automaton())
            made[-1].add(pattern)
        return tuple(made)

    @cached_property
    def making_steps(self) -> int:
        """What sorting and compiling the patterns costs, once."""
        compiled = sum(12 + 12 * len(one) for one in self._sorted.get("?", ()))
        return 80 + 12 * len(self.patterns) + compiled

    def steps(self, text: str) -> int:
        """What it costs to test a text, at most."""
        return self.plain_steps(text) + self.accepting_steps(len(text))

    def plain_steps(self, text: str) -> int:
        """What the patterns cost that are not for automata."""
        count = 1 + (len(self.heads) + len(self.tails)) // 2
        count += sum(2 + finding_steps(len(text), part) for part in self.parts)
        if SEPARATOR not in text:
            return count
        automata = sum(8 * len(part) + 8 * len(text) for part in self.parts if part in text)
        return 8 * count + automata

    def accepting_steps(self, length: int) -> int:
        """What it costs to run the automata over a text of some length."""
        return length * sum(4 + automaton.size // 128 for automaton in self.automata)

    def accepts(self, text: str) -> bool:
        """Whether one of the patterns that are not plain matches."""
        return any(automaton.accepts(text) for automaton in self.automata)


def finding_steps(characters: int, part: str) -> int:
    """What it costs to look for a part in so many characters, which may be all but the part."""
    return characters * (16 + len(part)) // 256


def begins(text: str, head: str) -> bool:
    """Whether the pattern of a head and a `*` matches."""
    return text.startswith(head) and text.find(SEPARATOR, len(head)) < 0


def ends(text: str, tail: str) -> bool:
    """Whether the pattern of a `*` and a tail matches."""
    return text.endswith(tail) and text.find(SEPARATOR, 0, len(text) - len(tail)) < 0


def has_part(text: str, part: str) -> bool:
    """Whether the pattern of a part between two `*` matches."""
    if SEPARATOR not in text:
        return part in text
    # Every separator has to be within the part, wherever that is.
    return part in text and compile_glob(f"*{part}*").matches(text)
