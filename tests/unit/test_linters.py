import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("ruff", "check"), id="ruff finds nothing"),
        pytest.param(("ruff", "format", "--check"), id="every file is formatted"),
        pytest.param(("mypy",), id="mypy is content"),
        pytest.param(("pyright",), id="pyright is content"),
    ],
)
def test_linters_find_nothing(arguments: tuple[str, ...]) -> None:
    if importlib.util.find_spec(arguments[0]) is None:
        complaint = f"{arguments[0]} is not installed — make .venv/dev-installed"
        assert "CI" not in os.environ, complaint
        pytest.skip(complaint)
    # pyright's wrapper tells of newer versions of itself on every run.
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    run = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert run.returncode == 0, f"{' '.join(arguments)}\n{run.stdout}\n{run.stderr}"
