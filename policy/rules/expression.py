"""Expressions over the facts of a container: (key operator values), and all, any, not of them.

An expression is plain data; `evaluate` is a pure function of it and one container. Where a
container lacks the key, every positive operator is false and its negation true, as in Kubernetes
selectors: `NotIn` holds for a container without that label.
"""

from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import Struct

from ..model.container import Container
from ..text.glob import MAX_LENGTH, GlobError, check_glob
from ..text.suggestion import suggestion
from ..text.yaml_nodes import TextError, TextList, TextMap, TextNode, TextScalar, scalars_of
from .container_facts import ContainerFacts, Key, KnownFacts, parse_key, selectivity
from .operators import OPERATORS, Arity, Operator, Test, equal, glob, meant_operator, never

FIELDS_OF_CONDITIONS: Final = ("key", "operator", "values")
_FIELDS: Final = frozenset(FIELDS_OF_CONDITIONS)
MAX_VALUES = 256
MAX_PATTERN_CHARACTERS: Final = 8192
"""Of all patterns of a pod that have a class or a backslash: those are read one by one."""
MAX_EXPRESSIONS: Final = 512
"""Of all rules of a pod."""


@dataclass(frozen=True, slots=True)
class Condition:
    """(key operator values); the key is None only where the operator does not look at one."""

    key: Key | None
    operator: Operator
    values: tuple[str, ...] = ()
    test: Test = field(init=False, compare=False, repr=False)
    """What a value that is there has to pass, the operator's negation left aside."""
    identity: tuple[str, str, tuple[str, ...]] = field(init=False, compare=False, repr=False)
    """Equal where the conditions are; cheaper to compare."""
    cost: int = field(init=False, compare=False, repr=False)
    """The less, the fewer containers it holds for as a rule."""

    def __post_init__(self) -> None:
        # Made once: an expression is evaluated for every container that comes.
        object.__setattr__(self, "test", self.operator.compare(self.values))
        key = self.key.text if self.key else ""
        object.__setattr__(self, "identity", (key, self.operator.name, self.values))
        object.__setattr__(self, "cost", self._cost())

    def _cost(self) -> int:
        if self.key is None or (self.key.only is not None and self.operator.is_negated):
            return 20
        if self.key.only is None:
            return 30
        return selectivity(self.key.only) + (0 if self.operator.compare is equal else 10)

    def holds(self, value: str | None) -> bool:
        """Whether the operator holds for the key's value; None where the key is missing."""
        return (value is not None and self.test(value)) != self.operator.is_negated

    def __str__(self) -> str:
        words = [self.key.text] if self.key else []
        words.append(self.operator.name)
        return " ".join(words + ([", ".join(self.values)] if self.values else []))


class AllOf(Struct, frozen=True):
    """True where every term is; true without terms."""

    terms: "tuple[Expression, ...]"

    def __str__(self) -> str:
        return "(" + " and ".join(map(str, self.terms)) + ")"


class AnyOf(Struct, frozen=True):
    """True where at least one term is; false without terms."""

    terms: "tuple[Expression, ...]"

    def __str__(self) -> str:
        return "(" + " or ".join(map(str, self.terms)) + ")"


class Not(Struct, frozen=True):
    """True where the term is false."""

    term: "Expression"

    def __str__(self) -> str:
        return f"not {self.term}"


Expression = Condition | AllOf | AnyOf | Not

ALWAYS = Condition(None, OPERATORS["AlwaysTrue"])


def condition(key: str, operator: str, *values: str) -> Condition:
    """The condition of a key, an operator and values known to be right."""
    return Condition(parse_key(key), OPERATORS[operator], values)


def identity(expression: Expression) -> object:
    """An identity: equal for equal expressions, and cheaper to hash and compare than these."""
    if isinstance(expression, Condition):
        return expression.identity
    if isinstance(expression, Not):
        return ("not", identity(expression.term))
    word = "all" if isinstance(expression, AllOf) else "any"
    return (word, *map(identity, expression.terms))


def evaluate(expression: Expression, container: Container) -> bool:
    """Whether the expression holds for a container. Never raises."""
    return evaluate_facts(expression, ContainerFacts(container))


def evaluate_facts(expression: Expression, known: KnownFacts) -> bool:
    """Whether the expression holds for a container whose facts are known. Never raises."""
    if isinstance(expression, Condition):
        key = expression.key
        return expression.holds(key.value_of(known) if key else None)
    if isinstance(expression, AllOf):
        return all(evaluate_facts(term, known) for term in expression.terms)
    if isinstance(expression, AnyOf):
        return any(evaluate_facts(term, known) for term in expression.terms)
    return not evaluate_facts(expression.term, known)


class Reading(Struct):
    """The budget left while the expressions of a pod are read, and advice for its author."""

    expressions: int = MAX_EXPRESSIONS
    """How many more there may be."""

    pattern_characters: int = MAX_PATTERN_CHARACTERS
    """How much more of patterns that have to be read one by one."""
    advice: list[TextError] = msgspec.field(default_factory=list[TextError])
    """What is superfluous."""


