"""Facts without which an expression has the same value for every container.

With its triggers, an expression is looked at for those containers alone that have one of them.
"""

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, assert_never

from ..text.glob_set import GlobSet
from .container_facts import Key, Subkey
from .expression import AllOf, AnyOf, Condition, Expression, Not
from .operators import ANYTHING, equal, never
from .selection import selectivity

LENGTHS: Final = (1, 2, 4, 8, 16, 32)
"""How many characters of a head or tail are compared: the most of these that it has."""


class TriggerKind(enum.Enum):
    """What of a fact is compared."""

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


@dataclass(frozen=True, slots=True)
class Background:
    """The value of an expression for every container that has none of the triggers."""

    value: bool
    triggers: frozenset[Trigger]


def background(expression: Expression) -> Background:
    """The background of an expression."""
    match expression:
        case Condition(key, operator, _):
            triggers = frozenset(_condition_triggers(key, expression) if key else ())
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
    found, best = frozenset[Trigger](), None
    for term in terms:
        if term.value is decisive and (best is None or _weight(term) < _weight(best)):
            best = term
        elif best is None:
            found |= term.triggers
    return best or Background(not decisive, found)


def _weight(found: Background) -> tuple[int, int]:
    """How many containers have one of the triggers, as a rule."""
    return max(map(_trigger_weight, found.triggers), default=-1), len(found.triggers)


def _trigger_weight(trigger: Trigger) -> int:
    # To have a label at all says more than to have a name.
    is_rare = trigger.kind is not TriggerKind.PRESENT or trigger.subkey.name
    return selectivity(trigger.subkey) + (0 if is_rare else 10)


def _condition_triggers(key: Key, condition: Condition) -> Iterator[Trigger]:
    compare, values, test = condition.operator.compare, condition.values, condition.test
    if compare is never:
        return
    if compare is equal and ANYTHING not in values:
        for value in values:
            yield from _value_triggers(key, value)
    elif not isinstance(test, GlobSet) or test.parts:
        yield from _presence(key)
    else:
        for value in test.exact:
            yield from _value_triggers(key, value)
        ends = [(head, "") for head in test.heads] + [("", tail) for tail in test.tails]
        for head, tail in (*ends, *test.others):
            yield from _end_triggers(key, head, tail)


def _value_triggers(key: Key, value: str) -> Iterator[Trigger]:
    if key.only:
        yield Trigger(key.only, TriggerKind.VALUE, value)
        return
    parts = value.split(key.separator)
    if len(parts) < len(key.subkeys):
        return
    if len(parts) > len(key.subkeys):
        yield from _presence(key)
        return
    # A missing part is empty, so that an empty one says nothing.
    telling = [one for one in zip(key.subkeys, parts, strict=True) if one[1]]
    if telling:
        subkey, part = min(telling, key=lambda one: selectivity(one[0]))
        yield Trigger(subkey, TriggerKind.VALUE, part)
    else:
        yield from _presence(key)


def _end_triggers(key: Key, head: str, tail: str) -> Iterator[Trigger]:
    if key.only is None:
        # A value with a separator in it begins, and ends, as the part without it does.
        head, tail = head.split(key.separator)[0], tail.split(key.separator)[-1]
    if head:
        yield Trigger(key.subkeys[0], TriggerKind.HEAD, head[: _compared(head)])
    elif tail:
        yield Trigger(key.subkeys[-1], TriggerKind.TAIL, tail[-_compared(tail) :])
    else:
        yield from _presence(key)


def _compared(text: str) -> int:
    return max(length for length in LENGTHS if length <= len(text))


def _presence(key: Key) -> Iterator[Trigger]:
    for subkey in key.subkeys:
        yield Trigger(subkey, TriggerKind.PRESENT)
