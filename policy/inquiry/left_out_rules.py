"""Rules left out: what a container, its pod and a node would be without them."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from msgspec import structs

from ...topology.sets.base_errors import PinfoldError
from ..annotations.annotation_keys import domain_of
from ..engine.snapshot import Snapshot
from ..model.container import Container
from ..placing.classifier import Classifier
from ..rules.affinity import AFFINITY_KEYS
from ..rules.podaffinity.own_rules import AFFINITY_KEY, POOL_NAME_KEY, POOL_SELECTOR_KEY
from ..text.yaml_fields import Field
from ..text.yaml_nodes import TextList, TextMap, TextNode
from ..text.yaml_text import parse_text
from .counted_rules import CountedRule, RuleKind, own_rules

_SOURCE: Final = re.compile(r"\(([^()\s]+):(\d+)\)$")
_ITEMS_MAX: Final = 8
"""Of one line, which are tried."""
_RULE_KEYS: Final = tuple(f"{key}." for key in (AFFINITY_KEY, POOL_NAME_KEY, POOL_SELECTOR_KEY))


def is_rule(annotation: str) -> bool:
    """Whether an annotation of a pod says where its containers should be.

    >>> is_rule("resource-policy.nri.io/affinity"), is_rule("pool-name.pinfold.dev/pod")
    (True, True)
    """
    is_scoped = domain_of(annotation) is not None and annotation.startswith(_RULE_KEYS)
    return is_scoped or annotation in AFFINITY_KEYS


def without_rules(container: Container) -> Container:
    """The container in a pod that does not say where its containers should be."""
    pod = container.pod
    annotations = {key: text for key, text in pod.annotations.items() if not is_rule(key)}
    return structs.replace(container, pod=structs.replace(pod, annotations=annotations))


def without_own(
    container: Container, rule: CountedRule, classifier: Classifier
) -> Container | None:
    """The container without one rule of an annotation of its own; None where that is not found."""
    found = _SOURCE.search(rule.text)
    if found is None or found[1] not in container.pod.annotations:
        return None
    key, line = found[1], int(found[2])
    try:
        node = parse_text(container.pod.annotations[key])
        items = [] if node is None else list(islice(_items_at(node, line), _ITEMS_MAX))
        lighter = [_without_item(container, key, item) for item in items]
    except PinfoldError:
        return None
    if len(lighter) == 1:
        return lighter[0]
    # Several begin in its line, as in JSON: it is the one without which the others are left.
    left = _names(own_rules(container, classifier)) - Counter([_name(rule)])
    return next((one for one in lighter if _names(own_rules(one, classifier)) == left), None)


def _without_item(container: Container, key: str, item: TextNode) -> Container:
    annotations = dict(container.pod.annotations)
    node = parse_text(annotations.pop(key))
    place = item.line, item.column
    rest = None if node is None else _without(node, place)
    if rest is not None:
        annotations[key] = json.dumps(Field.of(rest, key).value)
    return structs.replace(container, pod=structs.replace(container.pod, annotations=annotations))


def _names(rules: Iterable[CountedRule]) -> Counter[str]:
    return Counter(map(_name, rules))


def _name(rule: CountedRule) -> str:
    """The rule without its place, which is another where one before it is left out."""
    return _SOURCE.sub("", rule.text)


def without_that_of(snapshot: Snapshot, rule: CountedRule) -> Snapshot | None:
    """The node without one required rule of a container that is there; None for other rules."""
    owner = rule.owner.id
    known = snapshot.classified.get(owner)
    if known is None or rule.kind is not RuleKind.REQUIRED:
        return None
    required = tuple(one for one in known.placement.required if one.term.text != rule.text)
    if len(required) == len(known.placement.required):
        return None
    placement = structs.replace(known.placement, required=required)
    fresh = structs.replace(known, placement=placement)
    return structs.replace(snapshot, classified={**snapshot.classified, owner: fresh})


def _items_at(node: TextNode, line: int) -> Iterator[TextNode]:
    """The outermost items of lists that begin in a line."""
    match node:
        case TextMap(entries=entries):
            for _, value in entries:
                yield from _items_at(value, line)
        case TextList(items=items):
            for one in items:
                if one.line == line:
                    yield one
                else:
                    yield from _items_at(one, line)
        case _:
            return


def _without(node: TextNode, place: tuple[int, int]) -> TextNode | None:
    """The node without the item of a list at that place, and without what is empty for it."""
    match node:
        # Nothing in it from the start means something, as of a selector.
        case TextMap(entries=entries) if entries:
            kept = [(key, _without(value, place)) for key, value in entries]
            left = tuple((key, value) for key, value in kept if value is not None)
            return node._replace(entries=left) if left else None
        case TextList(items=items) if items:
            rest = [_without(one, place) for one in items if (one.line, one.column) != place]
            found = tuple(one for one in rest if one is not None)
            return node._replace(items=found) if found else None
        case _:
            return node
