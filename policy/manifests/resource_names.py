"""Names of the resources that a container asks for, as the API server takes them.

Source: Kubernetes, `pkg/apis/core/validation` (`validateContainerResourceName`): without a domain
there are those of Kubernetes alone.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from msgspec import structs

from ...topology.sets.base_errors import quoted
from ..text.suggestion import nearest
from ..text.yaml_fields import Field, FieldError
from ..text.yaml_nodes import TextMap, TextScalar

_RESOURCES: Final = "resources"
_NEAR_RESOURCES: Final = 0.85
"""How alike to it a field is that is meant: `resourceClaims` is another one."""
_FIELDS: Final = ("limits", "requests", "claims")
_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_PAGES: Final = "hugepages"
_NEAR: Final = 0.75
"""How alike two names are of which one is meant for the other: `gpu` is not `cpu`."""
_MEANT: Final[Mapping[str, str]] = {"mem": "memory", "ram": "memory", "cores": "cpu"}


def check_resource_names(owner: Field) -> None:
    """Raise `FieldError` for the first misspelt name in what a container or a pod asks for.

    Fields that are like none of these are passed over, and so is whatever is no mapping.
    """
    _check_fields(owner, (_RESOURCES,), _NEAR_RESOURCES)
    resources = _of(owner, _RESOURCES)
    _check_fields(resources, _FIELDS, _NEAR)
    for key in _keys(resources):
        if key.value not in _FIELDS and (key.value in _STANDARD or "/" in key.value):
            raise _error(resources, key, "unknown field", "write it inside limits or requests")
    for field in ("limits", "requests"):
        amounts = _of(resources, field)
        for key in _keys(amounts):
            if not _is_name(key.value):
                raise _error(amounts, key, "unknown resource", _fix(key.value))


def _check_fields(parent: Field, known: tuple[str, ...], cutoff: float) -> None:
    for key in _keys(parent):
        if near := _meant(key.value, known, cutoff):
            raise _error(parent, key, "unknown field", f"did you mean {near!r}?")


@lru_cache(maxsize=256)
def _meant(name: str, known: tuple[str, ...], cutoff: float) -> str | None:
    """The field that a misspelt one is meant for. Containers have few, and all have the same."""
    return None if name in known else nearest(name, known, cutoff)


def _is_name(name: str) -> bool:
    # Patches of kustomize have directives among the names: `$patch: delete`.
    return "/" in name or name in _STANDARD or name.startswith((f"{_PAGES}-", "$"))


def _fix(name: str) -> str:
    word, _, size = name.partition("-")
    if nearest(word, (_PAGES,), _NEAR):
        return f"did you mean '{_PAGES}-{size or '2Mi'}'?"
    near = _MEANT.get(name.lower()) or nearest(name, _STANDARD, _NEAR)
    if near:
        return f"did you mean {near!r}?"
    return (
        f"one of {', '.join(_STANDARD)}, {_PAGES}-SIZE, or a device with its domain, as in"
        f" vendor.com/{name[:63]}"
    )


def _error(parent: Field, key: TextScalar, what: str, fix: str) -> FieldError:
    # Under the name itself, not where its value stands.
    place = structs.replace(parent, line=key.line, column=key.column)
    return place.error(f"{what} {quoted(key.value)}", fix)


def _of(parent: Field, key: str) -> Field:
    return parent[key] if parent.is_mapping else structs.replace(parent, node=None)


def _keys(field: Field) -> Iterator[TextScalar]:
    if isinstance(field.node, TextMap):
        for key, _ in field.node.entries:
            yield key
