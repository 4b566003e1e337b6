"""Facts without which an expression has the same value for every container.

With its triggers, an expression is looked at for those containers alone that have one of them.
"""

import enum
from collections.abc import Iterable
from typing import Final, NamedTuple, assert_never

from msgspec import Struct

from ..text.glob_set import GlobSet
from .container_facts import Key, Subkey, selectivity
from .expression import AllOf, AnyOf, Condition, Expression, Not
from .operators import ANYTHING, equal, never

LENGTHS: Final = (1, 2, 4, 8, 16, 32)
"""How many characters of a head or tail are compared: the most of these that it has."""


class TriggerKind(enum.Enum):
    """The part of a fact that is compared."""

    VALUE = "the whole value"
    HEAD = "the begin of the value"
    TAIL = "the end of the value"
    PRESENT = "that there is one"

    # Members are compared by identity, and the hash of the name is a call of Python.
    __hash__ = object.__hash__


class Trigger(NamedTuple):
    """A fact of a container, or a part of one."""

    subkey: Subkey
    kind: TriggerKind
    text: str = ""


EVERYONE: Final = Trigger(Subkey("id"), TriggerKind.PRESENT)
"""What every container has."""


class Background(Struct, frozen=True):
    """The value of an expression for every container that has none of the triggers."""

    value: bool
    triggers: frozenset[Trigger]


def background_value(expression: Expression) -> bool:
    """The value of the background alone, which needs no triggers to be made."""
    match expression:
        case Condition():
            return expression.operator.is_negated
        case AllOf(terms):
            return all(map(background_value, terms))
        case AnyOf(terms):
            return any(map(background_value, terms))
        case Not(term):
            return not background_value(term)
        case _:
            assert_never(expression)


def triggers_made(expression: Expression) -> int:
    """Triggers made at most to find the background of an expression."""
    match expression:
        case Condition(key):
            return max(len(expression.values), len(key.subkeys)) if key else 1
        case AllOf(terms) | AnyOf(terms):
            return sum(map(triggers_made, terms))
        case Not(term):
            return triggers_made(term)
        case _:
            assert_never(expression)


def background(expression: Expression) -> Background:
    """The background of an expression. O(`triggers_made`)."""
    match expression:
        case Condition(key, operator, _):
            triggers = _condition_triggers(key, expression) if key else frozenset[Trigger]()
            return Background(operator.is_negated, triggers)
        case AllOf(terms):
            return _combine(map(background, terms), decisive=False)
        case AnyOf(terms):
            return _combine(map(background, terms), decisive=True)
        case Not(term):
            found = background(term)
            return Background(not found.value, found.triggers)
        case _:
            assert_never(expression)


def _combine(terms: Iterable[Background], *, decisive: bool) -> Background:
    """Of terms one of which is enough where its value is decisive."""
    found, best = set[Trigger](), None
    for term in terms:
        if term.value is decisive and (best is None or _weight(term) < _weight(best)):
            best = term
        elif best is None:
            found |= term.triggers
    return best or Background(not decisive, frozenset(found))


def _weight(found: Background) -> tuple[int, int]:
    """A rating of triggers: the lower, the fewer containers usually have one of them."""
    return max(map(_trigger_weight, found.triggers), default=-1), len(found.triggers)


def _trigger_weight(trigger: Trigger) -> int:
    # To have a label at all says more than to have a name.
    is_rare = trigger.kind is not TriggerKind.PRESENT or trigger.subkey.name
    return selectivity(trigger.subkey) + (0 if is_rare else 10)


def _condition_triggers(key: Key, condition: Condition) -> frozenset[Trigger]:
    compare, values, test = condition.operator.compare, condition.values, condition.test
    if compare is never:
        return frozenset()
    if compare is equal and ANYTHING not in values:
        return _values_triggers(key, values)
    if not isinstance(test, GlobSet) or test.parts:
        return _presence(key)
    found = set(_values_triggers(key, test.exact))
    ends = [(head, "") for head in test.heads] + [("", tail) for tail in test.tails]
    for head, tail in (*ends, *test.others):
        trigger = _end_trigger(key, head, tail)
        if trigger is None:
            # Whoever has any value has a part.
            return _presence(key)
        found.add(trigger)
    return frozenset(found)


def _values_triggers(key: Key, values: Iterable[str]) -> frozenset[Trigger]:
    if key.only:
        return frozenset([Trigger(key.only, TriggerKind.VALUE, value) for value in values])
    subkeys, found = key.subkeys, set[Trigger]()
    order = sorted(range(len(subkeys)), key=lambda place: selectivity(subkeys[place]))
    for value in values:
        parts = value.split(key.separator, len(subkeys))
        if len(parts) < len(subkeys):
            continue
        # A missing part is empty, so that an empty one says nothing.
        telling = next((place for place in order if parts[place]), None)
        if len(parts) > len(subkeys) or telling is None:
            # Whoever has any of the values has a part.
            return _presence(key)
        found.add(Trigger(subkeys[telling], TriggerKind.VALUE, parts[telling]))
    return frozenset(found)


def _end_trigger(key: Key, head: str, tail: str) -> Trigger | None:
    """The trigger of a pattern that begins and ends so; None where it has to be looked at."""
    if key.only is None:
        # A value with a separator in it begins, and ends, as the part without it does.
        head, tail = head.split(key.separator, 1)[0], tail.rsplit(key.separator, 1)[-1]
    if head:
        length = _COMPARED[min(len(head), LENGTHS[-1])]
        return Trigger(key.subkeys[0], TriggerKind.HEAD, head[:length])
    if tail:
        length = _COMPARED[min(len(tail), LENGTHS[-1])]
        return Trigger(key.subkeys[-1], TriggerKind.TAIL, tail[-length:])
    return None


# By the length of a text, how much of it is compared.
_COMPARED: Final = [
    max((one for one in LENGTHS if one <= length), default=0) for length in range(LENGTHS[-1] + 1)
]


def _presence(key: Key) -> frozenset[Trigger]:
    return frozenset([Trigger(subkey, TriggerKind.PRESENT) for subkey in key.subkeys])
