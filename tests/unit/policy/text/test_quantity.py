import re

import pytest

from pinfold.policy.text.errors import ConfigError
from pinfold.policy.text.quantity import (
    AllCpusBut,
    AllNodesBut,
    ByteQuantity,
    CpuAmount,
    CpuQuantity,
    MemoryAmount,
    NamedFrequency,
    OnlyCpus,
    OnlyNodes,
    QuantityError,
    parse_bytes,
    parse_cpu_amount,
    parse_khz,
    parse_memory_amount,
    parse_milli,
    parse_nanoseconds,
    parse_page_bytes,
)
from pinfold.topology.sets.cpuset import CpuSet, NodeSet


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        pytest.param("750m", 750, id="thousandths"),
        pytest.param("2", 2000, id="whole cpus"),
        pytest.param("0.5", 500, id="a fraction"),
        pytest.param(".5", 500, id="a fraction without its zero"),
        pytest.param("2.", 2000, id="a point without a fraction"),
        pytest.param("0.0001", 1, id="parts of a thousandth round up"),
        pytest.param("100u", 1, id="millionths round up"),
        pytest.param("0", 0, id="nothing"),
        pytest.param("-0", 0, id="nothing with a sign"),
        pytest.param("+1", 1000, id="a plus sign"),
        pytest.param(" 1 ", 1000, id="spaces around"),
        pytest.param("1k", 1000000, id="thousands"),
        pytest.param("1500e-3", 1500, id="a negative exponent"),
    ],
)
def test_cpu_is_read_in_thousandths(text: str, milli: int) -> None:
    assert parse_milli(text) == milli


