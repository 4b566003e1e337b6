"""Cpus that may be taken beside narrowed shares: those without which all promises have room."""

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from pinfold.policy.books.cpu_ledger import Ledger
from pinfold.policy.books.spare import spare_cpus
from pinfold.policy.books.spare.kept_cpus import KeptCpus
from pinfold.topology.sets.cpuset import NO_CPUS, CpuSet
from tests.unit.counted_calls import count_lines
from tests.unit.policy.books.test_cpu_ledger import NODE0, NODE1, ROOT, ledger_of, narrowed, share

CPUS = 6
SETS = st.integers(1, 2**CPUS - 1)
SHARES = st.dictionaries(SETS, st.sampled_from((300, 500, 700, 1000, 1500, 2000)), max_size=6)
ASKING = st.dictionaries(SETS, st.integers(1, 2), max_size=3)


def unions(sets: Iterator[int]) -> set[int]:
    found = {0}
    for one in sets:
        found |= {one | other for other in found}
    return found


def is_room(free: int, shares: Mapping[int, int], asking: Mapping[int, int]) -> bool:
    """Whether each union of sets has as many cpus as those inside it were promised."""
    left = [(cpus & free, milli) for cpus, milli in shares.items()]
    for union in unions(iter([cpus for cpus, _ in left])):
        if sum([milli for cpus, milli in left if not cpus & ~union]) > 1000 * union.bit_count():
            return False
    return all(cpus & free for cpus in asking)


def test_cpus_that_were_found_once_are_found_whatever_was_asked_before() -> None:
    """Of cpu 2 two crowds have a part: without it neither of them can spare another one."""
    ledger = ledger_of()
    for name, within, milli in (
        ("a", "4-5,7", 1500),
        ("b", "2,4-5,7", 600),
        ("c", "9,12-15", 3200),
        ("d", "2,9,12-15", 1000),
    ):
        ledger.add(narrowed(name, ROOT, within, milli))
    spare, cpus = ledger.spare_cpus, CpuSet.parse("2,4,7,9,12-15").mask
    assert spare.settled(cpus, 2) == CpuSet.parse("2").mask
    for one in ("4", "12"):
        assert spare.takeable(CpuSet.parse(one).mask, 1)
    both = spare.takeable(cpus, 2)
    assert both == CpuSet.parse("4,12").mask
    assert spare.settled(cpus, 2) == both


def test_cpus_that_were_found_once_are_found_whatever_was_asked_since() -> None:
    """They are found neither anew nor as shares lie by now."""
    ledger = ledger_of()
    for name, within, milli in (
        ("a", "6-7,9,14-15", 2700),
        ("b", "5-7,9,14-15", 600),
        ("c", "4-5,13", 1200),
    ):
        ledger.add(narrowed(name, ROOT, within, milli))
    spare, cpus = ledger.spare_cpus, CpuSet.parse("5-6,9,12-15").mask
    assert spare.settled(cpus, 4).bit_count() == 3
    assert spare.takeable(CpuSet.parse("7,13,15").mask, 3).bit_count() == 3
    found = spare.takeable(cpus, 4, or_fewer=False)
    assert found.bit_count() == 4
    assert spare.takeable(cpus, 1)
    assert spare.takeable(CpuSet.parse("2,5-6,11").mask, 4)
    assert spare.takeable(cpus, 4, or_fewer=False) == found
    assert spare.settled(cpus, 4) == found
    spare.restart()
    assert spare.settled(cpus, 4).bit_count() == 3


@pytest.mark.parametrize(
    ("shares", "cpus", "between"),
    [
        pytest.param(
            (("1,12-13,15", 2700), ("4-5,9,12", 700), ("1,4,9", 1000), ("2,4", 500)),
            "1-2,4-7,9,15",
            (("3-5,12-13,15", 4),),
            id="found at once",
        ),
        pytest.param(
            (("2,5-6", 700), ("6,9,14-15", 2700), ("7,13", 500), ("5,10", 500)),
            "2,5-10,14",
            (("2-4,6-8,10-15", 3), ("2,6,9-12,14", 4)),
            id="found later alone",
        ),
    ],
)
def test_the_same_question_has_the_same_answer_whatever_is_asked_between(
    shares: tuple[tuple[str, int], ...], cpus: str, between: tuple[tuple[str, int], ...]
) -> None:
    ledger = ledger_of()
    for number, (within, milli) in enumerate(shares):
        ledger.add(narrowed(f"s{number}", ROOT, within, milli))
    asked = CpuSet.parse(cpus).mask

    def answers(spare: spare_cpus.SpareCpus) -> tuple[bool, int, int]:
        grants, left = spare.grants(asked, 5, 10), spare.grantable(asked, 5, 10)
        assert grants is (left >= 10)
        return grants, left, spare.takeable(asked, 5)

    first = answers(ledger.spare_cpus)
    for one, count in between:
        ledger.spare_cpus.takeable(CpuSet.parse(one).mask, count)
    assert answers(ledger.spare_cpus) == first


