"""Shell patterns as one test, sorted by what each kind of pattern needs."""

import re
from collections.abc import Sequence

from .glob import SEPARATOR, Automaton

CHUNK_STATES = 1024
"""The integers of a larger automaton would be dear to copy: it is split."""

_WORD_STATES = 30
"""Python computes with integers of so many bits in one piece, and takes longer for others."""

_SIDE_STEPS = 8
_PART_STEPS = 20
"""Steps for a pattern with a separator and a text with one."""

_ODD = re.compile(r"[?\[\\]")
_HEAD = re.compile(r"[^*?\[\\]*")
_TAIL = re.compile(r"[^*?\]\\]*\Z")


class GlobSet:
    """A test that a text passes if one of the patterns matches the whole of it.

    Most patterns are plain text with a `*` before or after it; comparing ends answers those. The
    others become automata, which are not compiled before the first text.
    """

    __slots__ = (
        "_across",
        "_automata",
        "exact",
        "heads",
        "making_steps",
        "odd",
        "parts",
        "tails",
    )

    def __init__(self, patterns: tuple[str, ...]) -> None:
        """All patterns are well-formed."""
        exact, heads, tails, parts, odd = _by_stars(patterns)
        self.exact = frozenset(exact)
        """The patterns without any star."""
        self.heads = tuple(heads)
        """What is before the star of patterns that end with their only one."""
        self.tails = tuple(tails)
        """What is after the star of patterns that begin with their only one."""
        self.parts = tuple(parts)
        """What is between two stars."""
        self.odd = tuple(odd)
        """All other patterns."""
        self._across = _across(heads), _across(tails), _across(parts)
        """The heads, tails and parts with a separator: no star matches one, so that no others match
        a text that has any."""
        self.making_steps = 80 + 12 * len(patterns) + sum(12 + 12 * len(one) for one in odd)
        """What sorting and compiling the patterns costs, once."""
        self._automata: tuple[Automaton, ...] | None = None

    def __call__(self, text: str) -> bool:
        """Whether one of the patterns matches."""
        if text in self.exact:
            return True
        if SEPARATOR in text:
            heads, tails, parts = self._across
            return (
                any(_begins(text, head) for head in heads)
                or any(_ends(text, tail) for tail in tails)
                or any(has_part(text, part) for part in parts)
                or self.accepts(text)
            )
        return (
            text.startswith(self.heads)
            or text.endswith(self.tails)
            or any(part in text for part in self.parts)
            or self.accepts(text)
        )

    @property
    def others(self) -> tuple[tuple[str, str], ...]:
        """For every other pattern what a text must begin and end with, which may be empty."""
        found = ((_HEAD.match(one), _TAIL.search(one)) for one in self.odd)
        return tuple((head[0] if head else "", tail[0] if tail else "") for head, tail in found)

    @property
    def is_compiled(self) -> bool:
        """Whether its patterns are compiled, which takes long; done when it is first needed."""
        return self._automata is not None

    @property
    def automata(self) -> tuple[Automaton, ...]:
        """The other patterns, compiled before the first text."""
        if self._automata is None:
            made: list[Automaton] = []
            for pattern in self.odd:
                if not made or made[-1].size + len(pattern) > CHUNK_STATES:
                    made.append(Automaton())
                made[-1].add(pattern)
            self._automata = tuple(made)
        return self._automata

    def steps(self, text: str) -> int:
        """Steps to test a text, at most; see `rules.evaluation` for what a step is."""
        return self.plain_steps(text) + self.accepting_steps(len(text))

    def plain_steps(self, text: str) -> int:
        """Steps to test a text against the patterns that need no automaton."""
        if SEPARATOR in text:
            # A call of Python for each.
            heads, tails, parts = self._across
            sides = _SIDE_STEPS * (len(heads) + len(tails))
            return 24 + sides + sum([_PART_STEPS + len(part) // 64 for part in parts])
        sides = len(self.heads) + len(self.tails)
        return 1 + sides // 2 + sum([2 + finding_steps(len(text), part) for part in self.parts])

    def accepting_steps(self, length: int) -> int:
        """Steps to run the automata over a text of some length."""
        return length * sum(
            4 + (automaton.size > _WORD_STATES) + automaton.size // 256
            for automaton in self.automata
        )

    def accepts(self, text: str) -> bool:
        """Whether one of the patterns that are not plain matches."""
        return any(automaton.accepts(text) for automaton in self.automata)


def _by_stars(patterns: tuple[str, ...]) -> tuple[list[str], ...]:
    """Literal texts of patterns: whole texts, heads, tails, parts; at last the odd patterns."""
    exact, heads, tails = list[str](), list[str](), list[str]()
    parts, odd = list[str](), list[str]()
    has_odd = _ODD.search("".join(patterns)) is not None
    for pattern in dict.fromkeys(patterns):
        stars = pattern.count("*")
        if has_odd and _ODD.search(pattern):
            odd.append(pattern)
        elif not stars:
            exact.append(pattern)
        elif stars == 1 and pattern[0] == "*":
            tails.append(pattern[1:])
        elif stars == 1 and pattern[-1] == "*":
            heads.append(pattern[:-1])
        elif stars == 2 and pattern[0] == pattern[-1] == "*":
            parts.append(pattern[1:-1])
        else:
            odd.append(pattern)
    return exact, heads, tails, parts, odd


def _across(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple([one for one in texts if SEPARATOR in one])


def finding_steps(characters: int, part: str) -> int:
    """Steps to look for a part in so many characters, in which all but its end may be found."""
    return characters * (16 + len(part)) // 256


def _begins(text: str, head: str) -> bool:
    """Whether the pattern of a head and a `*` matches."""
    return text.startswith(head) and text.find(SEPARATOR, len(head)) < 0


def _ends(text: str, tail: str) -> bool:
    """Whether the pattern of a `*` and a tail matches."""
    return text.endswith(tail) and text.find(SEPARATOR, 0, len(text) - len(tail)) < 0


def has_part(text: str, part: str) -> bool:
    """Whether the pattern of a part between two `*` matches."""
    first = text.find(SEPARATOR)
    if first < 0:
        return part in text
    # No star matches a separator: all of the text's are within the part, the first of both in one
    # place.
    inside = part.find(SEPARATOR)
    begin = first - inside
    is_there = inside >= 0 and begin >= 0 and text.startswith(part, begin)
    return is_there and text.find(SEPARATOR, begin + len(part)) < 0
