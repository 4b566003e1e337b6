"""Matches of rules and containers, found without trying every rule on every container.

A newcomer's own rules select from the containers that are there; the symmetric rules of those are
found by what they need of a newcomer. Both take a bounded number of steps, whatever pods wrote: a
rule that would take more is given up, does not count and is reported.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec import Struct

from ..model.container import Container, ContainerId
from ..text.errors import Problem
from .affinity_rule import AffinityRule
from .container_facts import Subkey, facts
from .evaluation import Steps, TooManyStepsError
from .residents import Residents
from .selection import Selection
from .symmetric_rules import SymmetricRules, are_dear

RULE_STEPS: Final = 100_000
"""One rule of a newcomer over all containers that are there."""
NEWCOMER_RULES_STEPS: Final = 120_000
"""All of its rules together."""
_LINES_SHOWN: Final = 8
_POD_ID: Final = Subkey("pod/id")
_NAME: Final = Subkey("name")


class Affinities(Struct, frozen=True):
    """The effective affinity of a newcomer to each container that is there; no zeros."""

    weights: Mapping[ContainerId, int]
    given_up: tuple[AffinityRule, ...] = ()
    """Its own rules that would have taken too many steps."""
    are_all_symmetric: bool = True
    """Whether there was time for every symmetric rule of those that are there."""

    @property
    def is_whole(self) -> bool:
        """Whether every rule counted."""
        return self.are_all_symmetric and not self.given_up

    def problems(self, container: Container) -> tuple[Problem, ...]:
        """Rules that did not count, for the log and the decision. They refuse nobody."""
        found: list[Problem] = []
        if self.given_up:
            count = len(self.given_up)
            sources = [rule.source for rule in self.given_up[:_LINES_SHOWN]]
            more = ", ..." if count > _LINES_SHOWN else ""
            found.append(
                Problem(
                    where=f"affinity of {container.path}",
                    what=f"{count} rule{'s' if count > 1 else ''} would take too long over "
                    f"the containers that are there and did not count: {', '.join(sources)}{more}",
                    fix="write fewer patterns, and fewer of them over joint keys",
                    container=container.name,
                    is_advice=True,
                )
            )
        if not self.are_all_symmetric:
            found.append(
                Problem(
                    where=f"affinity of {container.path}",
                    what="the symmetric rules of containers that are there would take too long: "
                    "only the first of each container's counted",
                    fix="write fewer symmetric rules for all containers of the machine",
                    container=container.name,
                    is_advice=True,
                )
            )
        return tuple(found)


class _Unfiled(Struct):
    """A container that was added, and its facts once somebody asked for them."""

    container: Container
    rules: Collection[AffinityRule]
    facts: dict[Subkey, str] | None = None
    are_rules_filed: bool = False


class AffinityIndex:
    """The containers that are there, and the rules they brought along.

    To file a container under all its facts takes as long as everything else about it, and nobody
    asks for it by them before the next one comes: it is done by then. Whoever has so many rules
    that the next one would have to wait is filed at once.
    """

    def __init__(self) -> None:
        self._residents = Residents()
        self._symmetric = SymmetricRules()
        self._unfiled: dict[ContainerId, _Unfiled] = {}
        self._unfiled_rules: dict[ContainerId, _Unfiled] = {}
        """The containers among `_unfiled` whose rules are not filed either."""

    def __len__(self) -> int:
        return len(self._residents) + len(self._unfiled)

    def __contains__(self, container_id: ContainerId) -> bool:
        return container_id in self._unfiled or container_id in self._residents

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is kept, not even of what has been removed."""
        return not self._unfiled and self._residents.is_empty and self._symmetric.is_empty

    @property
    def residents(self) -> Residents:
        """The containers that are there, by their facts."""
        if self._unfiled:
            self.file()
        return self._residents

    def add(self, container: Container, rules: Collection[AffinityRule] = ()) -> None:
        """Add a container with its rules, in place of what has the same id."""
        self.remove(container.id)
        if rules and are_dear(rules):
            self._residents.add(container)
            self._symmetric.add(container.id, rules)
        else:
            unfiled = self._unfiled[container.id] = _Unfiled(container, rules)
            if rules:
                self._unfiled_rules[container.id] = unfiled

    def remove(self, container_id: ContainerId) -> None:
        """Forget a container and its rules; unknown ids are ignored."""
        unfiled = self._unfiled.pop(container_id, None)
        self._unfiled_rules.pop(container_id, None)
        is_filed = self._residents.remove(container_id) if unfiled is None else False
        if is_filed or (unfiled is not None and unfiled.are_rules_filed):
            self._symmetric.remove(container_id)

    def file(self, but: ContainerId | None = None) -> None:
        """File the containers added last. For when nobody waits for the policy."""
        self._file_rules(but)
        unfiled, self._unfiled = self._unfiled, {}
        if but is not None and (own := unfiled.pop(but, None)) is not None:
            self._unfiled[but] = own
        for one in unfiled.values():
            self._residents.add(one.container, one.facts)

    def _file_rules(self, but: ContainerId | None) -> None:
        """File the rules of the containers added last, and not yet these themselves."""
        for container_id in [one for one in self._unfiled_rules if one != but]:
            one = self._unfiled_rules.pop(container_id)
            self._symmetric.add(container_id, one.rules)
            one.are_rules_filed = True

    def affinities(self, container: Container, rules: Collection[AffinityRule] = ()) -> Affinities:
        """The affinity of a newcomer to the containers that are there.

        The sum of the weights of its rules that match the other, and of the other's symmetric rules
        that match it. Itself and older instances of it (same pod id and name) do not count.
        """
        are_unruled = not rules and not self._symmetric.owners
        if are_unruled and not self._unfiled_rules:
            # Nobody's facts are asked for.
            return Affinities({})
        if rules:
            self.file(but=container.id)
        else:
            # Nobody else's facts are asked for.
            self._file_rules(but=container.id)
        totals, are_all = dict[ContainerId, int](), True
        if self._symmetric.owners:
            totals, are_all = self._symmetric.weights(self._facts_of(container))
        given_up = self._add_own(rules, totals) if rules else ()
        if totals:
            self.file(but=container.id)
            for other in self._instances(container):
                totals.pop(other, None)
        if not all(totals.values()):
            totals = {other: total for other, total in totals.items() if total}
        return Affinities(totals, given_up, are_all)

    def _facts_of(self, container: Container) -> dict[Subkey, str]:
        own = self._unfiled.get(container.id)
        if own is None or own.container is not container:
            return facts(container)
        if own.facts is None:
            own.facts = facts(container)
        return own.facts

    def weights(
        self, container: Container, rules: Collection[AffinityRule] = ()
    ) -> Mapping[ContainerId, int]:
        """The weights of `affinities`."""
        return self.affinities(container, rules).weights

    def _add_own(
        self, rules: Iterable[AffinityRule], totals: dict[ContainerId, int]
    ) -> tuple[AffinityRule, ...]:
        """Add a newcomer's rules to the sums by container; returns the rules it gave up."""
        residents, given_up = self._residents, list[AffinityRule]()
        left = NEWCOMER_RULES_STEPS
        steps = Steps(0)
        selection = Selection(residents, steps)
        everyone = residents.everyone
        # A rule for all but a few counts for everyone, and the other way round for those.
        by_places: dict[int, int] = {everyone: 0}
        for rule in rules:
            steps.left = granted = min(RULE_STEPS, left)
            try:
                places, weight = (
                    selection.select_both(rule.scope, rule.match),
                    rule.weight,
                )
                is_most = 2 * places.bit_count() > len(residents)
                if is_most:
                    places, weight = everyone & ~places, -weight
                if places not in by_places:
                    steps.charge(residents.listing_steps(places))
                by_places[places] = by_places.get(places, 0) + weight
                by_places[everyone] += rule.weight if is_most else 0
            except TooManyStepsError:
                given_up.append(rule)
            left -= granted - steps.left
        for places, weight in by_places.items():
            for other in residents.ids(places) if weight else ():
                totals[other] = totals.get(other, 0) + weight
        return tuple(given_up)

    def _instances(self, container: Container) -> Iterable[ContainerId]:
        residents = self._residents
        of_pod = residents.column(_POD_ID).by_value.get(container.pod.id, 0)
        of_name = residents.column(_NAME).by_value.get(container.name, 0)
        return (*residents.ids(of_pod & of_name), container.id)
