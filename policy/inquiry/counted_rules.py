"""Rules that count for a container: its own, and those of containers that are there about it."""

import enum
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from ..engine.snapshot import Snapshot
from ..model.container import Container, ContainerId
from ..placing.classifier import Classified, Classifier
from ..rules.affinity_rule import AffinityRule, same_pod
from ..rules.container_facts import Subkey, facts
from ..rules.evaluation import Steps, TooManyStepsError, holds
from ..rules.expression import ALWAYS
from ..rules.podaffinity.own_rules import POOL_NAME_KEY
from ..rules.podaffinity.rule_set import PlacementRules, SpreadRule
from ..rules.podaffinity.term import Term, container_labels

STEPS_MAX: Final = 1_000_000
"""For all rules together: some tens of milliseconds."""
_TERM_STEPS: Final = 60
"""To hold a term against a container."""


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
