"""YAML text as nodes that remember their line and column; nothing is turned into objects.

Meant for text of strangers: size, nesting depth and number of nodes are bounded, tags, anchors and
duplicate keys are errors, and every fault is a `TextError` with its place.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import yaml
from yaml.error import MarkedYAMLError, YAMLError
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from ...topology.sets.base_errors import PinfoldError, quoted
from .errors import Problem

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
NULLS = frozenset({"", "~", "null", "Null", "NULL"})


# Named tuples are made three times as fast as dataclasses, and a container waits for these.
class TextScalar(NamedTuple):
    """A scalar as it is written. `is_plain`: not quoted; `is_literal`: a `|` block."""

    value: str
    line: int
    column: int
    is_plain: bool = False
    is_literal: bool = False

    @property
    def is_null(self) -> bool:
        """Whether YAML reads it as nothing."""
        return self.is_plain and self.value in NULLS


class TextList(NamedTuple):
    """A sequence."""

    line: int
    column: int
    items: "tuple[TextNode, ...]"


class TextMap(NamedTuple):
    """A mapping in the order it is written; keys are scalars and differ."""

    line: int
    column: int
    entries: "tuple[tuple[TextScalar, TextNode], ...]"

    def find(self, key: str) -> "TextNode | None":
        """The value of a key; None where there is none."""
        for name, value in self.entries:
            if name.value == key:
                return value
        return None


TextNode = TextScalar | TextList | TextMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a text may hold at most. `has_aliases`: anchors and aliases are understood."""

    characters: int = 64 * 1024
    depth: int = 16
    nodes: int = 5632
    documents: int = 16
    has_aliases: bool = False


ANNOTATION_LIMITS = Limits()
_SEPARATORS = (",", ":", "\n", "[", "{", "- ")
_LEFT_OUT_MAX = 64


class TextError(PinfoldError):
    """What is wrong at one place of a text; `line` and `column` count from 1, 0 if unknown."""

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


def marks(text: str) -> int:
    """The signs that separate values in a text: it holds that many values, and at most two more.

    But for values that are left out, as in `{a, b}`, of which annotations have no use.
    """
    return sum(map(text.count, _SEPARATORS))


def parse_text(text: str, limits: Limits = ANNOTATION_LIMITS) -> TextNode | None:
    """The one document of a stranger's text, which costs as much as its `marks`; None if empty.

    Raises `TextError`, never anything else.
    """
    nodes = min(limits.nodes, marks(text) + _LEFT_OUT_MAX)
    documents = parse_documents(text, replace(limits, nodes=nodes))
    if len(documents) > 1:
        raise TextError.at(
            documents[1], "a second YAML document", "write one document, without '---'"
        )
    return documents[0] if documents else None


def parse_documents(text: str, limits: Limits = ANNOTATION_LIMITS) -> tuple[TextNode, ...]:
    """All documents of a text that hold something. Raises `TextError`, never anything else."""
    if len(text) > limits.characters:
        raise TextError(
            f"{len(text)} characters of text", f"write at most {limits.characters} characters"
        )
    if "%TAG" in text and not limits.has_aliases:
        # Each is compared with all others.
        raise TextError("the directive '%TAG' is not allowed", "leave it out")
    builder = _Builder(limits)
    try:
        for event in _events(text):
            builder.feed(event)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = "not valid YAML: " + (error.problem or error.context or "unreadable")
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise TextError(what, "check indentation and quotes", line=line, column=column) from error
    except (YAMLError, ValueError, OverflowError) as error:
        # libyaml refuses lone surrogates and control characters without a mark.
        raise TextError("not valid YAML: a character that YAML does not allow") from error
    return tuple(builder.documents)


def text_of(node: TextNode) -> str:
    """A node as the text of a document of its own: a scalar's value, otherwise JSON."""
    return node.value if isinstance(node, TextScalar) else json.dumps(_plain(node))


def scalars_of(node: TextNode, what: str) -> tuple[TextScalar, ...]:
    """The items of a list of scalars, for a field described by `what`. Raises `TextError`."""
    if not isinstance(node, TextList):
        raise TextError.at(node, f"{what} is not a list", "write a list: [a, b]")
    for item in node.items:
        if not isinstance(item, TextScalar) or item.is_null:
            raise TextError.at(item, f"an item of {what} is not a string", "write a list: [a, b]")
    return tuple(item for item in node.items if isinstance(item, TextScalar))