def test_cpus_that_are_too_few_are_not_looked_for_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, bool]] = []
    spared = KeptCpus.spared

    def counted(self: KeptCpus, cpus: int, count: int, *, or_fewer: bool = True) -> int:
        asked.append((count, or_fewer))
        return spared(self, cpus, count, or_fewer=or_fewer)

    monkeypatch.setattr(KeptCpus, "spared", counted)
    ledger = ledger_of()
    share_of_a = narrowed("a", ROOT, "1-4", 2500)
    ledger.add(share_of_a)
    spare, cpus = ledger.spare_cpus, CpuSet.parse("1-4").mask
    for _ in range(2):
        assert spare.takeable(cpus, 2, or_fewer=False).bit_count() < 2
        assert spare.takeable(cpus, 2).bit_count() == 1
        assert spare.takeable(cpus, 3).bit_count() == 1
        assert spare.takeable(cpus, 2, or_fewer=False).bit_count() < 2
    assert asked == [(2, False), (2, True), (3, True)]
    spare.rest()
    assert spare.takeable(cpus, 2).bit_count() == 1
    assert len(asked) == 4
    ledger.drop(share_of_a.container_id)
    ledger.add(narrowed("b", ROOT, "1-4", 1500))
    assert spare.takeable(cpus, 2).bit_count() == 2


def parts(cpus: int) -> Iterator[int]:
    """All sets of some of these cpus."""
    one = cpus
    while True:
        yield one
        if not one:
            return
        one = (one - 1) & cpus


@settings(max_examples=150, deadline=None)
@given(SHARES, ASKING, st.lists(st.tuples(SETS, st.integers(1, CPUS)), max_size=4))
def test_cpus_are_spared_where_all_promises_have_room_without_them(
    shares: dict[int, int], asking: dict[int, int], asked: list[tuple[int, int]]
) -> None:
    everything = 2**CPUS - 1
    kept = KeptCpus(everything, shares, asking)
    has_room = is_room(everything, shares, asking)
    assert (not kept.short_milli) is has_room
    if not has_room:
        return
    for cpus, count in asked:
        found = kept.spared(cpus, count)
        assert is_room(everything & ~found, shares, asking)
        assert (kept.spared(cpus, cpus.bit_count()) == cpus) is is_room(
            everything & ~cpus, shares, asking
        )


@settings(max_examples=150, deadline=None)
@given(SHARES, ASKING, SETS, SETS, st.integers(1, 3000))
def test_a_share_is_granted_what_fits_beside_all_others(
    shares: dict[int, int], asking: dict[int, int], own: int, cpus: int, milli: int
) -> None:
    everything = 2**CPUS - 1
    kept = KeptCpus(everything, shares, asking)
    if kept.short_milli or kept.spared(own, own.bit_count()) != own or not cpus & ~own:
        return
    left = kept.grantable(own, cpus & ~own, milli)
    for more in (left, left + 1):
        promised = {**shares, cpus & ~own: shares.get(cpus & ~own, 0) + more}
        fits = is_room(everything & ~own, promised, asking)
        assert fits is (more == left) or left == milli


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_what_is_kept_follows_the_grants(data: st.DataObject) -> None:
    ledger, masks = ledger_of(), st.integers(1, 0xFFFF)
    for number in range(data.draw(st.integers(1, 12))):
        name, sharable = f"s{number % 5}", ledger.tree.root.sharable
        if data.draw(st.booleans()):
            _ = ledger.spare_cpus.sure
        if data.draw(st.booleans()):
            ledger = ledger.copy()
        if name in ledger.grants:
            ledger.drop(next(iter(ledger.grants)))
        elif within := CpuSet(data.draw(masks)) & sharable:
            grant = narrowed(name, ROOT, "1", 100 * data.draw(st.integers(0, 9)))
            is_narrow = data.draw(st.booleans())
            own = NO_CPUS
            if data.draw(st.booleans()):
                own = CpuSet(ledger.spare_cpus.takeable(data.draw(masks), 1))
            grant = structs.replace(grant, exclusive=own)
            ledger.add(structs.replace(grant, within=within if is_narrow else None))
        if data.draw(st.booleans()):
            _ = ledger.spare_cpus.sure
        ledger.spare_cpus.check()
        for one in ledger.grants.values():
            asked = ledger.without_share(one).spare_cpus
            _ = asked.sure
            asked.check()


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_what_is_spare_once_grants_are_narrowed_is_what_a_copy_of_the_ledger_says(
    data: st.DataObject,
) -> None:
    ledger, masks = ledger_of(), st.integers(1, 0xFFFF)
    sharable = ledger.tree.root.sharable
    for number in range(data.draw(st.integers(1, 8))):
        grant = share(f"s{number}", ROOT, 100 * data.draw(st.integers(0, 20)))
        within = CpuSet(data.draw(masks)) & sharable if data.draw(st.booleans()) else None
        own = CpuSet(ledger.spare_cpus.takeable(data.draw(masks), 1))
        own = own if data.draw(st.booleans()) else NO_CPUS
        ledger.add(structs.replace(grant, exclusive=own, within=within or None))
    if data.draw(st.booleans()):
        _ = ledger.spare_cpus.sure
    some = [one for one in ledger.grants.values() if data.draw(st.booleans())]
    pairs = [
        (one, structs.replace(one, within=CpuSet(data.draw(masks)) & sharable or None))
        for one in some
    ]
    found, trial = ledger.spare_cpus.once_narrowed(pairs), ledger.copy()
    for _, one in pairs:
        trial.repool(one)
    taken, cpus, milli = data.draw(masks), data.draw(masks), 100 * data.draw(st.integers(0, 30))
    answers = [
        (spare.can_take(taken, cpus, milli), spare.are_kept, spare.sure, spare.takeable(cpus, 3))
        for spare in (found, trial.spare_cpus)
    ]
    assert answers[0] == answers[1]
    for spare in (found, ledger.spare_cpus):
        spare.check()


