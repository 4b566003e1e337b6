"""Findings about rules, at their places in annotations."""

from ...model.container import Container
from ...text.errors import Problem
from ..podaffinity.term import Term


def is_written(term: Term) -> bool:
    """Whether the term stands in an annotation of the pod, not in the configuration."""
    return term.source.rpartition(":")[2].isdigit()


def term_finding(
    term: Term, owner: Container, what: str, fix: str, *, is_advice: bool = True
) -> Problem:
    """A finding about a term of a container, at its place in the annotation."""
    return finding(term.source, owner, what, fix, is_advice=is_advice)


def finding(
    source: str, owner: Container, what: str, fix: str, *, is_advice: bool = True
) -> Problem:
    """A finding about a rule of a container. `source`: where it is written, as terms have it."""
    key, _, line = source.rpartition(":")
    has_line = line.isdigit()
    return Problem(
        where=f"{key if has_line else source} of {owner.path}",
        what=what,
        fix=fix,
        line=int(line) if has_line else 0,
        is_advice=is_advice,
        container=owner.name,
    )
