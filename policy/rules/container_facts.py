"""Facts of a container that expressions can ask for, and the keys that name them.

A joint key joins the facts of several keys: `:pod/qosclass:pod/name:name` has the value
`<qos class>:<pod name>:<container name>`, and `:,-name,labels/app` joins with a dash what a comma
separates.
"""

from collections.abc import Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, cast

from msgspec import Struct

from ..model.container import Container
from ..text.suggestion import nearest, suggestion

MAX_SUBKEYS = 16

# What the kubelet sets on every container; here also for runtimes that keep these to themselves.
KUBELET_LABELS: Mapping[str, str] = {
    "io.kubernetes.container.name": "name",
    "io.kubernetes.pod.name": "pod.name",
    "io.kubernetes.pod.namespace": "pod.namespace",
    "io.kubernetes.pod.uid": "pod.uid",
}
"""By label, where a container has the value."""

# A field that ends in labels or tags is written with the label's key: "labels/app".
FIELDS: Mapping[str, str] = {
    "id": "id",
    "name": "name",
    "namespace": "pod.namespace",
    "qosclass": "pod.qos._value_",
    "labels": "labels",
    "tags": "tags",
    "pod/id": "pod.id",
    "pod/uid": "pod.uid",
    "pod/name": "pod.name",
    "pod/namespace": "pod.namespace",
    "pod/qosclass": "pod.qos._value_",
    "pod/labels": "pod.labels",
}
"""By field, where a container has the value, or the values by key.

A member's `_value_` is its value without the calls of Python that `value` takes. Source: Python's
enum, "Supported _sunder_ names".
"""
NAMED_FIELDS = ("pod/labels", "labels", "tags")
SINGLE_FIELDS = tuple(field for field in FIELDS if field not in NAMED_FIELDS)
_FIELDS_LEFT_EMPTY: Final = ("pod/uid",)
"""Single fields that count as missing where they are empty: nobody told them."""


# How few containers share a value of the field, as a rule; any other field is in between.
SELECTIVITY: Final[Mapping[str, int]] = {
    "id": 0,
    "pod/id": 1,
    "pod/uid": 1,
    "pod/name": 2,
    "name": 3,
    "namespace": 5,
    "pod/namespace": 5,
    "qosclass": 6,
    "pod/qosclass": 6,
}
OTHER_SELECTIVITY: Final = 4


class Subkey(NamedTuple):
    """One fact: a row of FIELDS, and the label or tag it is about."""

    field: str
    name: str = ""

    def value(self, container: Container) -> str | None:
        """The fact; None where the container has no such thing."""
        found: Any = _READ[self.field](container)
        value: str | None = found.get(self.name) if self.field in NAMED_FIELDS else found
        if self.field in NAMED_FIELDS:
            if value is None and self.field == "labels" and self.name in KUBELET_LABELS:
                return attrgetter(KUBELET_LABELS[self.name])(container) or None
        elif not value and self.field in _FIELDS_LEFT_EMPTY:
            return None
        return value


def selectivity(subkey: Subkey) -> int:
    """A rating of a key: the lower, the fewer containers usually share a value of it."""
    return SELECTIVITY.get(subkey.field, OTHER_SELECTIVITY)


class KnownFacts(Protocol):
    """The facts of a container, each told when it is asked for: a mapping, for one."""

    def get(self, subkey: Subkey, /) -> str | None:
        """The fact; None where the container has no such thing."""
        ...


class ContainerFacts:
    """Facts read from a container: it may have hundreds, of which few are asked for."""

    __slots__ = ("_container",)

    def __init__(self, container: Container) -> None:
        self._container = container

    def get(self, subkey: Subkey, /) -> str | None:
        """The fact; None where the container has no such thing."""
        return subkey.value(self._container)


class Key(Struct, frozen=True, kw_only=True):
    """One subkey, or several joined by a separator."""

    text: str
    subkeys: tuple[Subkey, ...]
    only: Subkey | None
    """The subkey of a key that is not joint."""
    separator: str = ""

    def value_of(self, known: KnownFacts) -> str | None:
        """The value of the key for a container whose facts are `known`.

        A missing subkey of a joint key is empty, the key itself is missing if all are.
        """
        only = self.only
        if only is not None:
            return known.get(only)
        values = [known.get(subkey) for subkey in self.subkeys]
        missing = values.count(None)
        if missing == len(values):
            return None
        if missing:
            return self.separator.join([value or "" for value in values])
        return self.separator.join(cast("list[str]", values))


_READ: Final = {field: attrgetter(path) for field, path in FIELDS.items()}
_SINGLE: Final = tuple(Subkey(field) for field in SINGLE_FIELDS)
FIXED_SUBKEYS: Final = frozenset((*_SINGLE, *(Subkey("labels", name) for name in KUBELET_LABELS)))
"""The facts that every container has, whatever its author wrote."""
_LEFT_EMPTY: Final = tuple(Subkey(field) for field in _FIELDS_LEFT_EMPTY)
# Every container that comes is read, and each getter reads all that is needed in one call.
_read_single: Final = attrgetter(*(FIELDS[field] for field in SINGLE_FIELDS))
_read_kubelet_s: Final = attrgetter(*KUBELET_LABELS.values())
_subkey: Final = lru_cache(maxsize=1024)(Subkey)


def facts(container: Container) -> dict[Subkey, str]:
    """Every subkey that has a value for a container, with the value."""
    pod, labels = container.pod, container.labels
    found: dict[Subkey, str] = dict(zip(_SINGLE, _read_single(container), strict=True))
    for subkey in _LEFT_EMPTY:
        if not found[subkey]:
            del found[subkey]
    for label, value in zip(KUBELET_LABELS, _read_kubelet_s(container), strict=True):
        if value:
            found[_subkey("labels", label)] = value
    for field, values in (("labels", labels), ("tags", container.tags), ("pod/labels", pod.labels)):
        for label, value in values.items():
            found[_subkey(field, label)] = value
    return found


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
        one = _parse_subkey(text)
        return Key(text=text, subkeys=(one,), only=one)
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
    only = subkeys[0] if len(subkeys) == 1 else None
    return Key(text=text, subkeys=subkeys, only=only, separator=between_values)


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
    near = nearest(head if slash and tail else text, NAMED_FIELDS, cutoff=0.75)
    if slash and tail and near:
        raise ValueError(f"unknown key {text!r}", f"did you mean '{near}/{tail}'?")
    raise ValueError(f"unknown key {text!r}", suggestion(text, known))
