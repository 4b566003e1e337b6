"""Label selectors and expressions in the text of a rule, as values."""

from typing import Final, TypeVar

from ....topology.sets.base_errors import quoted
from ...model.selector_operator import LabelOperator, PoolOperator, values_fault
from ...text.suggestion import suggestion
from ...text.yaml_nodes import TextError, TextMap, TextNode
from ..written_fields import WrittenFields, is_absent, word_of
from .label_selector import LabelRequirement, LabelSelector

_SELECTOR_FIELDS: Final = ("matchLabels", "matchExpressions")
_EXPRESSION_FIELDS: Final = ("key", "operator", "values")
_MEANT: Final = {
    "Equals": "In",
    "NotEqual": "NotIn",
    "NotExists": "DoesNotExist",
    "NotExist": "DoesNotExist",
    "==": "In",
    "=": "In",
    "!=": "NotIn",
    ">": "Gt",
    "<": "Lt",
}
"""Operators of other languages, ours for weights among them."""

Operator = TypeVar("Operator", LabelOperator, PoolOperator)


def parse_selector(node: TextNode | None, what: str) -> LabelSelector | None:
    """The selector that a node spells, None for a null one. Raises `TextError`."""
    if node is None or is_absent(node):
        return None
    fields = WrittenFields(node, what, _SELECTOR_FIELDS)
    found: list[LabelRequirement] = []
    labels = fields.find("matchLabels")
    if labels is not None:
        if not isinstance(labels, TextMap):
            fix = "write matchLabels: {app: web}"
            raise TextError.at(labels, "'matchLabels' is not a mapping", fix)
        for name, value in labels.entries:
            word = word_of(value, "a label's value")
            found.append(LabelRequirement(_label_key(name), LabelOperator.IN, (word,)))
    for item in fields.items("matchExpressions"):
        key, operator, values = parse_expression_fields(item, LabelOperator)
        found.append(LabelRequirement(key, operator, values))
    return LabelSelector(tuple(found))


def parse_expression_fields(
    node: TextNode, operators: type[Operator]
) -> tuple[str, Operator, tuple[str, ...]]:
    """The key, operator and values of an expression. Raises `TextError`."""
    fields = WrittenFields(node, "an expression", _EXPRESSION_FIELDS)
    key = _label_key(fields.need("key", "write key: app, for example"))
    names = [operator.value for operator in operators]
    written = fields.need("operator", f"one of {', '.join(names)}")
    operator = _parse_operator(written, operators)
    values = fields.words("values")
    fault = values_fault(operator, values)
    if fault is not None:
        raise TextError.at(fields.find("values") or node, *fault)
    return key, operator, values


def _parse_operator(node: TextNode, operators: type[Operator]) -> Operator:
    word = word_of(node, "the operator")
    try:
        return operators(word)
    except ValueError:
        pass
    names = [operator.value for operator in operators]
    meant = _MEANT.get(word)
    if word in {one.value for one in PoolOperator}:
        fix = "label selectors compare no numbers; pools do, under poolAffinity"
    else:
        fix = f"did you mean {meant!r}?" if meant in names else suggestion(word, names)
    raise TextError.at(node, f"unknown operator {quoted(word)}", fix)


def _label_key(node: TextNode) -> str:
    key = word_of(node, "a label's key")
    if not key:
        raise TextError.at(node, "an empty key", "name a label")
    return key