def _plain(node: TextNode) -> object:
    match node:
        case TextScalar():
            return node.value
        case TextList():
            return [_plain(item) for item in node.items]
        case TextMap():
            return {key.value: _plain(value) for key, value in node.entries}


def _events(text: str) -> Iterator[Event]:
    # Events, not PyYAML's composer: the C composer recurses once per nesting level.
    return iter(yaml.parse(text, Loader=LOADER))


class _Builder:
    """Makes nodes of events without recursion. A container waits while its pod's rules are read."""

    def __init__(self, limits: Limits) -> None:
        self.documents: list[TextNode] = []
        self._limits = limits
        self._open: list[tuple[CollectionStartEvent, list[TextNode]]] = []
        # Where the next node goes: into the innermost open collection.
        self._items: list[TextNode] | None = None
        self._anchors: dict[str, TextNode] = {}
        self._count = 0
        self._documents = 0

    def feed(self, event: Event) -> None:
        # The most frequent kinds first.
        if isinstance(event, ScalarEvent):
            self._count += 1
            if self._count > self._limits.nodes or event.anchor or event.tag:
                self._check(event)
            mark, style = event.start_mark, event.style
            is_plain = not style and event.tag is None
            line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
            node = TextScalar(event.value, line, column, is_plain, style == "|")
            if self._items is not None and not event.anchor:
                self._items.append(node)
            else:
                self._done(event, node)
        elif isinstance(event, CollectionStartEvent):
            self._count += 1
            self._check(event)
            depth = self._limits.depth
            if len(self._open) >= depth:
                raise _error(event, f"nested deeper than {depth} levels", "write it flatter")
            self._items = []
            self._open.append((event, self._items))
        elif isinstance(event, CollectionEndEvent):
            start, items = self._open.pop()
            self._items = self._open[-1][1] if self._open else None
            self._done(start, _collection(start, items))
        elif isinstance(event, AliasEvent):
            self._place(self._aliased(event))
        elif isinstance(event, DocumentStartEvent):
            self._anchors.clear()
            self._documents += 1
            if self._documents > self._limits.documents:
                what = f"more than {self._limits.documents} YAML documents"
                raise _error(event, what, "write fewer")

    def _check(self, event: ScalarEvent | CollectionStartEvent) -> None:
        limits = self._limits
        if self._count > limits.nodes:
            raise _error(event, f"more than {limits.nodes} values", "write fewer")
        if limits.has_aliases:
            return
        if event.anchor is not None:
            what = f"anchor {quoted(str(event.anchor))} is not allowed"
            raise _error(event, what, "write the value out")
        tag: object = event.tag
        if tag is not None and tag != "!":
            raise _error(event, f"tag {quoted(str(tag))} is not allowed", "leave the tag out")

    def _aliased(self, event: AliasEvent) -> TextNode:
        name = str(event.anchor)
        if not self._limits.has_aliases:
            raise _error(event, f"alias {quoted(name)} is not allowed", "write the value out")
        if name not in self._anchors:
            what = f"alias {quoted(name)} of an unknown anchor"
            raise _error(event, what, f"define &{name[:80]} before")
        return self._anchors[name]

    def _done(self, event: NodeEvent, node: TextNode) -> None:
        if event.anchor is not None:
            self._anchors[str(event.anchor)] = node
        self._place(node)

    def _place(self, node: TextNode) -> None:
        if self._items is not None:
            self._items.append(node)
        elif not (isinstance(node, TextScalar) and node.is_null):
            self.documents.append(node)


def _error(event: Event, what: str, fix: str) -> TextError:
    line, column = _position(event)
    return TextError(what, fix, line=line, column=column)


def _position(event: Event) -> tuple[int, int]:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (0, 0)


def _collection(start: NodeEvent, items: list[TextNode]) -> TextNode:
    line, column = _position(start)
    if isinstance(start, SequenceStartEvent):
        return TextList(line, column, tuple(items))
    entries: list[tuple[TextScalar, TextNode]] = []
    seen: set[str] = set()
    for key, value in zip(items[::2], items[1::2], strict=True):
        if not isinstance(key, TextScalar):
            raise TextError.at(key, "a key that is a list or a mapping", "write a name as the key")
        if key.value in seen:
            raise TextError.at(key, f"{quoted(key.value)} is given twice", "merge the two entries")
        seen.add(key.value)
        entries.append((key, value))
    return TextMap(line, column, tuple(entries))
