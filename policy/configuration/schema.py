"""The JSON schema of configuration files, for editors and for tools that write them.

`configtext` alone decides what is accepted.
"""

from inspect import cleandoc
from typing import Any, Final

import msgspec

from .config import Amounts, Config
from .config_text import API_VERSION, KIND

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def config_schema() -> dict[str, Any]:
    """The schema of a file: the fields of a `Config`, or a resource with them as its spec.

    Null stands for the default everywhere.
    """
    fields, definitions = msgspec.json.schema_components(
        (Config,), schema_hook=_anything, ref_template="#/$defs/{name}"
    )
    for name, definition in definitions.items():
        if "description" in definition:
            # A docstring, of which Python takes the indentation away from 3.13 on.
            definition["description"] = cleandoc(definition["description"])
        _allow_any_case(definition)
        _allow_nulls(definition, is_amounts=name == Amounts.__name__)
    resource = {
        "type": "object",
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": KIND},
            "metadata": {"type": "object"},
            "spec": {"anyOf": [fields[0], {"type": "null"}]},
            "status": {},
        },
        "required": ["apiVersion", "kind"],
        "additionalProperties": False,
    }
    return {
        "$schema": _DIALECT,
        "title": "Configuration of pinfoldd",
        "if": {"type": "object", "anyOf": [{"required": [one]} for one in ("apiVersion", "kind")]},
        "then": resource,
        "else": {"anyOf": [fields[0], {"type": "null"}]},
        "$defs": definitions,
    }


def _anything(_kind: type) -> dict[str, Any]:
    """The schema of values that are accepted as they are; msgspec takes no empty one."""
    return {"description": "anything"}


def _allow_any_case(definition: dict[str, Any]) -> None:
    """Accept the values of an enum in any case of letters; editors go on to offer the listed ones.

    The regular expressions of schemas have no flags.
    """
    if (values := definition.pop("enum", None)) is not None:
        words = "|".join("".join(map(_both_cases, word)) for word in values)
        pattern = {"type": "string", "pattern": f"^({words})$"}
        definition["anyOf"] = [{"enum": values}, pattern]


def _both_cases(letter: str) -> str:
    return f"[{letter.upper()}{letter.lower()}]" if letter.isalpha() else letter


def _allow_nulls(definition: dict[str, Any], *, is_amounts: bool) -> None:
    required = definition.get("required", [])
    properties: dict[str, dict[str, Any]] = definition.get("properties", {})
    for name, inner in properties.items():
        options: list[dict[str, Any]] = inner.pop("anyOf", None) or [_type_of(inner)]
        if is_amounts:
            options.insert(0, {"type": "number"})
        if name not in required and {"type": "null"} not in options and any(options):
            options.append({"type": "null"})
        if len(options) == 1:
            inner.update(options[0])
        else:
            inner["anyOf"] = options


def _type_of(schema: dict[str, Any]) -> dict[str, Any]:
    """What a field's schema says of values, taken out of it: all but default and description."""
    moved = {key: one for key, one in schema.items() if key not in ("default", "description")}
    for key in moved:
        del schema[key]
    return moved
