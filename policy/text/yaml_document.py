"""YAML text as plain values that know where they were written; documents merge."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, Self, cast

import msgspec
from msgspec import Struct

from .errors import position_text
from .yaml_nodes import (
    MAPPING,
    MERGE,
    SEQUENCE,
    ScalarError,
    TextError,
    TextList,
    TextMap,
    TextNode,
    TextScalar,
    kind_of,
    scalar_value,
)
from .yaml_text import Limits, parse_text

Path = tuple[str | int, ...]
"""Keys and positions from the root of a document."""

_VALUES_MAX: Final = 20_000
"""Values after aliases are expanded: a few lines of aliases can stand for billions."""
_DEPTH_MAX: Final = 50
_TEXT_MAX: Final = 1 << 20

# How many values there are is found out when aliases are expanded.
_LIMITS: Final = Limits(
    characters=_TEXT_MAX,
    depth=_DEPTH_MAX,
    nodes=_TEXT_MAX,
    has_aliases=True,
    has_odd_keys=True,
)
_PLAIN_KEY: Final = re.compile(r"[\w/-]+")


class Place(Struct, frozen=True, kw_only=True):
    """The place where a value was written and, of a scalar, its text. Line 0: without lines."""

    source: str
    line: int = 0
    column: int = 0
    text: str | None = None

    @classmethod
    def of(cls, node: TextNode, source: str, text: str | None = None) -> Self:
        """The place where a node begins."""
        return cls(source=source, line=node.line, column=node.column, text=text)

    def __str__(self) -> str:
        return position_text(self.source, self.line, self.column)


class TextFault(Struct, frozen=True, kw_only=True):
    """A fault of a text itself: what was meant by the value at a path is not known."""

    place: Place
    path: Path
    line: str
    """The fault as people read it, its place included."""


class Document(Struct, frozen=True):
    """A mapping of plain values, and the place of each value by path.

    `faults`: what is wrong with the text; then the values are those that could be read.
    """

    values: Mapping[str, object]
    places: Mapping[Path, Place] = msgspec.field(default_factory=dict[Path, Place])
    faults: tuple[TextFault, ...] = ()

    def place(self, path: Path) -> Place:
        """The place of the value at a path, or of the nearest value around it."""
        for length in range(len(path), -1, -1):
            if found := self.places.get(path[:length]):
                return found
        return Place(source="configuration")

    def named_place(self, message: str) -> Place:
        """The place of the field that a message begins with, as in "reservedResources.cpu: …"."""
        name, colon, _ = message.partition(": ")
        found = [path for path in self.places if colon and dotted(path) == name]
        return self.place(found[0] if found else ())

    def below(self, key: str) -> "Document":
        """The mapping under a key as a document; empty where there is none."""
        values = mapping_of(self.values.get(key)) or {}
        places = {path[1:]: place for path, place in self.places.items() if path[:1] == (key,)}
        return Document(values, {(): self.place(()), **places}, self.faults)


def mapping_of(value: object) -> Mapping[str, object] | None:
    """The value where it is a mapping of a document, whose keys are text; None otherwise."""
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else None


def dotted(path: Path) -> str:
    """The path as people write it: "cpuClasses[0].name"."""
    text = ""
    for step in path:
        if isinstance(step, str) and _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{step!r}]"
    return text


def parse_document(text: str, source: str) -> Document:
    """The one mapping a YAML text holds; an empty text is an empty mapping."""
    return _document(parse_value(text, source), source)


def document_of(node: TextNode, source: str) -> Document:
    """The mapping that a node of a text holds."""
    try:
        return _document(_read_node(node, source), source)
    except _UnreadableError as error:
        return _document(ParsedValue(None, {}, (error.fault,)), source)


def faulty_document(source: str, line: str) -> Document:
    """A document of which nothing can be read, for the reason in a line."""
    place = Place(source=source)
    return Document({}, {(): place}, (TextFault(place=place, path=(), line=line),))


class ParsedValue(Struct, frozen=True):
    """The one value of a text, None where it holds none, and the place of each value in it.

    `faults`: all that is wrong with the text: no YAML, keys written twice, too many aliases.
    """

    value: object
    places: Mapping[Path, Place] = msgspec.field(default_factory=dict[Path, Place])
    faults: tuple[TextFault, ...] = ()


def _document(parsed: ParsedValue, source: str) -> Document:
    root = parsed.places.get((), Place(source=source))
    if parsed.value is None:
        return Document({}, {(): root}, parsed.faults)
    values = mapping_of(parsed.value)
    if values is None:
        line = f"{root}: expected a mapping — write 'field: value' lines"
        fault = TextFault(place=root, path=(), line=line)
        return Document({}, {(): root}, (*parsed.faults, fault))
    return Document(values, parsed.places, parsed.faults)


def parse_value(text: str, source: str) -> ParsedValue:
    """The value a YAML text holds."""
    try:
        return _parse_value(text, source)
    except _UnreadableError as error:
        return ParsedValue(None, {}, (error.fault,))


class _UnreadableError(Exception):
    """A text cannot be used at all."""

    def __init__(self, place: Place, line: str) -> None:
        super().__init__(line)
        self.fault = TextFault(place=place, path=(), line=line)


def _parse_value(text: str, source: str) -> ParsedValue:
    """Raises `_UnreadableError`."""
    if len(text) > _LIMITS.characters:
        what = f"{len(text)} characters are too many — at most {_LIMITS.characters}"
        raise _UnreadableError(Place(source=source), f"{source}: {what}")
    try:
        node = parse_text(text, _LIMITS)
    except TextError as error:
        where = f"{source}:{error.line}:{error.column}" if error.line else source
        fix = f" — {error.fix}" if error.fix else ""
        place = Place(source=source, line=error.line, column=error.column)
        raise _UnreadableError(place, f"{where}: {error.what}{fix}") from error
    if node is None:
        return ParsedValue(None)
    return _read_node(node, source)


def _read_node(node: TextNode, source: str) -> ParsedValue:
    """Raises `_UnreadableError`."""
    reader = _Reader(source)
    return ParsedValue(reader.value(node, ()), reader.places, tuple(reader.faults))


def merge(under: Document, over: Document) -> Document:
    """Both documents as one: mappings merge, anything else in `over` replaces what is in `under`.

    A null in `over` takes a value of `under` away.
    """
    places = {**under.places}
    if () in over.places:
        places[()] = over.places[()]
    values = _merge(under.values, over.values, (), over.places, places)
    return Document(values, places, (*under.faults, *over.faults))


def _merge(
    under: Mapping[str, object],
    over: Mapping[str, object],
    path: Path,
    new: Mapping[Path, Place],
    places: dict[Path, Place],
) -> dict[str, object]:
    """The merged values; `places` is brought in line with them from the `new` ones."""
    merged = {**under}
    for key, value in over.items():
        inner = (*path, key)
        one, other = mapping_of(merged.get(key)), mapping_of(value)
        if one is not None and other is not None:
            merged[key] = _merge(one, other, inner, new, places)
            continue
        for old in [known for known in places if known[: len(inner)] == inner]:
            del places[old]
        places.update({at: place for at, place in new.items() if at[: len(inner)] == inner})
        merged[key] = value
    return merged


class _Reader:
    """Turns YAML nodes into values, and notes their places and what is wrong with them."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.places: dict[Path, Place] = {}
        self.faults: list[TextFault] = []

    def value(self, node: TextNode, path: Path) -> object:
        """Raises `_UnreadableError` for a node that stands for too much."""
        if len(self.places) >= _VALUES_MAX:
            what = f"more than {_VALUES_MAX} values, aliases expanded — write fewer"
            raise self._unreadable(node, what)
        if len(path) > _DEPTH_MAX:
            raise self._unreadable(node, f"nested too deep — at most {_DEPTH_MAX} levels")
        text = node.value if isinstance(node, TextScalar) else None
        self.places[path] = Place.of(node, self.source, text)
        match node:
            case TextMap():
                return dict(self._items(node, path))
            case TextList():
                return [self.value(one, (*path, index)) for index, one in enumerate(node.items)]
            case TextScalar():
                return self._scalar(node, path)

    def _items(self, node: TextMap, path: Path) -> Iterator[tuple[str, object]]:
        seen: dict[str, int] = {}
        for key_node, value_node in node.entries:
            if key_node.tag in (MAPPING, SEQUENCE):
                self._fault(key_node, path, "a key must be plain text — write a name")
                continue
            # The text itself, so that keys such as `on` or `1` stay what was written.
            key = key_node.value
            if kind_of(key_node) == MERGE:
                what = "merge keys (<<) are not accepted — write the fields"
                self._fault(key_node, path, what)
                continue
            if key in seen:
                what = f"{key!r} is written twice, first in line {seen[key]} — keep one"
                self._fault(key_node, (*path, key), what)
                continue
            seen[key] = key_node.line
            yield key, self.value(value_node, (*path, key))
            # Errors about a value point at its key: the value may start lines below.
            text = self.places[(*path, key)].text
            self.places[(*path, key)] = Place.of(key_node, self.source, text)

    def _scalar(self, node: TextScalar, path: Path) -> object:
        """The value; None, which is a field's default, where it cannot be read."""
        try:
            return scalar_value(node)
        except ScalarError as error:
            self._fault(node, path, str(error))
            return None

    def _fault(self, node: TextNode, path: Path, what: str) -> None:
        place = Place.of(node, self.source)
        self.faults.append(TextFault(place=place, path=path, line=f"{place}: {what}"))

    def _unreadable(self, node: TextNode, what: str) -> _UnreadableError:
        place = Place.of(node, self.source)
        return _UnreadableError(place, f"{place}: {what}")
