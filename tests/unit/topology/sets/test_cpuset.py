"""Cpu sets: the kernel's list and mask formats, and what is refused."""

import time

import pytest

from pinfold.topology.sets.cpuset import MAX_IDS, CpuSet, IdListError, NodeSet


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        pytest.param("", [], id="an empty file is the empty set"),
        pytest.param("\n", [], id="so is a line without text"),
        pytest.param("0-3,8\n", [0, 1, 2, 3, 8], id="ranges and single ids"),
        pytest.param("3,1-2", [1, 2, 3], id="any order"),
        pytest.param("5-5", [5], id="a range of one"),
        pytest.param("0-6:2", [0, 2, 4, 6], id="a stride"),
        pytest.param("0-9:2/5", [0, 1, 5, 6], id="groups of two in five"),
        pytest.param("0-3\0", [0, 1, 2, 3], id="a trailing NUL byte of an old kernel"),
        pytest.param(" 1 , 2 ", [1, 2], id="blanks around ids"),
        pytest.param("8191", [8191], id="the largest id"),
    ],
)
def test_lists_are_read(text: str, ids: list[int]) -> None:
    assert list(CpuSet.parse(text)) == ids


@pytest.mark.parametrize(
    "text",
    ["a", "1,", ",1", "1-", "-1", "3-1", "1--2", "0x1", "1 2", "8192", "0-4000000000", "1" * 50,
     "0-7:0", "0-7:3/2", "0-7:0/2", "0-7:/", "0:x", "²", "٣", "0-1-2", "1:2:3"],
)  # fmt: skip
def test_other_texts_are_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(IdListError, match=r" — (write|ids are below) "):
        CpuSet.parse(text)


def test_a_range_that_runs_backwards_is_told_with_the_one_that_is_meant() -> None:
    with pytest.raises(IdListError, match="'0,3-1': range '3-1' runs backwards — write '1-3'"):
        CpuSet.parse("0,3-1")


def test_a_list_may_be_as_long_as_one_that_names_every_id() -> None:
    every = ",".join(map(str, range(MAX_IDS)))
    assert len(CpuSet.parse(every)) == MAX_IDS
    with pytest.raises(IdListError, match="a list of 99000 characters — write at most 40960"):
        CpuSet.parse("0-8191:1/1," * 9000)


@pytest.mark.parametrize("text", ["x", "9" * 20, "2-1", "0:" + "1/" * 9, "0-7:9/2", "1,"])
def test_what_is_wrong_is_said_in_a_line_however_long_the_list(text: str) -> None:
    with pytest.raises(IdListError) as raised:
        CpuSet.parse("0-3," * 9000 + text)
    assert len(str(raised.value)) < 300


@pytest.mark.slow
def test_thousands_of_strides_are_read_in_time() -> None:
    started = time.process_time()
    assert CpuSet.parse(",".join(["0-8191:1/2"] * 3700)) == CpuSet.parse("0-8191:2")
    # Range by range of each stride took five seconds.
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        pytest.param("f", [0, 1, 2, 3], id="one short word"),
        pytest.param("0000,00000000,00000005", [0, 2], id="leading zero words of any width"),
        pytest.param("1,00000000\n", [32], id="words are 32 bits"),
        pytest.param("1,0", [32], id="also where zeros were dropped"),
        pytest.param("8000000000000000", [63], id="one word of 64 bits"),
        pytest.param("00000000", [], id="no bit"),
    ],
)
def test_masks_are_read(text: str, ids: list[int]) -> None:
    assert list(CpuSet.parse_mask(text)) == ids


@pytest.mark.parametrize(
    "text",
    ["", ",", "g", "1,", "100000000,0", "-1", "+1", "0x1", "1_0", "1, 0", "1" + "0" * 2048,
     "1," + ",".join(["00000000"] * 256), "f" * 100_000],
)  # fmt: skip
def test_other_masks_are_refused(text: str) -> None:
    with pytest.raises(IdListError):
        CpuSet.parse_mask(text)


@pytest.mark.parametrize("one", [-1, MAX_IDS, 10**12])
def test_ids_are_capped_before_they_are_shifted(one: int) -> None:
    with pytest.raises(IdListError):
        CpuSet.of(one)
    assert one not in CpuSet.of(0)


def test_the_two_kinds_of_set_never_mix() -> None:
    cpus: object = CpuSet.of(1)
    assert cpus != NodeSet.of(1)
    assert repr(NodeSet.of(0, 1)) == "NodeSet.parse('0-1')"


def test_order_is_subset() -> None:
    small, large, other = CpuSet.parse("1"), CpuSet.parse("0-3"), CpuSet.parse("8")
    assert small < large
    assert small <= large
    assert large > small
    assert large >= small
    assert not other <= large
    assert not large <= other
    assert small.isdisjoint(other)


def test_the_empty_set_is_false_and_has_no_lowest_id() -> None:
    assert not CpuSet()
    assert CpuSet().lowest == -1
    assert str(CpuSet()) == ""
    assert CpuSet.parse("4-7").lowest == 4
