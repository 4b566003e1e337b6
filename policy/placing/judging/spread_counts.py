"""Spread counts: the containers that a newcomer's spread rule counts, by domain."""

from collections.abc import Iterable, Mapping
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from ....topology.sets.bits import one_less_in
from ...rules.podaffinity.rule_set import SpreadRule


class SpreadCounts(Struct, frozen=True, kw_only=True, dict=True):
    """The numbers of counted containers in the eligible domains of a rule's level."""

    rule: SpreadRule
    counts_itself: bool
    """Whether the newcomer is one of those that are counted."""
    counted: int
    """The containers, as a set of residents."""
    by_count: Mapping[int, int]
    """Domains as bits of a mask, by the number of containers in them."""

    @cached_property
    def most(self) -> int:
        """The containers that a domain may hold before the newcomer comes to it."""
        domains = sum([bits.bit_count() for bits in self.by_count.values()])
        least = self.rule.least_of(self.by_count, domains)
        return least + self.rule.max_skew - self.counts_itself

    @property
    def full(self) -> int:
        """The domains that hold more, as bits."""
        found = 0
        for count, bits in self.by_count.items():
            if count > self.most:
                found |= bits
        return found

    def without(self, domains: Iterable[int]) -> "SpreadCounts":
        """The counts once some of the containers are gone, which are in these domains each.

        O(containers that go and different counts).
        """
        found = self.by_count
        for here in domains:
            found = one_less_in(here, found)
        return replace(self, by_count=found)
