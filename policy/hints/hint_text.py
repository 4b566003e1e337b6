"""Topology hints written as text: the lists of one hint, and the annotation that tests use."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from ...topology.sets.base_errors import quoted
from ...topology.sets.cpuset import NO_CPUS, NO_NODES, CpuSet, IdListError, NodeSet
from ..annotations.annotations import Setting, effective
from ..model.container import Container
from ..model.hint import Hint, HintOrigin, parse_sockets
from ..text.errors import Problem
from ..text.suggestion import suggestion
from ..text.yaml_nodes import TextError, TextList, TextMap, TextNode, TextScalar, scalars_of
from ..text.yaml_text import parse_beginning

TEST_APIS: Final = "ENABLE_TEST_APIS"
"""The variable of the environment that makes hints in annotations count."""

TEST_HINTS: Final = "test.topologyhints"

_FIELDS: Final = ("Provider", "CPUs", "NUMAs", "Sockets", "IRQs")

_INTERRUPT: Final = re.compile(r"[0-9]{1,9}")
"""No kernel has more of them."""

T = TypeVar("T")


def hint_of_texts(
    provider: str, where: str, *, cpus: str = "", numas: str = "", sockets: str = "", irqs: str = ""
) -> tuple[Hint, tuple[Problem, ...]]:
    """The test hint of lists, three of them with ranges; one that cannot be read says nothing."""
    problems: list[Problem] = []
    hint = Hint(
        provider=provider,
        origin=HintOrigin.TEST,
        cpus=_read(CpuSet.parse, cpus, NO_CPUS, f"{where}: CPUs", problems),
        numa_nodes=_read(NodeSet.parse, numas, NO_NODES, f"{where}: NUMAs", problems),
        sockets=_read(parse_sockets, sockets, (), f"{where}: Sockets", problems),
        interrupts=_interrupts(irqs, f"{where}: IRQs", problems),
    )
    return hint, tuple(problems)


def annotated_hints(container: Container) -> tuple[tuple[Hint, ...], tuple[Problem, ...]]:
    """The hints in a container's test annotation, and what of it cannot be read. Never raises."""
    setting = effective(container.pod.annotations, TEST_HINTS, container.name)
    if setting is None:
        return (), ()
    where = f"{setting.key} of {container.path}"
    try:
        # Tests of the Go policy have a bracket too many behind theirs.
        node, rest = parse_beginning(setting.value)
    except TextError as error:
        return (), (error.problem(where),)
    if node is None:
        return (), ()
    if not isinstance(node, TextMap):
        return (), (_misplaced(node, "not a mapping").problem(where),)
    hints, problems = _hints_of_map(node, setting, container)
    if rest is None:
        return hints, problems
    left_out = replace(rest.problem(where), what=f"left out from here on: {rest.what}")
    return hints, (*problems, left_out)


def _hints_of_map(
    node: TextMap, setting: Setting, container: Container
) -> tuple[tuple[Hint, ...], tuple[Problem, ...]]:
    hints: list[Hint] = []
    problems: list[Problem] = []
    where = f"{setting.key} of {container.path}"
    for name, written in node.entries:
        try:
            values = _values(written)
            texts = {field: _text(field, value) for field, value in values.items()}
        except TextError as error:
            problems.append(error.problem(where))
            continue
        hint, found = hint_of_texts(
            texts.get("Provider") or name.value,
            name.value,
            cpus=texts.get("CPUs", ""),
            numas=texts.get("NUMAs", ""),
            sockets=texts.get("Sockets", ""),
            irqs=texts.get("IRQs", ""),
        )
        hints.append(hint)
        for one in found:
            value = values[one.where.rpartition(": ")[2]]
            odd = TextError.at(value, f"{one.where}: {one.what}", one.fix)
            problems.append(odd.problem(where))
    return tuple(hints), tuple(problems)


def _values(node: TextNode) -> Mapping[str, TextNode]:
    """The values of one hint by field; the case of field names does not matter. Raises."""
    if not isinstance(node, TextMap):
        raise _misplaced(node, "a hint that is no mapping")
    names = {name.lower(): name for name in _FIELDS}
    values: dict[str, TextNode] = {}
    for name, value in node.entries:
        field = names.get(name.value.lower())
        if field is None:
            what = f"unknown field {name.value[:80]!r}"
            raise TextError.at(name, what, suggestion(name.value, _FIELDS))
        if field in values:
            what = f"{quoted(name.value)} is {field!r} again"
            raise TextError.at(name, what, "leave one out")
        values[field] = value
    return values


def _text(field: str, value: TextNode) -> str:
    """The text of one field; interrupts may be a list. Raises."""
    if field == "IRQs" and isinstance(value, TextList):
        return ",".join(one.value for one in scalars_of(value, repr(field)))
    if not isinstance(value, TextScalar):
        raise TextError.at(value, f"{field!r} is not a text", f"write '{field}: \"0-3\"'")
    return "" if value.is_null else value.value


def _misplaced(node: TextNode, what: str) -> TextError:
    return TextError.at(node, what, "write 'name: {CPUs: \"0-3\"}'")


def _interrupts(text: str, where: str, problems: list[Problem]) -> tuple[int, ...]:
    numbers = [one.strip() for one in text.split(",") if one.strip()]
    odd = next((one for one in numbers if _INTERRUPT.fullmatch(one) is None), None)
    if odd is not None:
        what, fix = f"{quoted(odd)} is not the number of an interrupt", "write 'IRQs: [4, 8]'"
        problems.append(Problem(where=where, what=what, fix=fix))
        return ()
    return tuple(map(int, numbers))


def _read(
    parse: Callable[[str], T], text: str, nothing: T, where: str, problems: list[Problem]
) -> T:
    try:
        return parse(text)
    except IdListError as error:
        what, _, fix = str(error).partition(" — ")
        problems.append(Problem(where=where, what=what, fix=fix))
        return nothing
