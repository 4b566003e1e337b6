"""JSON that people write into variables and files: objects whose errors name their place."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard, cast

from ..sets.base_errors import TopologyError
from ..sets.cpuset import CpuSet, IdListError


@dataclass(frozen=True, slots=True)
class JsonRow:
    """A JSON object and the place of it that messages name. Keys nobody asks for are ignored.

    A key that is missing or null gives the default; all methods raise `TopologyError`.
    """

    where: str
    values: Mapping[str, Any]

    def has(self, key: str) -> bool:
        """Whether the object says anything under a key."""
        return self.values.get(key) is not None

    def flag(self, key: str) -> bool:
        """True or false; false by default."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise TopologyError(f"{self.where}: {key}: {value!r} — write true or false")
        return bool(value)

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number from 0; one without a default must be there."""
        value = self.values.get(key)
        if value is None and default is not None:
            return default
        if not is_whole(value) or value < 0:
            raise TopologyError(f"{self.where}: {key}: {value!r} — write a whole number from 0")
        return value

    def text(self, key: str) -> str:
        """A string; empty by default."""
        value = self.values.get(key, "")
        if value is not None and not isinstance(value, str):
            raise TopologyError(f"{self.where}: {key}: {value!r} — put it in quotes")
        return value or ""

    def cpus(self, key: str) -> CpuSet:
        """A list of cpus in the kernel's format; empty by default."""
        return parse_cpus(f"{self.where}: {key}", self.text(key))

    def rows(self, key: str) -> list["JsonRow"]:
        """A list of objects; empty by default."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, list):
            raise TopologyError(f"{self.where}: {key} is not a list — write a list of objects")
        return [
            as_row(f"{self.where}.{key}[{position}]", one)
            for position, one in enumerate(cast("list[object]", value or []))
        ]


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a JSON value is a whole number; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def as_row(where: str, value: object) -> JsonRow:
    """The JSON value as an object. Raises `TopologyError` where it is something else."""
    if not isinstance(value, dict):
        raise TopologyError(f"{where}: {value!r} is not an object")
    return JsonRow(where, cast("dict[str, Any]", value))


def parse_row(where: str, text: str) -> JsonRow:
    """The one object a text holds. Raises `TopologyError` that names the place."""
    return as_row(where, _parsed(where, text, "a JSON object"))


def parse_rows(where: str, text: str) -> list[JsonRow]:
    """The objects in the list a text holds; none for an empty text. Raises `TopologyError`."""
    if not text.strip():
        return []
    document = _parsed(where, text, "a JSON list of objects")
    if not isinstance(document, list):
        raise TopologyError(f"{where}: not a list — it holds a JSON list of objects")
    return [
        as_row(f"{where}[{position}]", row)
        for position, row in enumerate(cast("list[object]", document))
    ]


def parse_cpus(where: str, text: str) -> CpuSet:
    """The cpus of a list. Raises `TopologyError` that names the place."""
    try:
        return CpuSet.parse(text)
    except IdListError as error:
        raise TopologyError(f"{where}: {error}") from error


def _parsed(where: str, text: str, holds: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TopologyError(f"{where}: {error} — it holds {holds}") from error
