"""Examples in docstrings: each is run, and shows what comes out."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("topology", "policy", "nri", "cmd")
MODULES = sorted(
    ".".join(("pinfold", *path.relative_to(ROOT).with_suffix("").parts))
    for room in ROOMS
    for path in (ROOT / room).rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_show_what_comes_out(name: str) -> None:
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    for example in doctest.DocTestFinder().find(importlib.import_module(name), name):
        runner.run(example, out=said.append)
    assert not said, "".join(said)
    assert runner.tries, "the docstring with the example is none that is found"


def test_value_types_have_examples() -> None:
    assert len(MODULES) > 20, "or nothing is looked at"
