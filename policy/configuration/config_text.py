"""Configuration text as a `Config`: strict, with file and line in every complaint."""

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import Final, cast

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import replace

from ..text.errors import ConfigError
from ..text.suggestion import nearest
from ..text.yaml_document import (
    Document,
    Path,
    Place,
    TextFault,
    document_of,
    faulty_document,
    mapping_of,
    merge,
    parse_document,
    parse_value,
)
from ..text.yaml_nodes import TextNode
from .config import Config
from .config_faults import find_faults
from .idle_fields import find_idle_fields
from .section import Section
from .shape import name_advice, shape_values

API_VERSION: Final = "config.nri/v1alpha1"
KIND: Final = "TopologyAwarePolicy"
ENVIRONMENT_PREFIX: Final = "PINFOLD_"
# Those of our tests, and what Kubernetes tells every container about a service called pinfold.
# Source: Kubernetes, "Service", environment variables.
_OTHER_VARIABLE: Final = re.compile(
    r"CACHE|WALK_STEPS|E2E\w*"
    r"|(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_\w+)?)?)"
)


class CheckedConfig(Struct, frozen=True):
    """A configuration that can be used, and what its author should know.

    `document`: its fields as they were written, and where.
    """

    config: Config
    warnings: tuple[str, ...] = ()
    document: Document = Document({})

    @contextmanager
    def placing(self) -> Generator[None]:
        """Faults that show only beside a machine get file and line, as all others have them."""
        try:
            yield
        except ConfigError as error:
            raise self.placed_error(error) from error

    def placed_error(self, error: ConfigError) -> ConfigError:
        """Such faults, each line with the place of its field."""
        lines = str(error).splitlines()
        paths = error.fields if len(error.fields) == len(lines) else repeat(None)
        return ConfigError("\n".join(map(self.placed, lines, paths)), error.fields)

    def placed(self, message: str, path: Path | None = None) -> str:
        """A message about a field, by its path or as it begins itself, with the field's place.

        One that is about no field stays as it is.
        """
        is_about_field = path is not None or " " not in message.partition(": ")[0]
        if not self.document.places or not is_about_field:
            # Built-in defaults stand in no file.
            return message
        document = self.document
        place = document.named_place(message) if path is None else document.place(path)
        return f"{place}: {message}"


def read_config(text: str, source: str = "configuration") -> CheckedConfig:
    """The configuration a YAML text holds, on top of the defaults.

    Raises `ConfigError`: one line for each fault.
    """
    return build_config([parse_config_document(text, source)])


def config_from_values(values: Mapping[str, object], source: str = "configuration") -> Config:
    """The configuration in a mapping of plain values, on top of the defaults.

    Raises `ConfigError`.
    """
    return build_config([_unwrap(Document(values, {(): Place(source=source)}))]).config


def parse_config_document(text: str, source: str) -> Document:
    """The fields a YAML text sets, not yet checked.

    The text may be a whole `TopologyAwarePolicy` resource: then its spec.
    """
    return _unwrap(parse_document(text, source))


def config_document(node: TextNode, source: str) -> Document:
    """The fields that a node of a YAML text sets, as `parse_config_document` has them."""
    return _unwrap(document_of(node, source))


def build_config(documents: Sequence[Document]) -> CheckedConfig:
    """The configuration of these documents, each on top of the ones before it.

    Raises `ConfigError`: one line for each fault.
    """
    document = Document({})
    for one in documents:
        document = merge(document, one)
    shaped = shape_values(document, Config)
    config = _with_reserved_cpu(msgspec.convert(shaped.values, Config))
    doubtful = (*shaped.doubtful, *(fault.path for fault in document.faults))
    faults = (*shaped.faults, *(one for one in find_faults(config) if not one.rests_on(doubtful)))
    if not faults and not document.faults:
        idle = find_idle_fields(config)
        return CheckedConfig(config, tuple(fault.line(document) for fault in idle), document)
    order: dict[str, int] = {}
    for index, one in enumerate(documents):
        order.update((place.source, index) for place in one.places.values())
        order.update((fault.place.source, index) for fault in one.faults)
    lines = [(fault.place, fault.line) for fault in document.faults]
    lines.extend((document.place(fault.path), fault.line(document)) for fault in faults)
    lines.sort(key=lambda line: (order.get(line[0].source, 0), line[0].line))
    raise ConfigError("\n".join(line for _, line in lines))


def setting_document(setting: str) -> Document:
    """The one field that a "cpuField.inner=YAML value" of the command line sets."""
    name, equals, text = setting.partition("=")
    if not equals or not name.strip():
        where = f"setting {setting!r}"
        what = f"{where}: is not FIELD=VALUE — write it as in reservedResources.cpu=750m"
        return faulty_document(where, what)
    return _single(tuple(name.strip().split(".")), text, f"setting {name.strip()!r}")