def test_a_copy_of_a_ledger_keeps_cpus_apart_from_it() -> None:
    ledger = ledger_of()
    ledger.add(structs.replace(share("a", ROOT, 1500), within=CpuSet.parse("1-3")))
    sure = ledger.spare_cpus.sure
    copy, other = ledger.copy(), ledger.copy()
    copy.drop(next(iter(copy.grants)))
    assert copy.spare_cpus.sure.bit_count() == sure.bit_count() + 2
    ledger.add(share("b", NODE1, 1000))
    assert other.spare_cpus.sure == sure
    for one in (ledger, copy, other):
        one.spare_cpus.check()


def test_a_copy_of_a_copy_that_nobody_asked_keeps_what_its_own_grants_say() -> None:
    ledger = ledger_of()
    for name in ("a", "b"):
        ledger.add(structs.replace(share(name, ROOT, 1500), within=CpuSet.parse("1-3")))
    sure = ledger.spare_cpus.sure.bit_count()
    once = ledger.copy()
    first, second = tuple(once.grants)
    once.drop(first)
    twice = once.copy()
    twice.drop(second)
    once.add(share("c", NODE1, 1000))
    assert twice.spare_cpus.sure.bit_count() == sure + 3
    for one in (ledger, once, twice):
        one.spare_cpus.check()


def crowded(count: int) -> Ledger:
    """So many containers, each with shares of two cpus of its own."""
    ledger = ledger_of(f"socket:1 numa:1 core:{2 * count} mem:1G")
    for number in range(count):
        first = 2 * number or 1  # the first cpu is reserved
        cpus = CpuSet.of(first, first + 1)
        ledger.add(structs.replace(share(f"s{number}", 0, 700), within=cpus))
    return ledger


def test_what_is_left_without_a_share_costs_no_more_among_many_than_among_few() -> None:
    def lines(count: int) -> int:
        ledger = crowded(count)
        grant = next(iter(ledger.grants.values()))
        cpus = grant.within.mask if grant.within else 0

        def ask() -> None:
            assert ledger.without_share(grant).spare_cpus.grantable(cpus, 0, 900) == 900

        ask()  # What is found out about all is found once.
        return count_lines(ask)

    assert lines(300) <= lines(30) + 20


def test_nothing_is_added_up_anew_in_a_copy_of_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = crowded(30)
    _ = ledger.spare_cpus.sure
    grant = next(iter(ledger.grants.values()))
    monkeypatch.setattr(spare_cpus, "KeptCpus", None)
    assert ledger.copy().without_share(grant).spare_cpus.are_kept


def test_the_same_cpu_is_not_kept_for_two() -> None:
    """Seven cpus are needed of those that two NUMA nodes have, whoever asks which may be taken."""
    ledger = ledger_of()
    ledger.add(share("a", NODE0, 1500))
    ledger.add(share("b", NODE1, 2400))
    both = ledger.tree.masks[NODE0] | ledger.tree.masks[NODE1]
    ledger.add(structs.replace(share("c", ROOT, 1600), within=CpuSet(both)))
    free: int = ledger.free_sharable[ROOT] & both
    for cpus in (free, ledger.tree.masks[NODE0], ledger.tree.masks[NODE1]):
        found = ledger.spare_cpus.takeable(cpus, 4)
        assert found.bit_count() == free.bit_count() - 6
    assert not Ledger.copy(ledger).spare_cpus.can_take(ledger.tree.masks[NODE1] & free)


def test_which_cpus_are_spare_is_added_up_once_for_all_who_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = ledger_of()
    ledger.add(structs.replace(share("a", ROOT, 1500), within=CpuSet.parse("1-3")))
    spare, made = ledger.spare_cpus, list[KeptCpus]()

    def made_anew(free: int, shares: Mapping[int, int], asking: Mapping[int, int]) -> KeptCpus:
        made.append(KeptCpus(free, shares, asking))
        return made[-1]

    monkeypatch.setattr(spare_cpus, "KeptCpus", made_anew)
    free: int = ledger.free_sharable[ROOT]
    found = [spare.settled(free, count) for count in (1, 16, 15, 14, 16, 1)]
    assert len(made) == 1
    assert (found[0], found[1]) == (found[5], found[4])
    ledger.add(share("b", NODE1, 1000))
    assert spare.settled(free, 16) != found[1]