@pytest.mark.parametrize(
    ("text", "size"),
    [
        pytest.param("100M", 100_000_000, id="decimal millions"),
        pytest.param("1Gi", 1 << 30, id="binary suffix"),
        pytest.param("2.5G", 2_500_000_000, id="a decimal fraction"),
        pytest.param("1.5Ki", 1536, id="a fraction of a binary suffix"),
        pytest.param("1e3", 1000, id="an exponent"),
        pytest.param("1E3", 1000, id="a capital exponent"),
        pytest.param("1E", 10**18, id="E alone is exa"),
        pytest.param("9Ei", 9 << 60, id="more than 63 bits stays exact"),
        pytest.param("0.1Gi", 107374183, id="parts of a byte round up"),
        pytest.param("1500m", 2, id="thousandths of a byte round up"),
        pytest.param("9007199254740993", 9007199254740993, id="beyond the integers of a float"),
    ],
)
def test_sizes_are_read_in_bytes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "750x",
        "",
        " ",
        "m",
        ".",
        "1 G",
        "1.2.3",
        "1GiB",
        "1e",
        "1e9999",
        "0x10",
        "\u0661",
        "1_000",
        "nan",
    ],
)
def test_a_text_that_is_no_quantity_is_named_in_the_error(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_milli(text)
    assert str(raised.value).startswith(f"failed to parse quantity {text!r} — write")


def test_amounts_are_not_negative() -> None:
    with pytest.raises(ConfigError, match="'-1': it is negative"):
        parse_bytes("-1")


def test_a_number_of_many_digits_is_refused_before_it_costs_anything() -> None:
    with pytest.raises(ConfigError, match="failed to parse"):
        parse_bytes("9" * 1_000_000)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        pytest.param("750m", CpuQuantity(750), id="a quantity"),
        pytest.param("cpuset:0-3,8", OnlyCpus(CpuSet.parse("0-3,8")), id="a list"),
        pytest.param("exclude-cpuset:0", AllCpusBut(CpuSet.of(0)), id="all but a list"),
        pytest.param("exclude-cpuset:", AllCpusBut(CpuSet()), id="all but nothing"),
    ],
)
def test_cpu_amounts_are_numbers_or_lists(text: str, amount: CpuAmount) -> None:
    assert parse_cpu_amount(text) == amount


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        pytest.param("2Gi", ByteQuantity(2 << 30), id="a quantity"),
        pytest.param("nodeset:0-1,4", OnlyNodes(NodeSet.of(0, 1, 4)), id="nodes"),
        pytest.param(" nodeset:0 ", OnlyNodes(NodeSet.of(0)), id="spaces around"),
        pytest.param("exclude-nodeset:2", AllNodesBut(NodeSet.of(2)), id="all but some nodes"),
        pytest.param("cpuset:0-3", OnlyCpus(CpuSet.parse("0-3")), id="the nodes of cpus"),
        pytest.param("exclude-cpuset:4", AllCpusBut(CpuSet.of(4)), id="all but those of cpus"),
    ],
)
def test_memory_amounts_are_sizes_or_lists(text: str, amount: MemoryAmount) -> None:
    assert parse_memory_amount(text) == amount


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("2GiB", "failed to parse quantity '2GiB'", id="neither amount nor list"),
        pytest.param("nodeset:a", "failed to parse memory 'nodeset:a': 'a' is not", id="bad list"),
        pytest.param(
            "nodes:0",
            "unknown kind 'nodes' — write a quantity ('2Gi'), 'nodeset:LIST',"
            " 'exclude-nodeset:LIST', 'cpuset:LIST' or 'exclude-cpuset:LIST'",
            id="unknown kind",
        ),
    ],
)
def test_a_text_that_is_no_memory_amount(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(reason)):
        parse_memory_amount(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("750x", "failed to parse quantity '750x'", id="neither number nor list"),
        pytest.param(
            "cpuset:a-3", "failed to parse cpus 'cpuset:a-3': 'a-3' is not", id="bad list"
        ),
        pytest.param("cpus:0", "unknown kind 'cpus'", id="unknown kind"),
    ],
)
def test_a_text_that_is_no_cpu_amount(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_cpu_amount(text)


@pytest.mark.parametrize(
    ("text", "khz"),
    [
        pytest.param("3.2GHz", 3_200_000, id="gigahertz"),
        pytest.param("2900MHz", 2_900_000, id="megahertz"),
        pytest.param(2_900_000, 2_900_000, id="a number is in kilohertz"),
        pytest.param("2900000", 2_900_000, id="so is a number as text"),
        pytest.param("800000 kHz", 800_000, id="kilohertz"),
        pytest.param("turbo", NamedFrequency.TURBO, id="a name"),
        pytest.param("Base", NamedFrequency.BASE, id="a name in other letters"),
    ],
)
def test_frequencies_are_read_in_kilohertz(text: str | int, khz: int | NamedFrequency) -> None:
    assert parse_khz(text) == khz


@pytest.mark.parametrize("text", ["fast", "3.2", "-1", "3.2GBz", "1.0000001GHz", ""])
def test_a_text_that_is_no_frequency(text: str) -> None:
    with pytest.raises(ConfigError, match="failed to parse frequency"):
        parse_khz(text)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        pytest.param("30s", 30 * 10**9, id="seconds"),
        pytest.param("1m30s", 90 * 10**9, id="two units"),
        pytest.param("1.5h", 5400 * 10**9, id="a fraction of an hour"),
        pytest.param("250ms", 250 * 10**6, id="milliseconds are not minutes"),
        pytest.param("3us", 3000, id="microseconds"),
        pytest.param("0", 0, id="zero needs no unit"),
    ],
)
def test_durations_are_read_in_nanoseconds(text: str, nanoseconds: int) -> None:
    assert parse_nanoseconds(text) == nanoseconds


@pytest.mark.parametrize("text", ["", "30", "s", "1d", "1 s", "-1s", "1s1", "."])
def test_a_text_that_is_no_duration(text: str) -> None:
    with pytest.raises(ConfigError, match="failed to parse duration"):
        parse_nanoseconds(text)


def test_a_page_has_a_size() -> None:
    assert parse_page_bytes("2Mi") == 2 << 20
    for text in ("0", "0Mi", "", "-2Mi"):
        with pytest.raises(QuantityError, match=f"'{text}'"):
            parse_page_bytes(text)


def test_a_message_about_an_amount_quotes_its_beginning() -> None:
    for parse in (parse_milli, parse_nanoseconds, parse_khz, parse_cpu_amount):
        for text in ("x" * 10_000, "-" + "9" * 10_000, "x" * 9000 + ":1"):
            with pytest.raises(QuantityError) as raised:
                parse(text)
            assert len(str(raised.value)) < 500
