"""A small safe language over sets of names: a part of Python's expressions, never `eval`.

Python's parser makes the tree; the interpreter here walks it and knows only the nodes below and
what `evaluator_tables` lists. Every step is counted, so an expression always ends soon.
"""

import ast
import difflib
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn

from ....topology.sets.base_errors import PinfoldError
from .evaluator_tables import (
    COMPARISONS,
    FUNCTIONS,
    MAX_BITS,
    MAX_SIZE,
    METHODS,
    OPERATORS,
    SET_METHODS,
)
from .values import Function, Record, Value, brief, collect, elements, kind_of, part_of

MAX_SOURCE: Final = 4000
MAX_PARTS: Final = 2000
MAX_DEPTH: Final = 60
MAX_STEPS: Final = 200_000

_FORMAT: Final = re.compile(r"0?[0-9]{0,2}[ds]?", re.ASCII)


class EvaluatorError(PinfoldError):
    """An expression is malformed, uses what the language has not, or fails; the text says where."""


def evaluate(
    source: str, names: Mapping[str, Value], functions: Mapping[str, Function] | None = None
) -> Value:
    """The value of an expression.

    `names` are its variables; `functions` it may call besides the built-in ones. Raises
    `EvaluatorError` with line and column, and nothing else. At most `MAX_STEPS` steps.

    >>> evaluate('disjoint_sets(cpus["a"], {"cpu1"})', {"cpus": {"a": frozenset({"cpu0"})}})
    True
    """
    tree = _parse(source)
    return _Interpreter(source, names, {**FUNCTIONS, **(functions or {})}).value(tree.body)


def check_expression(source: str) -> None:
    """Raise `EvaluatorError` for a text that is no expression at all; names are not looked up."""
    _parse(source)


