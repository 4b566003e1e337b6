"""Terms over the labels of pools: what Kubernetes' node affinity says of nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from ...model.selector_operator import PoolOperator, parse_int64


class PoolExpression(Struct, frozen=True):
    """One expression: (key operator values) over a pool's labels."""

    key: str
    operator: PoolOperator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels of a pool fulfil the expression."""
        value = labels.get(self.key)
        match self.operator:
            case PoolOperator.IN:
                return value is not None and value in self.values
            case PoolOperator.NOT_IN:
                return value is None or value not in self.values
            case PoolOperator.EXISTS:
                return value is not None
            case PoolOperator.DOES_NOT_EXIST:
                return value is None
            case PoolOperator.GT | PoolOperator.LT:
                return self._is_beyond(value)

    def _is_beyond(self, text: str | None) -> bool:
        value = None if text is None else parse_int64(text)
        bound = parse_int64(self.values[0]) if len(self.values) == 1 else None
        if value is None or bound is None:
            return False
        return value > bound if self.operator is PoolOperator.GT else value < bound

    def __str__(self) -> str:
        values = ", ".join(self.values)
        match self.operator:
            case PoolOperator.IN if len(self.values) == 1:
                return f"{self.key}={values}"
            case PoolOperator.IN:
                return f"{self.key} in ({values})"
            case PoolOperator.NOT_IN:
                return f"{self.key} not in ({values})"
            case PoolOperator.EXISTS:
                return f"{self.key} exists"
            case PoolOperator.DOES_NOT_EXIST:
                return f"no {self.key}"
            case PoolOperator.GT:
                return f"{self.key} > {values}"
            case PoolOperator.LT:
                return f"{self.key} < {values}"


class PoolTerm(Struct, frozen=True):
    """Expressions that hold together; a term without any matches no pool."""

    expressions: tuple[PoolExpression, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a pool with these labels is meant."""
        return bool(self.expressions) and all(one.holds(labels) for one in self.expressions)

    def __str__(self) -> str:
        return ", ".join(map(str, self.expressions)) or "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRequirement:
    """Terms of which at least one must match the pool."""

    terms: tuple[PoolTerm, ...]
    is_lasting: bool = False
    """Whether it is required during execution."""
    text: str = ""
    """The requirement for people, and where it is written."""
    source: str = field(default="", compare=False)
    """The annotation and line, or the field of the configuration, that it comes from."""

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether a pool with these labels will do."""
        return any(term.matches(labels) for term in self.terms)


class PoolPreference(Struct, frozen=True, kw_only=True):
    """A term that a pool had better match; without expressions it weighs nothing."""

    term: PoolTerm
    weight: int
    text: str = ""
    source: str = ""
    """The annotation and line, or the field of the configuration, that it comes from."""
