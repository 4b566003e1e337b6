"""Topology hints written as text: the lists of one hint, and the annotation that tests use."""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from ...topology.sets.cpuset import NO_CPUS, NO_NODES, CpuSet, IdListError, NodeSet
from ..annotations.annotations import Setting, effective
from ..model.container import Container
from ..model.hint import Hint, HintOrigin, parse_sockets
from ..text.errors import Problem
from ..text.suggestion import suggestion
from ..text.yaml_nodes import TextError, TextMap, TextNode, TextScalar
from ..text.yaml_text import parse_text

TEST_APIS: Final = "ENABLE_TEST_APIS"
"""The variable of the environment that makes hints in annotations count."""

TEST_HINTS: Final = "test.topologyhints"

_FIELDS: Final = ("Provider", "CPUs", "NUMAs", "Sockets")

T = TypeVar("T")


def hint_of_texts(
    provider: str, where: str, *, cpus: str = "", numas: str = "", sockets: str = ""
) -> tuple[Hint, tuple[Problem, ...]]:
    """The test hint of three lists with ranges; a list that cannot be read says nothing."""
    problems: list[Problem] = []
    hint = Hint(
        provider=provider,
        origin=HintOrigin.TEST,
        cpus=_read(CpuSet.parse, cpus, NO_CPUS, f"{where}: CPUs", problems),
        numa_nodes=_read(NodeSet.parse, numas, NO_NODES, f"{where}: NUMAs", problems),
        sockets=_read(parse_sockets, sockets, (), f"{where}: Sockets", problems),
    )
    return hint, tuple(problems)


def annotated_hints(container: Container) -> tuple[tuple[Hint, ...], tuple[Problem, ...]]:
    """The hints in a container's test annotation, and what of it cannot be read. Never raises."""
    setting = effective(container.pod.annotations, TEST_HINTS, container.name)
    if setting is None:
        return (), ()
    where = f"{setting.key} of {container.path}"
    try:
        node = parse_text(setting.value)
    except TextError as error:
        return (), (error.problem(where),)
    if node is None:
        return (), ()
    if not isinstance(node, TextMap):
        return (), (_misplaced(node, "not a mapping").problem(where),)
    return _hints_of_map(node, setting, container)


def _hints_of_map(
    node: TextMap, setting: Setting, container: Container
) -> tuple[tuple[Hint, ...], tuple[Problem, ...]]:
    hints: list[Hint] = []
    problems: list[Problem] = []
    for name, written in node.entries:
        where = f"{setting.key} of {container.path}"
        try:
            fields = _fields(written)
        except TextError as error:
            problems.append(error.problem(where))
            continue
        hint, found = hint_of_texts(
            fields.get("Provider") or name.value,
            f"{where}: {name.value}",
            cpus=fields.get("CPUs", ""),
            numas=fields.get("NUMAs", ""),
            sockets=fields.get("Sockets", ""),
        )
        hints.append(hint)
        problems.extend(found)
    return tuple(hints), tuple(problems)


def _fields(node: TextNode) -> Mapping[str, str]:
    """The texts of one hint by field; the case of field names does not matter. Raises."""
    if not isinstance(node, TextMap):
        raise _misplaced(node, "a hint that is no mapping")
    names = {name.lower(): name for name in _FIELDS}
    fields: dict[str, str] = {}
    for name, value in node.entries:
        field = names.get(name.value.lower())
        if field is None:
            what = f"unknown field {name.value[:80]!r}"
            raise TextError.at(name, what, suggestion(name.value, _FIELDS))
        if not isinstance(value, TextScalar):
            raise TextError.at(value, f"{field!r} is not a text", f"write '{field}: \"0-3\"'")
        fields[field] = "" if value.is_null else value.value
    return fields


def _misplaced(node: TextNode, what: str) -> TextError:
    return TextError.at(node, what, "write 'name: {CPUs: \"0-3\"}'")


def _read(
    parse: Callable[[str], T], text: str, nothing: T, where: str, problems: list[Problem]
) -> T:
    try:
        return parse(text)
    except IdListError as error:
        what, _, fix = str(error).partition(" — ")
        problems.append(Problem(where=where, what=what, fix=fix))
        return nothing
