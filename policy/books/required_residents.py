"""Residents that others must be with, by rules that require somebody."""

from collections.abc import Iterable, Sequence
from functools import reduce

from msgspec import Struct

from ..model.container import ContainerId
from ..rules.podaffinity.standing_rules import StandingRule, StandingRules
from ..rules.podaffinity.term import is_same_instance
from ..rules.podaffinity.term_selection import instances, select_included
from ..rules.residents import Residents


class _About(Struct):
    """The residents that a rule is about, as a set."""

    rule: StandingRule
    places: int
    is_checked: bool = False
    """Whether its owner is left out, which must not be with itself."""


class RequiredResidents:
    """The residents that others must be with, see `StandingRules.is_required`.

    For as long as nobody comes or goes: whom a rule is about is found once.
    """

    def __init__(
        self, standing: StandingRules, residents: Residents, but: ContainerId | None = None
    ) -> None:
        """`but`: a container whose own rules do not count."""
        self._standing = standing
        self._residents = residents
        self._but = but
        self._known: dict[int, _About] = {}
        """By the object that holds the rule."""

    def among(self, container_ids: Iterable[ContainerId]) -> Sequence[ContainerId]:
        """Required ones among some. O(rules that require one of them), however many they are."""
        standing, residents = self._standing, self._residents
        containers = [residents.container(one) for one in container_ids]
        if len(containers) == 1 and self._but is None:
            # The first such rule decides, and what it decides is known.
            return [one.id for one in containers if standing.is_required(one)]
        places = [residents.place(one.id) for one in containers]
        asked, required, known = reduce(int.__or__, places, 0), 0, self._known
        for one in standing.requiring(containers):
            about = known.get(id(one))
            if about is None:
                about = known[id(one)] = self._about(one)
            # Most rules are about none of these, and who owns those does not matter.
            if about.places & asked and not about.is_checked:
                self._check(about)
            required |= about.places
        return [one.id for one, place in zip(containers, places, strict=True) if place & required]

    def _about(self, rule: StandingRule) -> _About:
        but = self._but
        owner = next((own for owner_id, own in rule.owners.items() if owner_id != but), None)
        if owner is None:
            return _About(rule, 0)
        return _About(rule, select_included(self._residents, owner, rule.rule.term))

    def _check(self, about: _About) -> None:
        owners = [own for owner_id, own in about.rule.owners.items() if owner_id != self._but]
        about.is_checked = True
        if all(is_same_instance(owners[0], other) for other in owners[1:]):
            # Nobody must be with itself.
            about.places &= ~instances(self._residents, owners[0])
