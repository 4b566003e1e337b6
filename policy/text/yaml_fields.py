"""Fields of YAML documents: values that know their source, line and path when they are wrong."""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, Self, TypeVar

from msgspec import Struct

from ...topology.sets.base_errors import PinfoldError
from .errors import Problem, position_text
from .yaml_nodes import (
    ScalarError,
    TextError,
    TextList,
    TextMap,
    TextNode,
    TextScalar,
    Value,
    scalar_value,
)
from .yaml_text import Limits, parse_documents

Member = TypeVar("Member", bound=Enum)

LIMITS: Final = Limits(
    characters=16 << 20, depth=64, nodes=1_000_000, documents=100_000, has_aliases=True
)
MAX_EXPANDED: Final = 20_000
"""Values below a field once aliases are written out: a few lines can stand for billions."""


class FieldError(PinfoldError):
    """A YAML text is malformed or holds something else than expected.

    `problem`, `line` and `column` say the same in parts, where it is about a field: its path is
    `where`.
    """

    def __init__(
        self, text: str, problem: Problem | None = None, *, line: int = 0, column: int = 0
    ) -> None:
        super().__init__(text)
        self.problem = problem
        self.line = line
        self.column = column


class Field(Struct, frozen=True, kw_only=True):
    """A place in a YAML document; fields that are not there, or null, are missing."""

    source: str
    path: str
    line: int
    column: int
    node: TextNode | None

    @classmethod
    def of(cls, document: TextNode, source: str) -> Self:
        """The root of a document."""
        line, column = document.line, document.column
        return cls(source=source, path="", line=line, column=column, node=document)

    @property
    def where(self) -> str:
        """Source, line, column and path, as errors begin."""
        place = position_text(self.source, self.line, self.column)
        return f"{place}: {self.path}" if self.path else place

    @property
    def is_missing(self) -> bool:
        """Whether there is nothing here, or null, which YAML makes of an empty value."""
        return self.node is None or (isinstance(self.node, TextScalar) and self.node.is_null)

    @property
    def is_mapping(self) -> bool:
        """Whether there are keys and values here."""
        return isinstance(self.node, TextMap)

    @property
    def is_list(self) -> bool:
        """Whether there are elements here."""
        return isinstance(self.node, TextList)

    @property
    def value(self) -> object:
        """The plain value, aliases written out. Raises `FieldError` where that is too much."""
        return None if self.node is None else _Expansion(self).plain(self.node, 0)

    def __getitem__(self, key: str) -> "Field":
        """The field of a key, missing or not. Raises `FieldError` where this is no mapping."""
        if self.is_missing:
            return self._below(f".{key}", None)
        for name, value in self._entries():
            if name.value == key:
                return self._below(f".{key}", value)
        return self._below(f".{key}", None)

    def entries(self) -> Mapping[str, "Field"]:
        """The fields of a mapping by key, in written order; none where it is missing.

        Raises `FieldError` where it is no mapping.
        """
        if self.is_missing:
            return {}
        return {key.value: self._below(f".{key.value}", value) for key, value in self._entries()}

    def elements(self) -> tuple["Field", ...]:
        """The fields of a list in order; none where it is missing. Raises `FieldError`."""
        if self.is_missing:
            return ()
        if not isinstance(self.node, TextList):
            raise self.error("is not a list", "write '- element' lines")
        return tuple(self._below(f"[{index}]", one) for index, one in enumerate(self.node.items))

    def text(self, default: str | None = None) -> str:
        """The text here, or the default where it is missing. Raises `FieldError`."""
        scalar = self._scalar(default is None)
        if scalar is None:
            return default or ""
        if not isinstance(_resolved(scalar), str):
            raise self.error(f"{scalar.value!r} is not a text", "put it in quotes")
        return scalar.value

    def scalar(self, default: str | None = None) -> str:
        """The text or number here as it is written: quantities may be either."""
        scalar = self._scalar(default is None)
        if scalar is None:
            return default or ""
        if isinstance(_resolved(scalar), bool):
            raise self.error(f"{scalar.value!r} is neither text nor a number", "put it in quotes")
        return scalar.value

    def integer(self, default: int | None = None) -> int:
        """The integer here, or the default where it is missing. Raises `FieldError`."""
        scalar = self._scalar(default is None)
        if scalar is None:
            return default or 0
        value = _resolved(scalar)
        if not isinstance(value, int) or isinstance(value, bool):
            is_quoted = not scalar.is_plain and scalar.value.isdecimal()
            fix = "leave out its quotes" if is_quoted else "write a whole number"
            raise self.error(f"{scalar.value!r} is not an integer", fix)
        return value

    def boolean(self, default: bool = False) -> bool:
        """The truth value here, or the default where it is missing. Raises `FieldError`."""
        scalar = self._scalar(False)
        if scalar is None:
            return default
        value = _resolved(scalar)
        if not isinstance(value, bool):
            raise self.error(f"{scalar.value!r} is neither true nor false", "write one of them")
        return value

    def member(self, members: type[Member], what: str) -> Member:
        """The member whose value is written here, in small letters or not.

        Raises `FieldError`, which says `what` of any other value.
        """
        for known in members:
            if known.value.lower() == self.text().lower():
                return known
        known_names = ", ".join(known.value.lower() for known in members)
        raise self.error(f"{what} {self.text()!r}", f"one of: {known_names}")

    def texts(self) -> Mapping[str, str]:
        """A mapping of texts, such as labels. Raises `FieldError`."""
        return {key: field.text("") for key, field in self.entries().items()}

    def error(self, what: str, fix: str = "") -> FieldError:
        """An error about this field, to be raised."""
        problem = Problem(where=self.path, what=what, fix=fix)
        text = f"{self.where}: {what}" + (f" — {fix}" if fix else "")
        return FieldError(text, problem, line=self.line, column=self.column)

    def _scalar(self, is_needed: bool) -> TextScalar | None:
        if self.is_missing:
            if is_needed:
                raise self.error("is missing", "write a value for it")
            return None
        if not isinstance(self.node, TextScalar):
            raise self.error("is a list or a mapping", "write a single value")
        return self.node

    def _entries(self) -> Iterator[tuple[TextScalar, TextNode]]:
        if not isinstance(self.node, TextMap):
            raise self.error("is not a mapping", "write 'key: value' lines")
        for key, value in self.node.entries:
            if key.value == "<<" and key.is_plain:
                raise self.error("merge keys (<<) are not understood", "write the fields out")
            yield key, value

    def _below(self, step: str, node: TextNode | None) -> "Field":
        path = self.path + step if self.path else step.removeprefix(".")
        # What is missing is missed where the mapping begins.
        line, column = (self.line, self.column) if node is None else (node.line, node.column)
        return Field(source=self.source, path=path, line=line, column=column, node=node)


