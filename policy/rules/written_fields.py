"""Fields of a mapping in a rule's text, by name; a name that is not known is an error."""

from collections.abc import Mapping, Sequence
from typing import Final

from ...topology.sets.base_errors import quoted
from ..configuration.affinity_fields import ITEMS_MAX, WORD_MAX
from ..text.suggestion import suggestion
from ..text.yaml_nodes import TextError, TextList, TextMap, TextNode, TextScalar

_LEAVE_OUT: Final = "leave the word out: what is below it stands here by itself"
_ELSEWHERE: Final[Mapping[str, str]] = {
    "affinity": _LEAVE_OUT,
    "podAffinityTerm": _LEAVE_OUT,
    "preference": _LEAVE_OUT,
    "weight": "leave it out: only preferred rules have one",
    "nodeAffinity": "did you mean 'poolAffinity'?",
    "nodeSelector": "write the annotation 'pool-selector.pinfold.dev/pod'",
    "nodeName": "write the annotation 'pool-name.pinfold.dev/pod'",
    "topologySpreadConstraints": "did you mean 'topologySpread'?",
    "matchFields": "name a pool in the annotation 'pool-name.pinfold.dev/pod'",
    "podSelectorTerms": "did you mean 'nodeSelectorTerms'?",
    "poolSelectorTerms": "did you mean 'nodeSelectorTerms'?",
    "nodeAffinityPolicy": "leave it out: every pool counts that containers may use",
    "nodeTaintsPolicy": "leave it out: pools have no taints",
}
"""What Kubernetes has in another place, or other words for ours."""
TERM_FIELDS: Final = (
    "labelSelector",
    "topologyKey",
    "namespaces",
    "namespaceSelector",
    "matchLabelKeys",
    "mismatchLabelKeys",
    "scope",
)
"""Of a term about other containers."""
_INSIDE: Final[Mapping[str, Sequence[str]]] = {
    "podAffinityTerm": TERM_FIELDS,
    "preference": ("matchExpressions",),
}
"""By a field of preferred terms the fields that required ones have without it."""


def is_absent(node: TextNode | None) -> bool:
    """Whether a field is not there, or null, which means the same."""
    return node is None or (isinstance(node, TextScalar) and node.is_null)


class WrittenFields:
    """The fields of one mapping, described by `what` in messages."""

    def __init__(self, node: TextNode | None, what: str, known: Sequence[str]) -> None:
        """Raise `TextError` where the node is no mapping, or has a field that is not known."""
        if not isinstance(node, TextMap):
            complaint, fix = f"{what} is not a mapping", f"fields: {', '.join(known)}"
            raise TextError.at(node, complaint, fix) if node else TextError(complaint, fix)
        self.node = node
        self.what = what
        self._by_name = {name.value: value for name, value in node.entries}
        if not self._by_name.keys() <= {*known}:
            raise unknown_field(node, what, known)

    def find(self, name: str) -> TextNode | None:
        """The value of a field; None where it is absent or null."""
        node = self._by_name.get(name)
        return None if is_absent(node) else node

    def need(self, name: str, fix: str) -> TextNode:
        """The value of a field that must be there. Raises `TextError`."""
        node = self.find(name)
        if node is None:
            raise TextError.at(self.node, f"{self.what} without {name}", fix)
        return node

    def items(self, name: str) -> tuple[TextNode, ...]:
        """The items of a list, none where it is absent. Raises `TextError`."""
        node = self.find(name)
        if node is None:
            return ()
        if not isinstance(node, TextList):
            raise TextError.at(node, f"{name!r} is not a list", f"write {name}: [..]")
        return node.items

    def words(self, name: str) -> tuple[str, ...]:
        """The texts in a list. Raises `TextError`."""
        items = self.items(name)
        if len(items) > ITEMS_MAX:
            what = f"{len(items)} items in {name!r}"
            raise TextError.at(items[ITEMS_MAX], what, f"write at most {ITEMS_MAX}")
        what = f"an item of {name!r}"
        return tuple([word_of(item, what) for item in items])

    def word(self, name: str) -> str | None:
        """The text of a field, None where it is absent. Raises `TextError`."""
        node = self.find(name)
        return None if node is None else word_of(node, repr(name))

    def number(self, name: str, low: int) -> int | None:
        """The whole number of a field, at least `low`, None where absent. Raises `TextError`."""
        node = self.find(name)
        if node is None:
            return None
        number = whole_number(node)
        if number is None or number < low:
            raise TextError.at(
                node, f"{name!r} is no whole number from {low} on", f"write {name}: {low}"
            )
        return number


_NUMBER_DIGITS: Final = 9


def whole_number(node: TextNode) -> int | None:
    """The whole number that a plain scalar is; None for anything else. Beyond 9 digits the most."""
    text = node.value if isinstance(node, TextScalar) and node.is_plain else ""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    if len(digits.lstrip("0")) > _NUMBER_DIGITS:
        digits = "9" * _NUMBER_DIGITS
    return -int(digits) if text.startswith("-") else int(digits)


def word_of(node: TextNode, what: str) -> str:
    """The text of a scalar described by `what`. Raises `TextError`."""
    if not isinstance(node, TextScalar) or node.is_null:
        raise TextError.at(node, f"{what} is not a string", "write a word")
    if len(node.value) > WORD_MAX:
        fix = f"write at most {WORD_MAX}"
        raise TextError.at(node, f"{what} has {len(node.value)} characters", fix)
    return node.value


def unknown_field(node: TextMap, what: str, known: Sequence[str]) -> TextError:
    """The error about the first field of a mapping that is not known."""
    for name, _ in node.entries:
        if name.value not in known:
            outer = [one for one in known if name.value in _INSIDE.get(one, ())]
            fix = f"write it inside {outer[0]}" if outer else _ELSEWHERE.get(name.value)
            fix = fix or suggestion(name.value, known)
            return TextError.at(name, f"unknown field {quoted(name.value)} in {what}", fix)
    raise AssertionError(node)
