"""Cpu sets agree with frozenset, and their texts go round."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.topology.sets.cpuset import MAX_IDS, CpuSet, IdListError

IDS = st.frozensets(st.integers(0, 200) | st.integers(0, MAX_IDS - 1), max_size=40)
# Texts near the format, so that a good part is accepted.
LISTS = st.text(alphabet="0123456789,-:/ \n", max_size=20) | st.text(max_size=20)
MASKS = st.text(alphabet="0123456789abcdefF,\n", max_size=40) | st.text(max_size=20)


@settings(deadline=None, max_examples=150)
@given(IDS, IDS)
def test_algebra_agrees_with_frozenset(one: frozenset[int], two: frozenset[int]) -> None:
    left, right = CpuSet.collect(one), CpuSet.collect(two)
    assert frozenset(left & right) == one & two
    assert frozenset(left | right) == one | two
    assert frozenset(left - right) == one - two
    assert frozenset(left ^ right) == one ^ two
    assert (left <= right) == (one <= two)
    assert (left < right) == (one < two)
    assert (left >= right) == (one >= two)
    assert (left > right) == (one > two)
    assert (left == right) == (one == two)
    assert left.isdisjoint(right) == one.isdisjoint(two)
    assert hash(left) == hash(CpuSet.collect(sorted(one)))


@settings(deadline=None, max_examples=150)
@given(IDS, st.integers(-5, MAX_IDS + 5))
def test_contents_agree_with_frozenset(ids: frozenset[int], probe: int) -> None:
    cpus = CpuSet.collect(ids)
    assert list(cpus) == sorted(ids)
    assert len(cpus) == len(ids)
    assert bool(cpus) == bool(ids)
    assert cpus.lowest == min(ids, default=-1)
    assert (probe in cpus) == (probe in ids)


@settings(deadline=None, max_examples=150)
@given(IDS)
def test_texts_go_round(ids: frozenset[int]) -> None:
    cpus = CpuSet.collect(ids)
    assert CpuSet.parse(str(cpus)) == cpus
    words = [f"{cpus.mask >> shift & 0xFFFFFFFF:08x}" for shift in range(0, MAX_IDS, 32)]
    assert CpuSet.parse_mask(",".join(reversed(words))) == cpus


@settings(deadline=None, max_examples=200)
@given(IDS, st.integers(1, 40), st.integers(1, 40))
def test_strides_agree_with_range(ids: frozenset[int], step: int, width: int) -> None:
    first, last = min(ids, default=0), max(ids, default=0)
    every = range(first, last + 1)
    assert list(CpuSet.parse(f"{first}-{last}:{step}")) == list(every[::step])
    width = min(step, width)
    groups = [one for one in every if (one - first) % step < width]
    assert list(CpuSet.parse(f"{first}-{last}:{width}/{step}")) == groups


@settings(deadline=None, max_examples=400)
@given(LISTS)
def test_a_list_is_read_or_refused(text: str) -> None:
    try:
        cpus = CpuSet.parse(text)
    except IdListError:
        return
    assert CpuSet.parse(str(cpus)) == cpus
    assert cpus.mask.bit_length() <= MAX_IDS


@settings(deadline=None, max_examples=400)
@given(MASKS)
def test_a_mask_is_read_or_refused(text: str) -> None:
    try:
        cpus = CpuSet.parse_mask(text)
    except IdListError:
        return
    words = text.strip(" \t\n\0").split(",")
    assert cpus.mask == sum(int(word, 16) << 32 * i for i, word in enumerate(reversed(words)))
    assert cpus.mask.bit_length() <= MAX_IDS
