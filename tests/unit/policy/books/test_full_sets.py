"""Sets of cpus that are known to be full: no question about them is answered otherwise by that."""

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pinfold.policy.books.spare import full_sets, kept_cpus
from pinfold.policy.books.spare.full_sets import FullSets
from pinfold.policy.books.spare.kept_cpus import KeptCpus
from tests.unit.policy.books.test_spare_cpus import CPUS, SETS, SHARES, is_room

EVERYTHING = 2**CPUS - 1
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("grant", "grant", "spare", "all", "apart", "add", "drop", "take", "give", "copy")
        ),
        SETS,
        SETS,
        st.integers(1, 2500),
    ),
    max_size=14,
)


@pytest.mark.parametrize("narrow_max", [0, 2, CPUS])
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(SHARES, STEPS)
def test_what_is_full_is_so_whatever_was_asked_added_and_given_back(
    monkeypatch: pytest.MonkeyPatch,
    narrow_max: int,
    shares: dict[int, int],
    steps: Sequence[tuple[str, int, int, int]],
) -> None:
    monkeypatch.setattr(full_sets, "_NARROW_MAX", narrow_max)
    monkeypatch.setattr(full_sets, "_GIVEN_MAX", 4)
    kept, shares, free = KeptCpus(EVERYTHING, shares, {}), dict(shares), EVERYTHING
    if kept.short_milli:
        return
    for step, cpus, other, milli in steps:
        kept.effort = 0
        match step:
            case "grant":
                left = cpus & free
                fits = is_room(free, {**shares, left: shares.get(left, 0) + milli}, {})
                assert kept.grants(0, left, milli) is fits
            case "spare" | "apart":
                ask = kept.spared if step == "spare" else kept.spared_apart
                found = ask(cpus & free, (cpus & free).bit_count())
                assert is_room(free & ~found, shares, {})
                assert (found == cpus & free) is is_room(free & ~cpus, shares, {})
            case "all":
                count = (cpus & free).bit_count()
                found = kept.spared(cpus & free, count, or_fewer=False)
                assert is_room(free & ~found, shares, {})
                assert (found == cpus & free) is is_room(free & ~cpus, shares, {})
            case "add":
                more = {**shares, cpus: shares.get(cpus, 0) + milli}
                if cpus & free and is_room(free, more, {}):
                    kept.add(cpus, milli)
                    assert not kept.short_milli
                    shares = more
            case "drop":
                for one in [one for one in shares if one & cpus][:1]:
                    kept.drop(one, shares.pop(one))
            case "take":
                own = kept.spared(cpus, 1) & kept.spare
                kept.take(own)
                free &= ~own
            case "give":
                back = (cpus | other) & ~free
                kept.give(back)
                free |= back
            case _:
                kept = kept.copy()


def test_a_question_about_what_is_full_costs_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_cpus, "_EFFORT_MAX", 40)
    kept = KeptCpus(0xFF, {0x0F: 4000, 0x30: 1000, 0x60: 1000, 0xC0: 1000}, {})
    for _ in range(40):
        assert not kept.grants(0, 0x0F, 100)
    # What others may look at is left: who has this cpu moves on.
    assert kept.spared(0x20, 1)


def test_a_copy_shares_nothing_that_changes() -> None:
    kept = KeptCpus(0x0F, {0x03: 1500, 0x06: 1000}, {})
    other = kept.copy()
    other.drop(0x03, 1500)
    kept.add(0x0C, 900)
    kept.check(KeptCpus(0x0F, {0x03: 1500, 0x06: 1000, 0x0C: 900}, {}))
    other.check(KeptCpus(0x0F, {0x06: 1000}, {}))


@pytest.mark.parametrize("narrow_max", [0, 8])
def test_of_a_full_set_so_much_is_left_until_something_is_given_back(
    monkeypatch: pytest.MonkeyPatch, narrow_max: int
) -> None:
    monkeypatch.setattr(full_sets, "_NARROW_MAX", narrow_max)
    full = FullSets()
    full.note(0x0F, 0x1F, 300)
    full.note(0x0F, 0x0F, 500)
    assert full.left(0, 0x0F, 1000) == 300
    assert full.left(0, 0xF0, 1000) == 1000
    other = full.copy()
    full.drop(0x10, 400)
    assert full.left(0, 0x0F, 1000) == 700
    full.give(0x10)
    assert full.left(0, 0x0F, 1000) == 1000
    assert other.left(0, 0x0F, 1000) == 300


@pytest.mark.parametrize(
    ("cpus", "count"),
    [
        pytest.param(0b1111, 1, id="of a full set what is left, in whole cpus"),
        pytest.param(0b1, 1, id="no more than there are"),
        pytest.param(0b11_0000, 0, id="none where too much is promised"),
        pytest.param(0b11_1100_1111, 5, id="and all that are in no such set"),
    ],
)
def test_of_full_sets_so_many_cpus_may_be_taken_at_most(
    monkeypatch: pytest.MonkeyPatch, cpus: int, count: int
) -> None:
    monkeypatch.setattr(full_sets, "_NARROW_MAX", 0)
    full = FullSets()
    full.note(0b1111, 0b1111, 1900)
    full.note(0b11_0000, 0b11_0000, -300)
    assert full.whole_left(cpus) == count


def test_so_many_sets_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_sets, "_NARROW_MAX", 0)
    full = FullSets()
    for cpu in range(100):
        full.note(1 << cpu, 1 << cpu, 0)
    assert full.closed_by(0).bit_count() < 100
    assert not full.left(0, 1 << 99, 1000)


class CountedCpus(int):
    """A mask that counts how often it is held against others."""

    count = 0

    def __and__(self, other: int) -> int:
        self.count += 1
        return int(self) & other

    __rand__ = __and__


def test_whoever_gives_something_back_looks_at_no_narrow_set() -> None:
    """There may be thousands of them; what is left is told of those that are asked about."""
    full = FullSets()
    for core in range(1000):
        full.note(3 << 2 * core, 3 << 2 * core, 100)
    given, freed = CountedCpus(15), CountedCpus(15 << 4)
    full.drop(given, 500)
    full.give(freed)
    assert given.count + freed.count == 0
    assert [full.left(0, 3 << 2 * core, 2000) for core in range(5)] == [600, 600, 2000, 2000, 100]
