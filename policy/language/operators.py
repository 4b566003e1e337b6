"""The operators of expressions: one row each."""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .glob import compile_glob

ANYTHING = "*"

Test = Callable[[str], bool]


class Arity(enum.Enum):
    """How many values an operator takes, as a person says it."""

    NONE = "no values"
    ONE = "exactly one value"
    SOME = "at least one value"


def equal(values: tuple[str, ...]) -> Test:
    """Whether a value is one of `values`; the value `*` is equal to anything."""
    return present(values) if ANYTHING in values else frozenset(values).__contains__


def glob(patterns: tuple[str, ...]) -> Test:
    """Whether one of the patterns matches a value."""
    globs = tuple(map(compile_glob, patterns))
    if len(globs) == 1:
        return globs[0].matches
    return lambda value: any(each.matches(value) for each in globs)


def present(_: tuple[str, ...]) -> Test:
    """True for any value."""
    return lambda _: True


def never(_: tuple[str, ...]) -> Test:
    """False for any value."""
    return lambda _: False


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: `compare` makes the test that a value which is there has to pass.

    Negated ones are the exact opposite, also where the key is missing.
    """

    name: str
    compare: Callable[[tuple[str, ...]], Test]
    arity: Arity
    is_negated: bool = False


OPERATORS: Mapping[str, Operator] = {
    operator.name: operator
    for operator in (
        Operator("Equals", equal, Arity.ONE),
        Operator("NotEqual", equal, Arity.ONE, is_negated=True),
        Operator("In", equal, Arity.SOME),
        Operator("NotIn", equal, Arity.SOME, is_negated=True),
        Operator("Exists", present, Arity.NONE),
        Operator("NotExists", present, Arity.NONE, is_negated=True),
        Operator("NotExist", present, Arity.NONE, is_negated=True),
        Operator("AlwaysTrue", never, Arity.NONE, is_negated=True),
        Operator("Matches", glob, Arity.ONE),
        Operator("MatchesNot", glob, Arity.ONE, is_negated=True),
        Operator("MatchesAny", glob, Arity.SOME),
        Operator("MatchesNone", glob, Arity.SOME, is_negated=True),
    )
}

# What people write who know other selectors.
OTHER_SPELLINGS: Mapping[str, str] = {
    "doesnotexist": "NotExists",
    "notequals": "NotEqual",
    "equal": "Equals",
    "=": "Equals",
    "==": "Equals",
    "!=": "NotEqual",
    "always": "AlwaysTrue",
    "notmatches": "MatchesNot",
}
