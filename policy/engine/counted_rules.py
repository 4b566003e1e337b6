"""Rules that count for a container: its own, and the symmetric ones of those that are there."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ..model.container import Container
from ..placing.classifier import Classified, Classifier
from ..rules.affinity import AffinityRule, same_pod
from ..rules.container_facts import Subkey, facts
from ..rules.evaluation import Steps, TooManyStepsError, holds
from ..rules.expression import ALWAYS
from .snapshot import Snapshot

STEPS_MAX: Final = 1_000_000
"""For all rules together: some tens of milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedRule:
    """A rule, whose it is, and the containers that it matches."""

    owner: Container
    rule: AffinityRule
    matches: tuple[Container, ...]

    @property
    def text(self) -> str:
        """The rule in its own words, with its place."""
        rule, scope = self.rule, f", in scope {self.rule.scope}"
        if rule.scope == ALWAYS:
            scope = ""
        elif rule.scope == same_pod(self.owner.pod):
            scope = ", in its own pod"
        return f"{rule.match}{scope} ({rule.source})"


def classified_of(snapshot: Snapshot, container: Container) -> Classified:
    """The classification of a container, whether the engine knows it or not."""
    known = snapshot.classified.get(container.id)
    return known or Classifier(snapshot.config, (), snapshot.machine).classify(container)


def counted_rules(snapshot: Snapshot, container: Container) -> tuple[CountedRule, ...]:
    """The rules that count for a container among those that are placed by now.

    Its own ones in their order, whether they match anybody or not; then those of others that match
    it. Rules that would take too long are left out, as they are in decisions. O(containers x
    rules), with a limit.
    """
    steps = Steps(STEPS_MAX)
    others = {
        one: dict(facts(snapshot.containers[one])) for one in snapshot.grants if one != container.id
    }
    own = classified_of(snapshot, container).rules
    found: list[CountedRule] = []
    for rule in own:
        matches = tuple(
            snapshot.containers[one]
            for one, known in others.items()
            if _matches(rule, known, steps)
        )
        found.append(CountedRule(owner=container, rule=rule, matches=matches))
    found.extend(_of_others(snapshot, container, steps))
    return tuple(found)


def _of_others(snapshot: Snapshot, container: Container, steps: Steps) -> Iterator[CountedRule]:
    known = dict(facts(container))
    for container_id in snapshot.grants:
        classified = snapshot.classified.get(container_id)
        if classified is None or container_id == container.id:
            continue
        for rule in classified.rules:
            if rule.is_symmetric and _matches(rule, known, steps):
                owner = snapshot.containers[container_id]
                yield CountedRule(owner=owner, rule=rule, matches=(container,))


def _matches(rule: AffinityRule, known: Mapping[Subkey, str], steps: Steps) -> bool:
    try:
        return holds(rule.scope, known, steps) and holds(rule.match, known, steps)
    except TooManyStepsError:
        return False
