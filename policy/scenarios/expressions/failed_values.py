"""Values in an expression that is false: of what it compares, and of what that is made of."""

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Final

from ....topology.sets.cpuset import MAX_IDS, CpuSet
from .evaluator import EvaluatorError, evaluate
from .values import Function, Value, describe

_SHOWN_MAX: Final = 6
_CHARACTERS_MAX: Final = 80
_IDS_MAX: Final = 320
"""Characters of a list of ids: every second thread of a large machine is known by its beginning."""
_NUMBERED: Final = re.compile(r"(cpu|node|socket)([0-9]{1,5})", re.ASCII)
_UNKNOWN: Final[Value] = ("no value",)
"""Stands for the value of a part that has none, such as one that is not reached."""
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.GeneratorExp)


def failed_values(
    source: str, names: Mapping[str, Value], functions: Mapping[str, Function] | None = None
) -> tuple[str, ...]:
    """The values that a false expression has inside, as `TEXT is VALUE`; see `evaluate`.

    Of operands of `and` only the first false one counts, of `all(... for ...)` the first false
    element, and of `not any(... for ...)` the first true one. Empty where nothing inside has a
    value of its own. Never raises.

    >>> failed_values('cpus["a"] == {"cpu1"}', {"cpus": {"a": frozenset({"cpu0", "cpu2"})}})
    ('cpus["a"] is cpus 0,2',)
    """
    try:
        tree = ast.parse(source.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    shown: dict[str, None] = {}
    for text in _Reading(source.strip(), names, functions or {}).of(tree.body):
        shown[text] = None
        if len(shown) == _SHOWN_MAX:
            break
    return tuple(shown)


def value_text(value: Value) -> str:
    """The value in short; numbered cpus, nodes and sockets in the kernel's list format.

    >>> value_text(frozenset({"node0", "node1"})), value_text("app"), value_text(frozenset())
    ('nodes 0-1', "'app'", 'empty')
    """
    if isinstance(value, str | int | None):
        return _cut(describe(value))
    if isinstance(value, frozenset | list | tuple | Mapping) and not value:
        return "empty"
    if isinstance(value, frozenset):
        found = [_NUMBERED.fullmatch(one) for one in value if isinstance(one, str)]
        kinds = {one[1] for one in found if one}
        ids = [int(one[2]) for one in found if one]
        if len(kinds) == 1 and len(ids) == len(value) and max(ids) < MAX_IDS:
            return _cut(f"{kinds.pop()}s {CpuSet.collect(ids)}", _IDS_MAX)
    return _cut(describe(value))


def _cut(text: str, characters: int = _CHARACTERS_MAX) -> str:
    text = " ".join(text.split())
    return text if len(text) <= characters else f"{text[:characters]}…"


class _Reading:
    """The reading of one expression, with the variables that are known in a part of it."""

    def __init__(
        self, source: str, names: Mapping[str, Value], functions: Mapping[str, Function]
    ) -> None:
        self._source = source
        self._names = names
        self._functions = functions

    def of(self, node: ast.expr) -> Iterator[str]:
        """The values inside a part that is false, but should be true."""
        match node:
            case ast.BoolOp(values=operands):
                is_and = isinstance(node.op, ast.And)
                wrong = [one for one in operands if is_and and not self._value(one)]
                # All of them where any would do, or where all hold that should not.
                for one in wrong[:1] or operands:
                    yield from self.of(one)
            case ast.UnaryOp(
                op=ast.Not(),
                operand=ast.Call(
                    func=ast.Name(id="any"), args=[ast.GeneratorExp() | ast.ListComp() as each]
                ),
            ):
                yield from self._of_first(each, is_true=True)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                yield from self.of(inner)
            case ast.Call(
                func=ast.Name(id="all"), args=[ast.GeneratorExp() | ast.ListComp() as each]
            ):
                yield from self._of_first(each, is_true=False)
            case ast.Call(func=ast.Name(id="any" | "all"), args=[ast.GeneratorExp()]):
                # That none is as it should be, or that all are, is said by the expression.
                return
            case ast.Call() | ast.Compare():
                yield from self._inside(node)
            case _:
                yield from self._operand(node)

    def _of_first(self, each: ast.GeneratorExp | ast.ListComp, *, is_true: bool) -> Iterator[str]:
        """The variables and values of the first element that is true, or false."""
        loops = each.generators
        targets = [
            one.id for loop in loops for one in ast.walk(loop.target) if isinstance(one, ast.Name)
        ]
        text = f"[[bool({self._text(each.elt)}), {', '.join(targets)}] "
        text += " ".join(map(ast.unparse, loops)) + "]"
        found = self._evaluated(text)
        for element in found if isinstance(found, list) else ():
            if isinstance(element, list) and bool(element[0]) is is_true:
                bound = dict(zip(targets, element[1:], strict=True))
                yield from (f"{name} is {value_text(value)}" for name, value in bound.items())
                inner = _Reading(self._source, {**self._names, **bound}, self._functions)
                yield from inner.of(each.elt)
                return

    def _operand(self, node: ast.expr) -> Iterator[str]:
        """The value of a part, and those inside it."""
        if isinstance(node, ast.Constant):
            return
        value = self._value(node)
        is_fact = isinstance(value, Mapping) and bool(value)
        is_written = isinstance(node, ast.Set | ast.List | ast.Tuple | ast.Dict | ast.UnaryOp)
        # As `set()` is.
        is_written |= (
            isinstance(node, ast.Call) and not node.args and isinstance(node.func, ast.Name)
        )
        if value is not _UNKNOWN and not is_fact and not is_written:
            yield f"{_cut(self._text(node))} is {value_text(value)}"
        if not isinstance(node, _COMPREHENSIONS):
            yield from self._inside(node)

    def _inside(self, node: ast.expr) -> Iterator[str]:
        match node:
            case ast.Call(func=function, args=arguments):
                owner = [function.value] if isinstance(function, ast.Attribute) else []
                parts = [*owner, *arguments]
            case ast.Subscript(value=held, slice=key):
                parts = [held, key]
            case _:
                parts = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]
        for part in parts:
            yield from self._operand(part)

    def _text(self, node: ast.expr) -> str:
        return ast.get_source_segment(self._source, node) or ast.unparse(node)

    def _value(self, node: ast.expr) -> Value:
        return self._evaluated(self._text(node))

    def _evaluated(self, text: str) -> Value:
        try:
            return evaluate(f"({text})", self._names, self._functions)
        except EvaluatorError:
            return _UNKNOWN
