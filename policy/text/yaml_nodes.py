"""YAML values as nodes that remember their line and column, faults at them, and scalars' values.

YAML 1.1, as Kubernetes reads it.
"""

from typing import Any, Final, NamedTuple, Protocol

import yaml

from ...topology.sets.base_errors import PinfoldError
from .errors import Problem

NULLS = frozenset({"", "~", "null", "Null", "NULL"})

STRING: Final = "str"
MERGE: Final = "merge"
# Typed loosely: its stub has no annotations.
_RESOLVER: Final[Any] = yaml.resolver.Resolver()
_CONSTRUCTOR: Final = yaml.constructor.SafeConstructor()
_TAG: Final = "tag:yaml.org,2002:"


class Mark(Protocol):
    """A place in a text as PyYAML has it."""

    @property
    def line(self) -> int:
        """From 0."""
        ...

    @property
    def column(self) -> int:
        """From 0."""
        ...


class Position(NamedTuple):
    """A mark of our own."""

    line: int
    column: int


# Named tuples are made three times as fast as dataclasses, and a container waits for these: so
# lines and columns are counted from 1 only for those that are asked for them.
class TextScalar(NamedTuple):
    """A scalar as it is written. `is_plain`: neither quoted nor tagged."""

    value: str
    mark: Mark
    style: str | None = None
    """What it is quoted with, or "|" and ">" of a block; empty where its text stands alone."""
    tag: str | None = None

    @property
    def line(self) -> int:
        """Line of the first character of the scalar, from 1."""
        return self.mark.line + 1

    @property
    def column(self) -> int:
        """Column of the first character of the scalar, from 1."""
        return self.mark.column + 1

    @property
    def is_plain(self) -> bool:
        """Whether YAML may read it as something else than text."""
        return not self.style and self.tag is None

    @property
    def is_null(self) -> bool:
        """Whether YAML reads it as nothing."""
        return self.value in NULLS and self.is_plain


class TextList(NamedTuple):
    """A sequence."""

    mark: Mark
    items: "tuple[TextNode, ...]"

    @property
    def line(self) -> int:
        """Line of the first character of the sequence, from 1."""
        return self.mark.line + 1

    @property
    def column(self) -> int:
        """Column of the first character of the sequence, from 1."""
        return self.mark.column + 1


class TextMap(NamedTuple):
    """A mapping in the order it is written; keys are scalars and differ."""

    mark: Mark
    entries: "tuple[tuple[TextScalar, TextNode], ...]"

    @property
    def line(self) -> int:
        """Line of the first character of the mapping, from 1."""
        return self.mark.line + 1

    @property
    def column(self) -> int:
        """Column of the first character of the mapping, from 1."""
        return self.mark.column + 1

    def find(self, key: str) -> "TextNode | None":
        """The value of a key; None where there is none."""
        for name, value in self.entries:
            if name.value == key:
                return value
        return None


TextNode = TextScalar | TextList | TextMap


SEQUENCE: Final = "tag:yaml.org,2002:seq"
MAPPING: Final = "tag:yaml.org,2002:map"


class TextError(PinfoldError):
    """A fault at one place of a text; `line` and `column` count from 1, 0 if unknown."""

    def __init__(self, what: str, fix: str = "", *, line: int = 0, column: int = 0) -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix
        self.line = line
        self.column = column

    @classmethod
    def at(cls, node: TextNode, what: str, fix: str = "") -> "TextError":
        """The error at the beginning of a node."""
        return cls(what, fix, line=node.line, column=node.column)

    def problem(self, where: str, *, is_fatal: bool = False, container: str = "") -> Problem:
        """The error as data, in the place named `where`, about one container or all."""
        return Problem(
            where=where,
            what=self.what,
            fix=self.fix,
            line=self.line,
            column=self.column,
            is_fatal=is_fatal,
            container=container,
        )


def scalars_of(node: TextNode, what: str) -> tuple[TextScalar, ...]:
    """The items of a list of scalars, for a field described by `what`. Raises `TextError`."""
    if not isinstance(node, TextList):
        raise TextError.at(node, f"{what} is not a list", "write a list: [a, b]")
    found: list[TextScalar] = []
    for item in node.items:
        if not isinstance(item, TextScalar) or (item.value in NULLS and item.is_plain):
            raise TextError.at(item, f"an item of {what} is not a string", "write a list: [a, b]")
        found.append(item)
    return tuple(found)


Value = str | int | float | bool | None


class ScalarError(ValueError):
    """A scalar is not what its own text or tag says."""


def kind_of(scalar: TextScalar) -> str:
    """The tag of a scalar, without the prefix of YAML's own: `int`, `null`, `str`, `!mine`.

    That of plain text is found by its form.
    """
    if scalar.tag is not None and scalar.tag != "!":
        return scalar.tag.removeprefix(_TAG)
    if not scalar.is_plain:
        return STRING
    return str(_RESOLVER.resolve(yaml.ScalarNode, scalar.value, (True, False))).removeprefix(_TAG)


def scalar_value(scalar: TextScalar) -> Value:
    """The value a scalar stands for; dates stay text. Raises `ScalarError`."""
    kind = kind_of(scalar)
    node = yaml.ScalarNode(_TAG + kind, scalar.value)
    try:
        match kind:
            case "null":
                return None
            case "bool":
                return bool(_CONSTRUCTOR.construct_yaml_bool(node))
            case "int":
                return int(_CONSTRUCTOR.construct_yaml_int(node))
            case "float":
                return float(_CONSTRUCTOR.construct_yaml_float(node))
            case "str" | "timestamp" | "value" | "merge":
                return scalar.value
            case _:
                raise ScalarError(f"tag {scalar.tag!r} is not accepted — leave it out")
    except (ValueError, KeyError, IndexError) as error:
        if isinstance(error, ScalarError):
            raise
        # "0x" followed by "_" alone, and digits beyond what int() takes.
        text = f"{scalar.value[:40]!r} cannot be read — put it in quotes"
        raise ScalarError(text) from error
