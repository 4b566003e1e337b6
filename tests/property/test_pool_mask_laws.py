"""Laws of masks of pools: they say what the columns say that they were made of."""

from hypothesis import given
from hypothesis import strategies as st

from pinfold.policy.pools.pool_masks import (
    all_pools,
    best_of,
    grades,
    highest_of,
    ids_of,
    pools_of,
    pools_where,
    pools_with,
)

COLUMNS = st.lists(st.integers(-3, 3), min_size=1, max_size=40)


@given(COLUMNS, st.integers(-3, 3))
def test_the_pools_where_something_holds_are_those_of_which_it_is_told(
    column: list[int], least: int
) -> None:
    ids = range(len(column))
    found = pools_where(map(least.__le__, column))
    assert ids_of(found, ids) == [one for one in ids if column[one] >= least]
    assert found == pools_of(ids_of(found, ids), len(column)) == pools_with(column, least)
    assert found.bit_count() == len(ids_of(found, ids))
    assert not found & ~all_pools(len(column))


@given(COLUMNS, st.data())
def test_the_best_of_some_pools_have_the_smallest_value_among_them(
    column: list[int], data: st.DataObject
) -> None:
    ids = range(len(column))
    some = data.draw(st.sets(st.sampled_from(ids), min_size=1))
    least = min(column[one] for one in some)
    best = best_of(pools_of(some, len(column)), grades(column))
    assert ids_of(best, ids) == [one for one in ids if one in some and column[one] == least]


@given(COLUMNS, st.data())
def test_the_highest_of_some_pools_have_the_greatest_figure_among_them(
    column: list[int], data: st.DataObject
) -> None:
    ids = range(len(column))
    some = data.draw(st.sets(st.sampled_from(ids), min_size=1))
    greatest = max(column[one] for one in some)
    highest = highest_of(pools_of(some, len(column)), column)
    assert ids_of(highest, ids) == [one for one in ids if one in some and column[one] == greatest]


@given(st.sets(st.integers(0, 9), min_size=1))
def test_pools_of_no_grade_are_alike(some: set[int]) -> None:
    pools = pools_of(some, 10)
    assert best_of(pools, ()) == pools
    assert best_of(pools, (all_pools(10) & ~pools,)) == pools
