"""Shell patterns as one test, sorted by what each kind of pattern needs."""

import re

from .glob import SEPARATOR, Automaton, compile_glob

CHUNK_STATES = 1024
"""The integers of a larger automaton would be dear to copy: it is split."""

_ODD = re.compile(r"[?\[\\]")
_HEAD = re.compile(r"[^*?\[\\]*")
_TAIL = re.compile(r"[^*?\]\\]*\Z")


class GlobSet:
    """A test that a text passes if one of the patterns matches the whole of it.

    Most patterns are plain text with a `*` before or after it; comparing ends answers those. The
    others become automata, which are not compiled before the first text.
    """

    __slots__ = (
        "_automata",
        "exact",
        "heads",
        "making_steps",
        "odd",
        "parts",
        "patterns",
        "tails",
    )

    def __init__(self, patterns: tuple[str, ...]) -> None:
        """All patterns are well-formed."""
        exact, heads, tails, parts, odd = _by_stars(patterns)
        self.patterns = patterns
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
        self.making_steps = 80 + 12 * len(patterns) + sum(12 + 12 * len(one) for one in odd)
        """What sorting and compiling the patterns costs, once."""
        self._automata: tuple[Automaton, ...] | None = None

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
        count = 1 + (len(self.heads) + len(self.tails)) // 2
        count += sum(2 + finding_steps(len(text), part) for part in self.parts)
        if SEPARATOR not in text:
            return count
        automata = sum(8 * len(part) + 8 * len(text) for part in self.parts if part in text)
        return 8 * count + automata

    def accepting_steps(self, length: int) -> int:
        """Steps to run the automata over a text of some length."""
        return length * sum(4 + automaton.size // 128 for automaton in self.automata)

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


def finding_steps(characters: int, part: str) -> int:
    """Steps to look for a part in so many characters, in which all but its end may be found."""
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
