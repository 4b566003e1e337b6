"""Mentions of containers in the annotations of a pod, with their places."""

from collections.abc import Iterator, Mapping

from ..annotations.annotations import Scope, read_annotations
from ..model.container import Pod
from ..rules.affinity import AFFINITY_KEYS
from ..rules.operators import ANYTHING
from ..text.yaml_nodes import Position, TextError, TextList, TextMap, TextScalar
from ..text.yaml_text import parse_text


def mentions(pod: Pod) -> Iterator[tuple[str, TextScalar]]:
    """Annotations and the names of containers in them, in order; the place is inside the text.

    Line and column are 0 where the name stands in the key. Names in expressions are left out, as
    those may be of other pods, and so is "*" as a friend, which stands for all; nobody's rules
    stand under it.
    """
    maps: dict[str, None] = {}
    settings = read_annotations(pod.annotations).settings
    for (_, name), setting in sorted(settings.items()):
        if setting.scope is not Scope.CONTAINER:
            continue
        if setting.key.endswith(f"/container.{name}"):
            yield setting.key, TextScalar(name, Position(-1, -1))
        else:
            maps[setting.key] = None
    for key in maps:
        yield from ((key, name) for name in _names(pod.annotations[key], has_friends=False))
    for key in _counting(pod.annotations):
        yield from ((key, name) for name in _names(pod.annotations[key], has_friends=True))


def _counting(annotations: Mapping[str, str]) -> Iterator[str]:
    """The affinity annotations that are not hidden by one of another domain."""
    seen: set[str] = set()
    for key in AFFINITY_KEYS:
        suffix = key.partition("/")[2]
        if key in annotations and suffix not in seen:
            seen.add(suffix)
            yield key


def _names(text: str, *, has_friends: bool) -> Iterator[TextScalar]:
    try:
        node = parse_text(text)
    except TextError:
        return
    for name, value in node.entries if isinstance(node, TextMap) else ():
        yield name
        if has_friends and isinstance(value, TextList):
            for item in value.items:
                if isinstance(item, TextScalar) and item.value not in ("", ANYTHING):
                    yield item
