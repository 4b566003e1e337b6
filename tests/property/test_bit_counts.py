"""Laws of counted bits: all at once they are counted as one by one."""

from hypothesis import given
from hypothesis import strategies as st

from pinfold.policy.books.whereabouts import bits_by_count
from pinfold.topology.sets.cpuset import iter_bits

_MASKS = st.integers(0, 2**12 - 1)
_COUNTS = st.integers(1, 9)


@given(_MASKS, st.lists(st.tuples(_MASKS, _COUNTS), max_size=12))
def test_bits_are_counted_in_all_masks_at_once_as_one_by_one(
    every: int, masks: list[tuple[int, int]]
) -> None:
    inside = [(mask & every, count) for mask, count in masks]
    expected: dict[int, int] = {}
    for bit in iter_bits(every):
        number = sum(count for mask, count in inside if mask & 1 << bit)
        expected[number] = expected.get(number, 0) | 1 << bit
    assert bits_by_count(every, inside) == expected
