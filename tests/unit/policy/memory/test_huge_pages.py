"""Huge pages promised to sets of nodes that may cross each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.policy.memory.huge_pages import pages_short


@pytest.mark.parametrize(
    ("promised", "pages", "short"),
    [
        pytest.param({}, {0: 1}, 0, id="nothing promised"),
        pytest.param({0b1: 2}, {0: 1}, 1, id="more than the node has"),
        pytest.param({0b11: 2}, {0: 1, 1: 1}, 0, id="from two nodes"),
        pytest.param({0b011: 1, 0b110: 1}, {1: 1}, 1, id="two sets that cross want the same page"),
        pytest.param(
            {0b011: 1, 0b001: 1}, {0: 1, 1: 1}, 0, id="the wide set makes way for the narrow one"
        ),
        pytest.param(
            {0b011: 5, 0b110: 5, 0b001: 5},
            {0: 5, 1: 5, 2: 5},
            0,
            id="one makes way for another, which makes way for a third",
        ),
        pytest.param({0b10: 1}, {0: 9}, 1, id="pages elsewhere do not help"),
    ],
)
def test_pages_that_cannot_be_had(
    promised: dict[int, int], pages: dict[int, int], short: int
) -> None:
    assert pages_short(promised, pages) == short


NODES = 4
SETS = st.dictionaries(st.integers(1, (1 << NODES) - 1), st.integers(0, 6), max_size=6)
PAGES = st.dictionaries(st.integers(0, NODES - 1), st.integers(0, 6))


@given(SETS, PAGES)
def test_what_is_missing_is_missing_from_some_set_of_nodes(
    promised: dict[int, int], pages: dict[int, int]
) -> None:
    """Hall's theorem: the worst set of nodes says how much, for any way to deal the pages out."""
    worst = max(
        sum(count for mask, count in promised.items() if not mask & ~among)
        - sum(count for node, count in pages.items() if among >> node & 1)
        for among in range(1 << NODES)
    )
    assert pages_short(promised, pages) == max(0, worst)
