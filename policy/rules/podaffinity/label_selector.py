"""Label selectors as in Kubernetes: requirements on labels, all of which must hold.

`NotIn` and `DoesNotExist` hold for labels without the key; a selector without requirements matches
all labels. The null selector, which matches none, is `None` where a selector may be missing.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Final

from msgspec import Struct

from ...model.selector_operator import LabelOperator

# Members of an enum are looked up by a call of Python.
_IN: Final = LabelOperator.IN
_NOT_IN: Final = LabelOperator.NOT_IN
_EXISTS: Final = LabelOperator.EXISTS

_FEW: Final = 8
"""Not more requirements than these are asked one after the other, as they are written."""


class LabelRequirement(Struct, frozen=True):
    """One requirement: (key operator values).

    >>> LabelRequirement("app", LabelOperator.NOT_IN, ("web",)).holds({})
    True
    """

    key: str
    operator: LabelOperator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels fulfil the requirement."""
        value, operator = labels.get(self.key), self.operator
        if operator is _IN:
            return value is not None and value in self.values
        if operator is _NOT_IN:
            return value is None or value not in self.values
        return (value is not None) is (operator is _EXISTS)

    def follows_from(self, others: Iterable["LabelRequirement"]) -> bool:
        """Whether it holds for all labels that fulfil these. O(values of all)."""
        some = [one for one in others if one.key == self.key]
        unwanted = {value for one in some if one.operator is _NOT_IN for value in one.values}
        wanted = [{*one.values} for one in some if one.operator is _IN]
        if wanted:
            possible = wanted[0].intersection(*wanted[1:]) - unwanted
            return all(self.holds({self.key: value}) for value in possible)
        if any(one.operator is LabelOperator.DOES_NOT_EXIST for one in some):
            return self.holds({})
        if self.operator is _NOT_IN:
            return unwanted.issuperset(self.values)
        # Of other values there are always some, so that no list of them is enough.
        return self.operator is _EXISTS and any(one.operator is _EXISTS for one in some)

    def __str__(self) -> str:
        match self.operator:
            case LabelOperator.IN if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            case LabelOperator.IN | LabelOperator.NOT_IN:
                word = "in" if self.operator is LabelOperator.IN else "not in"
                return f"{self.key} {word} ({', '.join(self.values)})"
            case LabelOperator.EXISTS:
                return f"{self.key} exists"
            case LabelOperator.DOES_NOT_EXIST:
                return f"no {self.key}"


class LabelSelector(Struct, frozen=True, dict=True):
    """Requirements that labels must fulfil together.

    >>> str(LabelSelector.equals(app="cache")), LabelSelector().matches({})
    ('app=cache', True)
    """

    requirements: tuple[LabelRequirement, ...] = ()

    @classmethod
    def equals(cls, **labels: str) -> "LabelSelector":
        """The selector of labels that have exactly these values."""
        return cls(
            tuple(
                LabelRequirement(key, LabelOperator.IN, (value,)) for key, value in labels.items()
            )
        )

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels fulfil every requirement. O(labels + those that want a label)."""
        some: Iterable[LabelRequirement] = self.requirements
        if len(self.requirements) > _FEW:
            unwanted = self._unwanted
            here = labels.keys() & unwanted.keys()
            some = chain(self._wanted, *map(unwanted.__getitem__, here))
        for requirement in some:  # noqa: SIM110  # asked by every rule of a newcomer
            if not requirement.holds(labels):
                return False
        return True

    def includes(self, other: "LabelSelector") -> bool:
        """Whether it matches all labels that the other one matches."""
        return all(one.follows_from(other.requirements) for one in self.requirements)

    @cached_property
    def in_order(self) -> tuple[LabelRequirement, ...]:
        """The requirements, of many those first that do not hold without their key."""
        if len(self.requirements) <= _FEW:
            return self.requirements
        return (*self._wanted, *chain(*self._unwanted.values()))

    @cached_property
    def _wanted(self) -> tuple[LabelRequirement, ...]:
        """Requirements that do not hold for labels without their key."""
        return tuple([one for one in self.requirements if not one.holds({})])

    @cached_property
    def _unwanted(self) -> Mapping[str, Sequence[LabelRequirement]]:
        """The others, by their keys: most labels have none of hundreds."""
        found: dict[str, list[LabelRequirement]] = {}
        for one in self.requirements:
            if one.holds({}):
                found.setdefault(one.key, []).append(one)
        return found

    def __str__(self) -> str:
        return ", ".join(map(str, self.requirements)) or "everything"