def read_fields(text: str, source: str) -> tuple[Field, ...]:
    """The documents of a YAML text that are not empty.

    `source` names the text in errors. Raises `FieldError` for text that is no YAML, for a key
    written twice, and for what is beyond `LIMITS`.
    """
    try:
        documents = parse_documents(text, LIMITS)
    except TextError as error:
        position = f":{error.line}:{error.column}" if error.line else ""
        fix = f" — {error.fix}" if error.fix else ""
        raise FieldError(f"{source}{position}: {error.what}{fix}") from error
    return tuple(Field.of(one, source) for one in documents)


class _Expansion:
    """Turns nodes into plain values and counts them."""

    def __init__(self, field: Field) -> None:
        self._field = field
        self._count = 0

    def plain(self, node: TextNode, depth: int) -> object:
        self._count += 1
        if self._count > MAX_EXPANDED or depth > LIMITS.depth:
            raise self._field.error(
                f"more than {MAX_EXPANDED} values, aliases written out", "use fewer aliases"
            )
        match node:
            case TextScalar():
                return _resolved(node)
            case TextList():
                return [self.plain(item, depth + 1) for item in node.items]
            case TextMap():
                return {key.value: self.plain(value, depth + 1) for key, value in node.entries}


def _resolved(scalar: TextScalar) -> Value:
    """The value of a scalar; what cannot be read as what it says stays text."""
    try:
        return scalar_value(scalar)
    except ScalarError:
        return scalar.value
