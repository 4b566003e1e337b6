"""Scalars are read as YAML 1.1 says, in one place for every text there is."""

import pytest

from pinfold.policy.text.yaml_nodes import ScalarError, TextList, TextScalar, kind_of, scalar_value
from pinfold.policy.text.yaml_text import Limits, parse_text


def scalar(text: str) -> TextScalar:
    node = parse_text(f"[{text}]", Limits(has_aliases=True))
    assert node is not None
    assert isinstance(node, TextList)
    (item,) = node.items
    assert isinstance(item, TextScalar)
    return item


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("Off", False),
        ("'yes'", "yes"),
        ("0x1f", 31),
        ("010", 8),
        ("1_000", 1000),
        ("1.5", 1.5),
        ("~", None),
        ("2026-01-02", "2026-01-02"),
        ("=", "="),
        ("<<", "<<"),
        ("!!str 5", "5"),
        ("!!int '5'", 5),
        ("! 5", "5"),
    ],
)
def test_a_scalar_has_the_value_its_form_or_tag_says(text: str, value: object) -> None:
    found = scalar_value(scalar(text))
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("0x_", "'0x_' cannot be read — put it in quotes"),
        ("!!int x", "'x' cannot be read — put it in quotes"),
        ("!mine x", "tag '!mine' is not accepted — leave it out"),
        ("!!binary x", "tag 'tag:yaml.org,2002:binary' is not accepted — leave it out"),
    ],
)
def test_a_scalar_that_is_not_what_it_says_is_an_error(text: str, error: str) -> None:
    with pytest.raises(ScalarError) as caught:
        scalar_value(scalar(text))
    assert str(caught.value) == error


def test_the_kind_of_quoted_text_is_text() -> None:
    assert [kind_of(scalar(text)) for text in ("'1'", "1", "1.0", "x")] == [
        "str", "int", "float", "str",
    ]  # fmt: skip
