"""Rules that count for a container: its own, and those of containers that are there about it.

And what a container, and a node, would be without a single one of them.
"""

import enum
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from msgspec import Struct, structs

from ...topology.sets.base_errors import PinfoldError
from ..annotations.annotation_keys import domain_of
from ..engine.snapshot import Snapshot
from ..model.container import Container, ContainerId
from ..placing.classifier import Classified, Classifier
from ..rules.affinity import AFFINITY_KEYS
from ..rules.affinity_rule import AffinityRule, same_pod
from ..rules.container_facts import Subkey, facts
from ..rules.evaluation import Steps, TooManyStepsError, holds
from ..rules.expression import ALWAYS
from ..rules.podaffinity.own_rules import AFFINITY_KEY, POOL_NAME_KEY, POOL_SELECTOR_KEY
from ..rules.podaffinity.rule_set import PlacementRules, SpreadRule
from ..rules.podaffinity.term import Term, container_labels
from ..text.yaml_fields import Field
from ..text.yaml_nodes import TextList, TextMap, TextNode
from ..text.yaml_text import parse_text

STEPS_MAX: Final = 1_000_000
"""For all rules together: some tens of milliseconds."""
_TERM_STEPS: Final = 60
"""To hold a term against a container."""
_SOURCE: Final = re.compile(r"\(([^()\s]+):(\d+)\)$")
_ITEMS_MAX: Final = 8
"""Of one line, which are tried."""
_RULE_KEYS: Final = tuple(f"{key}." for key in (AFFINITY_KEY, POOL_NAME_KEY, POOL_SELECTOR_KEY))


class RuleKind(enum.Enum):
    """The kinds of rules."""

    WEIGHT = "weight"
    PREFERRED = "preferred"
    REQUIRED = "required"


class CountedRule(Struct, frozen=True, kw_only=True):
    """A rule, whose it is, and the containers that it matches."""

    kind: RuleKind
    owner: Container
    text: str
    """The rule for people, and where it is written."""
    weight: int | None = None
    matches: tuple[Container, ...] = ()
    is_about_pools: bool = False
    """Whether it says in which pools its owner should be: it matches no container."""


_Rule = AffinityRule | Term | SpreadRule


def classified_of(snapshot: Snapshot, container: Container) -> Classified:
    """The classification of a container, whether the engine knows it or not."""
    known = snapshot.classified.get(container.id)
    return known or classifier_of(snapshot).classify(container)


def classifier_of(snapshot: Snapshot) -> Classifier:
    """A classifier of one's own that knows of no interrupts: in any thread."""
    return Classifier(snapshot.config, (), snapshot.machine)


def is_rule(annotation: str) -> bool:
    """Whether an annotation of a pod says where its containers should be.

    >>> is_rule("resource-policy.nri.io/affinity"), is_rule("pool-name.pinfold.dev/pod")
    (True, True)
    """
    is_scoped = domain_of(annotation) is not None and annotation.startswith(_RULE_KEYS)
    return is_scoped or annotation in AFFINITY_KEYS


def counted_rules(snapshot: Snapshot, container: Container) -> tuple[CountedRule, ...]:
    """The rules that count for a container among those that are placed.

    Its own ones in their order, whether they match anybody or not; then those of others that match
    it. O(containers x rules), with a limit, after which the rest is left out.
    """
    look = _Look(snapshot, container)
    found: list[CountedRule] = []
    try:
        found.extend(look.own())
        found.extend(look.of_others())
    except TooManyStepsError:
        pass
    return tuple(found)


def own_rules(container: Container, classifier: Classifier) -> tuple[CountedRule, ...]:
    """The rules of a container as its annotations say, without whom they match."""
    classified = classifier.classify(container)
    return tuple(
        CountedRule(kind=kind, owner=container, text=text, weight=weight)
        for kind, _, text, weight in _rules(container, classified)
    )