def environment_document(environment: Mapping[str, str]) -> Document:
    """The fields that variables set (PINFOLD_PIN_CPU, PINFOLD_RESERVED_RESOURCES__CPU).

    Variables with the prefix that name no field are passed over: a service called pinfold gives
    its own ones to every container in Kubernetes.
    """
    document = Document({})
    for variable, path in _variables(Config, ENVIRONMENT_PREFIX, ()).items():
        if (text := environment.get(variable)) is not None:
            document = merge(document, _single(path, text, variable))
    return document


def environment_warnings(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Variables with the prefix that set no field and mean nothing else either."""
    known = list(_variables(Config, "", ()))
    warnings: list[str] = []
    for variable in sorted(environment):
        name = variable.removeprefix(ENVIRONMENT_PREFIX)
        if name == variable or name in known or _OTHER_VARIABLE.fullmatch(name):
            continue
        near = nearest(name, known, cutoff=0.8)
        fix = f"did you mean {ENVIRONMENT_PREFIX + near!r}?" if near else "unset it"
        warnings.append(f"{variable}: sets no field — {fix}")
    return tuple(warnings)


def format_config(config: Config) -> str:
    """The configuration as YAML that reads back as an equal one; fields without value left out."""
    values = _without_nulls(msgspec.to_builtins(config))
    return str(yaml.safe_dump(values, sort_keys=False, default_flow_style=False, width=100))


def _with_reserved_cpu(config: Config) -> Config:
    """The configuration with the default where only the memory of reservedResources is set."""
    reserved = config.reserved_resources
    if reserved.cpu is not None:
        return config
    reserved = msgspec.structs.replace(reserved, cpu=Config().reserved_resources.cpu)
    return msgspec.structs.replace(config, reserved_resources=reserved)


def _unwrap(document: Document) -> Document:
    """The document, or its spec where it is a whole resource."""
    values = document.values
    if "apiVersion" not in values and "kind" not in values:
        return document
    found: list[tuple[Path, str]] = []
    if values.get("kind") == "ConfigMap":
        # The pods of a DaemonSet have their configuration from one: all else follows from that.
        at = document.place(("kind",))
        what = "kind is 'ConfigMap' — the configuration is a text in its data: give that alone"
        fault = TextFault(place=at, path=(), line=f"{at}: {what}")
        return Document({}, {(): document.place(())}, (*document.faults, fault))
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if values.get(field) != expected:
            advice = f"expected {expected!r}, or the fields of its spec alone"
            held = "missing" if values.get(field) is None else repr(values[field])
            found.append(((field,), f"{field} is {held} — {advice}"))
    is_foreign = bool(found)
    known = ("apiVersion", "kind", "metadata", "spec", "status")
    for field in values:
        if field not in known:
            what = f"unknown field {field!r} — {name_advice(field, known)}"
            found.append(((field,), what))
    if values.get("spec") is not None and mapping_of(values["spec"]) is None:
        what = f"spec: {values['spec']!r} is not accepted — write a mapping of fields"
        found.append((("spec",), what))
    places = [(document.place(path), what) for path, what in found]
    faults = [TextFault(place=at, path=(), line=f"{at}: {what}") for at, what in places]
    # The fields of another kind of resource are none of ours.
    spec = Document({}, {(): document.place(())}) if is_foreign else document.below("spec")
    inner = [replace(one, path=one.path[1:]) for one in document.faults]
    return replace(spec, faults=(*inner, *faults))


def _single(path: Path, text: str, source: str) -> Document:
    parsed = parse_value(text, source)
    value = parsed.value
    for step in reversed(path):
        value = {step: value}
    places = {
        (*path, *below): Place(source=source, text=one.text) for below, one in parsed.places.items()
    }
    faults = tuple(replace(one, path=(*path, *one.path)) for one in parsed.faults)
    return Document(mapping_of(value) or {}, {(): Place(source=source), **places}, faults)


def _variables(section: type[Section], prefix: str, path: Path) -> dict[str, Path]:
    """The path of every field by the name of its variable."""
    found: dict[str, Path] = {}
    for field in msgspec.structs.fields(section):
        variable = prefix + field.name.upper()
        found[variable] = (*path, field.encode_name)
        if isinstance(field.type, type) and issubclass(field.type, Section):
            found.update(_variables(field.type, f"{variable}__", found[variable]))
    return found


def _without_nulls(value: object) -> object:
    if (mapping := mapping_of(value)) is not None:
        return {key: _without_nulls(one) for key, one in mapping.items() if one is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(one) for one in cast("Sequence[object]", value)]
    return value
