"""Rules as they are written: the same for all containers that have the text.

What of the owner's labels completes a selector stands beside it.
"""

from collections.abc import Mapping
from typing import Final, Generic, TypeVar

from msgspec import Struct

from ...model.selector_operator import LabelOperator
from ...text.errors import Problem
from .label_selector import LabelRequirement, LabelSelector
from .pool_term import PoolPreference, PoolRequirement
from .rule_set import PreferredTerm, RequiredTerm, SpreadRule

T = TypeVar("T")


class LabelKeys(Struct, frozen=True):
    """Labels of the owner whose values complete the selector of its rule; false without any."""

    match: tuple[str, ...] = ()
    mismatch: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.match or self.mismatch)

    def count_with(self, *selectors: LabelSelector | None) -> int:
        """Number of requirements that the keys and some selectors can come to."""
        own = len(self.match) + len(self.mismatch)
        return own + sum(len(one.requirements) for one in selectors if one is not None)

    def complete(
        self, selector: LabelSelector | None, own: Mapping[str, str]
    ) -> LabelSelector | None:
        """The selector with a requirement for each label that the owner has; it is kept so."""
        if selector is None or not self:
            return selector
        added = [
            LabelRequirement(key, operator, (own[key],))
            for operator, keys in (
                (LabelOperator.IN, self.match),
                (LabelOperator.NOT_IN, self.mismatch),
            )
            for key in keys
            if key in own
        ]
        return LabelSelector((*selector.requirements, *added))


class Written(Struct, Generic[T], frozen=True):
    """A rule, or a term of one, as it is written, and what of its owner's labels completes it."""

    rule: T
    label_keys: LabelKeys


class WrittenRules(Struct, frozen=True, kw_only=True):
    """Rules as they are written, for any container that has them."""

    required: tuple[Written[RequiredTerm], ...] = ()
    preferred: tuple[Written[PreferredTerm], ...] = ()
    spread: tuple[Written[SpreadRule], ...] = ()
    pool_required: tuple[PoolRequirement, ...] = ()
    pool_preferred: tuple[PoolPreference, ...] = ()
    problems: tuple[Problem, ...] = ()
    """`where` is what the text is called."""

    def __bool__(self) -> bool:
        return bool(
            self.required
            or self.preferred
            or self.spread
            or self.pool_required
            or self.pool_preferred
        )


NO_WRITTEN_RULES: Final = WrittenRules()
