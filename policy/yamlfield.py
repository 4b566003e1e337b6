"""YAML read strictly: a key written twice is an error, and every field knows where it stands."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import yaml

from ..topology.errors import PinfoldError

if TYPE_CHECKING:
    from yaml import SafeLoader as YamlLoader
else:
    # libyaml's parser is ten times faster, but not every build of PyYAML has it.
    YamlLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

MAX_TEXT: Final = 16 << 20


class FieldError(PinfoldError):
    """A YAML text is malformed or holds something else than expected."""


class _StrictLoader(YamlLoader):
    """Refuses a key written twice, of which YAML loaders silently keep the last."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            # Merge keys (<<) may be repeated.
            if key.value in seen and key.value != "<<":
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key.value!r} is written twice", key.start_mark
                )
            seen.add(key.value)
        return cast("dict[Hashable, object]", super().construct_mapping(node, deep=deep))


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A value inside a YAML text and the way to it; missing fields have the value None."""

    source: str
    path: str
    value: object

    @property
    def where(self) -> str:
        """The source and the path, as errors begin."""
        return f"{self.source}: {self.path}" if self.path else self.source

    @property
    def is_missing(self) -> bool:
        """Whether there is nothing here, or null, which YAML makes of an empty value."""
        return self.value is None

    def __getitem__(self, key: str) -> "Field":
        mapping = self._mapping()
        return self._below(f".{key}" if self.path else key, mapping.get(key))

    def entries(self) -> Mapping[str, "Field"]:
        """The fields of a mapping by key, in written order; none where it is missing.

        Raises `FieldError` where it is no mapping or a key is no text.
        """
        found: dict[str, Field] = {}
        for key, value in self._mapping().items():
            if not isinstance(key, str):
                raise self.error(f"key {key!r} is not a text", "put it in quotes")
            found[key] = self._below(f".{key}" if self.path else key, value)
        return found

    def elements(self) -> tuple["Field", ...]:
        """The fields of a list in order; none where it is missing. Raises `FieldError`."""
        if self.value is None:
            return ()
        value = self.value
        if not isinstance(value, list):
            raise self.error("is not a list", "write '- element' lines")
        elements = cast("list[object]", value)
        return tuple(self._below(f"[{index}]", one) for index, one in enumerate(elements))

    def text(self, default: str | None = None) -> str:
        """The text here, or the default where it is missing. Raises `FieldError`."""
        value = default if self.value is None else self.value
        if value is None:
            raise self.error("is missing")
        if not isinstance(value, str):
            raise self.error(f"{value!r} is not a text", "put it in quotes")
        return value

    def scalar(self, default: str | None = None) -> str:
        """The text or number here, as text: quantities may be written either way."""
        if isinstance(self.value, int | float) and not isinstance(self.value, bool):
            return str(self.value)
        return self.text(default)

    def integer(self, default: int | None = None) -> int:
        """The integer here, or the default where it is missing. Raises `FieldError`."""
        value = default if self.value is None else self.value
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error("is missing" if value is None else f"{value!r} is not an integer")
        return value

    def boolean(self, default: bool = False) -> bool:
        """The truth value here, or the default where it is missing. Raises `FieldError`."""
        value = default if self.value is None else self.value
        if not isinstance(value, bool):
            raise self.error(f"{value!r} is neither true nor false")
        return value

    def texts(self) -> Mapping[str, str]:
        """A mapping of texts, such as labels. Raises `FieldError`."""
        return {key: field.text("") for key, field in self.entries().items()}

    def only(self, *names: str) -> None:
        """Raises `FieldError` for a key that is not among the names."""
        for key in self.entries():
            if key not in names:
                raise self.error(f"unknown key {key!r}", f"one of: {', '.join(sorted(names))}")

    def error(self, what: str, fix: str = "") -> FieldError:
        """An error about this field, to be raised."""
        return FieldError(f"{self.where}: {what}" + (f" — {fix}" if fix else ""))

    def _mapping(self) -> Mapping[object, object]:
        value = self.value
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.error("is not a mapping", "write 'key: value' lines")
        return cast("dict[object, object]", value)

    def _below(self, step: str, value: object) -> "Field":
        return Field(source=self.source, path=self.path + step, value=value)


def read_fields(text: str, source: str) -> tuple[Field, ...]:
    """The documents of a YAML text that are not empty.

    `source` names the text in errors. Raises `FieldError` for text that is no YAML, for a key
    written twice, and for texts of more than `MAX_TEXT` characters.
    """
    if len(text) > MAX_TEXT:
        raise FieldError(f"{source}: {len(text)} characters — at most {MAX_TEXT}")
    try:
        values = list(yaml.load_all(text, Loader=_StrictLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise FieldError(f"{source}{position}: {error.problem or 'not YAML'}") from error
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as error:
        # PyYAML lets ValueError through for impossible dates, RecursionError for deep nesting.
        raise FieldError(f"{source}: not YAML: {str(error) or type(error).__name__}") from error
    several = len(values) > 1
    return tuple(
        Field(source=f"{source}: document {number}" if several else source, path="", value=value)
        for number, value in enumerate(values, start=1)
        if value is not None
    )
