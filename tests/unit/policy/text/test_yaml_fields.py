from collections.abc import Callable

import pytest

from pinfold.policy.text.yaml_fields import Field, FieldError, read_fields


def read(text: str) -> Field:
    (field,) = read_fields(text, "a.yaml")
    return field


def test_fields_know_where_they_are() -> None:
    field = read("a:\n  b:\n  - c: 1\n  - c: 2\n")["a"]["b"].elements()[1]["c"]
    assert (field.where, field.value) == ("a.yaml:4:8: a.b[1].c", 2)
    missing = read("a:\n  b: 1\n")["a"]["x"]["y"]
    assert (missing.where, missing.is_missing) == ("a.yaml:2:3: a.x.y", True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("a", "a", id="a text"),
        pytest.param("'1'", "1", id="a quoted number is text"),
        pytest.param("0x10", 16, id="a hexadecimal number"),
        pytest.param("1.5", 1.5, id="a fraction"),
        pytest.param("yes", True, id="a truth value in the old spelling"),
        pytest.param("2001-01-01", "2001-01-01", id="a date stays text"),
        pytest.param("[1, {a: null}, b]", [1, {"a": None}, "b"], id="nested values"),
        pytest.param("{a: &x [1], b: *x}", {"a": [1], "b": [1]}, id="an alias"),
        pytest.param("1" * 5000, "1" * 5000, id="a number beyond what is read as one"),
    ],
)
def test_values_are_those_of_yaml(text: str, value: object) -> None:
    assert read(text).value == value


def test_numbers_in_amounts_stay_as_written() -> None:
    assert read("1.50").scalar() == "1.50"
    assert read("a: 1").entries()["a"].scalar() == "1"


def key_b(field: Field) -> Field:
    return field["b"]


@pytest.mark.parametrize(
    ("text", "ask", "message"),
    [
        pytest.param("a: 1", Field.text, "a.yaml:1:4: a: '1' is not a text", id="text"),
        pytest.param("a: x", Field.integer, "a: 'x' is not an integer", id="integer"),
        pytest.param("a: true", Field.integer, "a: 'true' is not an integer", id="true"),
        pytest.param("a: x", Field.boolean, "a: 'x' is neither true nor", id="boolean"),
        pytest.param("a: true", Field.scalar, "a: 'true' is neither text", id="amount"),
        pytest.param("a: []", Field.text, "a: is a list or a mapping", id="a list"),
        pytest.param("a: x", Field.entries, "a: is not a mapping", id="no mapping"),
        pytest.param("a: x", key_b, "a: is not a mapping", id="no mapping for a key"),
        pytest.param("a: x", Field.elements, "a: is not a list", id="no list"),
        pytest.param("a: ~", Field.text, "a: is missing", id="null is nothing"),
        pytest.param("a: {<<: {b: 1}}", key_b, "merge keys (<<)", id="merge keys"),
    ],
)
def test_errors_say_what_was_expected(
    text: str, ask: Callable[[Field], object], message: str
) -> None:
    with pytest.raises(FieldError) as caught:
        ask(read(text)["a"])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("[" * 300_000, "nested deeper than 64 levels", id="deep nesting"),
        pytest.param("{a: 1, a: 2}", "'a' is given twice", id="a key twice"),
        pytest.param("a: *b", "unknown anchor", id="an alias of nothing"),
        pytest.param("a: \x00", "not valid YAML", id="a character YAML does not allow"),
    ],
)
def test_what_is_no_yaml_is_refused(text: str, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        read_fields(text, "a.yaml")
    assert message in str(caught.value)


def test_aliases_cannot_multiply_without_end() -> None:
    lines = ["a0: &a0 [1]"] + [
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)
    ]
    field = read("\n".join(lines))
    assert len(field["a9"].elements()) == 10
    with pytest.raises(FieldError, match="more than 20000 values"):
        assert field["a9"].value
