"""Plain values against the types of the configuration: every misfit, and the values made to fit."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

import msgspec.inspect as types
from msgspec import Struct

from ..text.suggestion import nearest
from ..text.yaml_document import Document, Path, dotted, mapping_of
from .config import Amounts
from .section import Section

_UNFIT: Final = object()
"""In the place of a value that does not fit: its field has the default then."""


_OF_KUBERNETES: Final[Mapping[str, str]] = {
    "nodeAffinity": "poolAffinity",
    "nodeSelector": "poolAffinity",
    "zone": "socket",
    "host": "numa",
    "enableHostAntiAffinity": "enableNumaAntiAffinity",
    "requireRackHostAntiAffinity": "requireRackNumaAntiAffinity",
}
"""What is said of pools and levels here, and of nodes where there are many of them."""


class Fault(Struct, frozen=True):
    """A fault of the value at a path, and how to put it right."""

    path: Path
    what: str
    needs: tuple[Path, ...] = ()
    """Other values it follows from."""

    def rests_on(self, doubtful: Sequence[Path]) -> bool:
        """Whether it may be there only since one of these values could not be read.

        The elements of a list stand for themselves: one of them says nothing about another.
        """
        path = self.path
        unit = path[:2] if len(path) > 1 and isinstance(path[1], int) else path
        for doubt in doubtful:
            is_inside = doubt[: len(unit)] == unit
            if is_inside or any(one[: len(doubt)] == doubt for one in (unit, *self.needs)):
                return True
        return False

    def line(self, document: Document) -> str:
        """The fault as people read it, with the place in the document it was found in."""
        field = dotted(self.path)
        return f"{document.place(self.path)}: " + (f"{field}: " if field else "") + self.what


def name_advice(word: str, known: Sequence[str]) -> str:
    """Advice for a name that is none of the known ones: the nearest one, and all of them."""
    near = _meant(word, known)
    meant = f"did you mean {near!r}? " if near else ""
    return f"{meant}accepted: {', '.join(known)}"


def name_faults(path: Path, name: str, before: Sequence[str], noun: str) -> Iterator[Fault]:
    """A fault where the thing at a path has no name, or that of one `before` it."""
    if not name:
        yield Fault((*path, "name"), f"is empty — name the {noun}")
    elif name in before:
        nouns = f"{noun}es" if noun.endswith("s") else f"{noun}s"
        yield Fault((*path, "name"), f"{name!r} is the name of two {nouns} — rename one")


def _meant(word: str, known: Sequence[str]) -> str | None:
    named = _OF_KUBERNETES.get(word)
    return named if named in known else nearest(word, known)


def range_faults(path: Path, value: int | None, low: int, high: int) -> Iterator[Fault]:
    """A fault where there is a value below `low` or above `high`."""
    if value is not None and not low <= value <= high:
        yield Fault(path, f"{value} is out of range — write {low} to {high}")


class Shaped(Struct, frozen=True):
    """Values as `msgspec.convert` wants them for a section, and all that does not fit.

    What does not fit is left out, so that the rest can be checked too; `doubtful` are the paths of
    values that are not what was meant.
    """

    values: object
    faults: tuple[Fault, ...]
    doubtful: tuple[Path, ...]


def shape_values(document: Document, section: type[Section]) -> Shaped:
    """The values of a document in the shape of a section.

    Nulls leave fields at their defaults, the letters of enum values may be of any case, and
    amounts may be numbers.
    """
    shape = _Shape(document)
    values = shape.fit(document.values, types.type_info(section), ())
    return Shaped(values, tuple(shape.faults), tuple(shape.doubtful))


class _Shape:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.faults: list[Fault] = []
        self.doubtful: list[Path] = []

    def fit(self, value: object, kind: types.Type, path: Path) -> object:
        """The value as it is to be converted, or `_UNFIT`."""
        match kind:
            case types.StructType():
                return self._fields(value, kind, path)
            case types.VarTupleType():
                return self._items(value, kind, path)
            case types.DictType():
                return self._entries(value, kind, path)
            case types.UnionType():
                return self._any_of(value, kind, path)
            case types.EnumType():
                return self._member(value, kind, path)
            case _:
                if _fits(value, kind):
                    return value
                return self._misfit(value, _describe(kind), path)

    def _fields(self, value: object, kind: types.StructType, path: Path) -> object:
        given = mapping_of(value)
        known = {field.encode_name: field for field in kind.fields}
        if given is None:
            return self._misfit(value, f"a mapping of {', '.join(known)}", path)
        shaped: dict[str, object] = {}
        for name, one in given.items():
            if name not in known:
                self._unknown(name, list(known), path)
            elif one is not None:
                inner = (*path, name)
                one = self._amount(one, inner) if kind.cls is Amounts else one
                fitting = self.fit(one, known[name].type, inner)
                if fitting is not _UNFIT:
                    shaped[name] = fitting
        for name, field in known.items():
            if field.required and given.get(name) is None:
                self.faults.append(Fault(path, f"field {name!r} is missing — write it"))
                self.doubtful.append((*path, name))
            if field.required:
                shaped.setdefault(name, _stand_in(field.type))
        return shaped

    def _unknown(self, name: str, known: list[str], path: Path) -> None:
        self.faults.append(Fault((*path, name), f"unknown field — {name_advice(name, known)}"))
        if near := _meant(name, known):
            # What it says may be meant for that one.
            self.doubtful.append((*path, near))

    def _amount(self, value: object, path: Path) -> object:
        if isinstance(value, int | float) and not isinstance(value, bool):
            # As written: 0.10 as a float would already be another text.
            return self.document.place(path).text or str(value)
        return value

    def _items(self, value: object, kind: types.VarTupleType, path: Path) -> object:
        if not isinstance(value, list | tuple):
            return self._misfit(value, "a list", path)
        items = cast("Sequence[object]", value)
        fitting = [self.fit(one, kind.item_type, (*path, at)) for at, one in enumerate(items)]
        # The others keep their positions.
        return [_stand_in(kind.item_type) if one is _UNFIT else one for one in fitting]

    def _entries(self, value: object, kind: types.DictType, path: Path) -> object:
        given = mapping_of(value)
        if given is None:
            return self._misfit(value, "a mapping", path)
        fitting = {
            name: self.fit(one, kind.value_type, (*path, name))
            for name, one in given.items()
            if one is not None
        }
        return {name: one for name, one in fitting.items() if one is not _UNFIT}

    def _any_of(self, value: object, kind: types.UnionType, path: Path) -> object:
        kinds = [one for one in kind.types if not isinstance(one, types.NoneType)]
        if len(kinds) == 1:
            return self.fit(value, kinds[0], path)
        if any(_fits(value, one) for one in kinds):
            return value
        return self._misfit(value, " or ".join(_describe(one) for one in kinds), path)

    def _member(self, value: object, kind: types.EnumType, path: Path) -> object:
        accepted = [str(member.value) for member in kind.cls]
        if not isinstance(value, str):
            return self._misfit(value, f"one of {', '.join(accepted)}", path)
        meant_value = {one.lower(): one for one in accepted}.get(value.lower())
        if meant_value is not None:
            return meant_value
        near = nearest(value, accepted)
        meant = f"did you mean {near!r}? " if near else ""
        what = f"{value!r} is not accepted — {meant}write one of {', '.join(accepted)}"
        return self._unfit(path, what)

    def _misfit(self, value: object, wanted: str, path: Path) -> object:
        found = _COLLECTIONS.get(type(value)) or _written(value)
        if _is_duration(path):
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            wanted = f"a duration with its unit, as in {found if is_number else 30}s"
        return self._unfit(path, f"{found} is not accepted — write {wanted}")

    def _unfit(self, path: Path, what: str) -> object:
        self.faults.append(Fault(path, what))
        self.doubtful.append(path)
        return _UNFIT


def _is_duration(path: Path) -> bool:
    """Whether the value at a path is a duration by its name: a number has no unit."""
    return bool(path) and isinstance(path[-1], str) and path[-1].endswith("Period")


def _written(value: object) -> str:
    """A value as YAML has it, for people."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _stand_in(kind: types.Type) -> object:
    """A value that can be converted, in the place of one that cannot."""
    match kind:
        case types.StructType():
            fields = [field for field in kind.fields if field.required]
            return {field.encode_name: _stand_in(field.type) for field in fields}
        case types.EnumType():
            return next(iter(kind.cls)).value
        case types.UnionType():
            return _stand_in(kind.types[0])
        case types.StrType():
            return ""
        case types.VarTupleType():
            return []
        case types.DictType():
            return {}
        case types.IntType():
            return 0
        case types.BoolType():
            return False
        case _:
            return None


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
        case types.DictType():
            return mapping_of(value) is not None
        case types.VarTupleType():
            return isinstance(value, list | tuple)
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
    types.DictType: "a mapping",
    types.VarTupleType: "a list",
}

_COLLECTIONS: Final[Mapping[type, str]] = {dict: "a mapping", list: "a list"}
