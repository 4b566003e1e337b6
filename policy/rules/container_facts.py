"""Facts of a container that expressions can ask for, and the keys that name them.

A joint key joins the facts of several keys: `:pod/qosclass:pod/name:name` has the value
`<qos class>:<pod name>:<container name>`, and `:,-name,labels/app` joins with a dash what a comma
separates.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, NamedTuple, cast

from ..model.container import Container
from ..text.suggestion import suggestion

MAX_SUBKEYS = 16

# What the kubelet sets on every container; here also for runtimes that keep these to themselves.
KUBELET_LABELS: Mapping[str, Callable[[Container], str]] = {
    "io.kubernetes.container.name": lambda container: container.name,
    "io.kubernetes.pod.name": lambda container: container.pod.name,
    "io.kubernetes.pod.namespace": lambda container: container.pod.namespace,
    "io.kubernetes.pod.uid": lambda container: container.pod.uid,
}

# A field that ends in labels or tags is written with the label's key: "labels/app".
FIELDS: Mapping[str, Callable[[Container, str], str | None]] = {
    "id": lambda container, _: container.id,
    "name": lambda container, _: container.name,
    "namespace": lambda container, _: container.pod.namespace,
    "qosclass": lambda container, _: container.pod.qos.value,
    "labels": lambda container, label: _label(container, label),
    "tags": lambda container, tag: container.tags.get(tag),
    "pod/id": lambda container, _: container.pod.id,
    "pod/uid": lambda container, _: container.pod.uid or None,
    "pod/name": lambda container, _: container.pod.name,
    "pod/namespace": lambda container, _: container.pod.namespace,
    "pod/qosclass": lambda container, _: container.pod.qos.value,
    "pod/labels": lambda container, label: container.pod.labels.get(label),
}
NAMED_FIELDS = ("pod/labels", "labels", "tags")
SINGLE_FIELDS = tuple(field for field in FIELDS if field not in NAMED_FIELDS)


class Subkey(NamedTuple):
    """One fact: a row of FIELDS, and the label or tag it is about."""

    field: str
    name: str = ""

    def value(self, container: Container) -> str | None:
        """The fact; None where the container has no such thing."""
        return FIELDS[self.field](container, self.name)


Fact = tuple[Subkey, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One subkey, or several joined by a separator."""

    text: str
    subkeys: tuple[Subkey, ...]
    separator: str = ""

    @property
    def only(self) -> Subkey | None:
        """The subkey of a key that is not joint."""
        return self.subkeys[0] if len(self.subkeys) == 1 else None

    def value(self, container: Container) -> str | None:
        """The value; a missing subkey of a joint key is empty, None if all are missing."""
        only = self.only
        if only is not None:
            return only.value(container)
        return self._join([subkey.value(container) for subkey in self.subkeys])

    def value_of(self, known: Mapping[Subkey, str]) -> str | None:
        """The value of the key for a container whose facts are `known`."""
        subkeys = self.subkeys
        if len(subkeys) == 1:
            return known.get(subkeys[0])
        return self._join([known.get(subkey) for subkey in subkeys])

    def _join(self, values: list[str | None]) -> str | None:
        missing = values.count(None)
        if missing == len(values):
            return None
        if missing:
            return self.separator.join([value or "" for value in values])
        return self.separator.join(cast("list[str]", values))


_SINGLE: Final = tuple((Subkey(field), FIELDS[field]) for field in SINGLE_FIELDS)


def facts(container: Container) -> Iterator[Fact]:
    """Every subkey that has a value for a container, with the value; each once."""
    for subkey, read in _SINGLE:
        value = read(container, "")
        if value is not None:
            yield subkey, value
    for label, value in container.labels.items():
        yield Subkey("labels", label), value
    for label, read_label in KUBELET_LABELS.items():
        if label not in container.labels and (value := read_label(container)):
            yield Subkey("labels", label), value
    for tag, value in container.tags.items():
        yield Subkey("tags", tag), value
    for label, value in container.pod.labels.items():
        yield Subkey("pod/labels", label), value


def parse_key(text: str) -> Key:
    """The key a text names.

    Joint keys are `:a:b` (also `a:b`), or `:KVaKb` with the characters K between the keys and V
    between the values; K and V are neither letters nor digits. Raises `ValueError` with two
    arguments: what is wrong, and how to fix it.
    """
    # A key of a stranger may be as long as its annotation: the cache is for ordinary ones.
    return _parse_known_key(text) if len(text) <= _ORDINARY_LENGTH else _parse_key(text)


def _parse_key(text: str) -> Key:
    if ":" not in text:
        return Key(text=text, subkeys=(_parse_subkey(text),))
    rest = text.removeprefix(":")
    between_keys = between_values = ":"
    if text.startswith(":") and rest and not rest[0].isalnum():
        between_keys, between_values, rest = rest[0], rest[1:2], rest[2:]
        if not between_values or between_values.isalnum():
            raise ValueError(
                f"joint key {text!r} has no separator of values",
                "write ':' and two separators, of keys and of values, as in ':,-name,pod/name'",
            )
    parts = rest.split(between_keys)
    if len(parts) > MAX_SUBKEYS:
        raise ValueError(f"{len(parts)} keys in a joint key", f"join at most {MAX_SUBKEYS} keys")
    subkeys = tuple(_parse_subkey(part) for part in parts)
    return Key(text=text, subkeys=subkeys, separator=between_values)


_ORDINARY_LENGTH: Final = 128
_parse_known_key = lru_cache(maxsize=256)(_parse_key)


def _parse_subkey(text: str) -> Subkey:
    if text in SINGLE_FIELDS:
        return Subkey(text)
    for field in NAMED_FIELDS:
        if text == field or text.startswith(field + "/"):
            name = text[len(field) + 1 :]
            if not name:
                raise ValueError(f"key {text!r} names no label", f"write '{field}/' and its key")
            return Subkey(field, name)
    if not text:
        raise ValueError("an empty key", "name what to look at, for example 'name'")
    if text == "uid":
        raise ValueError("unknown key 'uid'", "did you mean 'pod/uid'?")
    known = SINGLE_FIELDS + tuple(f"{field}/<key>" for field in NAMED_FIELDS)
    head, slash, tail = text.rpartition("/") if text.startswith("pod/") else text.partition("/")
    near = get_close_matches(head if slash and tail else text, NAMED_FIELDS, n=1, cutoff=0.75)
    if slash and tail and near:
        raise ValueError(f"unknown key {text!r}", f"did you mean '{near[0]}/{tail}'?")
    raise ValueError(f"unknown key {text!r}", suggestion(text, known))


def _label(container: Container, label: str) -> str | None:
    value = container.labels.get(label)
    if value is None and label in KUBELET_LABELS:
        return KUBELET_LABELS[label](container) or None
    return value