class _Look:
    """The rules of one moment around one container."""

    def __init__(self, snapshot: Snapshot, container: Container) -> None:
        self._snapshot = snapshot
        self._container = container
        self._steps = Steps(STEPS_MAX)
        self._others = [snapshot.containers[one] for one in snapshot.grants if one != container.id]
        # On most nodes no rule asks for those of most containers.
        self._facts: dict[ContainerId, Mapping[Subkey, str]] = {}
        self._labels: dict[ContainerId, Mapping[str, str]] = {}

    def own(self) -> Iterator[CountedRule]:
        """The rules of the container itself."""
        owner, classified = self._container, classified_of(self._snapshot, self._container)
        for kind, rule, text, weight in _rules(owner, classified):
            matches = tuple(one for one in self._others if self._matches(rule, owner, one))
            yield CountedRule(kind=kind, owner=owner, text=text, weight=weight, matches=matches)
        yield from _pool_rules(owner, classified.placement)

    def of_others(self) -> Iterator[CountedRule]:
        """The rules of others that match the container, and count for it."""
        for owner in self._others:
            classified = self._snapshot.classified.get(owner.id)
            for kind, rule, text, weight in _rules(owner, classified) if classified else ():
                is_one_way = isinstance(rule, AffinityRule) and not rule.is_symmetric
                if is_one_way or isinstance(rule, SpreadRule):
                    continue
                if self._matches(rule, owner, self._container):
                    yield CountedRule(
                        kind=kind,
                        owner=owner,
                        text=text,
                        weight=weight,
                        matches=(self._container,),
                    )

    def _matches(self, rule: _Rule, owner: Container, other: Container) -> bool:
        """Whether a rule of `owner` is about `other`. Raises `TooManyStepsError`."""
        if isinstance(rule, AffinityRule):
            known = self._facts.get(other.id)
            if known is None:
                known = self._facts[other.id] = facts(other)
            return holds(rule.scope, known, self._steps) and holds(rule.match, known, self._steps)
        self._steps.charge(_TERM_STEPS)
        labels = self._labels.get(other.id)
        if labels is None:
            labels = self._labels[other.id] = container_labels(other)
        return rule.matches(owner, other, labels)


def _rules(
    owner: Container, classified: Classified
) -> Iterator[tuple[RuleKind, _Rule, str, int | None]]:
    """The rules of a container about others: kind, rule, text and weight."""
    for rule in classified.rules:
        yield RuleKind.WEIGHT, rule, _weighted_text(owner, rule), rule.weight
    placement = classified.placement
    for required in placement.required:
        yield RuleKind.REQUIRED, required.term, required.term.text, None
    for preferred in placement.preferred:
        yield RuleKind.PREFERRED, preferred.term, preferred.term.text, preferred.weight
    for spread in placement.spread:
        kind = RuleKind.REQUIRED if spread.is_required else RuleKind.PREFERRED
        yield kind, spread, spread.text, None


def _pool_rules(owner: Container, placement: PlacementRules) -> Iterator[CountedRule]:
    """The rules of a container about pools, which match no other container."""

    def of(kind: RuleKind, text: str, weight: int | None = None) -> CountedRule:
        return CountedRule(kind=kind, owner=owner, text=text, weight=weight, is_about_pools=True)

    for required in placement.pool_required:
        yield of(RuleKind.REQUIRED, required.text)
    for preferred in placement.pool_preferred:
        yield of(RuleKind.PREFERRED, preferred.text, preferred.weight)
    if placement.pool_name is not None:
        yield of(RuleKind.REQUIRED, f"the pool {placement.pool_name} ({POOL_NAME_KEY})")


def _weighted_text(owner: Container, rule: AffinityRule) -> str:
    scope = f", in scope {rule.scope}"
    if rule.scope == ALWAYS:
        scope = ""
    elif rule.scope == same_pod(owner.pod):
        scope = ", in its own pod"
    return f"{rule.match}{scope} ({rule.source})"


def without_rules(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations of a pod that do not say where its containers should be."""
    return {key: text for key, text in annotations.items() if not is_rule(key)}


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
