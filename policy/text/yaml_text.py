"""YAML text read into nodes.

Meant for text of strangers: size, nesting depth and number of nodes are bounded, tags, anchors and
duplicate keys are errors, and every fault is a `TextError` with its place.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, cast

import yaml
from msgspec import Struct
from msgspec.structs import replace
from yaml.error import MarkedYAMLError, YAMLError
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)
from yaml.reader import Reader

from ...topology.sets.base_errors import quoted
from .yaml_nodes import MAPPING, SEQUENCE, Mark, TextError, TextList, TextMap, TextNode, TextScalar

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SEPARATORS = (",", ":", "\n", "[", "{", "- ")
_LEFT_OUT_MAX = 64
_WHILE_QUOTED: Final = "while scanning a quoted scalar"
_TEMPLATE: Final = re.compile(r"\{\{-?\s*[\w.$\"/(].*?\}\}")
"""What Helm replaces, and other programs that make manifests."""
_WHILE_KEY: Final = "while scanning a simple key"


class Limits(Struct, frozen=True, kw_only=True):
    """Limits of a text's size and syntax. `has_aliases`: anchors and aliases are understood.

    `has_odd_keys`: keys may be there twice, and a list or mapping as a key has its tag and no text.
    """

    characters: int = 64 * 1024
    depth: int = 16
    nodes: int = 2816
    documents: int = 16
    has_aliases: bool = False
    has_odd_keys: bool = False


ANNOTATION_LIMITS = Limits()


def marks(text: str) -> int:
    """The signs that separate values in a text: it holds that many values, and at most two more.

    But for values that are left out, as in `{a, b}`, of which annotations have no use.
    """
    return sum(map(text.count, _SEPARATORS))


def parse_text(text: str, limits: Limits = ANNOTATION_LIMITS) -> TextNode | None:
    """The one document of a stranger's text, which costs as much as its `marks`; None if empty.

    Raises `TextError`, never anything else.
    """
    documents = parse_documents(text, _limits_of(text, limits))
    if len(documents) > 1:
        raise _second(documents)
    return documents[0] if documents else None


def parse_beginning(text: str) -> tuple[TextNode | None, TextError | None]:
    """The first document of a stranger's text, and the fault of what follows it, if anything does.

    For what readers of YAML in Go take: those look at nothing behind it. Raises `TextError` where
    the first one has a fault.
    """
    builder = _Builder(_limits_of(text, ANNOTATION_LIMITS))
    try:
        _fill(builder, text)
    except TextError as error:
        if not builder.documents:
            raise
        return builder.documents[0], error
    if len(builder.documents) > 1:
        return builder.documents[0], _second(builder.documents)
    return (builder.documents[0] if builder.documents else None), None


def parse_documents(text: str, limits: Limits = ANNOTATION_LIMITS) -> tuple[TextNode, ...]:
    """All documents of a text that hold something. Raises `TextError`, never anything else."""
    builder = _Builder(limits)
    _fill(builder, text)
    return tuple(builder.documents)


def _limits_of(text: str, limits: Limits) -> Limits:
    return replace(limits, nodes=min(limits.nodes, marks(text) + _LEFT_OUT_MAX))


def _second(documents: Sequence[TextNode]) -> TextError:
    what = "a second YAML document"
    return TextError.at(documents[1], what, "write one document, without '---'")


def _fill(builder: "_Builder", text: str) -> None:
    limits = builder.limits
    if len(text) > limits.characters:
        raise TextError(
            f"{len(text)} characters of text", f"write at most {limits.characters} characters"
        )
    if "%TAG" in text and not limits.has_aliases:
        # Each is compared with all others.
        raise TextError("the directive '%TAG' is not allowed", "leave it out")
    try:
        _read(builder, text)
    except TextError as error:
        raise _of_template(error, text) from error


def _of_template(error: TextError, text: str) -> TextError:
    """The error itself, or one about a part of a template that nobody has filled in there."""
    lines = text.splitlines()[max(0, error.line - 1) : error.line]
    found = _TEMPLATE.search(lines[0]) if lines else None
    if found is None:
        return error
    what = f"{quoted(found[0])} is a template, and no YAML"
    fix = "fill it in first, as 'helm template' does"
    return TextError(what, fix, line=error.line, column=found.start() + 1)


def _read(builder: "_Builder", text: str) -> None:
    try:
        builder.read(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        if error.context == _WHILE_KEY:
            # A key without a colon: the parser misses that on the next line.
            mark = error.context_mark or mark
        what = "not valid YAML: " + (error.problem or error.context or "unreadable")
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        fix = "check indentation and quotes"
        if error.context == _WHILE_QUOTED and error.context_mark and "end of stream" in what:
            # It began long before the text is over.
            line, column = error.context_mark.line + 1, error.context_mark.column + 1
            what, fix = "not valid YAML: a quote that is not closed", "close it"
        if "found " in what and _has_tab_at(text, line, column):
            what, fix = "not valid YAML: a tab where only spaces may be", "indent with spaces"
        raise TextError(what, fix, line=line, column=column) from error
    except (YAMLError, ValueError, OverflowError) as error:
        # libyaml refuses lone surrogates and control characters without a mark.
        what = "not valid YAML: a character that YAML does not allow"
        before = text[: odd.start()] if (odd := Reader.NON_PRINTABLE.search(text)) else None
        line = 0 if before is None else before.count("\n") + 1
        column = 0 if before is None else len(before) - before.rfind("\n")
        raise TextError(what, "leave it out", line=line, column=column) from error


def _has_tab_at(text: str, line: int, column: int) -> bool:
    """Whether there is a tab at a place in a text."""
    lines = text.splitlines()
    return 0 < line <= len(lines) and lines[line - 1][column - 1 : column] == "\t"


# A named tuple's own constructor takes as long as all else that is done for a node.
_make: Final = cast(
    "Callable[[type[Any], tuple[object, ...]], Any]",
    tuple.__new__,  # pyright: ignore[reportUnknownMemberType]  # a tuple of anything
)


class _Builder:
    """Makes nodes of events without recursion. A container waits while its pod's rules are read."""

    def __init__(self, limits: Limits) -> None:
        self.documents: list[TextNode] = []
        self.limits = limits
        self._open: list[tuple[CollectionStartEvent, list[TextNode] | None]] = []
        # Where the next node goes: into the innermost open collection.
        self._items: list[TextNode] | None = None
        self._anchors: dict[str, TextNode] = {}
        self._documents = 0

    def read(self, text: str) -> None:
        # Events, not PyYAML's composer: the C composer recurses once per nesting level. They are
        # taken one by one, those that nothing is odd about without a call.
        loader = LOADER(text)
        try:
            next_event = cast("Callable[[], Any]", loader.get_event)  # pyright: ignore[reportUnknownMemberType]  # PyYAML without C has no annotations
            limits = self.limits
            nodes_max, depth_max = limits.nodes, limits.depth
            opened, items, count = self._open, self._items, 0
            while True:
                # Typed loosely: a cast of each would take longer than what is done for it.
                event: Any = next_event()
                kind: type[Event] = event.__class__
                if kind is ScalarEvent:
                    count += 1
                    tag = event.tag
                    node: TextScalar = _make(
                        TextScalar, (event.value, event.start_mark, event.style, tag)
                    )
                    if items is not None and event.anchor is tag is None and count <= nodes_max:
                        items.append(node)
                        continue
                    self._check(event, count)
                    self._done(event, node)
                elif kind is MappingStartEvent or kind is SequenceStartEvent:
                    count += 1
                    if event.anchor is not None or event.tag is not None or count > nodes_max:
                        self._check(event, count)
                    if len(opened) >= depth_max:
                        what = f"nested deeper than {depth_max} levels"
                        raise _error(event, what, "write it flatter")
                    opened.append((event, items))
                    self._items = items = []
                elif kind is MappingEndEvent or kind is SequenceEndEvent:
                    start, outer = opened.pop()
                    collection = _collection(start, items or [], limits)
                    self._items = items = outer
                    if outer is not None and start.anchor is None:
                        outer.append(collection)
                    else:
                        self._done(start, collection)
                elif kind is AliasEvent:
                    self._place(self._aliased(event))
                elif kind is DocumentStartEvent:
                    self._anchors.clear()
                    self._documents += 1
                    if self._documents > limits.documents:
                        what = f"more than {limits.documents} YAML documents"
                        raise _error(event, what, "write fewer")
                elif kind is StreamEndEvent:
                    return
        finally:
            loader.dispose()

    def _check(self, event: ScalarEvent | CollectionStartEvent, count: int) -> None:
        limits = self.limits
        if count > limits.nodes:
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
        if not self.limits.has_aliases:
            raise _error(event, f"alias {quoted(name)} is not allowed", "write the value out")
        if name not in self._anchors:
            what = f"alias {quoted(name)} of an unknown anchor"
            raise _error(event, what, f"define &{name[:80]} before, in the same document")
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
    mark = _mark(event)
    return TextError(what, fix, line=mark.line + 1, column=mark.column + 1)


