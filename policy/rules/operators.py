"""The operators of expressions: one row each."""

import enum
import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from ..text.glob_set import GlobSet
from ..text.suggestion import nearest

ANYTHING = "*"

Test = Callable[[str], bool]


class Arity(enum.Enum):
    """The number of values an operator takes, as a person says it."""

    NONE = "no values"
    ONE = "exactly one value"
    SOME = "at least one value"


def equal(values: tuple[str, ...]) -> Test:
    """Whether a value is one of `values`; the value `*` is equal to anything."""
    return present(values) if ANYTHING in values else frozenset(values).__contains__


def glob(patterns: tuple[str, ...]) -> Test:
    """Whether one of the patterns matches a value."""
    return GlobSet(patterns)


def present(_: tuple[str, ...]) -> Test:
    """True for any value."""
    return lambda _: True


def never(_: tuple[str, ...]) -> Test:
    """False for any value."""
    return lambda _: False


class Operator(Struct, frozen=True):
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

# What people write who know other selectors, in small letters without "_" and "-".
OTHER_SPELLINGS: Mapping[str, str] = {
    "eq": "Equals",
    "=": "Equals",
    "==": "Equals",
    "is": "Equals",
    "ne": "NotEqual",
    "neq": "NotEqual",
    "!=": "NotEqual",
    "<>": "NotEqual",
    "isnot": "NotEqual",
    "notequals": "NotEqual",
    "doesnotequal": "NotEqual",
    "contains": "In",
    "isin": "In",
    "oneof": "In",
    "nin": "NotIn",
    "isnotin": "NotIn",
    "notcontains": "NotIn",
    "doesnotcontain": "NotIn",
    "noneof": "NotIn",
    "present": "Exists",
    "absent": "NotExists",
    "!": "NotExists",
    "doesnotexist": "NotExists",
    "always": "AlwaysTrue",
    "match": "Matches",
    "notmatch": "MatchesNot",
    "notmatches": "MatchesNot",
    "matchnot": "MatchesNot",
    "doesnotmatch": "MatchesNot",
    "matchany": "MatchesAny",
    "notmatchany": "MatchesNone",
    "notmatchesany": "MatchesNone",
    "doesnotmatchany": "MatchesNone",
}
_NEGATIVE = re.compile(r"no|n't|doesnt|isnt|never|false|without|absent|!|<>")


def meant_operator(written: str) -> str | None:
    """The operator that a word which is none stands for; None where that is a guess.

    Never one that is true where the word would be false.
    """
    word = re.sub(r"[\s_-]", "", written[:80]).lower()
    for name in OPERATORS:
        if name.lower() == word:
            return name
    if word in OTHER_SPELLINGS:
        return OTHER_SPELLINGS[word]
    is_negative = _NEGATIVE.search(word) is not None
    alike = [
        name for name in OPERATORS if (_NEGATIVE.search(name.lower()) is not None) == is_negative
    ]
    return nearest(word, alike, 0.7)
