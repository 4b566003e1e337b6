"""Text of configurations that would exhaust a recursive reader."""

import subprocess
import sys

import pytest

from pinfold.policy.text.yaml_document import parse_document, parse_value

PROGRAM = """
import sys
from pinfold.policy.text.yaml_document import parse_document
for fault in parse_document(sys.stdin.read(), "node.yaml").faults:
    print(fault.line)
"""


@pytest.mark.parametrize(
    ("text", "column"),
    [
        pytest.param("[" * 200_000, 51, id="brackets"),
        pytest.param("{a: " * 200_000, 201, id="braces"),
        pytest.param("a: " + "[" * 200_000 + "]" * 200_000, 53, id="brackets that are closed"),
        pytest.param("- " * 200_000 + "1", 101, id="dashes"),
        pytest.param("? " * 200_000 + "1", 101, id="keys of keys"),
    ],
)
def test_a_deeply_nested_text_is_an_error_and_no_crash(text: str, column: int) -> None:
    # In a process of its own: a recursive reader in C takes its process down.
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=text, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr[-300:]
    what = "nested deeper than 50 levels — write it flatter"
    assert run.stdout == f"node.yaml:1:{column}: {what}\n"


def test_fifty_levels_are_read() -> None:
    parsed = parse_value("[" * 50 + "]" * 50, "node.yaml")
    assert max(map(len, parsed.places)) == 49
    assert parsed.faults == ()


def test_aliases_do_not_hide_depth() -> None:
    text = "a0: &a0 [[[[[[[[[[1]]]]]]]]]]\n" + "".join(
        f"a{i}: &a{i} [[[[[[[[[[*a{i - 1}]]]]]]]]]]\n" for i in range(1, 6)
    )
    (fault,) = parse_document(text, "node.yaml").faults
    assert "nested too deep" in fault.line
