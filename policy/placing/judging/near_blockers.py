"""Blockers near a container: of those whom a rule keeps away, the ones that share its domains."""

from collections.abc import Iterable, Iterator

from ...books.books import Books
from .restriction import Restriction


def with_near_blockers(
    rules: Iterable[Restriction], cpus: int, books: Books
) -> Iterator[Restriction]:
    """Rules broken on some cpus, with those of their blockers alone beside whom they are broken.

    All of their blockers where none is near any more. O(blockers).
    """
    for rule in rules:
        if len(rule.blockers) > 1:
            # More are named by their number: so that is that of those who are near.
            here = books.domains.covering(rule.level, cpus)
            reaches = books.reaches([one.id for one in rule.blockers])
            near = [one for one, mask in zip(rule.blockers, reaches, strict=True) if mask & here]
            yield rule.beside(near)
        else:
            yield rule
