"""Names of the resources that a container asks for, as the API server takes them.

Source: Kubernetes, `pkg/apis/core/validation` (`validateContainerResourceName`): without a domain
there are those of Kubernetes alone.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from msgspec import structs

from ...topology.sets.base_errors import quoted
from ..text.quantity import QuantityError, parse_page_bytes
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
_STORAGE: Final = "ephemeral-storage"
_MEANT: Final[Mapping[str, str]] = {
    "mem": "memory",
    "ram": "memory",
    "core": "cpu",
    "cores": "cpu",
    "storage": _STORAGE,
    "ephemeral": _STORAGE,
    "local-storage": _STORAGE,
    "disk": _STORAGE,
}
_OF_DOMAIN: Final[Mapping[str, str]] = {"nvidia.com": "gpu", "amd.com": "gpu"}
"""The resource of the best known device plugin of a domain."""
_OF_NODES: Final = ("pods",)
"""Resources of a node that no container asks for."""
_PAGES_WRITTEN: Final = re.compile(r"huge[-_ ]?pages?[-_ ]?([0-9]+[A-Za-z]+)?", re.IGNORECASE)
_OWN_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN_MAX: Final = 253
_DOMAIN: Final = re.compile(
    r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
)
"""Source: Kubernetes, `IsQualifiedName` and `IsDNS1123Subdomain`."""


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
    domain, slash, own = name.partition("/")
    if slash:
        return _is_domain(domain) and _OWN_NAME.fullmatch(own) is not None
    # Patches of kustomize have directives among the names: `$patch: delete`.
    return name in _STANDARD or name.startswith((f"{_PAGES}-", "$"))


def _is_domain(text: str) -> bool:
    return len(text) <= _DOMAIN_MAX and _DOMAIN.fullmatch(text) is not None


def _fix(name: str) -> str:
    domain, slash, own = name.partition("/")
    if slash:
        domain = domain if _is_domain(domain) else "vendor.com"
        own = own if _OWN_NAME.fullmatch(own) else _OF_DOMAIN.get(domain, "NAME")
        return (
            f"write a domain, '/' and a name of letters, digits, '-', '_' and '.': {domain}/{own}"
        )
    if near := _near(name):
        return f"did you mean {near!r}?"
    fix = f"one of {', '.join(_STANDARD)}, {_PAGES}-SIZE, or a device with its domain"
    if "." in name and _is_domain(name):
        # The domain alone.
        return f"{fix} and its name, as in {name}/{_OF_DOMAIN.get(name, 'NAME')}"
    is_name = _OWN_NAME.fullmatch(name) and name not in _OF_NODES
    return f"{fix}, as in vendor.com/{name}" if is_name else fix


def _near(name: str) -> str | None:
    """The resource that a misspelt name is most likely meant for; None where that is unclear."""
    word = name.lower().removeprefix("requests.").removeprefix("limits.")
    if word in _STANDARD:
        # So quotas of a namespace name them.
        return word
    if pages := _PAGES_WRITTEN.fullmatch(name):
        return _of_pages(pages[1])
    head, dash, size = name.partition("-")
    if dash and nearest(head, (_PAGES,), _NEAR):
        return _of_pages(size)
    if word in _MEANT:
        return _MEANT[word]
    return nearest(name, _STANDARD, _NEAR)


def _of_pages(size: str | None) -> str:
    try:
        is_size = size and parse_page_bytes(size)
    except QuantityError:
        is_size = None
    return f"{_PAGES}-{size if is_size else '2Mi'}"


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
