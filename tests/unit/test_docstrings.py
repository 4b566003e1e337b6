"""Public docstrings begin with the domain's noun: their first word is no bare pronoun."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WRITTEN = sorted(
    path
    for folder in ("topology", "policy", "nri", "cmd", "scripts")
    for path in (ROOT / folder).rglob("*.py")
    if path.parent not in (ROOT / "nri" / "api", ROOT / "cmd" / "control" / "api")
)

_BARE = re.compile(
    r"(?:anybody|anyone|anything|everybody|everyone|everything|he|how|it|its|nobody|none|nothing"
    r"|others|several|she|some|somebody|someone|something|that|there|these|they|this|those|what"
    r"|whatever|when|where|which|whichever|who|whoever|whom|whose|why"
    r"|all (?:of|that)|another one|one (?:of|that))\b",
    re.IGNORECASE,
)

_ANAPHORA = re.compile(
    r"(?:everybody|everyone|he|nobody|others|somebody|someone|the same|they|those|whatever|who"
    r"|whoever|whom|whose)\b",
    re.IGNORECASE,
)


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """The docstrings of a module and of its public classes and functions, by name."""
    named: list[tuple[str, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]
    named = [("", ast.parse(path.read_text(encoding="utf-8")))]
    while named:
        name, node = named.pop()
        if text := ast.get_docstring(node):
            yield name, text
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for inner in node.body:
            if isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                is_public = not inner.name.startswith("_") or inner.name.startswith("__")
                if is_public:
                    named.append((f"{name}.{inner.name}".lstrip("."), inner))


def bare(path: Path) -> list[str]:
    """The docstrings of a file that begin without a noun."""
    return [f"{name}: {text}" for name, text in docstrings(path) if _BARE.match(text)]


def texts_below(path: Path) -> Iterator[tuple[int, str]]:
    """Every text that stands for itself in a file, those below fields too, with its line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str):
                yield node.lineno, text


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_texts_of_fields_and_private_functions_stand_for_no_other_text(path: Path) -> None:
    assert [(line, text) for line, text in texts_below(path) if _ANAPHORA.match(text)] == []


def stray(path: Path) -> Iterator[tuple[int, str]]:
    """The texts in a file that stand directly below nothing they could be about."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for before, after in pairwise(node.body):
            match after:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    between = lines[before.end_lineno : after.lineno - 1]
                    is_below = isinstance(before, ast.Assign | ast.AnnAssign)
                    if not is_below or not all(one.strip() for one in between):
                        yield after.lineno, text
                case _:
                    pass


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_texts_stand_below_the_field_that_they_are_about(path: Path) -> None:
    assert list(stray(path)) == []


@pytest.mark.parametrize(
    ("text", "is_bare"),
    [
        ("What they are near.", True),
        ("Who runs short.", True),
        ("Those beside.", True),
        ("All that is held.", True),
        ("One of several containers.", True),
        ("This, or another.", True),
        ("Topology hints of a container.", False),
        ("One hardware thread.", False),
        ("All NUMA nodes by id.", False),
        ("Whether a cpu is online.", False),
        ("Item by item.", False),
    ],
)
def test_a_bare_pronoun_is_found(text: str, is_bare: bool) -> None:
    assert bool(_BARE.match(text)) is is_bare


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_begin_with_a_noun(path: Path) -> None:
    assert not bare(path)
