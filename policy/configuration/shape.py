"""Plain values against the types of the configuration: every misfit, and the values made to fit."""

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import msgspec.inspect as types

from ..language.suggestion import nearest
from .config import Amounts, Section
from .document import Document, Path, dotted, mapping_of


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong with the value at a path, and how to put it right."""

    path: Path
    what: str

    def line(self, document: Document) -> str:
        """The fault as people read it, with the place in the document it was found in."""
        field = dotted(self.path)
        return f"{document.place(self.path)}: " + (f"{field}: " if field else "") + self.what


def name_advice(word: str, known: Sequence[str]) -> str:
    """Advice for a name that is none of the known ones: the nearest one, and all of them."""
    near = nearest(word, known)
    meant = f"did you mean {near!r}? " if near else ""
    return f"{meant}accepted: {', '.join(known)}"


def range_faults(path: Path, value: int | None, low: int, high: int) -> Iterator[Fault]:
    """A fault where there is a value below `low` or above `high`."""
    if value is not None and not low <= value <= high:
        yield Fault(path, f"{value} is out of range — write {low} to {high}")


def shape_values(document: Document, section: type[Section]) -> tuple[object, list[Fault]]:
    """The values as `msgspec.convert` wants them for a section, and all that does not fit.

    Nulls leave fields at their defaults, the letters of enum values may be of any case, and
    amounts may be numbers.
    """
    shape = _Shape(document)
    values = shape.fit(document.values, types.type_info(section), ())
    return values, shape.faults


class _Shape:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.faults: list[Fault] = []

    def fit(self, value: object, kind: types.Type, path: Path) -> object:
        match kind:
            case types.StructType():
                return self._fields(value, kind, path)
            case types.VarTupleType():
                return self._items(value, kind.item_type, path)
            case types.DictType():
                return self._entries(value, kind.value_type, path)
            case types.UnionType():
                return self._any_of(value, kind, path)
            case types.EnumType():
                return self._member(value, kind.cls, path)
            case _:
                if not _fits(value, kind):
                    self._misfit(value, _describe(kind), path)
                return value

    def _fields(self, value: object, kind: types.StructType, path: Path) -> object:
        given = mapping_of(value)
        known = {field.encode_name: field for field in kind.fields}
        if given is None:
            self._misfit(value, f"a mapping of {', '.join(known)}", path)
            return value
        shaped: dict[str, object] = {}
        for name, one in given.items():
            if name not in known:
                what = f"unknown field — {name_advice(str(name), list(known))}"
                self._fault((*path, name), what)
            elif one is not None:
                inner = (*path, name)
                one = self._amount(one, inner) if kind.cls is Amounts else one
                shaped[name] = self.fit(one, known[name].type, inner)
        for name, field in known.items():
            if field.required and given.get(name) is None:
                self._fault(path, f"field {name!r} is missing — write it")
        return shaped

    def _amount(self, value: object, path: Path) -> object:
        if isinstance(value, int | float) and not isinstance(value, bool):
            # As written: 0.10 as a float would already be another text.
            return self.document.place(path).text or str(value)
        return value

    def _items(self, value: object, kind: types.Type, path: Path) -> object:
        if not isinstance(value, list | tuple):
            self._misfit(value, "a list", path)
            return value
        items = cast("Sequence[object]", value)
        return [self.fit(one, kind, (*path, index)) for index, one in enumerate(items)]

    def _entries(self, value: object, kind: types.Type, path: Path) -> object:
        given = mapping_of(value)
        if given is None:
            self._misfit(value, "a mapping", path)
            return value
        return {
            name: self.fit(one, kind, (*path, name))
            for name, one in given.items()
            if one is not None
        }

    def _any_of(self, value: object, kind: types.UnionType, path: Path) -> object:
        kinds = [one for one in kind.types if not isinstance(one, types.NoneType)]
        if len(kinds) == 1:
            return self.fit(value, kinds[0], path)
        if not any(_fits(value, one) for one in kinds):
            self._misfit(value, " or ".join(_describe(one) for one in kinds), path)
        return value

    def _member(self, value: object, members: type[enum.Enum], path: Path) -> object:
        accepted = [str(member.value) for member in members]
        if isinstance(value, str) and value.lower() in accepted:
            return value.lower()
        self._misfit(value, f"one of {', '.join(accepted)}", path)
        return value

    def _misfit(self, value: object, wanted: str, path: Path) -> None:
        found = _COLLECTIONS.get(type(value)) or repr(value)
        self._fault(path, f"{found} is not accepted — write {wanted}")

    def _fault(self, path: Path, what: str) -> None:
        self.faults.append(Fault(path, what))


def _fits(value: object, kind: types.Type) -> bool:
    match kind:
        case types.BoolType():
            return isinstance(value, bool)
        case types.IntType():
            return isinstance(value, int) and not isinstance(value, bool)
        case types.StrType():
            return isinstance(value, str)
        case types.AnyType():
            return True
        case types.CustomType(cls=cls) if cls is object:
            # Passed on as it is to whoever knows it.
            return True
        case _:
            raise AssertionError(f"no field of the configuration is a {kind}")


def _describe(kind: types.Type) -> str:
    return _WORDS[type(kind)]


_WORDS: Final[Mapping[type[types.Type], str]] = {
    types.BoolType: "true or false",
    types.IntType: "a whole number",
    types.StrType: "text (in quotes if it looks like a number)",
}

_COLLECTIONS: Final[Mapping[type, str]] = {dict: "a mapping", list: "a list"}