def _parse(source: str) -> ast.Expression:
    if len(source) > MAX_SOURCE:
        raise EvaluatorError(
            f"the expression has more than {MAX_SOURCE} characters — write several"
        )
    try:
        with warnings.catch_warnings():
            # The parser warns of unknown escapes and the like on the process's standard error.
            warnings.simplefilter("ignore")
            tree = ast.parse(source.strip(), mode="eval")
    except SyntaxError as error:
        where = f"line {error.lineno or 1}, column {error.offset or 1}"
        raise EvaluatorError(f"{where}: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise EvaluatorError(f"not an expression: {error or 'nested too deep'}") from error
    if sum(1 for _ in ast.walk(tree)) > MAX_PARTS:
        raise EvaluatorError(f"the expression has more than {MAX_PARTS} parts — write several")
    return tree


class _Interpreter:
    """One evaluation: its variables and what is left of its steps."""

    def __init__(
        self, source: str, names: Mapping[str, Value], functions: Mapping[str, Function]
    ) -> None:
        self.lines = source.strip().splitlines() or [""]
        self.names = dict(names)
        self.functions = functions
        self.steps = 0
        self.depth = 0

    def value(self, node: ast.expr) -> Value:
        self.step(node)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(node, f"nested deeper than {MAX_DEPTH} levels")
        kind = _NODES.get(type(node))
        if kind is None:
            self.fail(node, f"{type(node).__name__} is not part of the language")
        try:
            result = kind(self, node)
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            self.fail(node, str(error) or type(error).__name__)
        self.depth -= 1
        self.check(node, result)
        return result

    def step(self, node: ast.expr, count: int = 1) -> None:
        self.steps += count
        if self.steps > MAX_STEPS:
            self.fail(node, f"more than {MAX_STEPS} steps")

    def fail(self, node: ast.expr, what: str) -> NoReturn:
        # The parser counts bytes of UTF-8; people count characters.
        line = self.lines[min(node.lineno, len(self.lines)) - 1]
        column = len(line.encode()[: node.col_offset].decode(errors="ignore")) + 1
        raise EvaluatorError(f"line {node.lineno}, column {column}: {what}")

    def check(self, node: ast.expr, value: Value) -> None:
        """Stops values from growing without end."""
        if isinstance(value, int):
            if value.bit_length() > MAX_BITS:
                self.fail(node, f"a number of more than {MAX_BITS} bits")
        elif value is not None and not isinstance(value, Record) and len(value) > MAX_SIZE:
            self.fail(node, f"a value of more than {MAX_SIZE} elements")

    def weigh(self, node: ast.expr, *values: Value) -> None:
        """Counts a step for every element inside: lists that repeat one list weigh all of it."""
        waiting = [*values]
        while waiting:
            one = waiting.pop()
            self.step(node)
            match one:
                case str():
                    self.step(node, len(one) // 64)
                case list() | tuple() | frozenset():
                    self.step(node, len(one))
                    waiting.extend(one)
                case Mapping():
                    self.step(node, len(one))
                    waiting.extend(one.values())
                case _:
                    pass

    def constant(self, node: ast.Constant) -> Value:
        if node.value is None or isinstance(node.value, str | int):
            return node.value
        self.fail(node, f"{node.value!r} is neither text nor an integer")

    def name(self, node: ast.Name) -> Value:
        if node.id in self.names:
            return self.names[node.id]
        what = f"{node.id!r} is a function" if node.id in self.functions else ""
        self.fail(node, what or self._unknown(f"name {node.id!r}", node.id, self.names))

    def _unknown(self, what: str, word: str, known: Mapping[str, object]) -> str:
        close = difflib.get_close_matches(word, known, n=1)
        fix = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known))}"
        return f"{what} is not known — {fix}"

    def several(self, nodes: list[ast.expr]) -> list[Value]:
        values: list[Value] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                held = self.value(node.value)
                self.weigh(node, held)
                values.extend(elements(held))
            else:
                values.append(self.value(node))
        return values

    def list_display(self, node: ast.List) -> Value:
        return self.several(node.elts)

    def tuple_display(self, node: ast.Tuple) -> Value:
        return (*self.several(node.elts),)

    def set_display(self, node: ast.Set) -> Value:
        values = self.several(node.elts)
        self.weigh(node, *values)
        return collect(values)

    def dict_display(self, node: ast.Dict) -> Value:
        found: dict[Any, Value] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                self.fail(node, "'**' is not part of the language")
            word = self.value(key)
            self.weigh(key, word)
            collect((word,))
            found[word] = self.value(value)
        return found

    def bool_op(self, node: ast.BoolOp) -> Value:
        result: Value = None
        for operand in node.values:
            result = self.value(operand)
            if bool(result) is isinstance(node.op, ast.Or):
                break
        return result

    def unary(self, node: ast.UnaryOp) -> Value:
        operand = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return not operand
        if not isinstance(operand, int) or isinstance(node.op, ast.Invert):
            self.fail(node, f"no such operator for {brief(operand)}")
        return -operand if isinstance(node.op, ast.USub) else +operand

    def binary(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        self.weigh(node, left, right)
        if isinstance(node.op, ast.Mult) and isinstance(left, list | tuple | str):
            return self._repeated(node, left, right)
        operation, kinds = OPERATORS.get(type(node.op), (None, ()))
        if operation is None:
            self.fail(node, f"operator {type(node.op).__name__} is not part of the language")
        kind, other = kind_of(left), kind_of(right)
        if kind != other or kind not in kinds:
            self.fail(node, f"operator {type(node.op).__name__} takes no {kind} and {other}")
        return operation(left, right)

    def _repeated(
        self, node: ast.expr, one: list[Value] | tuple[Value, ...] | str, times: Value
    ) -> Value:
        if not isinstance(times, int):
            self.fail(node, f"{brief(times)} is not a number of times")
        if len(one) * times > MAX_SIZE:
            self.fail(node, f"a value of more than {MAX_SIZE} elements")
        return one * times

    def compare(self, node: ast.Compare) -> Value:
        left = self.value(node.left)
        for operation, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.value(comparator)
            compared = COMPARISONS.get(type(operation))
            if compared is None:
                self.fail(node, f"operator {type(operation).__name__} is not part of the language")
            self.weigh(node, left, right)
            if isinstance(operation, ast.In | ast.NotIn) and isinstance(right, Mapping | frozenset):
                collect((left,))
            if not compared(left, right):
                return False
            left = right
        return True

    def if_else(self, node: ast.IfExp) -> Value:
        return self.value(node.body if self.value(node.test) else node.orelse)

    def subscript(self, node: ast.Subscript) -> Value:
        if isinstance(node.slice, ast.Slice):
            return self._slice(node, node.slice)
        held, key = self.value(node.value), self.value(node.slice)
        if isinstance(held, Mapping):
            collect((key,))
            if key not in held:
                self.fail(node, f"no key {brief(key)} — {self._keys(held)}")
            return held[key]
        if isinstance(held, list | tuple | str) and isinstance(key, int):
            return held[key]
        self.fail(node, f"{brief(held)} has no elements by {brief(key)}")

    def _slice(self, node: ast.Subscript, part: ast.Slice) -> Value:
        held = self.value(node.value)
        self.weigh(node, held)
        given = (part.lower, part.upper, part.step)
        return part_of(held, [None if one is None else self.value(one) for one in given])

    def _keys(self, held: Mapping[Any, Value]) -> str:
        if not held:
            return "there are none"
        known = [brief(one) for one in held]
        return "known: " + ", ".join(known[:10]) + (", …" if len(known) > 10 else "")

    def attribute(self, node: ast.Attribute) -> Value:
        held = self.value(node.value)
        if not isinstance(held, Record):
            self.fail(node, f"{brief(held)} has no attribute {node.attr!r}")
        if node.attr not in held.fields:
            self.fail(node, self._unknown(f"attribute {node.attr!r}", node.attr, held.fields))
        return held.fields[node.attr]

    def call(self, node: ast.Call) -> Value:
        if node.keywords:
            self.fail(node, "named arguments are not part of the language")
        function, first = self._function(node.func)
        arguments = [*first, *self.several(node.args)]
        self.weigh(node, *arguments)
        return function(*arguments)

    def _function(self, node: ast.expr) -> tuple[Function, list[Value]]:
        """The function to call and, for a method, the value it belongs to."""
        if isinstance(node, ast.Name):
            if node.id not in self.functions:
                self.fail(node, self._unknown(f"function {node.id!r}", node.id, self.functions))
            return self.functions[node.id], []
        if not isinstance(node, ast.Attribute):
            self.fail(node, "only functions and methods known by name can be called")
        if isinstance(node.value, ast.Name) and node.value.id == "set" and "set" not in self.names:
            methods, first = SET_METHODS, []
        else:
            held = self.value(node.value)
            methods = METHODS.get(kind_of(held)) or {}
            first = [held]
        if node.attr not in methods:
            self.fail(node, self._unknown(f"method {node.attr!r}", node.attr, methods))
        return methods[node.attr], first

    def formatted(self, node: ast.JoinedStr) -> Value:
        return "".join(self._text(part) for part in node.values)

    def _text(self, part: ast.expr) -> str:
        if isinstance(part, ast.Constant):
            return str(part.value)
        if not isinstance(part, ast.FormattedValue) or part.conversion not in (-1, ord("s")):
            self.fail(part, "conversions other than '!s' are not part of the language")
        form = ""
        if isinstance(part.format_spec, ast.JoinedStr):
            form = "".join(self._text(one) for one in part.format_spec.values)
        value = self.value(part.value)
        if not isinstance(value, str | int):
            self.fail(part, f"{brief(value)} is neither text nor a number")
        if not _FORMAT.fullmatch(form):
            self.fail(part, f"format {form!r} is not part of the language")
        return format(value, form)

    def listed(self, node: ast.ListComp | ast.GeneratorExp) -> Value:
        return [self.value(node.elt) for _ in self._each(node, node.generators)]

    def set_of(self, node: ast.SetComp) -> Value:
        values = [self.value(node.elt) for _ in self._each(node, node.generators)]
        self.weigh(node, *values)
        return collect(values)

    def dict_of(self, node: ast.DictComp) -> Value:
        found: dict[Any, Value] = {}
        for _ in self._each(node, node.generators):
            key = self.value(node.key)
            self.weigh(node, key)
            collect((key,))
            found[key] = self.value(node.value)
        return found

    def _each(self, node: ast.expr, generators: list[ast.comprehension]) -> Iterator[None]:
        """Binds the variables of a comprehension, once for each element, and unbinds them."""
        if not generators:
            yield
            return
        first, *rest = generators
        if first.is_async:
            self.fail(node, "'async' is not part of the language")
        outer = self.names
        held = self.value(first.iter)
        self.weigh(node, held)
        for value in elements(held):
            self.step(node)
            self.names = dict(outer)
            self._bind(first.target, value)
            if all(self.value(test) for test in first.ifs):
                yield from self._each(node, rest)
        self.names = outer

    def _bind(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, ast.Tuple) and isinstance(value, list | tuple):
            if len(target.elts) != len(value):
                self.fail(target, f"{len(value)} values for {len(target.elts)} variables")
            for one, inner in zip(target.elts, value, strict=True):
                self._bind(one, inner)
        else:
            self.fail(target, f"{brief(value)} cannot be taken apart")


_NODES: Final[Mapping[type[ast.expr], Callable[[_Interpreter, Any], Value]]] = {
    ast.Constant: _Interpreter.constant,
    ast.Name: _Interpreter.name,
    ast.List: _Interpreter.list_display,
    ast.Tuple: _Interpreter.tuple_display,
    ast.Set: _Interpreter.set_display,
    ast.Dict: _Interpreter.dict_display,
    ast.BoolOp: _Interpreter.bool_op,
    ast.UnaryOp: _Interpreter.unary,
    ast.BinOp: _Interpreter.binary,
    ast.Compare: _Interpreter.compare,
    ast.IfExp: _Interpreter.if_else,
    ast.Subscript: _Interpreter.subscript,
    ast.Attribute: _Interpreter.attribute,
    ast.Call: _Interpreter.call,
    ast.JoinedStr: _Interpreter.formatted,
    ast.ListComp: _Interpreter.listed,
    ast.GeneratorExp: _Interpreter.listed,
    ast.SetComp: _Interpreter.set_of,
    ast.DictComp: _Interpreter.dict_of,
}
