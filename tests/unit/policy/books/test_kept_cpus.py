"""Cpus kept for those who share them: as few as possible of some, and all promises fit."""

from collections.abc import Mapping

import pytest

from pinfold.policy.books.spare import kept_cpus
from pinfold.policy.books.spare.kept_cpus import KeptCpus
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.counted_calls import count_calls, count_lines

CASES = [
    pytest.param({"0-1": 2000, "0-3": 2000}, 0, id="a set inside another one"),
    pytest.param({"0-1": 2000, "0-3": 2001}, 1, id="too much in both"),
    pytest.param({"0-1": 1000, "1-2": 1500, "2": 500}, 0, id="who can moves on"),
    pytest.param({"0": 1000, "0-1": 500, "1-2": 1500, "2": 400}, 400, id="nobody can"),
    pytest.param({"0-3": 4000, "0": 0}, 0, id="who asks for nothing"),
    pytest.param({"0-1": 1500, "1-2": 1500, "0,2": 0}, 0, id="parts of one cpu"),
    pytest.param({"0-1": 1100, "1-2": 1100, "0,2": 900}, 100, id="three in a ring"),
    pytest.param({}, 0, id="nobody"),
]


def kept(wanted: Mapping[str, int], free: str = "0-3") -> KeptCpus:
    sets = {CpuSet.parse(cpus).mask: milli for cpus, milli in wanted.items()}
    shares = {cpus: milli for cpus, milli in sets.items() if milli}
    return KeptCpus(CpuSet.parse(free).mask, shares, dict.fromkeys(sets.keys() - shares, 1))


@pytest.mark.parametrize(("wanted", "short_milli"), CASES)
def test_shares_fit_where_each_finds_its_part(wanted: Mapping[str, int], short_milli: int) -> None:
    assert kept(wanted).short_milli == short_milli


@pytest.mark.parametrize(
    ("wanted", "cpus", "count"),
    [
        pytest.param({"0-3": 1500}, "0-1", 2, id="there are others"),
        pytest.param({"0-3": 1500}, "0-2", 2, id="there is one other"),
        pytest.param({"0-1": 1000, "1-2": 1000}, "0", 1, id="who has the other one moves on"),
        pytest.param({"0-1": 1000, "1-2": 1000}, "0,2", 1, id="one of two serves"),
        pytest.param({"0-1": 0, "1-2": 0}, "0-1", 1, id="one serves both who ask for none"),
        pytest.param({"0-1": 300, "0": 0}, "0-1", 1, id="what is kept anyway serves them"),
        pytest.param({"0,2": 0, "1-2": 0}, "0-2", 2, id="one that serves both is kept for two"),
        pytest.param({"0,3": 0, "1,3": 0, "2-3": 0}, "0-3", 3, id="and for three"),
        pytest.param({"0,2": 0, "1-2": 300}, "0-2", 2, id="as one may have some of it"),
        pytest.param({"0": 500, "0-2": 2000}, "1-2", 0, id="parts of two cpus"),
        pytest.param({"0": 500, "0-2": 1500}, "1-2", 1, id="what is left of another one"),
    ],
)
def test_cpus_are_spared_where_who_shares_them_can_move_on(
    wanted: Mapping[str, int], cpus: str, count: int
) -> None:
    wide = CpuSet.parse(cpus)
    assert kept(wanted).spared(wide.mask, len(wide)).bit_count() == count


def test_a_share_is_granted_what_the_others_leave_of_its_cpus() -> None:
    found = kept({"0-1": 1500, "1-2": 600})
    for _ in range(2):
        assert found.grantable(0, CpuSet.parse("0-1").mask, 1000) == 500
        assert found.grantable(0, CpuSet.parse("1").mask, 1000) == 500
        assert found.grantable(0, CpuSet.parse("0,2").mask, 1000) == 900
        assert found.grantable(CpuSet.parse("3").mask, CpuSet.parse("2-3").mask, 1000) == 900


def test_for_one_event_only_so_many_are_looked_at_to_spare_a_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_cpus, "_EFFORT_MAX", 20)
    found = kept({"0-1": 1000, "1-2": 1000, "2-3": 1000})

    def spared() -> int:
        """How many cpus are spared, asked for each alone."""
        return sum([found.spared(1 << cpu, 1).bit_count() for cpu in range(4)])

    assert [spared() for _ in range(20)][::19] == [4, 1]
    found.effort = 0
    assert spared() == 4


def test_nobody_is_looked_at_behind_those_who_wait_once_one_of_them_has_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of eight has one of the highest cpus, and 30 of its own; the last has one to spare."""
    monkeypatch.setattr(kept_cpus, "_LOOKS_MAX", 16)
    blocks = [f"{30 * n}-{30 * n + 29},{247 - n}" for n in range(8)]
    shares = {one: 31_000 for one in blocks[:-1]} | {blocks[-1]: 30_000}
    found = kept(shares, "0-247")
    assert not found.short_milli
    assert found.grantable(0, CpuSet.parse("240-247").mask, 1000) == 1000


def test_of_a_set_of_which_others_had_all_cpus_one_is_kept_once_they_give_some_back() -> None:
    wanted = {"0-1": 0, "1": 0, "0-3": 0}
    found, given = kept(wanted, free="2-3"), CpuSet.parse("0-1").mask
    found.give(given)
    assert found.spared(given, 2) == CpuSet.parse("0").mask
    found.check(kept(wanted))


def test_sets_of_which_a_cpu_is_asked_for_are_found_by_cpu_once_that_is_asked() -> None:
    asking = {((1 << 48) - 1) << number: 1 for number in range(200)}
    assert count_lines(lambda: KeptCpus((1 << 256) - 1, {}, asking)) < 200 * 40


def test_a_cpu_is_released_without_a_call_for_each_set_that_keeps_another_one() -> None:
    def calls(sets: int) -> int:
        """How many it takes to release 16 cpus, each in so many sets that share a kept one."""
        asking = {1 << 40 | ((1 << 24) - 1) << number: 1 for number in range(sets)}
        found = KeptCpus((1 << 41) - 1, {1 << 40: 500, (1 << 40) - 1: 16_000}, asking)
        return count_calls(lambda: found.spared((1 << 40) - (1 << 24), 16))

    assert calls(16) - calls(1) < 15 * 4
