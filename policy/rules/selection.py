"""Selections: the resident containers an expression holds for, within a number of steps."""

from collections.abc import Iterable
from typing import Final, assert_never

from ..text.glob import SEPARATOR
from ..text.glob_set import GlobSet, finding_steps, has_part
from .container_facts import Key
from .evaluation import Steps, TooManyStepsError, charge_making, holds, key_steps
from .expression import AllOf, AnyOf, Condition, Expression, Not
from .key_column import KeyColumn
from .operators import ANYTHING, equal, never, present
from .residents import Residents

FEW: Final = 4
"""Up to so many containers, evaluating an expression costs less than looking at all of them."""
FEW_TO_JOIN: Final = 8
"""`FEW` where its key is joint: then looking at all is joining the texts of all."""
_TERMS_COMPARED: Final = 16
_JOINING_STEPS: Final = 32
_CHARACTERS_A_STEP: Final = 32
"""As many are joined, or put in backward order, in a step."""


class Selection:
    """Answers for one newcomer; every condition and every distinct text is looked at once."""

    def __init__(self, residents: Residents, steps: Steps) -> None:
        self._residents = residents
        self._steps = steps
        self._known: dict[tuple[str, str, tuple[str, ...]], int] = {}
        # The residents keep few joint keys at a time; a newcomer can ask for more than those.
        self._joint: dict[str, KeyColumn] = {}
        self._algebra = 2 + len(residents) // 512

    def select_both(self, first: Expression, second: Expression) -> int:
        """All containers for which two expressions hold. Raises `TooManyStepsError`."""
        if _cost(second) < _cost(first):
            first, second = second, first
        within = self.select(first, self._residents.everyone)
        return self.select(second, within) if within else 0

    def select(self, expression: Expression, within: int) -> int:
        """The containers of `within` for which an expression holds. Raises `TooManyStepsError`."""
        steps = self._steps
        steps.charge(self._algebra)
        if isinstance(expression, Condition) and expression.operator.compare is never:
            return within if expression.operator.is_negated else 0
        if within.bit_count() <= _few(expression):
            found = 0
            for bit, known in self._residents.facts_in(within):
                if holds(expression, known, steps):
                    found |= bit
            return found
        if isinstance(expression, Condition):
            positive = self._having(expression)
            return within & (~positive if expression.operator.is_negated else positive)
        match expression:
            case AllOf(terms):
                steps.charge(16 * len(terms))
                for term in sorted(terms, key=_cost):
                    within = self.select(term, within)
                    if not within:
                        break
                return within
            case AnyOf(terms):
                found = 0
                for term in terms:
                    found |= self.select(term, within)
                return found
            case Not(term):
                return within & ~self.select(term, within)
            case _:
                assert_never(expression)

    def _having(self, condition: Condition) -> int:
        """The containers with a value that passes the test, negation left aside."""
        known = self._known.get(condition.identity)
        if known is None:
            key = condition.key
            known = self._find(key, condition) if key else 0
            self._known[condition.identity] = known
        return known

    def _find(self, key: Key, condition: Condition) -> int:
        test, values, steps = condition.test, condition.values, self._steps
        is_equality = condition.operator.compare is equal and ANYTHING not in values
        only = key.only
        if only is None and is_equality:
            found = self._having_joined(key, dict.fromkeys(values))
            if found is not None:
                return found
        if only is None and (condition.operator.compare is present or ANYTHING in values):
            return self._having_any(key)
        column = self._residents.column(only) if only else self._joint_column(key)
        if is_equality:
            return self._union(column, values)
        if isinstance(test, GlobSet) and column.places:
            charge_making(condition, steps)
            return self._matching(key, column, test)
        return column.places

    def _joint_column(self, key: Key) -> KeyColumn:
        column = self._joint.get(key.text)
        if column is None:
            steps = self._steps
            steps.charge((key_steps(key) + _JOINING_STEPS) * len(self._residents))
            column = self._residents.joint_column(key, steps.left * _CHARACTERS_A_STEP)
            if column is None:
                # It was begun, and took all that was left.
                steps.charge(steps.left)
                raise TooManyStepsError
            steps.charge(column.characters // _CHARACTERS_A_STEP)
            self._joint[key.text] = column
        return column

    def _having_any(self, key: Key) -> int:
        """The containers with a value of a joint key, whatever it is."""
        self._steps.charge(key_steps(key))
        found = 0
        for subkey in key.subkeys:
            found |= self._residents.column(subkey).places
        return found

    def _having_joined(self, key: Key, values: Iterable[str]) -> int | None:
        """The containers with one of some joint values; None where one has too many parts to tell.

        A value with more separators than the key can be joined of facts in many ways.
        """
        steps, everyone, separator = self._steps, self._residents.everyone, key.separator
        columns = [self._residents.column(subkey) for subkey in key.subkeys]
        exists = 0
        for column in columns:
            exists |= column.places
        each, found = 4 * key_steps(key), 0
        for value in values:
            parts = value.split(separator)
            if len(parts) > len(columns):
                return None
            if len(parts) < len(columns):
                continue
            steps.charge(each)
            having = everyone
            for column, part in zip(columns, parts, strict=True):
                # A missing part is empty.
                of_part = column.by_value.get(part, 0)
                having &= of_part if part else of_part | ~column.places
                if not having:
                    break
            found |= having & exists
        return found

    def _union(self, column: KeyColumn, values: Iterable[str]) -> int:
        by_value, found, count = column.by_value, 0, 0
        for value in values:
            found |= by_value.get(value, 0)
            count += 1
        self._steps.charge(count * self._algebra)
        return found

    def _matching(self, key: Key, column: KeyColumn, globs: GlobSet) -> int:
        steps, count = self._steps, len(column.by_value)
        found = self._union(column, globs.exact)
        for head in globs.heads:
            values, length = self._beginning(key, column, head), len(head)
            if values:
                # Without a call of Python for each: all may begin so.
                whole = [one for one in values if one.find(SEPARATOR, length) < 0]
                found |= self._union(column, whole)
        for tail in globs.tails:
            values, length = self._ending(key, column, tail), len(tail)
            if values:
                whole = [one for one in values if one.find(SEPARATOR, 0, len(one) - length) < 0]
                found |= self._union(column, whole)
        for part in globs.parts:
            steps.charge(count + finding_steps(column.characters, part))
            values = [value for value in column.by_value if part in value]
            if not values:
                continue
            odd = [value for value in values if SEPARATOR in value]
            steps.charge(sum(8 * (len(part) + len(value)) for value in odd))
            if odd:
                values = [value for value in values if SEPARATOR not in value]
                values += [value for value in odd if has_part(value, part)]
            found |= self._union(column, values)
        return found | self._accepted(key, column, globs)

    def _accepted(self, key: Key, column: KeyColumn, globs: GlobSet) -> int:
        """The containers with a value that one of the automata accepts."""
        candidates: dict[str, None] = {}
        for head, tail in globs.others:
            if head or tail:
                found = (
                    self._beginning(key, column, head) if head else self._ending(key, column, tail)
                )
                self._steps.charge(3 * len(found))
                candidates.update(dict.fromkeys(found))
            else:
                self._steps.charge(len(column.by_value))
                candidates = dict.fromkeys(column.by_value)
                break
        length = sum(map(len, candidates)) + 2 * len(candidates)
        self._steps.charge(globs.accepting_steps(length))
        return self._union(column, [one for one in candidates if globs.accepts(one)])

    def _beginning(self, key: Key, column: KeyColumn, head: str) -> list[str]:
        self._steps.charge_once((key.text, "forward"), 4 * len(column.by_value))
        found = column.beginning(head)
        self._steps.charge(20 + 3 * len(found))
        return found

    def _ending(self, key: Key, column: KeyColumn, tail: str) -> list[str]:
        steps = 8 * len(column.by_value) + column.characters // _CHARACTERS_A_STEP
        self._steps.charge_once((key.text, "backward"), steps)
        found = column.ending(tail)
        # Each is turned round again.
        self._steps.charge(20 + 6 * len(found) + sum(map(len, found)) // _CHARACTERS_A_STEP)
        return found


def _few(expression: Expression) -> int:
    is_joint = isinstance(expression, Condition) and expression.key and not expression.key.only
    return FEW_TO_JOIN if is_joint else FEW


def _cost(expression: Expression) -> int:
    """In which order the terms of a conjunction are answered: the most selective first."""
    if isinstance(expression, Condition):
        return expression.cost
    if isinstance(expression, AllOf):
        # A glance will do: the order matters for speed alone.
        first = expression.terms[:_TERMS_COMPARED]
        return min([one.cost for one in first if isinstance(one, Condition)], default=20)
    return 20
