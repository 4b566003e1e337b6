"""Laws of bits: asked all at once, they are what they are one by one."""

from itertools import compress

from hypothesis import given
from hypothesis import strategies as st

from pinfold.topology.sets.bits import bits_by_count, mask_where, selectors
from pinfold.topology.sets.cpuset import iter_bits

_MASKS = st.integers(0, 2**12 - 1)
_COUNTS = st.integers(1, 9)
_LENGTH = 600
_WIDE = st.integers(0, 2**_LENGTH - 1)
"""Most of these have a bit in two."""
_SPARSE = st.sets(st.integers(0, _LENGTH - 1)).map(lambda bits: sum(1 << one for one in bits))


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


@given(_WIDE | _SPARSE)
def test_the_bits_of_a_mask_are_the_same_however_many_they_are(mask: int) -> None:
    expected = [bit for bit in range(_LENGTH) if mask >> bit & 1]
    assert list(iter_bits(mask)) == expected
    assert list(compress(range(_LENGTH), selectors(mask))) == expected


@given(_WIDE | _SPARSE)
def test_what_holds_for_the_bits_of_a_mask_makes_up_the_mask(mask: int) -> None:
    assert mask_where(bool(mask >> bit & 1) for bit in range(_LENGTH)) == mask
    assert mask_where(()) == 0
