"""Rules about pools in the text of an annotation, as values."""

from ....topology.sets.base_errors import quoted
from ...configuration.affinity_fields import RULES_MAX
from ...model.selector_operator import PoolOperator
from ...text.yaml_nodes import TextError, TextNode
from ..written_fields import WrittenFields, is_absent
from .pool_term import PoolExpression, PoolPreference, PoolRequirement, PoolTerm
from .selector_text import parse_expression_fields


def parse_pool_requirement(
    node: TextNode, field: str, source: str, *, is_lasting: bool
) -> PoolRequirement:
    """The requirement that a node spells; its terms may be empty. Raises `TextError`."""
    fields = WrittenFields(node, f"{field!r}", ("nodeSelectorTerms",))
    items = fields.items("nodeSelectorTerms")
    if not items:
        fix = "write nodeSelectorTerms: [{matchExpressions: [..]}]"
        raise TextError.at(node, "no nodeSelectorTerms", fix)
    if len(items) > RULES_MAX:
        what = f"{len(items)} nodeSelectorTerms"
        raise TextError.at(items[RULES_MAX], what, f"write at most {RULES_MAX}")
    terms = tuple(_parse_pool_term(item, "a term") for item in items)
    text = f"a pool with {' or '.join(map(str, terms))} ({source})"
    return PoolRequirement(terms=terms, is_lasting=is_lasting, text=text, source=source)


def parse_pool_preference(fields: WrittenFields, weight: int, source: str) -> PoolPreference:
    """The preference in the fields of a preferred term; it may be empty. Raises `TextError`."""
    fields.need("preference", "write preference: {matchExpressions: [..]}")
    term = _parse_pool_term(fields.find("preference"), "'preference'")
    text = f"preferred pool with {term} ({source})"
    return PoolPreference(term=term, weight=weight, text=text, source=source)


def parse_pool_selector(text: str, key: str) -> PoolRequirement:
    """The requirement that "label=value, .." spells in an annotation called `key`.

    Raises `ValueError` with two arguments: what is wrong, and how to fix it.

    >>> parse_pool_selector("socket=1, numa=3", "pool-selector").text
    'a pool with socket=1, numa=3 (pool-selector)'
    """
    expressions: dict[str, PoolExpression] = {}
    for part in text.split(","):
        label, equals, value = map(str.strip, part.partition("="))
        if label.endswith("!"):
            fix = "a selector knows '=' alone; write NotIn in a poolAffinity"
            raise ValueError(f"{quoted(part.strip())} is not label=value", fix)
        if not label or not equals or value.startswith("="):
            raise ValueError(f"{quoted(part.strip())} is not label=value", "write 'socket=1'")
        if label in expressions:
            raise ValueError(f"{quoted(label)} is given twice", "leave one out")
        expressions[label] = PoolExpression(label, PoolOperator.IN, (value,))
    term = PoolTerm(tuple(expressions.values()))
    return PoolRequirement(terms=(term,), text=f"a pool with {term} ({key})", source=key)


def _parse_pool_term(node: TextNode | None, what: str) -> PoolTerm:
    if node is None or is_absent(node):
        return PoolTerm()
    fields = WrittenFields(node, what, ("matchExpressions",))
    items = fields.items("matchExpressions")
    return PoolTerm(
        tuple(PoolExpression(*parse_expression_fields(one, PoolOperator)) for one in items)
    )
