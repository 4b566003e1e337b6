"""Suggestions for a word that is not known: the nearest one that is."""

from collections.abc import Iterable

# The matcher's cost grows with the word; no word of ours is as long as this.
LONGEST = 80


def suggestion(word: str, known: Iterable[str]) -> str:
    """The nearest known word as a question, otherwise all of them.

    >>> suggestion("match", ["scope", "matches"]), suggestion("x", ["scope", "match"])
    ("did you mean 'matches'?", 'one of scope, match')
    """
    words = tuple(known)
    near = nearest(word, words)
    return f"did you mean {near!r}?" if near else "one of " + ", ".join(words)


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The most similar known word, whatever its case; None where none is similar."""
    # Imported here: few nodes have words that nobody knows.
    from difflib import get_close_matches

    by_lower = {name.lower(): name for name in reversed(tuple(known))}
    near = get_close_matches(word[:LONGEST].lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[near[0]] if near else None
