"""Laws of packed columns: they say what they were made of, and equal ones are packed alike."""

from hypothesis import given
from hypothesis import strategies as st

from pinfold.policy.placing.packed_column import packed

FIGURES = st.integers(-3, 3) | st.integers(-(2**15), 2**15) | st.integers(-(2**70), 2**70)


@st.composite
def columns(draw: st.DrawFn) -> list[int]:
    values = draw(st.lists(FIGURES, min_size=1, max_size=40))
    return draw(st.lists(st.sampled_from(values), min_size=1, max_size=400))


@given(columns())
def test_a_packed_column_is_what_it_was_made_of(column: list[int]) -> None:
    found = packed(column)
    assert list(found) == column
    assert [found[index] for index in range(len(column))] == column
    assert list(found[1::2]) == column[1::2]
    assert len(found) == len(column)
    assert packed(found) == found
    assert packed(list(column)) == found


def test_no_column_is_packed_to_nothing() -> None:
    assert packed([]) == ()