def _mark(event: Event) -> Mark:
    # Only events that a program makes itself have none.
    return cast("Mark", event.start_mark)


_KEYS: Final = frozenset({TextScalar})


def _collection(start: NodeEvent, items: list[TextNode], limits: Limits) -> TextNode:
    if type(start) is SequenceStartEvent:
        made: TextList = _make(TextList, (start.start_mark, tuple(items)))
        return made
    keys = items[::2]
    # Whatever a node is, its first part is its own: a scalar's text, the place of all others.
    is_distinct = len({key[0] for key in keys}) == len(keys)
    if not is_distinct or not _KEYS.issuperset(map(type, keys)):
        if not limits.has_odd_keys:
            raise _bad_key(keys)
        keys = [_odd_key(key) for key in keys]
    entries = tuple(zip(keys, items[1::2], strict=True))
    mapping: TextMap = _make(TextMap, (start.start_mark, entries))
    return mapping


def _odd_key(key: TextNode) -> TextScalar:
    if isinstance(key, TextScalar):
        return key
    return TextScalar("", key.mark, tag=SEQUENCE if isinstance(key, TextList) else MAPPING)


def _bad_key(keys: Iterable[TextNode]) -> TextError:
    seen: set[str] = set()
    for key in keys:
        if not isinstance(key, TextScalar):
            return TextError.at(key, "a key that is a list or a mapping", "write a name as the key")
        if key.value in seen:
            return TextError.at(key, f"{quoted(key.value)} is given twice", "merge the two entries")
        seen.add(key.value)
    raise AssertionError(keys)
