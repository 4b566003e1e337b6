"""Every character of a scalar is found in the file, in whatever style YAML writes it."""

import string

import yaml
from hypothesis import given
from hypothesis import strategies as st

from pinfold.policy.text.written_scalar import WrittenScalar
from pinfold.policy.text.yaml_nodes import TextMap, TextScalar
from pinfold.policy.text.yaml_text import Limits, parse_text

LIMITS = Limits(has_aliases=True)
WORDS = st.text(alphabet=string.ascii_letters + "äß✓😀 \n\t'\"\\:#-[]{}\x01", max_size=80)


@given(
    text=WORDS,
    style=st.sampled_from([None, "'", '"', "|", ">"]),
    width=st.integers(10, 60),
    indent=st.integers(2, 5),
    is_ascii=st.booleans(),
)
def test_what_stands_there_is_the_character(
    text: str, style: str | None, width: int, indent: int, is_ascii: bool
) -> None:
    written: str = yaml.dump(
        {"outer": {"key": text}},
        default_style=style,
        width=width,
        indent=indent,
        allow_unicode=not is_ascii,
    )
    node = parse_text(written, LIMITS)
    assert isinstance(node, TextMap)
    ((_, outer),) = node.entries
    assert isinstance(outer, TextMap)
    ((_, scalar),) = outer.entries
    assert isinstance(scalar, TextScalar)
    assert scalar.value == text
    lines = written.splitlines()
    places = WrittenScalar(scalar, lines)
    for row, line in enumerate(text.splitlines(), start=1):
        for column, char in enumerate(line, start=1):
            if char.isspace():
                continue
            place = places.find(row, column)
            assert place is not None, (row, column, written)
            at = lines[place[0] - 1][place[1] - 1 :]
            assert at.startswith((char, "\\")), (row, column, written)
