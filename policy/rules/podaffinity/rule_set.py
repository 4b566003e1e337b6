"""The rule set of one container: what is required of its place, and what preferred."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final, NamedTuple

from msgspec import Struct

from ....topology.model.machine import Level
from ...configuration.config import OnUnsatisfiable
from ...model.container import Container
from .label_selector import LabelSelector
from .pool_term import PoolPreference, PoolRequirement
from .term import Term, container_labels, is_same_instance


class RequiredTerm(Struct, frozen=True, kw_only=True):
    """A term whose containers the owner must share domains with, or keep out of their domains."""

    term: Term
    is_anti: bool = False
    is_lasting: bool = False
    """Whether it is required during execution: its owner is placed anew when it stops holding."""


class PreferredTerm(Struct, frozen=True, kw_only=True):
    """A term whose containers pull or, with a negative weight, push; from -100 to 100, never 0."""

    term: Term
    weight: int


class SpreadRule(Struct, frozen=True, kw_only=True):
    """A bound on how unevenly the matching containers of the own namespace lie in the domains."""

    max_skew: int
    level: Level
    selector: LabelSelector | None
    is_required: bool = True
    min_domains: int = 1
    text: str = ""
    source: str = ""
    """The annotation and line, or the field of the configuration, that it comes from."""

    def matches(
        self, owner: Container, other: Container, labels: Mapping[str, str] | None = None
    ) -> bool:
        """Whether `other` is counted for a rule of `owner`; never the owner itself."""
        return (
            self.selector is not None
            and other.pod.namespace == owner.pod.namespace
            and not is_same_instance(owner, other)
            and self.selector.matches(labels or container_labels(other))
        )

    def counts_itself(self, owner: Container) -> bool:
        """Whether an owner is one of those that its rule counts, where it comes to them."""
        return self.selector is not None and self.selector.matches(container_labels(owner))

    def least_of(self, counts: Iterable[int], domains: int) -> int:
        """The containers in the emptiest of so many domains, by the numbers that occur.

        0 where domains are fewer than `min_domains`: as if there were an empty one.
        """
        return min(counts, default=0) if domains >= self.min_domains else 0


class PlacementRules(Struct, frozen=True, kw_only=True, dict=True):
    """All rules of one container but the weighted ones of `affinity`; false without any."""

    required: tuple[RequiredTerm, ...] = ()
    preferred: tuple[PreferredTerm, ...] = ()
    spread: tuple[SpreadRule, ...] = ()
    pool_required: tuple[PoolRequirement, ...] = ()
    """All of them must hold."""
    pool_preferred: tuple[PoolPreference, ...] = ()
    pool_name: str | None = None
    on_unsatisfiable: OnUnsatisfiable = OnUnsatisfiable.DEGRADE

    @property
    def are_lasting(self) -> bool:
        """Whether some of them are required during execution."""
        rules: tuple[RequiredTerm | PoolRequirement, ...] = (*self.required, *self.pool_required)
        return any([one.is_lasting for one in rules])

    @cached_property
    def tie_it(self) -> bool:
        """Whether the owner must be in a pool, or with others, and so where it is."""
        # Worked out once: each newcomer in whose way the owner is asks.
        return bool(self.pool_required or self.near_levels) or self.pool_name is not None

    @cached_property
    def near_levels(self) -> tuple[Level, ...]:
        """The levels at which the owner must be with others."""
        levels = [one.term.level for one in self.required if not one.is_anti]
        return tuple(dict.fromkeys(levels))

    @cached_property
    def spread_levels(self) -> tuple[Level, ...]:
        """The levels over which the owner must be spread with others."""
        return tuple(dict.fromkeys([one.level for one in self.spread if one.is_required]))

    def __bool__(self) -> bool:
        return bool(
            self.required
            or self.preferred
            or self.spread
            or self.pool_required
            or self.pool_preferred
            or self.pool_name is not None
        )


def is_firm(rule: RequiredTerm | PreferredTerm, rules: PlacementRules) -> bool:
    """Whether a rule of these keeps newcomers away and never gives way."""
    gives_way = rules.on_unsatisfiable is OnUnsatisfiable.DEGRADE
    return not gives_way and isinstance(rule, RequiredTerm) and rule.is_anti


NO_PLACEMENT_RULES: Final = PlacementRules()


LOOKED_AT_MAX: Final = 32
"""So many different rules of a namespace count of those that are looked at together. Equal ones are
one."""

FIRM_MAX: Final = 512
"""So many different ones of required anti-affinity that never gives way count of a namespace beside
those: more than containers run on a node, as a rule. Whose would be one more is refused."""


class Uncounted(NamedTuple):
    """The numbers of an owner's rules that do not count: its namespace has too many."""

    rules: int
    firm: int
    """The number of them that never give way."""


ALL_COUNT: Final = Uncounted(0, 0)
