"""Evaluation of expressions within a number of steps, and the count of those.

A step stands for about 30 ns of work. Steps follow from expressions and facts alone, never from
time or from what was evaluated before: the same input is given up always or never.
"""

from typing import Final, assert_never

from ..text.glob_set import GlobSet
from .container_facts import Key, KnownFacts, Subkey
from .expression import AllOf, AnyOf, Condition, Expression, Not
from .operators import never

NAME_MAX: Final = 63
POD_NAME_MAX: Final = 253
_KEEPING_STEPS: Final = 40
_CALLING_STEPS: Final = 16
_JOINING_STEPS: Final = 24


class TooManyStepsError(Exception):
    """An evaluation would take more steps than it is given."""


class Steps:
    """A number of steps to be used up."""

    __slots__ = ("_paid", "left")

    def __init__(self, left: int) -> None:
        self.left = left
        self._paid: set[object] = set()

    def charge(self, count: int) -> None:
        """Take off steps about to be taken. Raises `TooManyStepsError` where too few are left."""
        if count > self.left:
            raise TooManyStepsError
        self.left -= count

    def charge_once(self, thing: object, count: int) -> None:
        """Charge for what is done once, however often it is used."""
        if thing not in self._paid:
            self.charge(count)
            self._paid.add(thing)


def key_steps(key: Key) -> int:
    """Steps to look up the value of a key, the length of a joint text left aside."""
    return 4 if key.only else 8 + 4 * len(key.subkeys)


def test_steps(condition: Condition, text: str) -> int:
    """Steps to test one text."""
    count = 4 + len(text) // 64
    return count + condition.test.steps(text) if isinstance(condition.test, GlobSet) else count


def charge_making(condition: Condition, steps: Steps) -> None:
    """Charge for what a condition needs before its first text."""
    if isinstance(condition.test, GlobSet):
        # The identity, not the object: who is charged must not depend on what is kept in memory.
        steps.charge_once(condition.identity, condition.test.making_steps)


def holds(expression: Expression, known: KnownFacts, steps: Steps) -> bool:
    """Whether an expression holds for a container with these facts. Raises `TooManyStepsError`."""
    if isinstance(expression, Condition):
        key = expression.key
        steps.charge(_CALLING_STEPS + (key_steps(key) if key else 0))
        if key is None or expression.operator.compare is never:
            return expression.operator.is_negated
        value = key.value_of(known)
        if value is None:
            return expression.operator.is_negated
        charge_making(expression, steps)
        steps.charge(test_steps(expression, value))
        return expression.holds(value)
    steps.charge(4)
    if isinstance(expression, AllOf):
        return all(holds(term, known, steps) for term in expression.terms)
    if isinstance(expression, AnyOf):
        return any(holds(term, known, steps) for term in expression.terms)
    return not holds(expression.term, known, steps)


def keeping_steps(expression: Expression) -> int:
    """Steps to keep an expression, with all that is done once for its patterns."""
    match expression:
        case Condition(None):
            return 0
        case Condition():
            test = expression.test
            return _KEEPING_STEPS + (test.making_steps if isinstance(test, GlobSet) else 0)
        case AllOf(terms) | AnyOf(terms):
            return sum(map(keeping_steps, terms))
        case Not(term):
            return keeping_steps(term)
        case _:
            assert_never(expression)


def looking_steps(expression: Expression) -> int:
    """Steps at most to evaluate an expression for one container, with its patterns compiled.

    Names are no longer than Kubernetes allows.
    """
    match expression:
        case Condition(None):
            return 4
        case Condition(key):
            assert key is not None
            # Of a joint value the separator may be that of patterns, which makes some of them dear.
            text = (key.separator or "x").join(["x" * _length(one) for one in key.subkeys]) + "x"
            calling = _CALLING_STEPS if isinstance(expression.test, GlobSet) else 0
            joining = 0 if key.only else _JOINING_STEPS
            return key_steps(key) + joining + calling + test_steps(expression, text)
        case AllOf(terms) | AnyOf(terms):
            return 24 + sum([8 + looking_steps(term) for term in terms])
        case Not(term):
            return 8 + looking_steps(term)
        case _:
            assert_never(expression)


def _length(subkey: Subkey) -> int:
    """Characters of the longest value that Kubernetes allows."""
    return POD_NAME_MAX if subkey.field == "pod/name" else NAME_MAX
