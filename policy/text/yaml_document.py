"""YAML text as plain values that know where they were written; documents merge."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

import yaml

Path = tuple[str | int, ...]
"""Keys and positions from the root of a document."""

_TEXT_MAX: Final = 1 << 20
_VALUES_MAX: Final = 20_000
"""Values after aliases are expanded: a few lines of aliases can stand for billions."""
_DEPTH_MAX: Final = 50

_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SCALARS: Final = yaml.constructor.SafeConstructor()
_PLAIN_KEY: Final = re.compile(r"[\w/-]+")
_TAG: Final = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a value was written and, of a scalar, its text. Line 0: the source has no lines."""

    source: str
    line: int = 0
    text: str | None = None

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFault:
    """Something wrong with a text itself: what was meant by the value at a path is not known."""

    place: Place
    path: Path
    line: str
    """The fault as people read it, its place included."""


@dataclass(frozen=True, slots=True)
class Document:
    """A mapping of plain values, and the place of each value by path.

    `faults`: what is wrong with the text; then the values are those that could be read.
    """

    values: Mapping[str, object]
    places: Mapping[Path, Place] = field(default_factory=dict[Path, Place])
    faults: tuple[TextFault, ...] = ()

    def place(self, path: Path) -> Place:
        """The place of the value at a path, or of the nearest value around it."""
        for length in range(len(path), -1, -1):
            if found := self.places.get(path[:length]):
                return found
        return Place(source="configuration")

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
    parsed = parse_value(text, source)
    root = parsed.places.get((), Place(source=source))
    if parsed.value is None:
        return Document({}, {(): root}, parsed.faults)
    values = mapping_of(parsed.value)
    if values is None:
        line = f"{root}: expected a mapping — write 'field: value' lines"
        fault = TextFault(place=root, path=(), line=line)
        return Document({}, {(): root}, (*parsed.faults, fault))
    return Document(values, parsed.places, parsed.faults)


def faulty_document(source: str, line: str, path: Path = ()) -> Document:
    """A document of which nothing can be read, for the reason in a line."""
    place = Place(source=source)
    return Document({}, {(): place}, (TextFault(place=place, path=path, line=line),))


@dataclass(frozen=True, slots=True)
class ParsedValue:
    """The one value of a text, None where it holds none, and the place of each value in it.

    `faults`: all that is wrong with the text: no YAML, keys written twice, too many aliases.
    """

    value: object
    places: Mapping[Path, Place] = field(default_factory=dict[Path, Place])
    faults: tuple[TextFault, ...] = ()


def parse_value(text: str, source: str) -> ParsedValue:
    """The value a YAML text holds."""
    try:
        return _parse_value(text, source)
    except _UnreadableError as error:
        return ParsedValue(None, {}, (error.fault,))


class _UnreadableError(Exception):
    """Nothing of a text can be used."""

    def __init__(self, place: Place, line: str) -> None:
        super().__init__(line)
        self.fault = TextFault(place=place, path=(), line=line)


def _parse_value(text: str, source: str) -> ParsedValue:
    """Raises `_UnreadableError`."""
    place = Place(source=source)
    if len(text) > _TEXT_MAX:
        what = f"{len(text)} characters are too many — at most {_TEXT_MAX}"
        raise _UnreadableError(place, f"{source}: {what}")
    try:
        _check_depth(text, source)
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        what = ", ".join(part for part in (error.context, error.problem) if part)
        place = Place(source=source, line=mark.line + 1 if mark else 0)
        raise _UnreadableError(place, f"{where}: not YAML: {what}") from error
    except (yaml.YAMLError, UnicodeError) as error:
        what = " ".join(str(error).split())
        raise _UnreadableError(place, f"{source}: not YAML: {what}") from error
    if node is None:
        return ParsedValue(None)
    reader = _Reader(source)
    return ParsedValue(reader.value(node, ()), reader.places, tuple(reader.faults))


def _check_depth(text: str, source: str) -> None:
    """Raises `_UnreadableError` where a text is nested too deep to be composed.

    The composer in C calls itself once for each level, until its process has no stack left.
    """
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEPTH_MAX:
                line = event.start_mark.line + 1 if event.start_mark else 0
                place = Place(source=source, line=line)
                what = f"nested too deep — at most {_DEPTH_MAX} levels"
                raise _UnreadableError(place, f"{place}: {what}")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


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

    def value(self, node: yaml.Node, path: Path) -> object:
        """Raises `_UnreadableError` for a node that stands for too much."""
        if len(self.places) >= _VALUES_MAX:
            what = f"more than {_VALUES_MAX} values, aliases expanded"
            raise self._unreadable(node, what)
        if len(path) > _DEPTH_MAX:
            raise self._unreadable(node, f"nested too deep — at most {_DEPTH_MAX} levels")
        text = node.value if isinstance(node, yaml.ScalarNode) else None
        self.places[path] = Place(source=self.source, line=_line(node), text=text)
        match node:
            case yaml.MappingNode():
                return dict(self._items(node, path))
            case yaml.SequenceNode():
                nodes: list[yaml.Node] = node.value
                return [self.value(one, (*path, index)) for index, one in enumerate(nodes)]
            case yaml.ScalarNode():
                return self._scalar(node, path)
            case _:
                raise self._unreadable(node, "not a mapping, list or scalar")

    def _items(self, node: yaml.MappingNode, path: Path) -> Iterator[tuple[str, object]]:
        if node.tag != f"{_TAG}map":
            self._fault(node, path, f"tag {node.tag!r} is not accepted — leave it out")
        seen: dict[str, int] = {}
        pairs: list[tuple[yaml.Node, yaml.Node]] = node.value
        for key_node, value_node in pairs:
            if not isinstance(key_node, yaml.ScalarNode):
                self._fault(key_node, path, "a key must be plain text")
                continue
            # The text itself, so that keys such as `on` or `1` stay what was written.
            key: str = key_node.value
            if key_node.tag == f"{_TAG}merge":
                what = "merge keys (<<) are not accepted — write the fields"
                self._fault(key_node, path, what)
                continue
            if key in seen:
                what = f"{key!r} is written twice, first in line {seen[key]} — keep one"
                self._fault(key_node, (*path, key), what)
                continue
            seen[key] = _line(key_node)
            yield key, self.value(value_node, (*path, key))
            # Errors about a value point at its key: the value may start lines below.
            place = self.places[(*path, key)]
            self.places[(*path, key)] = Place(source=place.source, line=seen[key], text=place.text)

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> object:
        """The value; None, which is a field's default, where it cannot be read."""
        text: str = node.value
        try:
            match node.tag.removeprefix(_TAG):
                case "null":
                    return None
                case "bool":
                    return bool(_SCALARS.construct_yaml_bool(node))
                case "int":
                    return int(_SCALARS.construct_yaml_int(node))
                case "float":
                    return float(_SCALARS.construct_yaml_float(node))
                case "str" | "timestamp" | "value":
                    return text
                case _:
                    self._fault(node, path, f"tag {node.tag!r} is not accepted — leave it out")
        except (ValueError, KeyError):
            self._fault(node, path, f"{text[:40]!r} cannot be read — put it in quotes")
        return None

    def _fault(self, node: yaml.Node, path: Path, what: str) -> None:
        place = Place(source=self.source, line=_line(node))
        self.faults.append(TextFault(place=place, path=path, line=f"{place}: {what}"))

    def _unreadable(self, node: yaml.Node, what: str) -> _UnreadableError:
        place = Place(source=self.source, line=_line(node))
        return _UnreadableError(place, f"{place}: {what}")


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1