def parse_expression(node: TextNode, reading: Reading | None = None) -> Expression:
    """The expression a YAML node spells. Raises `TextError`.

    `{key, operator, values}`, `{all: [..]}`, `{any: [..]}` or `{not: ..}`. The depth of the text,
    which its reader bounds, bounds the recursion.
    """
    reading = reading or Reading()
    reading.expressions -= 1
    if reading.expressions < 0:
        what = f"more than {MAX_EXPRESSIONS} expressions in the rules of the pod"
        raise TextError.at(node, what, "write fewer")
    if not isinstance(node, TextMap) or not node.entries:
        raise TextError.at(
            node, "not an expression", "write {key: ..., operator: ..., values: [...]}"
        )
    if len(node.entries) == 1:
        name, value = node.entries[0]
        match name.value:
            case "all":
                return AllOf(_parse_terms(name, value, reading))
            case "any":
                return AnyOf(_parse_terms(name, value, reading))
            case "not":
                return Not(parse_expression(value, reading))
            case _:
                pass
    return _parse_condition(node, reading)


def _parse_terms(name: TextScalar, node: TextNode, reading: Reading) -> tuple[Expression, ...]:
    if not isinstance(node, TextList) or not node.items:
        raise TextError.at(
            node, f"{name.value!r} without expressions", f"write a list: {name.value}: [{{...}}]"
        )
    return tuple([parse_expression(item, reading) for item in node.items])


def _parse_condition(node: TextMap, reading: Reading) -> Condition:
    written = {name.value: value for name, value in node.entries}
    if not _FIELDS.issuperset(written):
        raise _unknown_field(node)
    operator = _parse_operator(node, written.get("operator"))
    if operator.compare is never:
        for name, value in node.entries if len(written) > 1 else ():
            is_empty = not value.items if isinstance(value, TextList) else _is_null(value)
            if name.value != "operator" and not is_empty:
                what = f"{name.value!r} has no effect beside {operator.name}"
                reading.advice.append(TextError.at(name, what, "leave it out"))
        return ALWAYS
    key = _parse_key(node, written.get("key"))
    # A joint key of many parts takes as long to read as several conditions.
    reading.expressions -= len(key.subkeys) // 4
    values = _parse_values(written.get("values"), node, operator, reading)
    return Condition(key, operator, values)


def _unknown_field(node: TextMap) -> TextError:
    for name, _ in node.entries:
        if name.value in ("all", "any", "not"):
            return TextError.at(
                name, f"{name.value!r} beside other fields", "give each its own expression"
            )
        if name.value not in _FIELDS:
            fix = suggestion(name.value, (*FIELDS_OF_CONDITIONS, "all", "any", "not"))
            return TextError.at(name, f"unknown field {name.value!r} in an expression", fix)
    raise AssertionError(node)


def _parse_operator(node: TextMap, written: TextNode | None) -> Operator:
    if isinstance(written, TextScalar):
        operator = OPERATORS.get(written.value)
        if operator is not None:
            return operator
        meant = meant_operator(written.value)
        fix = f"did you mean {meant!r}?" if meant else "one of " + ", ".join(OPERATORS)
        raise TextError.at(written, f"unknown operator {written.value!r}", fix)
    names = "one of " + ", ".join(OPERATORS)
    if written is None:
        raise TextError.at(node, "an expression without operator", names)
    raise TextError.at(written, "the operator is not a word", names)


def _parse_key(node: TextMap, written: TextNode | None) -> Key:
    if written is None:
        raise TextError.at(node, "an expression without key", "write key: name, for example")
    if not isinstance(written, TextScalar):
        raise TextError.at(written, "the key is not a word", "write key: name, for example")
    try:
        return parse_key(written.value)
    except ValueError as error:
        what, fix = map(str, error.args)
        raise TextError.at(written, what, fix) from error


def _parse_values(
    written: TextNode | None, node: TextMap, operator: Operator, reading: Reading
) -> tuple[str, ...]:
    items = _value_items(written)
    count = len(items)
    arity = operator.arity
    if not (count == 1 if arity is Arity.ONE else (count > 0) == (arity is Arity.SOME)):
        what = f"{operator.name} takes {arity.value}, not {count}"
        fix = {
            Arity.NONE: "leave 'values' out",
            Arity.ONE: "give one value, or use the operator for several",
            Arity.SOME: "write values: [a, b]",
        }[arity]
        raise TextError.at(written or node, what, fix)
    if count > MAX_VALUES:
        raise TextError.at(items[MAX_VALUES], f"{count} values", f"write at most {MAX_VALUES}")
    if operator.compare is glob:
        for item in items:
            pattern = item.value
            if len(pattern) > MAX_LENGTH or "[" in pattern or "\\" in pattern:
                _check_pattern(item, reading)
    return tuple([item.value for item in items])


def _check_pattern(item: TextScalar, reading: Reading) -> None:
    pattern = item.value
    reading.pattern_characters -= min(len(pattern), MAX_LENGTH)
    if reading.pattern_characters < 0:
        what = f"more than {MAX_PATTERN_CHARACTERS} characters of patterns with [ or \\"
        raise TextError.at(item, what, "write fewer of them")
    try:
        check_glob(pattern)
    except GlobError as error:
        what = f"malformed pattern {pattern[:80]!r}: {error}"
        raise TextError.at(item, what, error.fix) from error


def _value_items(written: TextNode | None) -> tuple[TextScalar, ...]:
    return () if written is None or _is_null(written) else scalars_of(written, "'values'")


def _is_null(node: TextNode) -> bool:
    return isinstance(node, TextScalar) and node.is_null
